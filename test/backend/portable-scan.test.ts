/** Scan, ingest and coverage of the portable backend (DESIGN §4.1, §4.2), through the contract. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { asRelPath, decodeName } from '../../src/rel-path.ts';
import { git, NO_SOURCES, TreeKit, told, toldVersion } from './tree-kit.ts';

let kit: TreeKit;
beforeEach(async () => {
  kit = await TreeKit.make(new PortableBackend());
});
afterEach(() => kit.close());

const paths = (list: readonly string[]) => list.map(asRelPath);

describe('a look', () => {
  test('a first look takes files, links, folders and modes as they are', async () => {
    kit.write('src/main.ts', 'hello');
    kit.write('run.sh', '#!');
    chmodSync(join(kit.root, 'run.sh'), 0o755);
    mkdirSync(join(kit.root, 'empty'), { mode: 0o700 });
    symlinkSync('src/main.ts', join(kit.root, 'link'));
    const { changes, scan } = await kit.boundary();
    expect(changes.map(told)).toEqual([
      'empty: absent -> dir',
      'link: absent -> link src/main.ts',
      'run.sh: absent -> file 2',
      'src: absent -> dir',
      'src/main.ts: absent -> file 5',
    ]);
    expect(changes.map(({ after }) => ('mode' in after ? after.mode.toString(8) : ''))).toEqual([
      '700',
      '',
      '755',
      '755',
      '644',
    ]);
    expect([scan.files, scan.suspects]).toEqual([3, 2]);
  });

  test('a warm clean look reads no folder, hashes no file and asks no rule', async () => {
    kit.write('.gitignore', '*.o\n');
    for (let i = 0; i < 20; i++) kit.write(`d${i % 4}/f${i}`);
    kit.write('d0/x.o');
    await kit.boundary();
    kit.settle();
    await kit.boundary();
    const { scan, changes } = await kit.boundary();
    expect(changes).toEqual([]);
    expect(scan.counters.dirsRead).toBe(0);
    expect(scan.counters.rulesEvaluated).toBe(0);
    expect(scan.suspects).toBe(0);
    expect(scan.counters.statCalls).toBeLessThanOrEqual(28);
    const turn = await kit.observe();
    expect([turn.scan.counters.dirsRead, turn.scan.counters.rulesEvaluated, turn.scan.suspects]).toEqual([0, 0, 0]);
  });

  test('edits, new and deleted names, chmod and changed kinds are told in the order of path bytes', async () => {
    for (const path of ['a-b', 'a/x', 'a/y', 'kind', 'mode']) kit.write(path);
    symlinkSync('old', join(kit.root, 'link'));
    await kit.boundary();
    kit.write('a/x', 'new content');
    rmSync(join(kit.root, 'a/y'));
    rmSync(join(kit.root, 'kind'));
    mkdirSync(join(kit.root, 'kind'));
    kit.write('kind/below');
    chmodSync(join(kit.root, 'mode'), 0o600);
    rmSync(join(kit.root, 'link'));
    symlinkSync('new', join(kit.root, 'link'));
    rmSync(join(kit.root, 'a-b'));
    const { changes } = await kit.observe();
    expect(changes.map(told)).toEqual([
      'a-b: file 4 -> absent',
      'a/x: file 4 -> file 11',
      'a/y: file 4 -> absent',
      'kind: file 5 -> dir',
      'kind/below: absent -> file 11',
      'link: link old -> link new',
      'mode: file 5 -> file 5',
    ]);
  });

  test('a folder that goes takes all below it, and one that becomes a file too', async () => {
    for (const path of ['d/e/f', 'd/g', 't/u/v']) kit.write(path);
    await kit.boundary();
    rmSync(join(kit.root, 'd'), { recursive: true });
    rmSync(join(kit.root, 't'), { recursive: true });
    kit.write('t', 'file');
    const { changes } = await kit.observe();
    expect(changes.map(told)).toEqual([
      'd: dir -> absent',
      'd/e: dir -> absent',
      'd/e/f: file 6 -> absent',
      'd/g: file 4 -> absent',
      't: dir -> file 4',
      't/u: dir -> absent',
      't/u/v: file 6 -> absent',
    ]);
    expect((await kit.observe()).changes).toEqual([]);
  });

  test('a same-size edit right after a look is seen, with the old mtime put back too', async () => {
    kit.write('f', 'one');
    await kit.boundary();
    for (let i = 0; i < 20; i++) {
      const { atime, mtime } = statSync(join(kit.root, 'f'));
      kit.write('f', `${100 + i}`);
      utimesSync(join(kit.root, 'f'), atime, mtime);
      const { changes } = await kit.observe();
      expect(changes.map(told)).toEqual(['f: file 3 -> file 3']);
    }
  });

  test('a touched file is read once and is no change', async () => {
    kit.write('f');
    await kit.boundary();
    kit.settle();
    utimesSync(join(kit.root, 'f'), 1, 1);
    kit.settle();
    const first = await kit.observe();
    expect([first.scan.suspects, first.changes.length]).toEqual([1, 0]);
    expect((await kit.observe()).scan.suspects).toBe(0);
  });

  test('names that are not UTF-8, and links to such, come through unharmed', async () => {
    const name = Buffer.from([0x66, 0xff, 0xfe, 0x2e, 0x63]);
    writeFileSync(Buffer.concat([Buffer.from(`${kit.root}/`), name]), 'x');
    symlinkSync(Buffer.from([0xc3, 0x28]), join(kit.root, 'link'));
    const { changes } = await kit.boundary();
    expect(changes.map(({ path }) => path)).toEqual([decodeName(name), 'link']);
    expect(changes[1]?.after).toEqual({ kind: 'symlink', target: '\udcc3(' });
    expect(await kit.tree.list(asRelPath(''))).toEqual([decodeName(name), 'link']);
    expect((await kit.tree.versions([asRelPath(decodeName(name))])).map(toldVersion)).toEqual(['file 1']);
  });

  test('`rehash` trusts no stat key; `only` looks at nothing else', async () => {
    kit.write('a');
    kit.write('d/b');
    await kit.boundary();
    kit.settle();
    expect((await kit.observe({ rehash: true })).scan.suspects).toBe(2);
    kit.write('a', 'changed');
    kit.write('d/b', 'changed');
    kit.write('new/deep/c');
    const first = await kit.observe({ only: paths(['d/b', 'new/deep/c', 'nothing/here']) });
    expect(first.changes.map(told)).toEqual([
      'd/b: file 4 -> file 7',
      'new: absent -> dir',
      'new/deep: absent -> dir',
      'new/deep/c: absent -> file 11',
    ]);
    expect((await kit.observe()).changes.map(told)).toEqual(['a: file 2 -> file 7']);
  });

  test('`only` tells of a path that is gone, with the folder that held it', async () => {
    kit.write('d/e/f');
    kit.write('g');
    await kit.boundary();
    rmSync(join(kit.root, 'd'), { recursive: true });
    rmSync(join(kit.root, 'g'));
    expect((await kit.observe({ only: paths(['d/e/f', 'g']) })).changes.map(told)).toEqual([
      'd: dir -> absent',
      'd/e: dir -> absent',
      'd/e/f: file 6 -> absent',
      'g: file 2 -> absent',
    ]);
    expect((await kit.observe()).changes).toEqual([]);
  });

  test('limits: too many entries and a changed root are errors, and the index stays', async () => {
    for (let i = 0; i < 12; i++) kit.write(`f${i}`);
    await kit.reopen({ maxEntries: 10 });
    await expect(kit.tree.scan({ renewRules: NO_SOURCES })).rejects.toMatchObject({ code: 'ERR_TOO_MANY_ENTRIES' });
    await kit.reopen();
    await kit.boundary();
    renameSync(kit.root, `${kit.root}.away`);
    await expect(kit.tree.scan()).rejects.toMatchObject({ code: 'ERR_ROOT_CHANGED' });
    mkdirSync(kit.root);
    await expect(kit.tree.scan()).rejects.toMatchObject({ code: 'ERR_ROOT_CHANGED' });
    expect((await kit.tree.list(asRelPath(''))).length).toBe(12);
  });

  test('an aborted look rejects and moves nothing; progress is told', async () => {
    for (let i = 0; i < 300; i++) kit.write(`d${i}/f`, `${i}`);
    const aborted = new AbortController();
    aborted.abort();
    await expect(kit.tree.scan({ renewRules: NO_SOURCES, signal: aborted.signal })).rejects.toMatchObject({
      code: 'ERR_CANCELLED',
    });
    const during = new AbortController();
    const { set } = await kit.tree.scan({ renewRules: NO_SOURCES });
    const seen: number[] = [];
    const ingest = kit.tree.ingest(set, {
      signal: during.signal,
      onProgress: ({ done, total }) => {
        seen.push(total ?? 0);
        expect(done).toBeGreaterThan(0);
        during.abort();
      },
    });
    await expect(ingest).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    expect(seen.length).toBeGreaterThan(0);
    expect(await kit.tree.list(asRelPath(''))).toEqual([]);
    await kit.boundary();
    expect((await kit.tree.list(asRelPath(''))).length).toBe(600);
  });

  test('a look in a turn needs rules that a boundary froze', async () => {
    await expect(kit.tree.scan()).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('a set is gone once a newer look was made', async () => {
    const first = await kit.tree.scan({ renewRules: NO_SOURCES });
    await kit.tree.scan({ renewRules: NO_SOURCES });
    await expect(kit.tree.changes(first.set)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });
});

describe('coverage', () => {
  test('secrets are stat-ed and never read, tracked or ignored; samples and folders are no secrets', async () => {
    git(kit.root, kit.base, 'init', '-q');
    kit.write('.env', 'KEY=1');
    kit.write('pkg/.env.local', 'KEY=2');
    kit.write('pkg/.env.example', 'KEY=');
    kit.write('venv/.env/bin', 'x');
    kit.write('.gitignore', '.env\n!.env/\n');
    git(kit.root, kit.base, 'add', '-f', '.');
    const repo = { top: kit.root, gitDir: join(kit.root, '.git'), commonDir: join(kit.root, '.git') };
    const { scan } = await kit.boundary({ repo });
    const { set } = await kit.tree.scan();
    await kit.tree.ingest(set);
    expect(await kit.tree.uncovered(set)).toEqual([
      { path: '.env', reason: 'secret' },
      { path: 'pkg/.env.local', reason: 'secret' },
    ]);
    expect(scan.files).toBe(3);
    kit.write('.env', 'KEY=22');
    expect((await kit.observe()).changes.map(told)).toEqual(['.env: uncovered secret -> uncovered secret']);
    const named = await kit.boundary({ repo, include: ['.env.local'] });
    expect(named.changes.map(told)).toEqual(['pkg/.env.local: uncovered secret -> file 5 flags 8']);
  });

  test('too large, special files and nested .git are listed; none of them is opened', async () => {
    kit.write('big', Buffer.alloc(1 << 20));
    kit.write('bigger', Buffer.alloc((1 << 20) + 1));
    execFileSync('mkfifo', [join(kit.root, 'pipe')]);
    const server = createServer().listen(join(kit.root, 'sock'));
    await new Promise((done) => server.once('listening', done));
    git(kit.root, kit.base, 'init', '-q', 'sub');
    kit.write('sub/x');
    const { changes } = await kit.boundary();
    expect(changes.map(told)).toEqual([
      'big: absent -> file 1048576',
      'bigger: absent -> uncovered too-large',
      'pipe: absent -> fifo',
      'sock: absent -> socket',
      'sub: absent -> dir',
      'sub/.git: absent -> uncovered git',
      'sub/x: absent -> file 6',
    ]);
    const { set } = await kit.tree.scan();
    await kit.tree.ingest(set);
    expect(await kit.tree.uncovered(set)).toEqual([
      { path: 'bigger', reason: 'too-large' },
      { path: 'pipe', reason: 'special' },
      { path: 'sock', reason: 'special' },
      { path: 'sub/.git', reason: 'git' },
    ]);
    writeFileSync(join(kit.root, 'sub/.git/config'), 'x');
    expect((await kit.observe()).changes).toEqual([]);
    rmSync(join(kit.root, 'sub/.git'), { recursive: true });
    expect((await kit.observe()).changes.map(told)).toEqual(['sub/.git: uncovered git -> absent']);
    await new Promise((done) => server.close(done));
  });

  test("the root's own .git, skipped paths and our temp files have no entry", async () => {
    git(kit.root, kit.base, 'init', '-q');
    kit.write('.takeback/x');
    kit.write(`d/.takeback-${'0'.repeat(32)}-3.tmp`);
    kit.write('d/.takeback-x.tmp');
    await kit.reopen({ skip: paths(['.takeback']) });
    const { changes } = await kit.boundary();
    expect(changes.map(({ path }) => path)).toEqual(['d', 'd/.takeback-x.tmp']);
  });

  test('on a file system that folds no case, another spelling of .git is a name like any other', async () => {
    kit.write('d/.GIT/x');
    const folds = lstatSync(join(kit.root, 'd/.git'), { throwIfNoEntry: false }) !== undefined;
    const { changes } = await kit.boundary();
    expect(changes.map(({ path }) => path)).toEqual(folds ? ['d', 'd/.GIT'] : ['d', 'd/.GIT', 'd/.GIT/x']);
  });

  test('a file that moves while it is read, and a folder swapped for a link, are not taken for what they were', async () => {
    kit.write('d/f', 'inside');
    mkdirSync(join(kit.base, 'outside'));
    writeFileSync(join(kit.base, 'outside/f'), 'secret outside');
    const { set } = await kit.tree.scan({ renewRules: NO_SOURCES });
    rmSync(join(kit.root, 'd'), { recursive: true });
    symlinkSync(join(kit.base, 'outside'), join(kit.root, 'd'));
    const ingested = await kit.tree.ingest(set);
    expect(ingested.storedFiles).toBe(0);
    expect((await kit.tree.changes(set)).map(told)).toEqual([`d: absent -> link ${join(kit.base, 'outside')}`]);
    await kit.tree.commit(set, kit.position());
    expect((await kit.observe()).changes).toEqual([]);
  });

  test('a file that goes or turns into something else before it is read is told as what it is then', async () => {
    for (const path of ['gone', 'link', 'stays']) kit.write(path);
    await kit.boundary();
    for (const path of ['gone', 'link', 'stays', 'new']) kit.write(path, 'changed');
    const { set } = await kit.tree.scan();
    for (const path of ['gone', 'link', 'new']) rmSync(join(kit.root, path));
    symlinkSync('stays', join(kit.root, 'link'));
    expect(await kit.tree.ingest(set)).toMatchObject({ filesHashed: 1, storedFiles: 1, left: 0, problems: [] });
    expect((await kit.tree.changes(set)).map(told)).toEqual([
      'gone: file 5 -> absent',
      'link: file 5 -> link stays',
      'stays: file 6 -> file 7',
    ]);
  });

  test('what a deadline left is out-of-time, and read later under the same stat key it is late', async () => {
    kit.write('a/first');
    kit.write('b', '22');
    kit.settle();
    const { set } = await kit.tree.scan({ renewRules: NO_SOURCES });
    const { left, filesHashed } = await kit.tree.ingest(set, { deadlineMs: Date.now() - 1 });
    expect([left, filesHashed]).toEqual([2, 0]);
    expect(await kit.tree.uncovered(set)).toEqual([
      { path: 'a/first', reason: 'out-of-time' },
      { path: 'b', reason: 'out-of-time' },
    ]);
    await kit.tree.commit(set, kit.position());
    kit.write('b', '333');
    const { changes } = await kit.observe();
    expect(changes.map(told)).toEqual([
      'a/first: uncovered out-of-time -> file 8 flags 4',
      'b: uncovered out-of-time -> file 3',
    ]);
  });

  test('`first` is read before the rest, and `hashOnly` stores nothing', async () => {
    for (let i = 0; i < 5; i++) kit.write(`f${i}`, `${i}`);
    const { set } = await kit.tree.scan({ renewRules: NO_SOURCES });
    const hashed = await kit.tree.ingest(set, { hashOnly: true });
    expect([hashed.filesHashed, hashed.storedFiles]).toEqual([5, 0]);
    expect((await kit.segments.stats()).blobs).toBe(0);
  });

  test('a manifest is every path with its version, and a tree that was reset to it finds nothing changed', async () => {
    kit.write('d/f');
    symlinkSync('x', join(kit.root, 'l'));
    const scan = await kit.tree.scan({ renewRules: NO_SOURCES });
    await kit.tree.ingest(scan.set);
    const { hash, entries } = await kit.tree.manifest(scan.set);
    expect(entries).toBe(3);
    await kit.tree.commit(scan.set, kit.position());
    const rules = (await kit.tree.rules()) as Uint8Array;
    await kit.reopen();
    await kit.tree.setRules(rules);
    await kit.tree.reset(hash, kit.position());
    const again = await kit.observe();
    expect([again.scan.suspects, again.changes.length]).toEqual([1, 0]);
    expect(await kit.tree.list(asRelPath(''))).toEqual(['d', 'd/f', 'l']);
  });

  test("rows of another process are taken in, and a look at them finds this disk's state", async () => {
    kit.write('mine', '1');
    kit.write('theirs', '1');
    await kit.boundary();
    kit.write('mine', '22');
    const scan = await kit.tree.scan();
    await kit.tree.ingest(scan.set);
    kit.write('theirs', '333');
    kit.write('made/new', 'n');
    const hash = await kit.segments.put(Buffer.from('333'));
    await kit.tree.catchUp(
      [
        { path: asRelPath('gone'), after: { kind: 'absent' } },
        { path: asRelPath('made'), after: { kind: 'dir', mode: 0o755 } },
        { path: asRelPath('theirs'), after: { kind: 'file', mode: 0o644, size: 3, content: hash } },
      ],
      { seq: 5, observationId: '5'.repeat(32) },
    );
    await kit.tree.look(scan.set, paths(['theirs', 'made', 'made/new']));
    expect((await kit.tree.changes(scan.set)).map(told)).toEqual([
      'made/new: absent -> file 1',
      'mine: file 1 -> file 2',
    ]);
    kit.seq = 6;
    await kit.tree.commit(scan.set, kit.position());
    expect((await kit.observe()).changes).toEqual([]);
    expect(readFileSync(join(kit.root, 'theirs'), 'utf8')).toBe('333');
  });
});
