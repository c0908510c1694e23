import { describe, expect, test } from 'vitest';
import { newId } from '../../src/cli/ids.ts';
import { toJson } from '../../src/cli/screen.ts';
import { count, duration, oneLine, printable, size, table } from '../../src/cli/text.ts';

describe('names', () => {
  test.each([
    ['src/a.ts', 'src/a.ts', 'a plain name stays'],
    ['naïve – 文件.txt', 'naïve – 文件.txt', 'letters of any script stay'],
    ['back\\slash', 'back\\slash', 'a backslash alone is no reason to quote'],
    ['a\nb', '"a\\nb"', 'a line end'],
    ['a\x1b[2Jb', '"a\\x1b[2Jb"', 'an escape sequence'],
    ['a\tb "c" \\', '"a\\tb \\"c\\" \\\\"', 'quotes and backslashes inside quotes'],
    ['a\u0085b', '"a\\x85b"', 'a C1 control'],
    ['caf\udce9', '"caf\\xe9"', 'a byte that is not UTF-8'],
    ['gnp\u202egpj.exe', '"gnp\\u{202e}gpj.exe"', 'an override of the reading direction'],
    ['a\u200bb', '"a\\u{200b}b"', 'an invisible character'],
    ['"a"', '"\\"a\\""', 'a name that looks quoted'],
  ])('%j is printed as %s: %s', (name, shown) => {
    expect(printable(name)).toBe(shown);
  });

  test('text of others stays on one line and keeps its quotes', () => {
    expect(oneLine('say "a\\b"\n\x1b[31mred')).toBe('say "a\\b"\\n\\x1b[31mred');
  });
});

describe('figures', () => {
  test('counts take a plural and a separator', () => {
    expect([count(0, 'file'), count(1, 'file'), count(12_345, 'file')]).toEqual(['0 files', '1 file', '12,345 files']);
  });

  test('sizes are binary units', () => {
    expect([size(0), size(1023), size(1024), size(1536), size(300 * 1024 ** 2)]).toEqual([
      '0 B',
      '1023 B',
      '1.0 KiB',
      '1.5 KiB',
      '300 MiB',
    ]);
  });

  test('durations have two or three digits', () => {
    expect([duration(0.44), duration(12.3), duration(1500)]).toEqual(['0.4 ms', '12 ms', '1.5 s']);
  });

  test('tables pad every column but the last', () => {
    expect(
      table([
        ['a', 'bb', 'c'],
        ['aaa', 'b', ''],
      ]),
    ).toEqual(['a    bb  c', 'aaa  b']);
  });
});

test('ids sort in the order in which they were made', () => {
  const at = Date.UTC(2026, 10, 30, 12);
  const ids = [newId(at), newId(at + 1000), newId(at + 60_000)];
  expect([...ids].sort()).toEqual(ids);
  expect(ids[0]).toMatch(/^\d{8}-\d{6}-[0-9a-f]{4}$/);
});

test('JSON leaves bytes out and escapes lone surrogates', () => {
  const json = toJson({ tick: '10', patchBytes: Buffer.from('x'), raw: new Uint8Array(2), path: 'a\udce9' });
  expect(json).toBe('{\n  "tick": "10",\n  "path": "a\\udce9"\n}');
});
