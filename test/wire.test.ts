import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { TakebackError } from '../src/errors.ts';
import { asRelPath, decodeName } from '../src/rel-path.ts';
import type { Change, RelPath, Version } from '../src/types.ts';
import {
  decodeChanges,
  decodePaths,
  decodeVersions,
  encodeChanges,
  encodePaths,
  encodeVersion,
  encodeVersions,
  hexOfVersion,
} from '../src/wire.ts';

const hex = readFileSync(new URL('./vectors/changes.hex', import.meta.url), 'utf8').replaceAll(/\s/g, '');
const vector = Buffer.from(hex, 'hex');
const name = (...bytes: number[]): RelPath => asRelPath(decodeName(Buffer.from(bytes)));

/** What `native/src/wire/tests.rs` writes and reads, too. */
const changes: Change[] = [
  {
    path: asRelPath('.env'),
    before: { kind: 'absent' },
    after: {
      kind: 'uncovered',
      reason: 'secret',
      stat: {
        kind: 'file',
        mode: 0o600,
        size: 2 ** 40,
        mtimeNs: -1n,
        ctimeNs: 1_700_000_000_123_456_789n,
        ino: 2n ** 64n - 1n,
        dev: 3n,
      },
    },
    flags: 8,
  },
  {
    path: asRelPath('a/.git'),
    before: {
      kind: 'uncovered',
      reason: 'git',
      stat: { kind: 'dir', mode: 0, size: 0, mtimeNs: 0n, ctimeNs: 0n, ino: 12n, dev: 3n },
    },
    after: { kind: 'absent' },
    flags: 0,
  },
  {
    path: asRelPath('a/é 😀'),
    before: { kind: 'file', mode: 0o644, size: 5, content: '000102030405060708090a0b0c0d0e0f' },
    after: { kind: 'file', mode: 0o755, size: 2 ** 33, content: 'f'.repeat(32) },
    flags: 7,
  },
  {
    path: name(0x62, 0x61, 0x64, 0x2d, 0xff, 0xc3),
    before: { kind: 'dir', mode: 0o700 },
    after: { kind: 'symlink', target: `../caf${name(0xe9)}` },
    flags: 0,
  },
  {
    path: asRelPath('pipe'),
    before: { kind: 'special', type: 'fifo', ino: 9n },
    after: { kind: 'absent' },
    flags: 0,
  },
];

describe('the wire codec', () => {
  test('reads and writes the vector that both languages share', () => {
    expect(decodeChanges(vector)).toEqual(changes);
    expect(encodeChanges(changes).toString('hex')).toBe(hex);
  });

  test('a list that is cut is damage at every byte', () => {
    for (let end = 0; end < vector.length; end++) {
      expect(() => decodeChanges(vector.subarray(0, end)), `cut at ${end}`).toThrow(TakebackError);
    }
  });

  test('lists of versions and paths read back as they were written', () => {
    const entries = changes.map(({ path, after }) => ({ path, version: after }));
    expect(decodeVersions(encodeVersions(entries))).toEqual(entries);
    const paths = changes.map(({ path }) => path);
    expect(decodePaths(encodePaths(paths))).toEqual(paths);
  });

  test('the hex that is written out is that of the encoding', () => {
    const content = '00112233445566778899aabbccddeeff';
    const sizes = [0, 255, 65_536, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 40 + 77];
    const files = sizes.map((size) => ({ kind: 'file', mode: 0o644, size, content }) as const);
    const all: Version[] = [...files, { kind: 'dir', mode: 0o777 }, ...changes.flatMap((c) => [c.before, c.after])];
    for (const version of all) expect(hexOfVersion(version)).toBe(encodeVersion(version).toString('hex'));
    expect(hexOfVersion(files[6] as Version)).toBe(`01a40100004d00000000010000${content}`);
  });

  test('a name with U+FFFD in it is not one whose bytes are no UTF-8', () => {
    const names = ['\ufffd', 'a\ufffd\udce9', '\ufeffb', '😀\udc80'];
    expect(decodePaths(encodePaths(names))).toEqual(names);
    expect(encodePaths(['a\ufffd\udce9']).toString('hex')).toBe('0100000005000000' + '61efbfbde9');
  });
});
