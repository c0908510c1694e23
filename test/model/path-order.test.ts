/** The order of everything that the model puts out: by bytes, whatever the names are. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { comparePaths, decodeName, encodeName } from '../../src/rel-path.ts';

test('paths are ordered by their bytes', () => {
  const names = [
    'a/b',
    'a',
    'a.txt',
    '🚀',
    '￮',
    'é',
    decodeName(Buffer.from([0x80])),
    decodeName(Buffer.from([0xff])),
    '',
    'Z',
  ];
  expect(names.sort(comparePaths)).toEqual([
    '',
    'Z',
    'a',
    'a.txt',
    'a/b',
    decodeName(Buffer.from([0x80])),
    'é',
    '￮',
    '🚀',
    decodeName(Buffer.from([0xff])),
  ]);
});

test('comparing strings is comparing bytes', () => {
  const byte = fc.constantFrom(0x2f, 0x61, 0x62, 0x80, 0xa9, 0xc3, 0xef, 0xbf, 0xae, 0xf0, 0x9f, 0x9a, 0xff);
  const name = fc.array(byte, { maxLength: 8 }).map((bytes) => decodeName(Buffer.from(bytes)));
  fc.assert(
    fc.property(name, name, (a, b) => {
      expect(Math.sign(comparePaths(a, b))).toBe(Buffer.compare(encodeName(a), encodeName(b)));
    }),
    { numRuns: 2000 },
  );
});
