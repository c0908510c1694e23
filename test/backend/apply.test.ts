import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { nodeSyscalls } from '../../src/backend/portable/syscalls.ts';
import type { RelPath, Version } from '../../src/types.ts';
import { Bench, type Layout, OPERATION, quiet, stepping } from './hands-kit.ts';

const ABSENT: Version = { kind: 'absent' };
const link = (target: string): Version => ({ kind: 'symlink', target });
const dir = (mode = 0o755): Version => ({ kind: 'dir', mode });

describe('apply: every kind becomes every kind', () => {
  const kinds: Record<
    string,
    { make: Layout[string] | null; version: (bench: Bench) => Version; shows: string | undefined }
  > = {
    absent: { make: null, version: () => ABSENT, shows: undefined },
    file: { make: ['text', 0o640], version: (bench) => bench.file('text', 0o640), shows: 'file 640 text' },
    'other file': { make: ['other', 0o755], version: (bench) => bench.file('other', 0o755), shows: 'file 755 other' },
    symlink: { make: { link: 'nowhere' }, version: () => link('nowhere'), shows: 'link nowhere' },
    'other symlink': { make: { link: '../x' }, version: () => link('../x'), shows: 'link ../x' },
    dir: { make: 0o755, version: () => dir(), shows: 'dir 755' },
    'other dir': { make: 0o700, version: () => dir(0o700), shows: 'dir 700' },
  };
  for (const [from, { make, version: expected }] of Object.entries(kinds)) {
    for (const [to, { version: target, shows }] of Object.entries(kinds)) {
      test(`${from} → ${to}`, async () => {
        using bench = await Bench.make({ 'd/': 0o755, ...(make === null ? {} : { 'd/p': make }) });
        const expectVersion = expected(bench);
        expect(bench.now('d/p'), 'peek sees the start').toEqual(expectVersion);
        const outcomes = bench.apply([{ path: 'd/p' as RelPath, expect: expectVersion, target: target(bench) }]);
        expect(outcomes).toMatchObject([{ path: 'd/p', status: 'done' }]);
        expect(bench.snapshot()).toEqual({ d: 'dir 755', ...(shows === undefined ? {} : { 'd/p': shows }) });
        bench.hands.finish(bench.journal);
        expect(existsSync(bench.journal)).toBe(false);
      });

      test(`${from} → ${to}, but somebody else was there first`, async () => {
        using bench = await Bench.make({ 'd/': 0o755, 'd/p': ['foreign', 0o600] });
        const before = statSync(bench.path('d/p'), { bigint: true });
        const outcomes = bench.apply([{ path: 'd/p' as RelPath, expect: expected(bench), target: target(bench) }]);
        expect(outcomes).toMatchObject([
          { status: 'refused', reason: 'changed-outside-session', found: { kind: 'file', mode: 0o600, size: 7 } },
        ]);
        expect(bench.snapshot()).toEqual({ d: 'dir 755', 'd/p': 'file 600 foreign' });
        expect(statSync(bench.path('d/p'), { bigint: true }).ino).toBe(before.ino);
      });
    }
  }
});

describe('apply: whole trees', () => {
  test('a tree is removed deepest first and made top down', async () => {
    using bench = await Bench.make({ 'old/a/b.txt': 'b', 'old/c.txt': 'c' });
    const remove = ['old', 'old/a', 'old/a/b.txt', 'old/c.txt'].map((path) => bench.entry(path, ABSENT));
    const make = [
      bench.entry('new', dir(0o750)),
      bench.entry('new/a', dir(0o500)),
      bench.entry('new/a/b.txt', bench.file('b', 0o400)),
    ];
    const outcomes = bench.apply([...remove, ...make]);
    expect(outcomes.filter(({ status }) => status !== 'done')).toEqual([]);
    expect(bench.snapshot()).toEqual({ new: 'dir 750', 'new/a': 'dir 500', 'new/a/b.txt': 'file 400 b' });
    expect(bench.kept().sort(), 'what came out is kept').toEqual(['b', 'c']);
  });

  test('a folder that holds something else stays, and what was to go from it goes', async () => {
    using bench = await Bench.make({
      'd/ours.txt': 'ours',
      'd/theirs.txt': 'theirs',
      'e/ours.txt': 'ours',
      'e/theirs.txt': 'theirs',
    });
    const outcomes = bench.apply([
      bench.entry('d', ABSENT),
      bench.entry('d/ours.txt', ABSENT),
      bench.entry('e', bench.file('a file now')),
      bench.entry('e/ours.txt', ABSENT),
    ]);
    expect(outcomes.map(({ path, status, reason }) => [path, status, reason])).toEqual([
      ['d', 'skipped', 'not-empty'],
      ['d/ours.txt', 'done', undefined],
      ['e', 'refused', 'not-empty'],
      ['e/ours.txt', 'done', undefined],
    ]);
    expect(bench.snapshot()).toEqual({
      d: 'dir 755',
      'd/theirs.txt': 'file 644 theirs',
      e: 'dir 755',
      'e/theirs.txt': 'file 644 theirs',
    });
  });

  test('a symlink in place of a folder gives way to the folder and its files', async () => {
    using bench = await Bench.make({ d: { link: '..' } });
    expect(bench.now('d/f.txt'), 'nothing is seen through a link').toEqual(ABSENT);
    const outcomes = bench.apply([
      bench.entry('d', dir()),
      { path: 'd/f.txt' as RelPath, expect: ABSENT, target: bench.file('f') },
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['done', 'done']);
    expect(bench.snapshot()).toEqual({ d: 'dir 755', 'd/f.txt': 'file 644 f' });
  });

  test('paths that are not in the plan keep bytes, mtime and inode', async () => {
    using bench = await Bench.make({ 'a.txt': 'a', 'b.txt': 'b' });
    utimesSync(bench.path('b.txt'), 1, 1);
    const before = statSync(bench.path('b.txt'), { bigint: true });
    bench.apply([bench.entry('a.txt', bench.file('A'))]);
    const { ino, mtimeNs, ctimeNs } = statSync(bench.path('b.txt'), { bigint: true });
    expect({ ino, mtimeNs, ctimeNs }).toEqual({ ino: before.ino, mtimeNs: before.mtimeNs, ctimeNs: before.ctimeNs });
  });

  test('names that are no UTF-8 are written as they are', async () => {
    using bench = await Bench.make();
    const name = 'caf\udce9.txt' as RelPath;
    expect(bench.apply([{ path: name, expect: ABSENT, target: bench.file('x') }])).toMatchObject([{ status: 'done' }]);
    expect(readdirSync(bench.root, { encoding: 'buffer' })).toEqual([Buffer.from('caf\xe9.txt', 'latin1')]);
    expect(bench.hands.peek(['' as RelPath], quiet)[0]?.names).toEqual([name]);
  });
});

describe('apply: modes and owners', () => {
  test('a change of mode only leaves the inode and its mtime alone', async () => {
    using bench = await Bench.make({ 'a.sh': ['#!', 0o755] });
    utimesSync(bench.path('a.sh'), 1, 1);
    const before = statSync(bench.path('a.sh'));
    expect(bench.apply([bench.entry('a.sh', bench.file('#!', 0o644))])).toEqual([{ path: 'a.sh', status: 'done' }]);
    const after = statSync(bench.path('a.sh'));
    expect([after.ino, after.mtimeMs, after.mode & 0o7777]).toEqual([before.ino, 1000, 0o644]);
  });

  test('setuid, setgid and sticky are never written, whatever the file had', async () => {
    using bench = await Bench.make({ 'a.txt': 'a', 'b.txt': 'b' });
    const entries = [bench.entry('a.txt', bench.file('new', 0o755)), bench.entry('b.txt', bench.file('b', 0o755))];
    for (const name of ['a.txt', 'b.txt']) chmodSync(bench.path(name), 0o6644);
    bench.apply(entries);
    for (const name of ['a.txt', 'b.txt']) expect(lstatSync(bench.path(name)).mode & 0o7777, name).toBe(0o755);
  });

  test('modes are exact whatever the umask, and a file is never wider open than its target', async () => {
    using bench = await Bench.make();
    const widest: number[] = [];
    bench.hands = bench.open(
      stepping(() => {
        for (const name of readdirSync(bench.root)) {
          const stat = lstatSync(bench.path(name));
          if (stat.isFile()) widest.push(stat.mode & 0o177);
        }
      }),
    );
    for (const umask of [0, 0o777]) {
      const old = process.umask(umask);
      try {
        bench.apply([
          { path: `f${umask}` as RelPath, expect: ABSENT, target: bench.file('secret', 0o600) },
          { path: `d${umask}` as RelPath, expect: ABSENT, target: dir(0o711) },
        ]);
      } finally {
        process.umask(old);
      }
      bench.hands.finish(bench.journal);
      expect(bench.snapshot()).toMatchObject({ [`f${umask}`]: 'file 600 secret', [`d${umask}`]: 'dir 711' });
    }
    expect(new Set(widest)).toEqual(new Set([0]));
  });

  test('the owner of a replaced file is kept where this user may', async () => {
    if (process.getuid?.() !== 0) return console.warn('skipped: needs root');
    using bench = await Bench.make({ 'a.txt': 'a' });
    execFileSync('chown', ['1234:2345', bench.path('a.txt')]);
    bench.apply([bench.entry('a.txt', bench.file('b'))]);
    const { uid, gid } = statSync(bench.path('a.txt'));
    expect([uid, gid]).toEqual([1234, 2345]);
  });

  test('a broken hard link is said, and the other name keeps its bytes', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    linkSync(bench.path('a.txt'), join(bench.dir, 'other'));
    const [outcome] = bench.apply([bench.entry('a.txt', bench.file('b'))]);
    expect(outcome).toMatchObject({ status: 'done', note: 'hardlink-broken, guard:take-out+link' });
    expect(readFileSync(join(bench.dir, 'other'), 'utf8')).toBe('a');
  });

  test('a folder gets back the write bit that its files need', async () => {
    if (process.getuid?.() !== 0) return console.warn('skipped: needs root, to become another user');
    using bench = await Bench.make({ 'd/a.txt': 'a' });
    const entries = [bench.entry('d/a.txt', bench.file('b'))];
    execFileSync('chown', ['-R', '65534:65534', bench.dir]);
    chmodSync(bench.path('d'), 0o555);
    asNobody(() => {
      const outcomes = bench.apply([bench.entry('d', dir(0o755)), ...entries]);
      expect(outcomes.map(({ status }) => status)).toEqual(['done', 'done']);
    });
    expect(bench.snapshot()).toEqual({ d: 'dir 755', 'd/a.txt': 'file 644 b' });
  });

  test('a read-only folder that is not in the plan is permission-denied, and nothing in it changes', async () => {
    if (process.getuid?.() !== 0) return console.warn('skipped: needs root, to become another user');
    using bench = await Bench.make({ 'd/a.txt': 'a', 'd/b.txt': 'b', 'c.txt': 'c' });
    const entries = [
      bench.entry('c.txt', bench.file('C')),
      bench.entry('d/a.txt', bench.file('A')),
      bench.entry('d/b.txt', ABSENT),
      bench.entry('d/n.txt', bench.file('n')),
    ];
    execFileSync('chown', ['-R', '65534:65534', bench.dir]);
    chmodSync(bench.path('d'), 0o555);
    asNobody(() => {
      const outcomes = bench.apply(entries);
      expect(outcomes.map(({ status, reason }) => reason ?? status)).toEqual([
        'done',
        'permission-denied',
        'permission-denied',
        'permission-denied',
      ]);
    });
    expect(bench.snapshot()).toEqual({
      'c.txt': 'file 644 C',
      d: 'dir 555',
      'd/a.txt': 'file 644 a',
      'd/b.txt': 'file 644 b',
    });
  });
});

/** Runs a piece of work as a user whom permissions bind. */
function asNobody(work: () => void): void {
  process.setegid?.(65534);
  process.seteuid?.(65534);
  try {
    work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

describe('apply: what can not be done is said, and the disk stays', () => {
  test('a blob that is missing, and one that is damaged', async () => {
    using bench = await Bench.make({ 'a.txt': 'a', 'b.txt': 'b', 'd/': 0o755 });
    const missing: Version = { kind: 'file', mode: 0o644, size: 3, content: '00'.repeat(16) };
    const damaged = bench.file('damaged bytes');
    bench.segments.sync();
    const [segment] = readdirSync(join(bench.dir, 'data', 'segments')).filter((name) => name.endsWith('.seg'));
    const file = join(bench.dir, 'data', 'segments', segment as string);
    const bytes = readFileSync(file);
    bytes[bytes.length - 10] = (bytes[bytes.length - 10] as number) ^ 1;
    writeFileSync(file, bytes);
    const outcomes = bench.apply([
      bench.entry('a.txt', missing),
      bench.entry('b.txt', damaged),
      bench.entry('d', missing),
    ]);
    expect(outcomes.map(({ status, reason }) => [status, reason])).toEqual([
      ['failed', 'blob-missing'],
      ['failed', 'blob-corrupt'],
      ['failed', 'blob-missing'],
    ]);
    expect(bench.snapshot()).toEqual({ 'a.txt': 'file 644 a', 'b.txt': 'file 644 b', d: 'dir 755' });
  });

  test('a symlink, a file or a mount on the way is walk-failed, never followed', async () => {
    using bench = await Bench.make({ f: 'f', l: { link: '../outside' }, 'm/': 0o755 });
    mkdirSync(join(bench.dir, 'outside'));
    let mounted = true;
    try {
      execFileSync('mount', ['--bind', join(bench.dir, 'outside'), bench.path('m')], { stdio: 'ignore' });
    } catch {
      mounted = false;
      console.warn('bind mount skipped: not allowed here');
    }
    try {
      const names = ['f/x', 'l/x', 'gone/x', ...(mounted ? ['m/x'] : [])];
      const outcomes = bench.apply(
        names.map((path) => ({ path: path as RelPath, expect: ABSENT, target: bench.file('x') })),
      );
      expect(outcomes.map(({ reason }) => reason)).toEqual(names.map(() => 'walk-failed'));
      expect(readdirSync(join(bench.dir, 'outside'))).toEqual([]);
      if (mounted) expect(bench.now('m')).toMatchObject({ kind: 'uncovered', reason: 'mount' });
    } finally {
      if (mounted) execFileSync('umount', [bench.path('m')]);
    }
  });

  test('nothing is written below .git in any spelling, nor outside the root', async () => {
    using bench = await Bench.make({ '.git/config': 'c', 'sub/.git/config': 'c' });
    const names = ['.git/config', '.git/hooks', 'sub/.GIT/x', '../x', 'a/../../x', 'sub/.git'];
    const outcomes = bench.apply(
      names.map((path) => ({ path: path as RelPath, expect: ABSENT, target: bench.file('x') })),
    );
    expect(Object.fromEntries(outcomes.map(({ path, reason }) => [path, reason]))).toEqual({
      '.git/config': 'uncovered',
      '.git/hooks': 'uncovered',
      'sub/.GIT/x': 'uncovered',
      'sub/.git': 'uncovered',
      '../x': 'walk-failed',
      'a/../../x': 'walk-failed',
    });
    expect(bench.snapshot()).toEqual({
      '.git': 'dir 755',
      '.git/config': 'file 644 c',
      sub: 'dir 755',
      'sub/.git': 'dir 755',
      'sub/.git/config': 'file 644 c',
    });
  });

  test('a special file is moved aside, and can not be made again', async () => {
    using bench = await Bench.make();
    execFileSync('mkfifo', [bench.path('fifo')]);
    const fifo = bench.now('fifo');
    expect(fifo).toMatchObject({ kind: 'special', type: 'fifo' });
    expect(bench.apply([{ path: 'fifo' as RelPath, expect: fifo, target: ABSENT }])).toMatchObject([
      { status: 'done' },
    ]);
    expect(lstatSync(join(bench.trash, `${OPERATION}-0`)).isFIFO()).toBe(true);
    bench.hands.finish(bench.journal);
    expect(bench.apply([{ path: 'fifo' as RelPath, expect: ABSENT, target: fifo }])).toMatchObject([
      { status: 'failed', reason: 'unsupported' },
    ]);
  });

  test('a fault of each call in turn: nothing is lost, and what did not work is said', async () => {
    let calls = 0;
    for (let k = 0; ; k++) {
      calls = 0;
      const sys = stepping((step, when) => {
        calls = step + 1;
        if (when === 'before' && step === k) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' });
      });
      using bench = await Bench.make({ 'a.txt': 'a', 'b.txt': 'b', 'd/c.txt': 'c' }, sys);
      const entries = [
        bench.entry('a.txt', bench.file('A')),
        bench.entry('b.txt', ABSENT),
        bench.entry('d', bench.file('D')),
        bench.entry('d/c.txt', ABSENT),
      ];
      const before = bench.snapshot();
      let outcomes: ReturnType<typeof bench.apply>;
      try {
        outcomes = bench.apply(entries);
      } catch (error) {
        expect(error, `call ${k}: the journal`).toMatchObject({ code: 'ERR_IO' });
        expect([bench.snapshot(), existsSync(bench.journal)], `call ${k}`).toEqual([before, false]);
        continue;
      }
      const texts = [...Object.values(bench.snapshot()), ...bench.kept()].join(' ');
      for (const text of ['a', 'b', 'c']) expect(texts, `call ${k}`).toContain(text);
      if (k >= calls) {
        expect(outcomes.every(({ status }) => status === 'done')).toBe(true);
        break;
      }
      const shown = bench.snapshot();
      for (const { path, status } of outcomes) {
        if (status === 'done') expect(shown[path] ?? 'gone', `call ${k}, ${path}`).toMatch(/gone|[AD]$/);
      }
      bench.hands.finish(bench.journal);
      expect(
        Object.keys(bench.snapshot()).filter((name) => name.includes('.takeback-')),
        `call ${k}`,
      ).toEqual([]);
    }
    expect(calls).toBeGreaterThan(10);
  });

  test('a full disk is no-space, and the file stays', async () => {
    const sys = {
      ...nodeSyscalls,
      write: (fd: number, bytes: Uint8Array) => {
        if (bytes.length === 1) throw Object.assign(new Error('ENOSPC: no space'), { code: 'ENOSPC' });
        nodeSyscalls.write(fd, bytes);
      },
    };
    using bench = await Bench.make({ 'a.txt': 'a', 'b.txt': 'b' }, sys);
    const outcomes = bench.apply([bench.entry('a.txt', bench.file('A')), bench.entry('b.txt', ABSENT)]);
    expect(outcomes.map(({ reason, status }) => reason ?? status)).toEqual(['no-space', 'done']);
    expect(bench.snapshot()).toEqual({ 'a.txt': 'file 644 a' });
  });

  test('a journal that is there already is ERR_BUSY, and a root that was replaced is ERR_ROOT_CHANGED', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    bench.apply([bench.entry('a.txt', bench.file('b'))]);
    expect(() => bench.apply([bench.entry('a.txt', bench.file('c'))])).toThrow(
      expect.objectContaining({ code: 'ERR_BUSY' }),
    );
    const entry = bench.entry('a.txt', bench.file('c'));
    bench.hands.finish(bench.journal);
    renameSync(bench.root, join(bench.dir, 'moved'));
    mkdirSync(bench.root);
    expect(() => bench.apply([entry])).toThrow(expect.objectContaining({ code: 'ERR_ROOT_CHANGED' }));
    expect(readdirSync(bench.root)).toEqual([]);
  });
});

describe('apply: cancelled', () => {
  test('before the first swap everything is put back; after it the run ends', async () => {
    const old = { 'a.txt': 'a', 'b.txt': 'b', 'd/c.txt': 'c', s: { link: 'x' } } as const;
    let checks = 0;
    for (let k = 0; ; k++) {
      checks = 0;
      using bench = await Bench.make(old);
      const before = bench.snapshot();
      const entries = [
        bench.entry('a.txt', bench.file('A')),
        bench.entry('b.txt', ABSENT),
        bench.entry('d', ABSENT),
        bench.entry('d/c.txt', ABSENT),
        bench.entry('n', dir()),
        bench.entry('n/f', bench.file('f')),
        bench.entry('s', dir()),
      ];
      const outcomes = bench.apply(entries, { cancelled: () => checks++ >= k, progress: () => {} });
      if (outcomes.every(({ status }) => status === 'done')) {
        expect(bench.snapshot()).toEqual({ 'a.txt': 'file 644 A', n: 'dir 755', 'n/f': 'file 644 f', s: 'dir 755' });
        break;
      }
      expect(new Set(outcomes.map(({ reason }) => reason)), `check ${k}`).toEqual(new Set(['cancelled']));
      expect(bench.snapshot(), `check ${k}`).toEqual(before);
    }
    expect(checks).toBeGreaterThan(7);
  });
});

describe('apply: somebody else writes meanwhile', () => {
  /** Runs one entry once for each call that it makes, with a foreign act before that call; checks after each. */
  async function race(
    target: (bench: Bench) => Version,
    start: Layout,
    foreign: (bench: Bench) => void,
    check: (bench: Bench, status: string, k: number) => void,
  ): Promise<void> {
    for (let k = 0, calls = 1; k <= calls; k++) {
      let acted = false;
      let bench: Bench | undefined;
      const sys = stepping((step, when) => {
        calls = step;
        if (when !== 'before' || step !== k || bench === undefined) return;
        acted = true;
        foreign(bench);
      });
      using made = await Bench.make(start, sys);
      bench = made;
      const entry = made.entry('p', target(made));
      const [outcome] = made.apply([entry]);
      if (acted) check(made, (outcome as { status: string }).status, k);
    }
  }

  const targets: [string, Layout, (bench: Bench) => Version][] = [
    ['replace', { p: 'old' }, (bench) => bench.file('ours')],
    ['delete', { p: 'old' }, () => ABSENT],
    ['create', {}, (bench) => bench.file('ours')],
    ['file → symlink', { p: 'old' }, () => link('ours')],
    ['change of mode', { p: 'old' }, (bench) => bench.file('old', 0o600)],
  ];
  for (const [name, start, target] of targets) {
    test(`${name}: a file that is renamed over the path stays there`, async () => {
      await race(
        target,
        start,
        (bench) => {
          writeFileSync(join(bench.dir, 'new'), 'foreign');
          renameSync(join(bench.dir, 'new'), bench.path('p'));
        },
        (bench, status, k) => {
          expect(bench.read('p'), `call ${k}: ${status}`).toBe('foreign');
        },
      );
    });

    test(`${name}: a file that is removed or written anew is never overwritten`, async () => {
      await race(
        target,
        start,
        (bench) => {
          rmSync(bench.path('p'), { force: true });
          writeFileSync(bench.path('p'), 'foreign', { flag: 'wx' });
        },
        (bench, status, k) => {
          expect(bench.read('p'), `call ${k}: ${status}`).toBe('foreign');
        },
      );
    });

    test(`${name}: a folder that comes to stand there stays, with what is in it`, async () => {
      await race(
        target,
        start,
        (bench) => {
          rmSync(bench.path('p'), { force: true });
          mkdirSync(bench.path('p'));
          writeFileSync(bench.path('p/inside'), 'foreign');
        },
        (bench, status, k) => {
          expect(bench.read('p/inside'), `call ${k}: ${status}`).toBe('foreign');
        },
      );
    });

    test(`${name}: what a writer with an open descriptor wrote is at the path or kept, and found when the trash is emptied`, async () => {
      if (start.p === undefined) return;
      for (let k = 0, calls = 1; k <= calls; k++) {
        let fd = -1;
        let written = false;
        const sys = stepping((step, when) => {
          calls = step;
          if (when === 'before' && step === k) written = writeSync(fd, ' and foreign') > 0;
        });
        using bench = await Bench.make(start, sys);
        const entry = bench.entry('p', target(bench));
        fd = openSync(bench.path('p'), 'a');
        try {
          const [outcome] = bench.apply([entry]);
          if (!written) break;
          const atPath = bench.now('p');
          const found = [...Object.values(bench.snapshot()), ...bench.kept()].some((text) =>
            text.includes('old and foreign'),
          );
          expect(found, `call ${k}`).toBe(true);
          bench.hands.finish(bench.journal);
          const late = bench.hands.emptyTrash(bench.trash).lateWrites;
          if (outcome?.status === 'done' && atPath.kind !== 'file') expect(late.length, `call ${k}`).toBe(1);
          for (const { hash } of late) expect(bench.segments.read(hash).toString()).toBe('old and foreign');
        } finally {
          closeSync(fd);
        }
      }
    });
  }

  test('a folder on the way that is moved out of the root takes nothing of ours with it', async () => {
    for (let k = 0, calls = 1; k <= calls; k++) {
      let bench: Bench | undefined;
      const sys = stepping((step, when) => {
        calls = step;
        if (when !== 'before' || step !== k || bench === undefined) return;
        renameSync(bench.path('d'), join(bench.dir, 'stolen'));
        symlinkSync(join(bench.dir, 'stolen'), bench.path('d'));
      });
      using made = await Bench.make({ 'd/p': 'old' }, sys);
      bench = made;
      const [outcome] = made.apply([made.entry('d/p', made.file('ours'))]);
      const stolen = join(made.dir, 'stolen', 'p');
      if (!existsSync(stolen)) continue;
      if (outcome?.status === 'failed') expect(readFileSync(stolen, 'utf8'), `call ${k}`).toBe('old');
      else
        expect([outcome?.status, readFileSync(stolen, 'utf8')], `call ${k}: moved after the last look`).toEqual([
          'done',
          'ours',
        ]);
    }
  });
});

describe('trash', () => {
  test('what came out is dropped once its bytes are found stored', async () => {
    using bench = await Bench.make({ 'a.txt': 'aaaa', l: { link: 'x' } });
    bench.apply([bench.entry('a.txt', ABSENT), bench.entry('l', ABSENT)]);
    bench.hands.finish(bench.journal);
    expect(readdirSync(bench.trash).length).toBe(2);
    expect(bench.hands.emptyTrash(bench.trash)).toEqual({ freedBytes: 4, kept: 0, lateWrites: [] });
    expect(readdirSync(bench.trash)).toEqual([]);
  });

  test('an inode that was written to after it was kept is stored and named', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    bench.apply([bench.entry('a.txt', ABSENT)]);
    appendFileSync(join(bench.trash, `${OPERATION}-0`), ' late');
    const { lateWrites } = bench.hands.emptyTrash(bench.trash);
    expect(lateWrites).toMatchObject([{ name: `${OPERATION}-0` }]);
    expect(bench.segments.read((lateWrites[0] as { hash: string }).hash).toString()).toBe('a late');
  });

  test('on another mount than the root it is .takeback/trash/, which goes when it is empty', async () => {
    using bench = await Bench.make({ 'a.txt': 'a' });
    const far = join(bench.dir, 'far');
    mkdirSync(far);
    try {
      execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', far], { stdio: 'ignore' });
    } catch {
      return console.warn('skipped: no tmpfs can be mounted here');
    }
    try {
      const trash = join(far, 'trash');
      expect(bench.apply([bench.entry('a.txt', bench.file('b'))], quiet, trash)).toMatchObject([{ status: 'done' }]);
      expect(readFileSync(bench.path(`.takeback/trash/${OPERATION}-0`), 'utf8')).toBe('a');
      expect(readFileSync(bench.path('.takeback/trash/.gitignore'), 'utf8')).toBe('*\n');
      expect(statSync(bench.path('.takeback/trash')).mode & 0o777).toBe(0o700);
      bench.hands.finish(bench.journal);
      expect(bench.hands.emptyTrash(trash)).toMatchObject({ freedBytes: 1 });
      expect(existsSync(bench.path('.takeback'))).toBe(false);
    } finally {
      execFileSync('umount', [far]);
    }
  });
});

describe('peek and abilities', () => {
  test('secrets are stat-ed only, large files too, FIFOs are not opened, names are in byte order', async () => {
    using bench = await Bench.make({
      'd/.env': 'KEY=1',
      'd/.env.local': 'x',
      'd/.env.example': 'x',
      'd/B': 'b',
      'd/a': 'a',
      big: 'x'.repeat((1 << 20) + 1),
      'sub/.git/x': '',
    });
    execFileSync('mkfifo', [bench.path('fifo')]);
    const paths = [
      'd',
      'd/.env',
      'd/.env.local',
      'd/.env.example',
      'big',
      'fifo',
      'sub/.git',
      'none',
      'd/a/b',
    ] as RelPath[];
    const peeks = bench.hands.peek(paths, quiet);
    expect(peeks.map(({ version }) => (version.kind === 'uncovered' ? version.reason : version.kind))).toEqual([
      'dir',
      'secret',
      'secret',
      'file',
      'too-large',
      'special',
      'git',
      'absent',
      'absent',
    ]);
    expect(peeks[0]?.names).toEqual(['.env', '.env.example', '.env.local', 'B', 'a']);
    expect(peeks[1]).toMatchObject({ nlink: 1, openForWrite: null });
  });

  test('abilities are found by trying, with no file in the root', async () => {
    using bench = await Bench.make();
    const before = statSync(bench.root, { bigint: true });
    expect(bench.hands.abilities()).toMatchObject({
      walk: 'component',
      exchange: false,
      lease: false,
      noReplace: true,
      guard: 'take-out+link',
      execBit: true,
      symlinks: true,
      ctime: true,
    });
    expect(statSync(bench.root, { bigint: true }).ctimeNs).toBe(before.ctimeNs);
    expect(readdirSync(join(bench.dir, 'data', 'scratch'))).toEqual([]);
  });
});
