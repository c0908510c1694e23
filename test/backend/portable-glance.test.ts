/** The portable scan of a large tree looks at plain files on two threads, by numbers; and finds what a slower look finds. */
import { lstatSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { statKey } from '../../src/backend/portable/coverage.ts';
import {
  boardBytes,
  boardOf,
  glance,
  isAsKnown,
  type Sight,
  Slot,
  sightOf,
  Verdict,
} from '../../src/backend/portable/sight.ts';
import { brief, TreeBench } from '../kit/tree-bench.ts';

/** 3,000 files: more than a second thread is worth. */
const LARGE = `for d in $(seq 150); do mkdir -p $((d % 10))/d$d; for f in $(seq 20); do echo $d $f >$((d % 10))/d$d/f$f; done; done
  ln -s 0 link; mkdir empty; echo skipped >.gitignore; mkdir skipped; echo x >skipped/x`;

async function settle(bench: TreeBench): Promise<void> {
  const { tickNs } = await bench.tree.abilities();
  const until = process.hrtime.bigint() + tickNs * 2n;
  while (process.hrtime.bigint() < until) await new Promise((resolve) => setImmediate(resolve));
}

test('looks that follow each other find each change once, in whichever thread’s share it lies', async () => {
  await using bench = await TreeBench.open('portable', LARGE);
  await bench.observe('boundary');
  await settle(bench);
  await bench.observe('boundary');
  const quiet = await bench.observe();
  expect([quiet.changes, quiet.scan.files, quiet.scan.suspects]).toEqual([[], 3002, 0]);
  expect(await bench.observe()).toMatchObject({ changes: [], scan: { files: 3002, counters: quiet.scan.counters } });
  for (let round = 1; round <= 8; round++) {
    const [one, other] = [`${round % 10}/d${round}`, `${(150 - round) % 10}/d${150 - round}`];
    bench.space.sh(
      `echo edited >${one}/f1; rm ${one}/f2; echo new >${one}/f21; chmod 600 ${other}/f3; mkdir ${other}/sub; mv ${other}/f4 moved`,
    );
    const { changes, scan } = await bench.observe();
    expect(brief(changes)).toEqual({
      [`${one}/f1`]: expect.stringMatching(/→ file 644 7$/),
      [`${one}/f2`]: expect.stringMatching(/→ absent$/),
      [`${one}/f21`]: 'absent → file 644 4',
      [`${other}/f3`]: expect.stringMatching(/→ file 600 \d+$/),
      [`${other}/f4`]: expect.stringMatching(/→ absent$/),
      [`${other}/sub`]: 'absent → dir 755',
      moved: expect.stringMatching(/→ file 644 \d+$/),
    });
    expect(scan.files).toBe(round === 1 ? 3002 : 3002 - round + 1);
    await settle(bench);
    bench.space.sh('rm moved');
    expect(Object.keys(brief((await bench.observe()).changes))).toEqual(['moved']);
  }
  bench.space.sh('rm -r 3; echo file >3');
  const { changes } = await bench.observe();
  expect(changes.filter(({ after }) => after.kind !== 'absent').map(({ path }) => path)).toEqual(['3']);
  const { changes: missed } = await bench.look({ rehash: true });
  expect(brief(missed)).toEqual({});
});

test('a look whose answer was not taken in is made again', async () => {
  await using bench = await TreeBench.open('portable', LARGE);
  await bench.observe('boundary');
  await settle(bench);
  for (let i = 0; i < 3; i++) await bench.observe();
  bench.space.sh('echo edited >7/d7/f7');
  for (let i = 0; i < 2; i++) {
    const { scan, changes } = await bench.look();
    expect(Object.keys(brief(changes))).toEqual(['7/d7/f7']);
    await bench.tree.discard(scan.set);
  }
});

function inFolder(run: (folder: string, sight: (...names: string[]) => Sight) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'tb-sight-'));
  try {
    run(folder, (...names) => {
      const known = names.map((name) => ({ name, stat: statKey(lstatSync(join(folder, name), { bigint: true })) }));
      return sightOf(folder, '', known) as Sight;
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('what was not touched is as known, whatever its times; what was touched is not', () => {
  inFolder((folder, sight) => {
    const times = [0, 1, -1.5, 1234567890.123456, 1700000000.5, 4102444800, -86400.25];
    for (const [i, time] of times.entries()) {
      writeFileSync(join(folder, `${i}`), 'x');
      utimesSync(join(folder, `${i}`), time, time);
    }
    mkdirSync(join(folder, 'sub'));
    const known = sight(...times.map((_, i) => `${i}`), 'sub');
    expect(isAsKnown(known)).toBe(true);
    utimesSync(join(folder, '3'), 1234567890.123457, 1234567890.123457);
    expect(isAsKnown(known)).toBe(false);
  });
});

test('a file that is gone, another kind of thing, and a folder that can’t be looked into are not as known', () => {
  inFolder((folder, sight) => {
    writeFileSync(join(folder, 'a'), 'x');
    const known = sight('a');
    rmSync(join(folder, 'a'));
    expect(isAsKnown(known)).toBe(false);
    mkdirSync(join(folder, 'a'));
    expect(isAsKnown(known)).toBe(false);
    expect(isAsKnown({ ...known, folder: `${folder}/a/none/` })).toBe(false);
    expect(isAsKnown({ ...known, folder: `${'x'.repeat(5000)}/` })).toBe(false);
  });
});

test('numbers that are not exact make no sight', () => {
  const stat = { kind: 'file', mode: 0o644, size: 1, mtimeNs: 0n, ctimeNs: 0n, dev: 1n } as const;
  expect(sightOf('/', '', [{ name: 'a', stat: { ...stat, ino: 2n ** 53n + 1n } }])).toBeNull();
  expect(sightOf('/', '', [{ name: '\udc80', stat: { ...stat, ino: 1n } }])).toBeNull();
  expect(sightOf('/', 'd', [{ name: 'a', stat: { ...stat, ino: 1n } }])?.folder).toBe('/d/');
});

test('a board’s sights are each looked at once, those that are void not at all', () => {
  inFolder((folder, sight) => {
    writeFileSync(join(folder, 'a'), 'x');
    const same = sight('a');
    const sights = Array.from({ length: 20 }, () => same);
    const board = boardOf(new SharedArrayBuffer(boardBytes(32)), 32);
    board.alive.fill(1, 0, 20);
    board.alive[9] = 0;
    board.control[Slot.count] = 20;
    let checks = 0;
    glance(board, sights, () => {
      checks += 1;
    });
    expect([checks, ...board.verdicts]).toEqual([
      3,
      ...Array.from({ length: 32 }, (_, i) => (i < 20 && i !== 9 ? Verdict.same : Verdict.unknown)),
    ]);
  });
});
