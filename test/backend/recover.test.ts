import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ApplyEntry } from '../../src/backend/backend.ts';
import { Hasher } from '../../src/backend/portable/hash.ts';
import { JournalFile, readJournal } from '../../src/backend/portable/journal.ts';
import { nodeSyscalls } from '../../src/backend/portable/syscalls.ts';
import type { RelPath, Version } from '../../src/types.ts';
import { Bench, type Layout, OPERATION, quiet, stepping } from './hands-kit.ts';

const ABSENT: Version = { kind: 'absent' };
const link = (target: string): Version => ({ kind: 'symlink', target });
const dir = (mode = 0o755): Version => ({ kind: 'dir', mode });

/** The process that ran the operation dies here. No system error: nothing of ours catches it. */
class Killed extends Error {}

const OLD: Layout = {
  'replace.txt': ['old', 0o640],
  'delete.txt': 'old delete',
  'mode.sh': ['#!', 0o755],
  link: { link: 'old' },
  'file-to-link': 'old file',
  'link-to-file': { link: 'old' },
  'gone/': 0o711,
  'gone/a.txt': 'old a',
  'dir-to-file/': 0o755,
  'dir-to-file/x': 'old x',
  'file-to-dir': 'old f',
  'link-to-dir': { link: 'gone' },
  'chmod/': 0o755,
  'chmod/keep.txt': 'keep',
  'untouched.txt': 'untouched',
};

function entriesOf(bench: Bench): ApplyEntry[] {
  return [
    bench.entry('replace.txt', bench.file('new', 0o600)),
    bench.entry('delete.txt', ABSENT),
    bench.entry('mode.sh', bench.file('#!', 0o644)),
    bench.entry('link', link('new')),
    bench.entry('file-to-link', link('new')),
    bench.entry('link-to-file', bench.file('new file')),
    bench.entry('gone', ABSENT),
    bench.entry('gone/a.txt', ABSENT),
    bench.entry('dir-to-file', bench.file('new d')),
    bench.entry('dir-to-file/x', ABSENT),
    bench.entry('file-to-dir', dir(0o750)),
    bench.entry('file-to-dir/y', bench.file('new y')),
    bench.entry('link-to-dir', dir()),
    bench.entry('link-to-dir/z', bench.file('new z'), ABSENT),
    bench.entry('chmod', dir(0o700)),
    bench.entry('made', dir(0o555)),
    bench.entry('made/deep', dir()),
    bench.entry('made/deep/n.txt', bench.file('new n')),
  ];
}

/** Steps 0 to 2 write the journal. */
const FIRST = 3;

/** Dies at a step: before it, or right after it. */
function dying(at: { step: number; when: 'before' | 'after' }): ReturnType<typeof stepping> {
  return stepping((step, when) => {
    if (step === at.step && when === at.when) throw new Killed(`${when} ${step}`);
  });
}

/** Applies the entries until the process dies at the step. False: it ended before. */
function diesAt(bench: Bench, at: { step: number; when: 'before' | 'after' }): boolean {
  const entries = entriesOf(bench);
  bench.hands = bench.open(dying(at));
  try {
    bench.apply(entries);
    return false;
  } catch (error) {
    if (!(error instanceof Killed)) throw error;
    return true;
  }
}

function recover(bench: Bench, mode: 'rollback' | 'complete'): ReturnType<Bench['hands']['recover']> {
  bench.hands = bench.open(stepping(() => {}));
  return bench.hands.recover({ journal: bench.journal, trash: bench.trash, mode }, quiet);
}

async function newTree(): Promise<Record<string, string>> {
  using bench = await Bench.make(OLD);
  expect(bench.apply(entriesOf(bench)).filter(({ status }) => status !== 'done')).toEqual([]);
  return bench.snapshot();
}

describe('recovery: from every prefix of the steps', () => {
  for (const mode of ['rollback', 'complete'] as const) {
    test(`${mode} gives exactly the ${mode === 'rollback' ? 'old' : 'new'} tree, and twice is once`, async () => {
      const wanted = await newTree();
      const hasher = await Hasher.create(7n);
      let died = 0;
      for (let step = 0, going = true; going; step++) {
        using bench = await Bench.make(OLD);
        const before = bench.snapshot();
        going = diesAt(bench, { step, when: 'after' });
        if (going) died += 1;
        const where = `after step ${step}`;
        const begun = readJournal(bench.journal, hasher) !== null;
        const end = begun && mode === 'complete' ? wanted : before;
        const outcome = recover(bench, mode);
        expect(outcome.operationId).toBe(OPERATION);
        expect(bench.snapshot(), where).toEqual(end);
        const states = begun ? [mode === 'rollback' ? 'old' : 'new'] : [];
        expect(new Set(outcome.paths.map(({ state }) => state)), where).toEqual(new Set(states));
        expect(existsSync(bench.journal), where).toBe(false);
        expect(recover(bench, mode)).toEqual({ operationId: OPERATION, paths: [] });
        expect(bench.snapshot(), where).toEqual(end);
      }
      expect(died, 'the operation has many steps').toBeGreaterThan(60);
    });

    test(`${mode} that dies itself at any step is ended by the next one`, async () => {
      const wanted = await newTree();
      for (const step of [12, 31, 46, 59, 70]) {
        for (let inner = step % 3, going = true; going; inner += 3) {
          using bench = await Bench.make(OLD);
          const before = bench.snapshot();
          diesAt(bench, { step, when: 'after' });
          bench.hands = bench.open(dying({ step: inner, when: inner % 2 === 0 ? 'after' : 'before' }));
          try {
            bench.hands.recover({ journal: bench.journal, trash: bench.trash, mode }, quiet);
            going = false;
          } catch (error) {
            if (!(error instanceof Killed)) throw error;
          }
          recover(bench, mode);
          expect(bench.snapshot(), `step ${step}, then ${inner}`).toEqual(mode === 'rollback' ? before : wanted);
          expect(existsSync(bench.journal)).toBe(false);
        }
      }
    });
  }

  test('rollback puts the very inode back, not a copy', async () => {
    using bench = await Bench.make(OLD);
    const before = statSync(bench.path('replace.txt'), { bigint: true });
    diesAt(bench, { step: 10_000, when: 'before' });
    recover(bench, 'rollback');
    const after = statSync(bench.path('replace.txt'), { bigint: true });
    expect([after.ino, after.mtimeNs]).toEqual([before.ino, before.mtimeNs]);
  });

  test('rollback writes the old bytes from the store where what came out is gone', async () => {
    using bench = await Bench.make(OLD);
    const before = bench.snapshot();
    diesAt(bench, { step: 10_000, when: 'before' });
    // The kept inode of replace.txt, by its content.
    for (const name of readdirSync(bench.trash)) {
      const path = join(bench.trash, name);
      if (lstatSync(path).isFile() && readFileSync(path, 'utf8') === 'old') unlinkSync(path);
    }
    recover(bench, 'rollback');
    expect(bench.snapshot()).toEqual(before);
  });

  test('a special file that was moved aside comes back', async () => {
    using bench = await Bench.make();
    execFileSync('mkfifo', [bench.path('fifo')]);
    const { ino } = lstatSync(bench.path('fifo'));
    bench.apply([bench.entry('fifo', ABSENT)]);
    expect(recover(bench, 'rollback').paths).toEqual([{ path: 'fifo', state: 'old' }]);
    expect(lstatSync(bench.path('fifo')).ino).toBe(ino);
  });
});

describe('recovery: somebody else wrote after the crash', () => {
  for (const mode of ['rollback', 'complete'] as const) {
    test(`${mode}: foreign files stay at any prefix, are reported, and the rest is ended`, async () => {
      const wanted = await newTree();
      for (let step = FIRST, going = true; going; step++) {
        using bench = await Bench.make(OLD);
        const before = bench.snapshot();
        going = diesAt(bench, { step, when: 'after' });
        for (const name of ['replace.txt', 'delete.txt', 'link']) {
          writeFileSync(join(bench.dir, 'foreign'), `foreign ${name}`);
          renameSync(join(bench.dir, 'foreign'), bench.path(name));
        }
        const { paths } = recover(bench, mode);
        const foreign = Object.fromEntries(
          ['replace.txt', 'delete.txt', 'link'].map((name) => [name, `file 644 foreign ${name}`]),
        );
        expect(bench.snapshot(), `step ${step}`).toEqual({ ...(mode === 'rollback' ? before : wanted), ...foreign });
        expect(
          paths.filter(({ state }) => state === 'neither').map(({ path }) => path),
          `step ${step}`,
        ).toEqual(['delete.txt', 'link', 'replace.txt']);
      }
    });
  }

  test('a folder of ours that somebody put a file into stays with it', async () => {
    using bench = await Bench.make(OLD);
    diesAt(bench, { step: 10_000, when: 'before' });
    writeFileSync(bench.path('made/foreign.txt'), 'foreign');
    const { paths } = recover(bench, 'rollback');
    expect(bench.read('made/foreign.txt')).toBe('foreign');
    expect(paths.find(({ path }) => path === 'made')).toMatchObject({ state: 'neither' });
    expect(existsSync(bench.path('made/deep'))).toBe(false);
  });

  test('a file that somebody removed before we came to it is not made again', async () => {
    using bench = await Bench.make(OLD);
    diesAt(bench, { step: FIRST, when: 'before' });
    unlinkSync(bench.path('replace.txt'));
    const { paths } = recover(bench, 'complete');
    expect(existsSync(bench.path('replace.txt'))).toBe(false);
    expect(paths.find(({ path }) => path === 'replace.txt')).toMatchObject({ state: 'neither' });
  });

  test('what came out of an exchange and stands under the temp name is never dropped', async () => {
    using bench = await Bench.make({ 'a.txt': 'old', 'b.txt': 'old b' });
    const hasher = await Hasher.create(7n);
    const entries = [bench.entry('a.txt', bench.file('new')), bench.entry('b.txt', bench.file('new b'))];
    const named = entries.map((entry, i) => ({
      ...entry,
      tempName: `.takeback-${OPERATION}-${i}.tmp`,
      trashName: `${OPERATION}-${i}`,
    }));
    // As the native backend leaves it when it dies right after its exchanges.
    const ids = named.map(({ path, tempName }, i) => {
      renameSync(bench.path(path), bench.path(tempName));
      writeFileSync(bench.path(path), i === 0 ? 'new' : 'new b');
      return { index: i, id: statSync(bench.path(path), { bigint: true }) };
    });
    writeFileSync(bench.path(named[1]?.tempName as string), 'foreign b');
    const root = statSync(bench.root, { bigint: true });
    const journal = JournalFile.begin(
      bench.journal,
      { operationId: OPERATION, root, trash: bench.trash, durability: 'full', entries: named },
      { hasher, sys: nodeSyscalls },
    );
    journal.prepared(ids);
    journal.close();
    const { paths } = recover(bench, 'rollback');
    expect(bench.snapshot()).toEqual({ 'a.txt': 'file 644 old', 'b.txt': 'file 644 foreign b' });
    expect(paths.map(({ path, state }) => [path, state])).toEqual([
      ['a.txt', 'old'],
      ['b.txt', 'neither'],
    ]);
  });
});

describe('journal', () => {
  test('cut at any byte it tells of whole frames only, and a torn first frame means that nothing was done', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    const hasher = await Hasher.create(7n);
    bench.apply([bench.entry('a.txt', bench.file('b'))]);
    const whole = readFileSync(bench.journal);
    expect(readJournal(bench.journal, hasher)).toMatchObject({
      operationId: OPERATION,
      trash: bench.trash,
      durability: 'fast',
      entries: [
        {
          path: 'a.txt',
          expect: { kind: 'file' },
          tempName: `.takeback-${OPERATION}-0.tmp`,
          trashName: `${OPERATION}-0`,
        },
      ],
    });
    const states = new Set<string>();
    for (let cut = whole.length; cut >= 0; cut--) {
      truncateSync(bench.journal, cut);
      const read = readJournal(bench.journal, hasher);
      states.add(read === null ? 'nothing' : read.prepared === null ? 'begun' : `prepared ${read.prepared.size}`);
    }
    expect([...states]).toEqual(['prepared 1', 'begun', 'nothing']);
    expect(recover(bench, 'rollback').paths).toEqual([]);
    expect(existsSync(bench.journal)).toBe(false);
    expect(bench.read('a.txt'), 'a journal that tells nothing undoes nothing').toBe('b');
  });

  test('a journal of another root is ERR_ROOT_CHANGED and stays', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    using other = await Bench.make();
    bench.apply([bench.entry('a.txt', bench.file('b'))]);
    expect(() => other.hands.recover({ journal: bench.journal, trash: other.trash, mode: 'rollback' }, quiet)).toThrow(
      expect.objectContaining({ code: 'ERR_ROOT_CHANGED' }),
    );
    expect(existsSync(bench.journal)).toBe(true);
  });

  test('finish of a journal whose process died leaves the new tree and no temp files', async () => {
    const wanted = await newTree();
    using bench = await Bench.make(OLD);
    diesAt(bench, { step: 10_000, when: 'before' });
    writeFileSync(bench.path(`.takeback-${OPERATION}-0.tmp`), 'somebody else put this here');
    bench.hands.finish(bench.journal);
    bench.hands.finish(bench.journal);
    expect(bench.snapshot()).toEqual(wanted);
    expect(bench.kept(), 'what is not ours is kept').toContain('somebody else put this here');
  });

  test('a path that is a RelPath of bytes comes back from the journal as it went in', async () => {
    using bench = await Bench.make();
    const path = 'caf\udce9' as RelPath;
    bench.apply([{ path, expect: ABSENT, target: bench.file('x') }]);
    expect(recover(bench, 'rollback').paths).toEqual([{ path, state: 'old' }]);
    expect(readdirSync(bench.root)).toEqual([]);
  });
});
