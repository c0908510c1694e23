/** Ids as names of files. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isSafeName, safeName } from '../../src/hooks/safe-name.ts';

const NAME = /^[A-Za-z0-9_-]{0,40}~[0-9a-f]{32}$|^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Ids that differ in little: case, Unicode forms, separators, length. */
const id = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('a', 'A', '/', '.', '~', '\\', 'é', 'e\u0301', '\ud800', '\0'), maxLength: 6 }),
  fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 60, maxLength: 70 }),
);

describe('safeName', () => {
  test.each([
    ['a UUID', '0197b2c4-6f1e-7cc2-9a51-3b0c8f2e4d5a'],
    ['a counter', '17'],
    ['an id of a provider, in lower case', 'call_abc-1'],
  ])('%s is its own name', (_label, plain) => {
    expect(safeName(plain)).toBe(plain);
  });

  test.each([
    ['capitals', 'toolu_01AbC', /^toolu_01AbC~[0-9a-f]{32}$/],
    ['a way out', '../../etc/passwd', /^______etc_passwd~[0-9a-f]{32}$/],
    ['the folder itself', '.', /^_~[0-9a-f]{32}$/],
    ['nothing', '', /^~[0-9a-f]{32}$/],
    ['a NUL', 'a\0b', /^a_b~[0-9a-f]{32}$/],
    ['a device of Windows', 'con', /^con~[0-9a-f]{32}$/],
    ['a hidden file', '.gitignore', /^_gitignore~[0-9a-f]{32}$/],
    ['a long id', 'x'.repeat(5000), /^x{40}~[0-9a-f]{32}$/],
  ])('%s gets a hash', (_label, odd, expected) => {
    expect(safeName(odd)).toMatch(expected);
  });

  test('every id has a valid name, that says of itself that it is one', () => {
    fc.assert(
      fc.property(id, (value) => {
        const name = safeName(value);
        return NAME.test(name) && isSafeName(name);
      }),
    );
  });

  test('two ids have two names, also where case and Unicode forms are folded', () => {
    const folded = (value: string): string => safeName(value).normalize('NFKC').toLowerCase();
    fc.assert(
      fc.property(id, id, (a, b) => {
        fc.pre(a !== b);
        return folded(a) !== folded(b);
      }),
      { numRuns: 2000 },
    );
    for (const [a, b] of [
      ['abc', 'ABC'],
      ['\ud800', '\ud801'],
      ['é', 'e\u0301'],
      ['a/b', 'a_b'],
      ['x'.repeat(64), 'x'.repeat(65)],
    ] as const)
      expect(folded(a), `${a} and ${b}`).not.toBe(folded(b));
  });

  test('a name that was made safe is not the plain name of another id', () => {
    const made = safeName('A');
    expect(safeName(made)).not.toBe(made);
  });

  test.each(['.gitignore', 'a.txt', 'ABC', '..', '', 'a~1'])('%j is no safe name', (name) => {
    expect(isSafeName(name)).toBe(false);
  });
});
