/** Three-way merges of bytes: what stays, what clashes, against two oracles; and runs taken out of what is on disk. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { diff3Merge } from 'node-diff3';
import { describe, expect, test } from 'vitest';
import { clashText, mergeText, type RunSides, type Side, takeOut } from '../../src/model/merge.ts';
import { absent, file } from './story.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'utf8');

/** The merged text, or what clashed. */
function merged(base: string | Buffer, ours: string | Buffer, theirs: string | Buffer): string {
  const [o, a, b] = [base, ours, theirs].map((side) => (typeof side === 'string' ? bytes(side) : side));
  const result = mergeText(o as Buffer, a as Buffer, b as Buffer);
  return 'clash' in result ? clashText(result) : Buffer.from(result.bytes).toString('utf8');
}

const lines = (...names: string[]): string => names.map((name) => `${name}\n`).join('');

describe('text', () => {
  test('changes in different places both stay', () => {
    expect(merged(lines('1', '2', '3'), lines('1', '2', 'mine'), lines('yours', '2', '3'))).toBe(
      lines('yours', '2', 'mine'),
    );
  });

  test('the same change on both sides is no clash', () => {
    expect(merged(lines('1', '2'), lines('1', 'x'), lines('1', 'x'))).toBe(lines('1', 'x'));
  });

  test('a changed line clashes with a change of the same line, by its number', () => {
    expect(merged(lines('1', '2', '3'), lines('1', 'mine', '3'), lines('1', 'yours', '3'))).toBe('clash: line 2');
  });

  test('changes that touch clash, as in git', () => {
    expect(merged(lines('1', '2', '3'), lines('mine', '2', '3'), lines('1', 'yours', '3'))).toBe('clash: lines 1–2');
    expect(merged(lines('1'), lines('1', 'mine'), lines('1', 'yours'))).toBe('clash: line 2');
  });

  test('lines that we took out and they changed clash, and are named by the line before', () => {
    expect(merged(lines('1', '2', '3'), lines('1', '3'), lines('1', 'yours', '3'))).toBe('clash: after line 1');
  });

  test('every place that clashes is named, five at most', () => {
    const base = Array.from({ length: 14 }, (_, i) => `${i}`);
    const ours = base.map((line, i) => (i % 2 === 0 ? `${line}a` : line));
    const theirs = base.map((line, i) => (i % 2 === 0 ? `${line}b` : line));
    expect(merged(lines(...base), lines(...ours), lines(...theirs))).toBe(
      'clash: line 1, line 3, line 5, line 7, line 9, …',
    );
  });

  test('a clash leaves no bytes, so no markers either', () => {
    expect(mergeText(bytes('1\n'), bytes('2\n'), bytes('3\n'))).toEqual({
      clash: 'lines',
      hunks: [{ startLine: 1, endLine: 1 }],
    });
  });

  test('an empty side is text', () => {
    expect(merged('', lines('mine'), '')).toBe(lines('mine'));
    expect(merged(lines('1'), lines('1'), '')).toBe('');
  });
});

describe('bytes that stay as they are', () => {
  test('line ends, each of its own line', () => {
    expect(merged('1\r\n2\n3\r\n4\n', '1\r\n2\n3\r\nmine\n', 'yours\r\n2\n3\r\n4\n')).toBe('yours\r\n2\n3\r\nmine\n');
  });

  test('a byte order mark', () => {
    expect(merged('\ufeff1\n2\n3\n', '\ufeff1\n2\nmine\n', '\ufeff0\n1\n2\n3\n')).toBe('\ufeff0\n1\n2\nmine\n');
  });

  test('a missing last newline', () => {
    expect(merged('1\n2\n3', '1\n2\n3', 'yours\n2\n3')).toBe('yours\n2\n3');
    expect(merged('1\n2\n3', '1\n2\n3\n', 'yours\n2\n3')).toBe('yours\n2\n3\n');
    expect(merged('1\n2\n3\n', '1\n2\n3\n', '1\n2\n3')).toBe('1\n2\n3');
  });

  test('a lone CR and a last line without end are not cut', () => {
    expect(merged('1\ra\n2\n3', '1\ra\n2\n3!', '0\ra\n2\n3')).toBe('0\ra\n2\n3!');
  });

  test.each(['utf16le', 'utf16be'] as const)('%s, whose units hold the byte of a newline', (encoding) => {
    const wide = (text: string): Buffer => {
      const buffer = Buffer.from(`\ufeff${text}`, 'utf16le');
      return encoding === 'utf16be' ? buffer.swap16() : buffer;
    };
    const result = mergeText(wide('ਊ\nb\nc\n'), wide('ਊ\nb\nmine\n'), wide('ਅਊ\nb\nc\n'));
    expect('bytes' in result && Buffer.from(result.bytes)).toEqual(wide('ਅਊ\nb\nmine\n'));
  });
});

describe('what is not text', () => {
  test('a NUL, bytes that are not UTF-8, half a UTF-16 unit: binary', () => {
    expect(merged('1\0\n', '2\n', '3\n')).toBe('clash: binary');
    expect(merged('1\n', Buffer.from([0x66, 0xfc, 0x0a]), '3\n')).toBe('clash: binary');
    expect(merged('1\n', '2\n', Buffer.from([0xff, 0xfe, 0x61]))).toBe('clash: binary');
  });

  test('UTF-8 with UTF-16: encoding', () => {
    expect(merged('1\n', '2\n', Buffer.from('\ufeff3\n', 'utf16le'))).toBe('clash: encoding');
  });
});

describe('against oracles', () => {
  const line = fc.integer({ min: 0, max: 40 }).map((n) => `${n}\n`);
  const base = fc.uniqueArray(line, { maxLength: 24 });
  const edits = fc.array(fc.tuple(fc.nat(23), fc.constantFrom('drop', 'change', 'insert'), fc.nat(9)), {
    maxLength: 4,
  });
  const sides = fc.tuple(base, edits, edits, fc.boolean()).map(([o, forOurs, forTheirs, cut]) => {
    const edit = (list: typeof forOurs, who: string): string[] => {
      const out = [...o];
      for (const [at, kind, n] of list) {
        if (kind === 'insert') out.splice(at % (out.length + 1), 0, `${who}${n}\n`);
        else if (out.length > 0) out.splice(at % out.length, 1, ...(kind === 'change' ? [`${who}${n}\n`] : []));
      }
      return out;
    };
    const end = (list: string[]): string => (cut ? list.join('').replace(/\n$/, '') : list.join(''));
    return { base: end(o), ours: end(edit(forOurs, 'a')), theirs: end(edit(forTheirs, 'b')) };
  });

  const split = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

  test('where ours and diff3’s merge are both clean, they are equal; one side alone is taken whole', () => {
    fc.assert(
      fc.property(sides, ({ base: o, ours: a, theirs: b }) => {
        const ours = mergeText(bytes(o), bytes(a), bytes(b));
        const theirs = diff3Merge(split(a), split(o), split(b));
        const clean = theirs.every((region) => region.ok !== undefined);
        if (clean && 'bytes' in ours) {
          expect(Buffer.from(ours.bytes).toString()).toBe(theirs.flatMap((region) => region.ok ?? []).join(''));
        }
        expect(merged(o, a, o)).toBe(a);
        expect(merged(o, o, b)).toBe(b);
        expect(merged(o, a, a)).toBe(a);
        expect(merged(o, a, b).startsWith('clash') || merged(o, a, b) === merged(o, b, a)).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  test('what merges clean here merges clean in git, to the same', () => {
    const dir = mkdtempSync(join(tmpdir(), 'takeback-test-'));
    try {
      let both = 0;
      for (const { base: o, ours: a, theirs: b } of fc.sample(sides, { numRuns: 60, seed: 7 })) {
        for (const [name, text] of Object.entries({ o, a, b })) writeFileSync(join(dir, name), text);
        const git = spawnSync('git', ['merge-file', '-p', '--diff-algorithm=myers', 'a', 'o', 'b'], { cwd: dir });
        const here = mergeText(bytes(o), bytes(a), bytes(b));
        if ('clash' in here) continue;
        both++;
        expect({ status: git.status, text: git.stdout.toString() }, JSON.stringify({ o, a, b })).toEqual({
          status: 0,
          text: Buffer.from(here.bytes).toString(),
        });
      }
      expect(both).toBeGreaterThan(20);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  // The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
  test('20,000 lines with edits at both ends merge in well under a second', { retry: 3 }, () => {
    const big = Array.from({ length: 20_000 }, (_, i) => `line ${i}`);
    const started = performance.now();
    const text = merged(lines(...big), lines('mine', ...big.slice(1)), lines(...big.slice(0, -1), 'yours'));
    expect(text).toBe(lines('mine', ...big.slice(1, -1), 'yours'));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe('runs taken out of what is on disk', () => {
  const side = (text: string, mode?: number): Side => ({ version: file(text, mode), bytes: bytes(text) });
  const gone: Side = { version: absent };
  const run = (before: Side, after: Side): RunSides => ({ before, after });
  const said = (disk: Side, ...runs: RunSides[]): string => {
    const out = takeOut(disk, runs);
    if ('clash' in out) return out.clash;
    return out.side.version.kind === 'file' ? Buffer.from(out.side.bytes ?? []).toString() : out.side.version.kind;
  };

  test('newest first, each by a merge of its own', () => {
    const [v0, v1, user, v2] = ['a,b,c', 'A,b,c', 'A,b,C', 'A,x,y,z,C'].map((text) => side(lines(...text.split(','))));
    expect(said(v2 as Side, run(user as Side, v2 as Side), run(v0 as Side, v1 as Side))).toBe(lines('a', 'b', 'C'));
  });

  test('what is on disk is a run’s result: what was before it, of any kind', () => {
    expect(said(side('1'), run(gone, side('1')))).toBe('absent');
    expect(said(gone, run(side('1'), gone))).toBe('1');
  });

  test('what was before it is there already: nothing to take out', () => {
    expect(said(side('0'), run(side('0'), side('1')))).toBe('0');
  });

  test('a deleted or made file that changed since is no text merge', () => {
    expect(said(side('mine'), run(gone, side('1')))).toBe("can't be merged: one side is absent");
    expect(said(gone, run(side('0'), side('1')))).toBe("can't be merged: one side is absent");
  });

  test('the mode that only one side changed is kept or taken out, and two clash', () => {
    const mode = (disk: number, after: number, before: number): unknown => {
      const out = takeOut(side('2\n', disk), [run(side('0\n1\n', before), side('1\n', after))]);
      return 'clash' in out ? out.clash : out;
    };
    expect(mode(0o644, 0o755, 0o600)).toBe('clash: mode');
    const out = takeOut(side('1\n3\n2\n', 0o755), [run(side('0\n3\n', 0o644), side('1\n3\n', 0o644))]);
    expect(out).toMatchObject({ side: { version: { kind: 'file', mode: 0o755 } } });
    const back = takeOut(side('1\n3\n2\n', 0o755), [run(side('0\n3\n', 0o644), side('1\n3\n', 0o755))]);
    expect(back).toMatchObject({ side: { version: { kind: 'file', mode: 0o644 } } });
  });
});
