/** What every backend owes its caller (src/backend/backend.ts). A new backend passes this file unchanged. */
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ABSENT, RowFlag, type Version } from '../../src/types.ts';
import { describeBackends } from '../kit/backends.ts';
import { brief, newId, rel, TreeBench, text } from '../kit/tree-bench.ts';

describeBackends('segments', (kind) => {
  test('bytes come back by their name; equal bytes are stored once', async () => {
    await using bench = await TreeBench.open(kind, '');
    const { segments } = bench;
    const contents = ['', 'x', 'hello\n', 'z'.repeat(100_000)].map((s) => Buffer.from(s));
    const hashes = [];
    for (const bytes of contents) hashes.push(await segments.put(bytes));
    expect(hashes[2]).toMatch(/^[0-9a-f]{32}$/);
    for (const [i, hash] of hashes.entries()) {
      expect(Buffer.compare(await segments.read(hash), contents[i] as Buffer)).toBe(0);
      expect(await segments.put(contents[i] as Buffer)).toBe(hash);
    }
    expect((await segments.stats()).blobs).toBe(4);
    expect(await segments.has([hashes[0] as string, 'f'.repeat(32)])).toEqual([true, false]);
    await expect(segments.read('f'.repeat(32))).rejects.toMatchObject({ code: 'ERR_BLOB_MISSING' });
    expect(await segments.verify()).toEqual({ checked: 4, problems: [] });
  });

  test('another store on the folder finds what was put, while the first is open and after it', async () => {
    await using bench = await TreeBench.open(kind, '');
    const hash = await bench.segments.put(Buffer.from('shared'));
    await bench.segments.sync();
    const other = await bench.again(kind);
    expect(await other.segments.has([hash])).toEqual([true]);
    expect(Buffer.from(await other.segments.read(hash)).toString()).toBe('shared');
    const late = await bench.segments.put(Buffer.from('later'));
    await bench.segments.sync();
    expect(Buffer.from(await other.segments.read(late)).toString()).toBe('later');
    await other.close();
  });

  test('damaged bytes are told by read and verify, and the rest stays readable', async () => {
    await using bench = await TreeBench.open(kind, '');
    const bad = await bench.segments.put(Buffer.from('to be damaged'));
    const good = await bench.segments.put(Buffer.from('good'));
    await bench.segments.close();
    const dir = join(bench.home, 'segments');
    for (const name of readdirSync(dir).filter((n) => n.endsWith('.seg'))) {
      const bytes = readFileSync(join(dir, name));
      const at = bytes.indexOf('to be damaged');
      if (at >= 0) bytes.write('X', at);
      writeFileSync(join(dir, name), bytes);
    }
    const again = await bench.again(kind);
    await expect(again.segments.read(bad)).rejects.toMatchObject({ code: 'ERR_BLOB_CORRUPT' });
    expect(Buffer.from(await again.segments.read(good)).toString()).toBe('good');
    const { problems } = await again.segments.verify();
    expect(problems.map((problem) => problem.hash)).toEqual([bad]);
    await again.close();
  });

  test('collect drops what isn’t live and keeps what is', async () => {
    await using bench = await TreeBench.open(kind, '');
    const dead = await bench.segments.put(Buffer.from('d'.repeat(50_000).replace(/d/g, () => String(Math.random()))));
    const live = await bench.segments.put(Buffer.from('live'));
    await bench.segments.sync();
    const unsynced = await bench.segments.put(Buffer.from('about to be named by a row'));
    const { freedBytes } = await bench.segments.collect([live]);
    expect(freedBytes).toBeGreaterThan(1000);
    expect(await bench.segments.has([dead, live, unsynced])).toEqual([false, true, true]);
    expect(Buffer.from(await bench.segments.read(live)).toString()).toBe('live');
    expect((await bench.segments.verify()).problems).toEqual([]);
    await bench.segments.sync();
    await bench.segments.collect([live]);
    expect(await bench.segments.has([unsynced])).toEqual([false]);
    const again = await bench.segments.put(Buffer.from('after'));
    expect(Buffer.from(await bench.segments.read(again)).toString()).toBe('after');
  });

  test('a torn tail is ignored: what stands before it is read, and new bytes are stored', async () => {
    await using bench = await TreeBench.open(kind, '');
    const first = await bench.segments.put(Buffer.from('first'));
    const second = await bench.segments.put(Buffer.from('second'));
    await bench.segments.close();
    const dir = join(bench.home, 'segments');
    for (const name of readdirSync(dir)) {
      const file = join(dir, name);
      if (name.endsWith('.idx')) writeFileSync(file, 'damaged');
      else truncateSync(file, statSync(file).size - 3);
    }
    const again = await bench.again(kind);
    expect(await again.segments.has([first, second])).toEqual([true, false]);
    expect(await again.segments.put(Buffer.from('second'))).toBe(second);
    expect(Buffer.from(await again.segments.read(second)).toString()).toBe('second');
    await again.close();
  });
});

const MIXED = `mkdir -p d/e empty; echo 1 >f; echo 2 >d/g; echo 3 >d/e/h; ln -s f link; chmod 755 d/g; mkfifo pipe
  echo KEY=1 >.env; seq 300000 >big; mkdir .git; echo x >.git/x; mkdir -p sub/.git; echo s >sub/s`;

describeBackends('tree', (kind) => {
  test('the first scan finds everything, covered and uncovered', async () => {
    await using bench = await TreeBench.open(kind, MIXED);
    const { scan, ingest, changes } = await bench.look(await bench.renew());
    expect(brief(changes)).toEqual({
      '.env': 'absent → secret',
      big: 'absent → too-large',
      d: 'absent → dir 755',
      'd/e': 'absent → dir 755',
      'd/e/h': 'absent → file 644 2',
      'd/g': 'absent → file 755 2',
      empty: 'absent → dir 755',
      f: 'absent → file 644 2',
      link: 'absent → link f',
      pipe: 'absent → fifo',
      sub: 'absent → dir 755',
      'sub/.git': 'absent → git',
      'sub/s': 'absent → file 644 2',
    });
    expect(await bench.tree.uncovered(scan.set)).toEqual([
      { path: '.env', reason: 'secret' },
      { path: 'big', reason: 'too-large' },
      { path: 'pipe', reason: 'special' },
      { path: 'sub/.git', reason: 'git' },
    ]);
    expect(scan.files, 'covered files and links').toBe(5);
    expect([ingest.filesHashed, ingest.storedFiles, ingest.left]).toEqual([4, 4, 0]);
    const { entries } = await bench.tree.manifest(scan.set);
    expect(entries).toBe(13);
  });

  test('a warm clean scan reads no folder, judges no name and hashes no file', async () => {
    await using bench = await TreeBench.open(kind, `${MIXED}; find . -exec touch -h -d 2020-01-01 {} +`);
    await bench.observe('boundary');
    // Times set by touch are old, but ctime is now: what a scan found that young is hashed by the next one.
    await settle(bench);
    await bench.observe();
    const { scan, ingest, changes } = await bench.observe();
    expect(changes).toEqual([]);
    expect(scan.suspects).toBe(0);
    expect(scan.counters.dirsRead).toBe(0);
    expect(scan.counters.rulesEvaluated).toBe(0);
    expect(ingest.filesHashed).toBe(0);
    const second = await bench.observe('boundary');
    expect([second.scan.suspects, second.ingest.filesHashed, second.changes.length]).toEqual([0, 0, 0]);
  });

  test('each kind of change is found, once', async () => {
    await using bench = await TreeBench.open(
      kind,
      'mkdir d; for f in a b c d/x gone; do echo 1 >$f; done; ln -s a l; mkdir e',
    );
    await bench.observe('boundary');
    bench.space.sh(
      'echo 22 >a; chmod 600 b; rm gone; echo n>d/new; ln -sfn b l; chmod 700 e; rm c; mkdir c; echo x>c/x',
    );
    const { changes } = await bench.observe();
    expect(brief(changes)).toEqual({
      a: 'file 644 2 → file 644 3',
      b: 'file 644 2 → file 600 2',
      c: 'file 644 2 → dir 755',
      'c/x': 'absent → file 644 2',
      'd/new': 'absent → file 644 2',
      e: 'dir 755 → dir 700',
      gone: 'file 644 2 → absent',
      l: 'link a → link b',
    });
    expect((await bench.observe()).changes).toEqual([]);
  });

  test('a same-size edit within the tick, with its mtime put back, is found', async () => {
    await using bench = await TreeBench.open(kind, 'printf AAAA>f; touch -d @1000 f');
    await bench.observe('boundary');
    for (const bytes of ['BBBB', 'CCCC', 'DDDD']) {
      bench.space.sh(`printf ${bytes}>f; touch -d @1000 f`);
      expect(brief((await bench.observe()).changes)).toEqual({ f: 'file 644 4 → file 644 4' });
    }
  });

  test('what a file’s bytes are after a change is in the segments', async () => {
    await using bench = await TreeBench.open(kind, 'echo one>f');
    await bench.observe('boundary');
    bench.space.sh('echo two>f');
    const [change] = (await bench.observe()).changes;
    const read = async (version: Version | undefined) =>
      version?.kind === 'file' ? Buffer.from(await bench.segments.read(version.content)).toString() : null;
    expect([await read(change?.before), await read(change?.after)]).toEqual(['one\n', 'two\n']);
  });

  test('the index file is taken up by the next handle, and a clean look then hashes nothing', async () => {
    await using bench = await TreeBench.open(kind, `${MIXED}`);
    await bench.observe('boundary');
    await settle(bench);
    bench.space.sh('echo 9 >d/e/h; rm d/g');
    await bench.observe();
    await settle(bench);
    const { at } = await bench.observe();
    const again = await bench.again(kind);
    expect(await again.tree.load()).toEqual(at);
    expect(await again.tree.list(rel(''))).toEqual(await bench.tree.list(rel('')));
    const { changes, ingest } = await again.look();
    expect(changes).toEqual([]);
    expect(ingest.filesHashed).toBe(0);
    await again.close();
  });

  test('a missing, foreign, garbled or torn index file is null or an older position, never a fault', async () => {
    await using bench = await TreeBench.open(kind, 'for i in $(seq 20); do echo $i>f$i; done');
    expect(await bench.tree.load()).toBeNull();
    const first = await bench.observe('boundary');
    bench.space.sh('echo x>f1');
    const second = await bench.observe();
    const file = join(bench.home, 'index');
    const whole = readFileSync(file);
    const foreign = await bench.again(kind, { storeId: 'f'.repeat(32) });
    expect(await foreign.tree.load()).toBeNull();
    await foreign.close();
    for (let cut = 0; cut < whole.length; cut += 97) {
      writeFileSync(file, whole.subarray(0, cut));
      expect([null, first.at, second.at]).toContainEqual(await bench.tree.load());
    }
    for (let at = 0; at < whole.length; at += 61) {
      const damaged = Buffer.from(whole);
      damaged.writeUInt8((damaged[at] as number) ^ 0x55, at);
      writeFileSync(file, damaged);
      expect([null, first.at, second.at]).toContainEqual(await bench.tree.load());
    }
    writeFileSync(file, whole);
    expect(await bench.tree.load()).toEqual(second.at);
  });

  test('a manifest and the rows after it make the same tree, with nothing trusted', async () => {
    await using bench = await TreeBench.open(kind, MIXED);
    const first = await bench.look(await bench.renew());
    const manifest = await bench.tree.manifest(first.scan.set);
    const at = await bench.commit(first.scan.set);
    const rules = (await bench.tree.rules()) as Uint8Array;
    bench.space.sh('echo 22 >f; rm -r d; mkdir d; echo n>d/n; ln -sfn n link');
    const second = await bench.observe();
    const list = await bench.tree.list(rel(''));
    const versions = (await bench.tree.versions(list)).map(text);
    const again = await bench.again(kind);
    await again.tree.reset(manifest.hash, at);
    await again.tree.setRules(rules);
    await again.tree.catchUp(second.changes, second.at);
    expect(await again.tree.list(rel(''))).toEqual(list);
    expect((await again.tree.versions(list)).map(text)).toEqual(versions);
    const { changes, ingest } = await again.look();
    expect(changes).toEqual([]);
    expect(ingest.filesHashed, 'every covered file is hashed again').toBe(3);
    await again.close();
  });

  test('an empty tree after reset(null) finds everything again', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f');
    await bench.observe('boundary');
    await bench.tree.reset(null, null);
    expect(await bench.tree.list(rel(''))).toEqual([]);
    expect(brief((await bench.look(await bench.renew())).changes)).toEqual({ f: 'absent → file 644 2' });
  });

  test('rows of other processes move the index, and what they say is not found again', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f; mkdir d; echo 1 >d/x; echo 1 >d/y');
    await bench.observe('boundary');
    const other = await bench.again(kind);
    await other.tree.load();
    bench.space.sh('echo 22 >f; rm -r d');
    const { changes, at } = await bench.observe();
    await other.tree.catchUp(changes, at);
    expect((await other.look()).changes).toEqual([]);
    expect(await other.tree.list(rel(''))).toEqual(['f']);
    await other.close();
  });

  test('look takes up what changed since the scan, for these paths only', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >a; echo 1 >b');
    await bench.observe('boundary');
    bench.space.sh('echo 22 >a');
    const { scan } = await bench.look();
    bench.space.sh('echo 333 >a; echo 333 >b; echo n>c');
    await bench.tree.look(scan.set, [rel('a'), rel('c')]);
    expect(brief(await bench.tree.changes(scan.set))).toEqual({
      a: 'file 644 2 → file 644 4',
      c: 'absent → file 644 2',
    });
    await bench.commit(scan.set);
    expect(brief((await bench.observe()).changes)).toEqual({ b: 'file 644 2 → file 644 4' });
  });

  test('only: a look at some paths leaves all others for later', async () => {
    await using bench = await TreeBench.open(kind, 'mkdir d; echo 1 >a; echo 1 >b; echo 1 >d/x');
    await bench.observe('boundary');
    bench.space.sh('echo 22 >a; echo 22 >b; echo 22 >d/x; chmod 700 d; echo n>new; rm b');
    const first = await bench.observe('look', { only: [rel('a'), rel('d'), rel('new'), rel('nothing'), rel('b')] });
    expect(brief(first.changes)).toEqual({
      a: 'file 644 2 → file 644 3',
      b: 'file 644 2 → absent',
      d: 'dir 755 → dir 700',
      new: 'absent → file 644 2',
    });
    expect(brief((await bench.observe()).changes)).toEqual({ 'd/x': 'file 644 2 → file 644 3' });
  });

  test('a discarded set leaves the index; a newer scan drops an older set', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f');
    await bench.observe('boundary');
    bench.space.sh('echo 22 >f');
    const { scan } = await bench.look();
    await bench.tree.discard(scan.set);
    const again = await bench.look();
    expect(brief(again.changes)).toEqual({ f: 'file 644 2 → file 644 3' });
    const third = await bench.tree.scan();
    await expect(bench.tree.changes(again.scan.set)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await bench.tree.discard(third.set);
  });

  test('a deadline leaves files out of time; the next look gives them late, as nobody’s change', async () => {
    await using bench = await TreeBench.open(kind, 'for i in 1 2 3; do echo $i>f$i; done');
    await settle(bench);
    const first = await bench.look(await bench.renew(), { deadlineMs: 1, first: [rel('f2')] });
    expect(first.ingest.left).toBeGreaterThan(0);
    const left = (await bench.tree.uncovered(first.scan.set)).map(({ reason }) => reason);
    expect(new Set(left)).toEqual(new Set(['out-of-time']));
    await bench.commit(first.scan.set);
    const second = await bench.observe();
    expect(second.changes.length).toBe(left.length);
    for (const { before, after, flags } of second.changes) {
      expect([text(before), text(after), flags & RowFlag.late]).toEqual(['out-of-time', 'file 644 2', RowFlag.late]);
    }
  });

  test('a file that changed before its late look is no late row', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f; echo 1 >g');
    const first = await bench.look(await bench.renew(), { deadlineMs: 1 });
    await bench.commit(first.scan.set);
    bench.space.sh('echo 22 >f');
    const flags = Object.fromEntries((await bench.observe()).changes.map((c) => [c.path, c.flags & RowFlag.late]));
    expect(flags.f ?? 0).toBe(0);
  });

  test('contents that the caller knows are stored are hashed only; all others are stored', async () => {
    await using bench = await TreeBench.open(kind, 'echo known >a; echo other >b; echo known >c');
    const known = await bench.segments.put(Buffer.from('known\n'));
    await bench.segments.sync();
    // Gone again, so that it shows whether it is stored anew.
    await bench.segments.collect([]);
    const { set } = await bench.tree.scan(await bench.renew());
    const ingested = await bench.tree.ingest(set, { stored: new Set([known, 'f'.repeat(32)]) });
    expect(ingested).toMatchObject({ filesHashed: 3, storedFiles: 1, storedBytes: 6, left: 0, problems: [] });
    const changes = await bench.tree.changes(set);
    expect(changes.map(({ path, after }) => [path, text(after)])).toEqual([
      ['a', 'file 644 6'],
      ['b', 'file 644 6'],
      ['c', 'file 644 6'],
    ]);
    const contents = changes.map(({ after }) => (after.kind === 'file' ? after.content : ''));
    expect([contents[0], contents[2]]).toEqual([known, known]);
    expect(await bench.segments.has(contents)).toEqual([false, true, false]);
  });

  test('an aborted scan or ingest rejects as cancelled and moves nothing', async () => {
    await using bench = await TreeBench.open(kind, 'for i in $(seq 50); do echo $i>f$i; done');
    const aborted = AbortSignal.abort();
    await expect(bench.tree.scan({ ...(await bench.renew()), signal: aborted })).rejects.toMatchObject({
      code: 'ERR_CANCELLED',
    });
    const { set } = await bench.tree.scan(await bench.renew());
    await expect(bench.tree.ingest(set, { signal: aborted })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    expect(await bench.tree.list(rel(''))).toEqual([]);
    expect((await bench.look(await bench.renew())).changes.length).toBe(50);
  });

  test('too many entries and a root that is gone or another one reject with their codes', async () => {
    await using bench = await TreeBench.open(kind, 'for i in $(seq 20); do echo $i>f$i; done', { maxEntries: 10 });
    await expect(bench.tree.scan(await bench.renew())).rejects.toMatchObject({ code: 'ERR_TOO_MANY_ENTRIES' });
    renameSync(bench.space.root, `${bench.space.root}-moved`);
    await expect(bench.tree.scan(await bench.renew())).rejects.toMatchObject({ code: 'ERR_ROOT_CHANGED' });
    renameSync(`${bench.space.root}-moved`, bench.space.root);
  });

  test('rules are frozen: within a turn a covered path stays, and a newly hidden name is uncovered', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >a.log; echo 1 >f');
    await bench.observe('boundary');
    bench.space.sh("echo '*.log' >.gitignore; echo 22 >a.log; echo 1 >b.log; mkdir x.log; echo 1 >x.log/y");
    expect(brief((await bench.observe()).changes)).toEqual({
      '.gitignore': 'absent → file 644 6',
      'a.log': 'file 644 2 → file 644 3',
      'b.log': 'absent → ignored',
      'x.log': 'absent → ignored',
    });
    const boundary = await bench.observe('boundary');
    for (const { path, flags } of boundary.changes)
      expect([path, flags & RowFlag.coverage]).toEqual([path, RowFlag.coverage]);
    expect((await bench.tree.versions(['a.log', 'b.log', 'x.log'].map(rel))).map(text)).toEqual([
      'ignored',
      'ignored',
      'ignored',
    ]);
    bench.space.sh('rm .gitignore');
    await bench.observe();
    const visible = await bench.observe('boundary');
    expect(brief(visible.changes)['a.log']).toMatch(/^ignored → file 644 3 8$/);
  });

  test('hold keeps a path covered whatever the new rules say', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >a.log; echo 1 >b.log');
    await bench.observe('boundary');
    bench.space.sh("echo '*.log' >.gitignore");
    await bench.observe();
    const { changes } = await bench.look({ ...(await bench.renew()), hold: [rel('a.log')] });
    expect(changes.map((change) => change.path)).toEqual(['b.log']);
  });

  test('a full rehash trusts no stat key', async () => {
    await using bench = await TreeBench.open(kind, 'for i in 1 2 3; do echo $i>f$i; done');
    await bench.observe('boundary');
    await settle(bench);
    await bench.observe();
    const { ingest, changes } = await bench.look({ rehash: true });
    expect([ingest.filesHashed, changes.length]).toEqual([3, 0]);
  });

  test('peek tells what is on disk whatever the index says, and opens no secret and no FIFO', async () => {
    await using bench = await TreeBench.open(kind, MIXED);
    await bench.observe('boundary');
    bench.space.sh('echo 22 >f; rm d/g');
    const paths = ['f', 'd/g', 'd', 'link', 'pipe', '.env', 'big', 'no/such', 'f/below', 'sub/.git', '.git'].map(rel);
    const peeks = await bench.tree.peek(paths);
    expect(Object.fromEntries(peeks.map((peek) => [peek.path, text(peek.version)]))).toEqual({
      f: 'file 644 3',
      'd/g': 'absent',
      d: 'dir 755',
      link: 'link f',
      pipe: 'fifo',
      '.env': 'secret',
      big: 'too-large',
      'no/such': 'absent',
      'f/below': 'absent',
      'sub/.git': 'git',
      '.git': 'git',
    });
    expect(peeks[2]?.names).toEqual(['e']);
    expect(peeks[0]?.ino).toBe(lstatSync(join(bench.space.root, 'f'), { bigint: true }).ino);
    expect([peeks[1]?.ino, peeks[0]?.nlink]).toEqual([0n, 1]);
  });
});

/** Makes every file older than the clock's tick by setting no time and changing none: waits until the file system's now is past it. */
async function settle(bench: TreeBench): Promise<void> {
  const { tickNs } = await bench.tree.abilities();
  const until = process.hrtime.bigint() + tickNs * 2n;
  while (process.hrtime.bigint() < until) await new Promise((resolve) => setImmediate(resolve));
}

describeBackends('apply', (kind) => {
  const prepare = async (setup: string): Promise<TreeBench> => {
    const bench = await TreeBench.open(kind, setup);
    await bench.observe('boundary');
    return bench;
  };

  test('every kind of write is done, keeps what came out, and leaves no temp file', async () => {
    await using bench = await prepare(
      'mkdir -p d/e gone/deep; for f in a b d/x gone/deep/y t; do echo 1 >$f; done; ln -s a l; chmod 600 b',
    );
    const v = (path: string) => bench.version(path);
    const dir: Version = { kind: 'dir', mode: 0o755 };
    const entries = [
      { path: rel('a'), expect: await v('a'), target: await bench.blob('new a') },
      { path: rel('b'), expect: await v('b'), target: { ...(await v('b')), mode: 0o755 } as Version },
      { path: rel('d/x'), expect: await v('d/x'), target: ABSENT },
      { path: rel('gone/deep/y'), expect: await v('gone/deep/y'), target: ABSENT },
      { path: rel('gone/deep'), expect: dir, target: ABSENT },
      { path: rel('gone'), expect: dir, target: ABSENT },
      { path: rel('l'), expect: await v('l'), target: { kind: 'symlink', target: 'elsewhere' } as Version },
      { path: rel('n/m'), expect: ABSENT, target: await bench.blob('nested') },
      { path: rel('n'), expect: ABSENT, target: { kind: 'dir', mode: 0o700 } as Version },
      { path: rel('t'), expect: await v('t'), target: dir },
      { path: rel('t/z'), expect: ABSENT, target: await bench.blob('z') },
    ];
    const { outcomes } = await bench.apply(entries);
    expect(Object.fromEntries(outcomes.map(({ path, status, reason }) => [path, reason ?? status]))).toEqual(
      Object.fromEntries(entries.map(({ path }) => [path, 'done'])),
    );
    expect(bench.space.sh('cat a n/m t/z; readlink l; stat -c %a b n; find . | sort | tr "\\n" " "')).toBe(
      'new anestedzelsewhere\n755\n700\n. ./a ./b ./d ./d/e ./l ./n ./n/m ./t ./t/z ',
    );
    expect(readdirSync(join(bench.home, 'journal'))).toEqual([]);
    expect(readdirSync(join(bench.home, 'trash')).length, 'a, d/x, y, l or t: kept').toBeGreaterThanOrEqual(4);
  });

  test.each([
    ['an edit', 'echo foreign >f', 'foreign\n'],
    ['a same-size edit', 'printf 2 | dd of=f conv=notrunc status=none', '2\n'],
    ['a chmod', 'chmod 600 f', '1\n'],
    ['a rename over', 'echo other>t; mv t f', 'other\n'],
  ])('%s after the plan is refused, and stays', async (_, change, left) => {
    await using bench = await prepare('echo 1 >f');
    const entry = { path: rel('f'), expect: await bench.version('f'), target: await bench.blob('target') };
    bench.space.sh(change);
    const [outcome] = (await bench.apply([entry])).outcomes;
    expect([outcome?.status, outcome?.reason]).toEqual(['refused', 'changed-outside-session']);
    expect(bench.space.read('f')).toBe(left);
  });

  test.each([
    ['restore', 'rm f', 'refused'],
    ['restore', 'rm f; mkdir f; echo x>f/x', 'refused'],
    ['restore', 'rm f; ln -s elsewhere f', 'refused'],
    ['delete', 'echo foreign >f', 'refused'],
  ] as const)('%s where somebody did `%s` is %s', async (what, change, status) => {
    await using bench = await prepare('echo 1 >f');
    const target = what === 'delete' ? ABSENT : await bench.blob('target');
    const entry = { path: rel('f'), expect: await bench.version('f'), target };
    bench.space.sh(change);
    const before = bench.space.sh('find . | sort; readlink f || cat f 2>&1 || true');
    const [outcome] = (await bench.apply([entry])).outcomes;
    expect(outcome?.status).toBe(status);
    expect(bench.space.sh('find . | sort; readlink f || cat f 2>&1 || true')).toBe(before);
  });

  test('creating where a name appeared, and deleting a folder that got a file, stay', async () => {
    await using bench = await prepare('mkdir d');
    const entries = [
      { path: rel('new'), expect: ABSENT, target: await bench.blob('ours') },
      { path: rel('d'), expect: await bench.version('d'), target: ABSENT },
    ];
    bench.space.sh('echo theirs>new; echo x>d/x');
    const { outcomes } = await bench.apply(entries);
    expect(outcomes.map(({ path, status, reason }) => [path, status, reason])).toEqual([
      ['d', expect.stringMatching(/refused|skipped/), 'not-empty'],
      ['new', 'refused', 'changed-outside-session'],
    ]);
    expect(bench.space.sh('cat new d/x')).toBe('theirs\nx\n');
  });

  test('a symlink in the walk is never followed', async () => {
    await using bench = await prepare('mkdir -p d ../out; echo 1 >d/f; echo host>../out/f');
    const entry = { path: rel('d/f'), expect: await bench.version('d/f'), target: await bench.blob('target') };
    bench.space.sh('rm -r d; ln -s ../out d');
    const [outcome] = (await bench.apply([entry])).outcomes;
    expect(outcome?.status).toBe('failed');
    expect(bench.space.sh('cat ../out/f; ls ../out')).toBe('host\nf\n');
  });

  test('a target whose bytes are missing fails, and the rest still runs', async () => {
    await using bench = await prepare('echo 1 >a; echo 1 >b');
    const missing: Version = { kind: 'file', mode: 0o644, size: 1, content: 'f'.repeat(32) };
    const { outcomes } = await bench.apply([
      { path: rel('a'), expect: await bench.version('a'), target: missing },
      { path: rel('b'), expect: await bench.version('b'), target: await bench.blob('b') },
    ]);
    expect(outcomes.map(({ path, reason, status }) => [path, reason ?? status])).toEqual([
      ['a', 'blob-missing'],
      ['b', 'done'],
    ]);
    expect(bench.space.sh('cat a b')).toBe('1\nb');
  });

  test.each(['rollback', 'complete'] as const)(
    'a journal left behind is ended by %s, twice the same, on either resolver',
    async (mode) => {
      await using bench = await prepare('mkdir d; echo 1 >a; echo 1 >d/b; echo 1 >gone');
      const { journal } = await bench.apply(
        [
          { path: rel('a'), expect: await bench.version('a'), target: await bench.blob('A') },
          { path: rel('d/b'), expect: await bench.version('d/b'), target: await bench.blob('B') },
          { path: rel('gone'), expect: await bench.version('gone'), target: ABSENT },
          { path: rel('new'), expect: ABSENT, target: await bench.blob('N') },
        ],
        { finish: false },
      );
      expect(existsSync(journal)).toBe(true);
      const other = await bench.again(kind, { resolver: 'component' });
      const request = { journal, trash: join(bench.home, 'trash'), mode };
      const outcome = await other.tree.recover(request);
      const state = mode === 'rollback' ? 'old' : 'new';
      expect(outcome.paths.map((path) => [path.path, path.state])).toEqual(
        ['a', 'd/b', 'gone', 'new'].map((path) => [path, state]),
      );
      const tree = () => bench.space.sh('find . -type f | sort | while read f; do echo "$f $(cat $f)"; done');
      expect(tree()).toBe(mode === 'rollback' ? './a 1\n./d/b 1\n./gone 1\n' : './a A\n./d/b B\n./new N\n');
      expect(existsSync(journal)).toBe(false);
      await other.tree.recover(request);
      expect(tree()).toBe(mode === 'rollback' ? './a 1\n./d/b 1\n./gone 1\n' : './a A\n./d/b B\n./new N\n');
      await other.close();
    },
  );

  test('recovery leaves a foreign edit where it is, and says neither', async () => {
    await using bench = await prepare('echo 1 >a; echo 1 >b');
    const { journal } = await bench.apply(
      [
        { path: rel('a'), expect: await bench.version('a'), target: await bench.blob('A') },
        { path: rel('b'), expect: await bench.version('b'), target: await bench.blob('B') },
      ],
      { finish: false },
    );
    bench.space.sh('echo foreign>a');
    const { paths } = await bench.tree.recover({ journal, trash: join(bench.home, 'trash'), mode: 'rollback' });
    expect(paths.map(({ path, state }) => [path, state])).toEqual([
      ['a', 'neither'],
      ['b', 'old'],
    ]);
    expect(bench.space.sh('cat a b')).toBe('foreign\n1\n');
  });

  test('a damaged or empty journal is ended without touching a file', async () => {
    await using bench = await prepare('echo 1 >a');
    for (const bytes of ['', 'garbage', '\u0001'.repeat(200)]) {
      const journal = bench.journal(newId());
      writeFileSync(journal, bytes);
      const outcome = await bench.tree
        .recover({ journal, trash: join(bench.home, 'trash'), mode: 'rollback' })
        .catch((error: { code: string }) => error.code);
      expect(typeof outcome === 'string' ? outcome : outcome.paths).toEqual(
        typeof outcome === 'string' ? 'ERR_STORE_CORRUPT' : [],
      );
      expect(bench.space.read('a')).toBe('1\n');
    }
  });

  test('kept inodes are dropped by emptyTrash when nothing moved, and ingested when something did', async () => {
    await using bench = await prepare('echo 1 >a; echo 1 >b');
    await bench.apply([
      { path: rel('a'), expect: await bench.version('a'), target: await bench.blob('A') },
      { path: rel('b'), expect: await bench.version('b'), target: await bench.blob('B') },
    ]);
    const trash = join(bench.home, 'trash');
    const [late] = readdirSync(trash);
    writeFileSync(join(trash, late as string), 'written late');
    const { lateWrites } = await bench.tree.emptyTrash(trash);
    expect(lateWrites.length).toBe(1);
    const [found] = lateWrites;
    expect(Buffer.from(await bench.segments.read(found?.hash as string)).toString()).toBe('written late');
  });

  test('abilities were found by trying, and name a rung of the ladder', async () => {
    await using bench = await prepare('echo 1 >a');
    const abilities = await bench.tree.abilities();
    expect(['exchange+lease', 'exchange', 'take-out+link', 'refuse']).toContain(abilities.guard);
    expect(abilities.tickNs > 0n).toBe(true);
    expect(abilities.symlinks && abilities.execBit).toBe(true);
    expect(bench.space.sh('ls -A'), 'nothing was made in the root').toBe('a\n');
  });
});
