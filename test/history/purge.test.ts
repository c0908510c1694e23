/** `purgeSnapshots`: a thread's snapshots go without an open session. */
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { purgeSnapshots } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('purgeSnapshots', (backend) => {
  async function begin(): Promise<Story> {
    const story = await Story.begin(backend, 'printf 0 >a');
    for (const session of [
      story.session('t1'),
      story.session('t2'),
      story.workspace.session({ threadId: 't1', tenantId: 'acme' }),
    ]) {
      await story.cp('m1', { session });
      await story.turnOf(session, `printf ${session.threadId}${session.tenantId} >a`);
    }
    return story;
  }

  const threads = async (story: Story): Promise<string[]> =>
    got(await story.workspace.sessions()).sessions.map((s) => `${s.tenantId ?? ''}/${s.threadId}`);

  test('removes the snapshots of the thread in its tenant, and of no other', async () => {
    await using story = await begin();
    const { root, dataDir } = story.space;
    await story.workspace.close();
    got(await purgeSnapshots({ root, dataDir }, { tenantId: 'acme', threadId: 't1' }));
    await story.reopen();
    expect(await threads(story)).toEqual(['/t1', '/t2']);
    await story.workspace.close();
    got(await purgeSnapshots({ root, dataDir }, { threadId: 't1' }));
    expect(got(await purgeSnapshots({ root, dataDir }, { threadId: 't2' })).freedBytes).toBeGreaterThan(0);
    await story.reopen();
    expect(got(await story.workspace.stats()).counts).toMatchObject({ sessions: 0, rows: 0, blobs: 0 });
    expect(story.space.read('a')).toBe('t1acme');
  });

  test('works beside an open workspace of this process, by any spelling of the root', async () => {
    await using story = await begin();
    const link = join(story.space.base, 'link');
    symlinkSync(story.space.root, link);
    const capture = story.session('t2').capture('m2');
    got(await purgeSnapshots({ root: link, dataDir: story.space.dataDir }, { threadId: 't2' }));
    expect((await capture).available).toBe(true);
    expect(await threads(story)).toEqual(['/t1', 'acme/t1']);
    got(await story.session('t2').capture('m3'));
  });

  test('resolves where there is nothing, and makes no store', async () => {
    await using story = await begin();
    const { base, root, dataDir } = story.space;
    const nothing = { available: true, freedBytes: 0 };
    expect(await purgeSnapshots({ root, dataDir }, { threadId: 'none' })).toEqual(nothing);
    expect(await purgeSnapshots({ root, dataDir: join(base, 'other') }, { threadId: 't1' })).toEqual(nothing);
    expect(await purgeSnapshots({ root: join(base, 'nowhere'), dataDir }, { threadId: 't1' })).toEqual(nothing);
    expect(existsSync(join(base, 'other'))).toBe(false);
    expect(await threads(story)).toHaveLength(3);
  });

  test('refuses arguments of the wrong form', async () => {
    await using story = await begin();
    const { dataDir } = story.space;
    const invalid = { code: 'ERR_INVALID_ARGUMENT' };
    await expect(purgeSnapshots({ root: 'relative', dataDir }, { threadId: 't1' })).rejects.toMatchObject(invalid);
    await expect(purgeSnapshots({ root: story.space.root, dataDir }, { threadId: '' })).rejects.toMatchObject(invalid);
  });
});
