/** Calls: declared paths, nesting, detached and interrupted ones, overlapping roots, turns (DESIGN §5). */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { TreeOptions } from '../../src/backend/backend.ts';
import { NativeBackend } from '../../src/backend/native.ts';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { openWorkspace } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest, digest, NOTHING } from '../kit/digest.ts';
import { Agent } from '../kit/process.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('calls', (backend) => {
  test('a call with declared paths owns nothing else; [] owns nothing at all', async () => {
    await using story = await Story.begin(backend, 'mkdir d; for f in a b d/x; do echo 1 >$f; done');
    const session = story.session();
    await story.cp('m');
    got(await session.beginCall('c', { paths: ['d'] }));
    story.u('echo 2 >a; echo 2 >d/x; echo n >d/new');
    expect(changeDigest(got(await session.endCall('c')).changes)).toEqual({ 'd/new': 'created', 'd/x': 'modified' });
    got(await session.beginCall('read', { paths: [] }));
    story.u('echo 2 >b');
    expect(got(await session.endCall('read')).changes).toEqual([]);
    expect(digest(await story.undo('m'))).toEqual({
      outcome: 'done',
      restored: { 'd/new': 'delete', 'd/x': 'restore' },
    });
  });

  test('paths declared at the end count from the begin', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a; echo 1 >b');
    const session = story.session();
    await story.cp('m');
    got(await session.beginCall('c'));
    story.u('echo 2 >a; echo 2 >b');
    got(await session.endCall('c', { paths: ['a'] }));
    expect(digest(await story.undo('m'))).toEqual({ outcome: 'done', restored: { a: 'restore' } });
  });

  test('a declared path beside another session’s undeclared call is the declarer’s, with a note', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    const [s1, s2] = [story.session('s1'), story.session('s2')];
    await story.cp('m', { session: s1 });
    await story.cp('m', { session: s2 });
    got(await s2.beginCall('wild'));
    got(await s1.beginCall('c', { paths: ['a'] }));
    story.u('echo 2 >a');
    got(await s1.endCall('c'));
    got(await s2.endCall('wild'));
    const [entry] = (await story.plan('m', { session: s1 })).entries;
    expect([entry?.path, entry?.action, entry?.detail]).toEqual(['a', 'restore', 'shared-window']);
    expect(digest(await story.undo('m', { session: s2 }))).toEqual(NOTHING);
  });

  test('a subagent’s call lies in its parent’s: both sessions own the row, and are never contested', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a; echo 1 >b');
    const [parent, child] = [story.session('parent'), story.session('child')];
    await story.cp('m', { session: parent });
    await story.cp('m', { session: child });
    got(await parent.beginCall('task'));
    got(await child.beginCall('sub', { parentCallId: 'task' }));
    story.u('echo 2 >a');
    expect(changeDigest(got(await child.endCall('sub')).changes)).toEqual({ a: 'modified' });
    story.u('echo 2 >b');
    expect(changeDigest(got(await parent.endCall('task')).changes)).toEqual({ b: 'modified' });
    expect(Object.keys((await story.plan('m', { session: child })).entries.map((e) => e.path))).toEqual(['0']);
    expect(digest(await story.undo('m', { session: parent }))).toEqual({
      outcome: 'done',
      restored: { a: 'restore', b: 'restore' },
    });
  });

  test('calls of one session may overlap; a change has all of them as candidates and is the session’s', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    const session = story.session();
    await story.cp('m');
    got(await session.beginCall('x'));
    got(await session.beginCall('y'));
    story.u('echo 2 >a');
    expect(changeDigest(got(await session.endCall('y')).changes)).toEqual({ a: 'modified' });
    expect(changeDigest(got(await session.endCall('x')).changes)).toEqual({ a: 'modified' });
    expect(digest(await story.undo('m'))).toEqual({ outcome: 'done', restored: { a: 'restore' } });
  });

  test('a capture while a call is open splits its changes by turn', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a; echo 1 >b');
    const session = story.session();
    await story.cp('m1');
    got(await session.beginCall('long'));
    story.u('echo 2 >a');
    await story.cp('m2');
    story.u('echo 2 >b');
    got(await session.endCall('long'));
    expect(changeDigest(got(await session.turnChanges('m1')).changes)).toEqual({ a: 'modified' });
    expect(changeDigest(got(await session.turnChanges('m2')).changes)).toEqual({ b: 'modified' });
    expect(got(await session.undo())).toMatchObject({ outcome: 'done' });
    expect(story.space.sh('cat a b')).toBe('2\n1\n');
  });

  test('callChanges tells what the newest run of one call changed, also where a call beside it may have', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a; echo 1 >b; echo 1 >c');
    const session = story.session();
    await story.cp('m1');
    got(await session.beginCall('x'));
    story.u('echo 2 >a');
    got(await session.beginCall('y'));
    story.u('echo 2 >b');
    got(await session.endCall('x'));
    story.u('echo 2 >c');
    expect(changeDigest(got(await session.callChanges('y')).changes), 'while it is open').toEqual({ b: 'modified' });
    got(await session.endCall('y'));
    story.u('echo users >a');
    expect(changeDigest(got(await session.callChanges('x')).changes)).toEqual({ a: 'modified', b: 'modified' });
    expect(changeDigest(got(await session.callChanges('y')).changes)).toEqual({ b: 'modified', c: 'modified' });
    got(await session.beginCall('x'));
    story.u('rm c');
    got(await session.endCall('x'));
    expect(changeDigest(got(await session.callChanges('x')).changes), 'the newest run').toEqual({ c: 'deleted' });
  });

  test('a detached call outlives its process, never blocks undo, and ends at the next capture', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    const { root, dataDir } = story.space;
    await story.workspace.close();
    const agent = new Agent({ root, dataDir, backend, durability: 'fast' }, [
      ['capture', 'm'],
      ['beginCall', 'hook', { detached: true }],
    ]);
    await agent.done();
    story.u('echo 2 >a');
    await story.reopen();
    got(await story.session().endCall('hook'));
    expect(digest(await story.undo('m'))).toEqual({ outcome: 'done', restored: { a: 'restore' } });
    got(await story.session().beginCall('left', { detached: true }));
    story.u('echo 3 >a');
    expect(got(await story.session().undo()).outcome, 'nothing observed yet').toMatch(/nothing|done/);
    await story.cp('n');
    const { items } = got(await story.session().timeline());
    expect(items).toContainEqual(expect.objectContaining({ type: 'call', callId: 'left', state: 'ended' }));
  });

  test('what a process wrote after another’s scan, and before it died, is its call’s all the same', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    const { root, dataDir } = story.space;
    await story.workspace.close();
    let afterScan: (() => Promise<void>) | null = null;
    const spies = [NativeBackend, PortableBackend].map((kind) => {
      const { openTree } = kind.prototype;
      return vi.spyOn(kind.prototype, 'openTree').mockImplementation(async function (
        this: never,
        options: TreeOptions,
      ) {
        const tree = await openTree.call(this, options);
        const scan = tree.scan.bind(tree);
        tree.scan = async (request) => {
          const result = await scan(request);
          const now = afterScan;
          afterScan = null;
          await now?.();
          return result;
        };
        return tree;
      });
    });
    const agent = new Agent({ root, dataDir, backend, durability: 'fast' }, [
      ['capture', 'm'],
      ['beginCall', 'c'],
      ['ready'],
      ['hold'],
    ]);
    await agent.line('ready');
    await story.reopen();
    afterScan = async () => {
      story.u('echo 2 >a');
      await agent.kill();
    };
    got(await story.session('other').capture('o'));
    for (const spy of spies) spy.mockRestore();
    expect(digest(await story.undo('m'))).toEqual({ outcome: 'nothing', refused: { a: 'incomplete' } });
    expect(digest(await story.undo('m', { onConflict: 'overwrite' })).restored).toEqual({ a: 'restore!incomplete' });
    expect(story.space.read('a')).toBe('1\n');
  });

  test('roots that contain each other: what changes while the other has a call open is contested', async () => {
    await using story = await Story.begin(backend, 'mkdir in; echo 1 >in/f; echo 1 >out');
    mkdirSync(join(story.space.root, 'in'), { recursive: true });
    await using inner = await openWorkspace({
      root: join(story.space.root, 'in'),
      dataDir: story.space.dataDir,
      backend,
      durability: 'fast',
    });
    const s = inner.session({ threadId: 'inner' });
    await story.cp('m');
    got(await s.capture('m'));
    got(await story.session().beginCall('outer'));
    got(await s.beginCall('inner'));
    story.u('echo 2 >in/f; echo 2 >out');
    got(await s.endCall('inner'));
    got(await story.session().endCall('outer'));
    expect(digest(await story.undo('m'))).toEqual({
      outcome: 'partial',
      restored: { out: 'restore' },
      refused: { 'in/f': 'contested' },
    });
    expect(got(await s.restore('m')).refused.map(({ path, reason }) => [path, reason])).toEqual([['f', 'contested']]);
    expect(story.space.read('in/f')).toBe('2\n');
  });

  test('a change that was undone by the same call is no change', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    await story.cp('m');
    expect(await story.t('cp -p a b; echo 2 >a; mv b a; mkdir d; rmdir d')).toEqual([]);
    expect(digest(await story.undo('m'))).toEqual(NOTHING);
  });

  test('a cancelled end of a call is recorded by the next observation', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a');
    const session = story.session();
    await story.cp('m');
    got(await session.beginCall('c'));
    story.u('echo 2 >a');
    await expect(session.endCall('c', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'ERR_CANCELLED',
    });
    got(await session.endCall('c'));
    expect(digest(await story.undo('m'))).toEqual({ outcome: 'done', restored: { a: 'restore' } });
  });
});
