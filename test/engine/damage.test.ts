/** What a damaged, full, foreign or read-only store does: a typed answer or a repair, never a wrong tree, never a lost file. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { workspaceDir } from '../../src/data-dir.ts';
import { openWorkspace } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { Space } from '../kit/space.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

const home = (story: Story): string => workspaceDir(story.space.dataDir, story.space.root);

/** Two turns over some files; closed. */
async function used(backend: 'native' | 'portable'): Promise<Story> {
  const story = await Story.begin(backend, 'mkdir d; for f in a b c d/x d/y; do echo 1 >$f; done');
  await story.cp('m1');
  await story.t('echo 2 >a; rm b; echo n >d/new');
  await story.cp('m2');
  await story.t('echo 3 >a; echo 3 >c');
  await story.workspace.close();
  return story;
}

describeBackends('damage', (backend) => {
  test.each(['missing', 'empty', 'garbage', 'torn'])(
    'an index file that is %s is made anew, and nothing is missed',
    async (how) => {
      await using story = await used(backend);
      const index = join(home(story), 'index');
      if (how === 'missing') rmSync(index);
      else if (how === 'torn') truncateSync(index, statSync(index).size - 7);
      else writeFileSync(index, how === 'empty' ? '' : 'x'.repeat(5000));
      story.u('echo user >d/y');
      await story.reopen();
      expect(digest(await story.undo('m1'))).toEqual({
        outcome: 'done',
        restored: { a: 'restore', b: 'recreate', c: 'restore', 'd/new': 'delete' },
      });
      expect(story.space.sh('cat a b c d/x d/y')).toBe('1\n1\n1\n1\nuser\n');
      expect(got(await story.workspace.verify())).toMatchObject({ ok: true });
    },
  );

  test('an older index file is caught up with the timeline', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 1 >g');
    await story.cp('a');
    await story.workspace.close();
    const index = join(home(story), 'index');
    const old = readFileSync(index);
    await story.reopen();
    await story.t('echo 2 >f; rm g');
    await story.workspace.close();
    writeFileSync(index, old);
    await story.reopen();
    expect(await story.t('true'), 'nothing is found twice').toEqual([]);
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore', g: 'recreate' } });
  });

  test('an index of another store is not believed', async () => {
    await using one = await used(backend);
    await using two = await Story.begin(backend, 'echo other >a');
    await two.cp('x');
    await two.workspace.close();
    cpSync(join(home(one), 'index'), join(home(two), 'index'));
    await two.reopen();
    await two.t('echo changed >a');
    expect(digest(await two.undo('x'))).toEqual({ outcome: 'done', restored: { a: 'restore' } });
    expect(two.space.read('a')).toBe('other\n');
  });

  test.each(['timeline.db', 'lock.db'])(
    '%s full of garbage is store-corrupt or made anew, is left as it is, and the tree is untouched',
    async (name) => {
      await using story = await used(backend);
      const file = join(home(story), name);
      writeFileSync(file, 'not a database '.repeat(1000));
      for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
      const before = contents(snapshot(story.space.root));
      await using workspace = await openWorkspace({ root: story.space.root, dataDir: story.space.dataDir, backend });
      if (!workspace.available) {
        expect(workspace.reason).toBe('store-corrupt');
        expect(workspace.detail).toContain(name);
        expect(readFileSync(file, 'utf8')).toBe('not a database '.repeat(1000));
      }
      expect(contents(snapshot(story.space.root))).toEqual(before);
    },
  );

  test('pages of the timeline that were overwritten never give a wrong tree', async () => {
    await using story = await used(backend);
    const file = join(home(story), 'timeline.db');
    const whole = readFileSync(file);
    const before = contents(snapshot(story.space.root));
    for (let page = 1; page < Math.min(whole.length / 4096, 20); page++) {
      const bytes = Buffer.from(whole);
      bytes.fill(0xa5, page * 4096 + 100, page * 4096 + 1100);
      for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
      writeFileSync(file, bytes);
      await using workspace = await openWorkspace({
        root: story.space.root,
        dataDir: story.space.dataDir,
        backend,
        durability: 'fast',
      });
      const verified = await workspace.verify().catch((error: { code: string }) => error.code);
      const plan = await workspace
        .session({ threadId: 's1' })
        .plan('m1')
        .catch((error: { code: string }) => error.code);
      if (typeof plan !== 'string' && plan.available) {
        for (const entry of plan.entries) expect(['a', 'b', 'c', 'd/new']).toContain(entry.path);
        if (plan.entries.length !== 4 && typeof verified !== 'string')
          expect(verified).not.toMatchObject({ available: true, ok: true });
      }
      expect(contents(snapshot(story.space.root))).toEqual(before);
    }
  });

  test('a store of a newer version is left untouched, and says so', async () => {
    await using story = await used(backend);
    const file = join(home(story), 'timeline.db');
    const database = new DatabaseSync(file);
    database.exec('PRAGMA user_version = 99');
    database.close();
    const bytes = readFileSync(file);
    await using workspace = await openWorkspace({ root: story.space.root, dataDir: story.space.dataDir, backend });
    expect(workspace).toMatchObject({ available: false, reason: 'store-newer' });
    expect(Buffer.compare(readFileSync(file), bytes)).toBe(0);
  });

  test('segments that are gone, garbled or torn fail those paths only, and verify tells', async () => {
    for (const how of ['gone', 'garbled', 'torn'] as const) {
      await using story = await used(backend);
      const segments = join(home(story), 'segments');
      for (const name of readdirSync(segments)) {
        const file = join(segments, name);
        if (how === 'gone' || name.endsWith('.idx')) rmSync(file);
        else if (how === 'torn') truncateSync(file, 40);
        else writeFileSync(file, readFileSync(file).fill(0x5a, 60));
      }
      await story.reopen();
      const before = contents(snapshot(story.space.root));
      const receipt = await story.undo('m1');
      const failed = receipt.failed.map(({ path, reason }) => [path, /^blob-(missing|corrupt)$/.test(reason ?? '')]);
      expect(failed, how).toEqual([
        ['a', true],
        ['b', true],
        ['c', true],
      ]);
      expect(receipt.outcome).toBe('partial');
      expect(digest(receipt).restored).toEqual({ 'd/new': 'delete' });
      const { 'd/new': _, ...rest } = before;
      expect(contents(snapshot(story.space.root))).toEqual(rest);
      expect(got(await story.workspace.verify()).ok).toBe(false);
      expect((await story.cp('again')).complete, 'captures go on').toBe(true);
    }
  });

  test('a journal that is garbage does not stop the workspace', async () => {
    await using story = await used(backend);
    writeFileSync(join(home(story), 'journal', `${'a'.repeat(32)}.journal`), 'garbage');
    const before = contents(snapshot(story.space.root));
    await story.reopen();
    expect(contents(snapshot(story.space.root))).toEqual(before);
    expect(digest(await story.undo('m2'))).toEqual({ outcome: 'done', restored: { a: 'restore', c: 'restore' } });
  });

  test('a data directory that is the root, or a file, is refused before anything is made', async () => {
    await using space = new Space();
    space.write('file', 'x');
    const { root } = space;
    await expect(openWorkspace({ root, dataDir: root, backend })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
    expect(await openWorkspace({ root, dataDir: join(root, 'file'), backend })).toMatchObject({
      available: false,
      reason: 'data-dir-unwritable',
    });
    expect(await openWorkspace({ root, dataDir: join(root, 'file', 'x'), backend })).toMatchObject({
      available: false,
      reason: 'data-dir-unwritable',
    });
    expect(space.sh('ls -A')).toBe('file\n');
  });

  test('a data directory inside the root is never captured, planned or deleted', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f', { space: { dataDir: 'w/.data/cp' } });
    const capture = await story.cp('a');
    expect(capture.scannedFiles).toBe(1);
    const changes = await story.t('echo 2 >f');
    expect(changes.map((change) => change.path)).toEqual(['f']);
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
    expect(got(await story.workspace.verify()).ok).toBe(true);
  });
});

/** A file system of a few megabytes; null where none can be mounted. */
function smallDisk(folder: string, options: string): (() => void) | null {
  mkdirSync(folder, { recursive: true });
  const mount = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]);
  return mount.status === 0 ? () => void spawnSync('umount', ['-l', folder]) : null;
}

const probe = new Space();
const unmount = smallDisk(join(probe.base, 'probe'), 'size=1m');
unmount?.();
await probe[Symbol.asyncDispose]();

describeBackends('full disks', (backend) => {
  test.skipIf(unmount === null)(
    'a full data directory answers no-space, loses nothing, and goes on when there is room',
    async () => {
      const space = new Space();
      const end = smallDisk(space.dataDir, 'size=3m,mode=0700');
      try {
        space.write('f', '1\n');
        let workspace = await space.open(backend);
        const session = () => workspace.session({ threadId: 's' });
        got(await session().capture('a'));
        got(await session().beginCall('c'));
        space.write('f', '2\n');
        space.write('big', Buffer.from(Array.from({ length: 4 * 1024 * 1024 }, () => Math.floor(Math.random() * 256))));
        expect(await session().endCall('c')).toMatchObject({ available: false, reason: 'no-space' });
        expect(space.read('f')).toBe('2\n');
        rmSync(join(space.root, 'big'));
        const seen = await session().capture('b');
        expect(seen).toMatchObject({ available: true, complete: true });
        expect(digest(got(await session().restore('a')))).toMatchObject({ restored: { f: 'restore' } });
        expect(space.read('f')).toBe('1\n');
        await workspace.close();
        workspace = await space.open(backend);
        expect(got(await workspace.verify())).toMatchObject({ ok: true, problems: [] });
        await workspace.close();
      } finally {
        end?.();
        await space[Symbol.asyncDispose]();
      }
    },
  );

  test.skipIf(unmount === null)(
    'a full root fails those paths, keeps every file whole, and leaves no temp file',
    async () => {
      const space = new Space();
      const end = smallDisk(space.root, 'size=2m');
      try {
        space.write('small', '1\n');
        space.write('big', Buffer.alloc(1024 * 1024, 7));
        const workspace = await space.open(backend);
        const session = workspace.session({ threadId: 's' });
        got(await session.capture('a'));
        got(await session.beginCall('c'));
        space.write('small', '2\n');
        rmSync(join(space.root, 'big'));
        got(await session.endCall('c'));
        space.sh('head -c 1500000 /dev/zero >filler');
        const receipt = got(await session.restore('a'));
        expect(digest(receipt)).toEqual({
          outcome: 'partial',
          restored: { small: 'restore' },
          failed: { big: 'no-space' },
        });
        // The root is another device than the store: what came out of it is kept in its own trash, until gc.
        expect(space.sh('cat small; ls -A')).toBe('1\n.takeback\nfiller\nsmall\n');
        rmSync(join(space.root, 'filler'));
        expect(digest(got(await session.restore('a')))).toEqual({ outcome: 'done', restored: { big: 'recreate' } });
        expect(statSync(join(space.root, 'big')).size).toBe(1024 * 1024);
        await workspace.close();
      } finally {
        end?.();
        await space[Symbol.asyncDispose]();
      }
    },
  );

  test.skipIf(unmount === null)(
    'a read-only data directory is an answer, and the root another device than it is no hindrance',
    async () => {
      const space = new Space();
      const end = smallDisk(space.dataDir, 'size=8m,mode=0700');
      try {
        space.write('f', '1\n');
        let workspace = await space.open(backend);
        const session = workspace.session({ threadId: 's' });
        got(await session.capture('a'));
        got(await session.beginCall('c'));
        space.write('f', '2\n');
        space.sh('mkdir d; ln -s f d/l');
        got(await session.endCall('c'));
        expect(digest(got(await session.restore('a')))).toEqual({
          outcome: 'done',
          restored: { 'd/l': 'delete', f: 'restore' },
        });
        expect(space.sh('cat f; ls -A')).toMatch(/^1\n(\.takeback\n)?f\n$/);
        got(await workspace.gc());
        expect(space.sh('ls -A'), 'the trash of the root goes with gc').toBe('f\n');
        await workspace.close();
        spawnSync('mount', ['-o', 'remount,ro', space.dataDir]);
        const readOnly = await openWorkspace({ root: space.root, dataDir: space.dataDir, backend });
        expect(readOnly).toMatchObject({ available: false });
        expect(['data-dir-unwritable', 'permission-denied']).toContain(readOnly.reason);
        spawnSync('mount', ['-o', 'remount,rw', space.dataDir]);
        workspace = await space.open(backend);
        await workspace.close();
      } finally {
        end?.();
        await space[Symbol.asyncDispose]();
      }
    },
  );
});
