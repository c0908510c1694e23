/** A forked session takes back what it inherited, on its own. */
import { expect, test } from 'vitest';
import type { Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest, NOTHING } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('fork', (backend) => {
  /** Three turns of s1, with a call of s1 in each. */
  async function begin(): Promise<Story> {
    const story = await Story.begin(backend, 'printf a0 >a; printf gone >gone');
    await story.cp('m1');
    await story.t('printf a1 >a');
    await story.cp('m2');
    await story.t('printf a2 >a; rm gone');
    await story.cp('m3');
    await story.t('printf a3 >a; printf new >new');
    return story;
  }

  async function fork(story: Story, at: string, threadId = 'f', from = story.session()): Promise<Session> {
    got(await from.fork({ threadId }, { at }));
    return story.session(threadId);
  }

  const files = (story: Story, ...paths: string[]): (string | null)[] => paths.map((path) => story.space.bytes(path));
  const ids = async (session: Session): Promise<string[]> =>
    got(await session.timeline()).items.flatMap((item) => (item.type === 'boundary' ? [item.boundaryId] : []));

  test('inherits the boundaries up to `at`, and touches no file', async () => {
    await using story = await begin();
    const { session } = got(await story.session().fork({ threadId: 'f', tenantId: 't' }, { at: 'm2' }));
    expect(session).toMatchObject({
      threadId: 'f',
      tenantId: 't',
      boundaries: 2,
      openCalls: 0,
      newestBoundaryId: 'm2',
    });
    const forked = story.workspace.session({ threadId: 'f', tenantId: 't' });
    expect(await ids(forked)).toEqual(['m1', 'm2']);
    expect(await forked.restore('m3')).toMatchObject({ available: false, reason: 'unknown-boundary' });
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', null, 'new']);
    expect(got(await forked.timeline()).items.filter((item) => item.type === 'call')).toHaveLength(3);
  });

  test('restore(at) in the fork takes back the abandoned turns', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm2');
    expect(digest(await story.undo('m2', { session: forked }))).toEqual({
      outcome: 'done',
      restored: { a: 'restore', gone: 'recreate', new: 'delete' },
    });
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a1', 'gone', null]);
    expect(got(await forked.redo()).outcome).toBe('done');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', null, 'new']);
  });

  test('undo, revert and unrevert in the fork reach what it inherited', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm2');
    got(await forked.revert({ messageId: 'm1' }));
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a0', 'gone', null]);
    got(await forked.unrevert());
    got(await forked.undo());
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a1', 'gone', null]);
    got(await forked.undo());
    expect(files(story, 'a')).toEqual(['a0']);
    expect(got(await forked.undo()).message).toBe('Nothing to undo.');
  });

  test('each has its own marks: what the fork took back is still the original’s to take back, and the other way round', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm3');
    got(await forked.undo());
    expect(files(story, 'a', 'new')).toEqual(['a2', null]);
    // The disk is what the fork made of it: as if somebody else had edited, `a` is already as wanted.
    expect(digest(got(await story.session().restore('m3')))).toMatchObject({
      outcome: 'done',
      skipped: { a: 'already-matches', new: 'already-matches' },
    });
    expect(got(await forked.redo()).outcome).toBe('done');
    expect(files(story, 'a', 'new')).toEqual(['a3', 'new']);
  });

  test('parent and fork never contest what was inherited; later changes are their maker’s alone', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm2');
    const s1 = story.session();
    await story.cp('f1', { session: forked });
    await story.turnOf(forked, 'printf fork >fork');
    await story.cp('m4');
    await story.t('printf parent >parent');
    for (const session of [s1, forked])
      expect(got(await session.plan('m1')).entries.filter((entry) => entry.reason !== undefined)).toEqual([]);
    expect(got(await forked.plan('m2')).entries.map((entry) => entry.path)).toEqual(['a', 'fork', 'gone', 'new']);
    expect(got(await s1.plan('m2')).entries.map((entry) => entry.path)).toEqual(['a', 'gone', 'new', 'parent']);
    got(await forked.undo());
    expect(files(story, 'fork', 'parent', 'new')).toEqual([null, 'parent', 'new']);
    got(await s1.undo());
    expect(files(story, 'fork', 'parent', 'new')).toEqual([null, null, 'new']);
  });

  test('a file that the parent changed after the fork is kept by the fork', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm2');
    await story.cp('m4');
    await story.t('printf a4 >a');
    expect(digest(await story.undo('m2', { session: forked }))).toEqual({
      outcome: 'partial',
      restored: { gone: 'recreate', new: 'delete' },
      refused: { a: 'changed-outside-session' },
    });
    expect(files(story, 'a')).toEqual(['a4']);
  });

  test('what the parent had taken back at the fork is taken back for the fork, whatever the parent does later', async () => {
    await using story = await begin();
    got(await story.session().undo());
    const forked = await fork(story, 'm3');
    got(await story.session().redo());
    expect(files(story, 'a', 'new')).toEqual(['a3', 'new']);
    expect(got(await forked.redo()).message).toBe('Nothing to redo.');
    // For the fork the third turn is gone, and somebody brought its files back.
    expect(digest(await story.undo('m2', { session: forked }))).toEqual({
      outcome: 'partial',
      restored: { gone: 'recreate' },
      refused: { a: 'changed-outside-session' },
    });
  });

  test('a call of the parent that is open at the fork goes on as the parent’s alone', async () => {
    await using story = await begin();
    const s1 = story.session();
    await story.cp('m4');
    got(await s1.beginCall('open'));
    story.space.sh('printf early >early');
    got(await s1.endTurn());
    const forked = await fork(story, 'm4');
    story.space.sh('printf late >late');
    got(await s1.endCall('open'));
    expect(digest(await story.undo('m4', { session: forked }))).toEqual({
      outcome: 'done',
      restored: { early: 'delete' },
    });
    expect(files(story, 'early', 'late')).toEqual([null, 'late']);
  });

  test('a fork of a fork inherits from both', async () => {
    await using story = await begin();
    const f1 = await fork(story, 'm3', 'f1');
    await story.cp('f1-1', { session: f1 });
    await story.turnOf(f1, 'printf f1 >f1');
    await story.cp('m4');
    await story.t('printf later >later');
    const f2 = await fork(story, 'f1-1', 'f2', f1);
    expect(await ids(f2)).toEqual(['m1', 'm2', 'm3', 'f1-1']);
    expect(digest(await story.undo('m1', { session: f2 }))).toEqual({
      outcome: 'done',
      restored: { a: 'restore', gone: 'recreate', f1: 'delete', new: 'delete' },
    });
    expect(files(story, 'a', 'later')).toEqual(['a0', 'later']);
  });

  test('a step of the original is a message of the fork too', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    const s1 = story.session();
    await story.cp('m1');
    for (const n of [1, 2]) {
      got(await s1.beginCall(`c${n}`, { stepId: `s${n}` }));
      story.space.sh(`printf ${n} >a`);
      got(await s1.endCall(`c${n}`));
    }
    const forked = await fork(story, 'm1');
    got(await forked.revert({ messageId: 's1' }));
    expect(files(story, 'a')).toEqual(['1']);
    expect(got(await s1.unrevert()).message).toBe('Nothing to unrevert.');
  });

  test('one turn and one call that were inherited can be taken back alone', async () => {
    await using story = await begin();
    const forked = await fork(story, 'm3');
    expect(got(await forked.revertCall('call-2')).outcome).toBe('partial');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', 'gone', 'new']);
    expect(got(await forked.revertTurn('m3')).outcome).toBe('done');
    expect(files(story, 'a', 'new')).toEqual(['a2', null]);
  });

  test('calls with effects outside are named by the fork’s plan', async () => {
    await using story = await begin();
    const s1 = story.session();
    got(await s1.beginCall('net'));
    got(await s1.endCall('net', { sideEffect: 'network' }));
    const forked = await fork(story, 'm2');
    expect(got(await forked.plan('m2')).irreversible).toMatchObject([{ callId: 'net', sideEffect: 'network' }]);
  });

  test('dropping the original takes nothing from the fork; dropping both empties the store', async () => {
    await using story = await begin();
    await fork(story, 'm2');
    got(await story.session().drop());
    expect(got(await story.workspace.sessions()).sessions.map((s) => s.threadId)).toEqual(['f']);
    expect(got(await story.workspace.verify()).problems).toEqual([]);
    await story.reopen();
    const again = story.session('f');
    expect(digest(await story.undo('m2', { session: again })).restored).toEqual({
      a: 'restore',
      gone: 'recreate',
      new: 'delete',
    });
    got(await again.drop());
    expect(got(await story.workspace.stats()).counts).toMatchObject({ sessions: 0, rows: 0, calls: 0, blobs: 0 });
    expect(got(await story.workspace.verify()).problems).toEqual([]);
    expect(await again.plan('m2')).toMatchObject({ available: false, reason: 'no-checkpoint' });
  });

  test('dropping the fork takes nothing from the original', async () => {
    await using story = await begin();
    got(await (await fork(story, 'm2')).drop());
    expect(digest(await story.undo('m1')).restored).toEqual({ a: 'restore', gone: 'recreate', new: 'delete' });
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('a middle one of three can be dropped: its fork keeps what came from the first', async () => {
    await using story = await begin();
    const f1 = await fork(story, 'm3', 'f1');
    const f2 = await fork(story, 'm3', 'f2', f1);
    got(await f1.drop());
    got(await story.session().drop());
    expect(digest(await story.undo('m1', { session: f2 })).restored).toEqual({
      a: 'restore',
      gone: 'recreate',
      new: 'delete',
    });
    got(await f2.drop());
    expect(got(await story.workspace.stats()).counts).toMatchObject({ sessions: 0, rows: 0, calls: 0 });
  });

  test('the fork survives gc and a restart', async () => {
    await using story = await begin();
    await fork(story, 'm1');
    await story.reopen();
    got(await story.workspace.gc());
    expect(digest(await story.undo('m1', { session: story.session('f') })).restored).toEqual({
      a: 'restore',
      gone: 'recreate',
      new: 'delete',
    });
  });

  test('an unknown boundary, a session without one, a target that is there: refused, nothing is made', async () => {
    await using story = await begin();
    const s1 = story.session();
    const none = await s1.fork({ threadId: 'f' }, { at: 'none' });
    expect(none).toMatchObject({ available: false, reason: 'unknown-boundary' });
    const empty = await story.session('empty').fork({ threadId: 'f' }, { at: 'm1' });
    expect(empty).toMatchObject({ available: false, reason: 'no-checkpoint' });
    await expect(s1.fork({ threadId: 's1' }, { at: 'm1' })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(s1.fork({ threadId: '' }, { at: 'm1' })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(got(await story.workspace.sessions()).sessions.map((s) => s.threadId)).toEqual(['s1']);
    const forked = await fork(story, 'm1');
    await expect(s1.fork({ threadId: 'f' }, { at: 'm2' })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(await ids(forked)).toEqual(['m1']);
    expect(digest(got(await forked.restore('m1', { paths: ['other'] })))).toEqual({
      ...NOTHING,
      skipped: { other: 'not-attributed' },
    });
  });
});
