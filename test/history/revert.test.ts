/** Revert and unrevert: back to a message, what stands meanwhile, and what makes it final. */
import { expect, test } from 'vitest';
import type { HistoryResult, Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

const STANDS = {
  available: false,
  reason: 'revert-stands',
  detail: 'A revert stands. Run unrevert, or send a prompt, first.',
};

async function revert(story: Story, messageId: string): Promise<HistoryResult> {
  return got(await story.session().revert({ messageId }));
}

async function unrevert(story: Story, session: Session = story.session()): Promise<HistoryResult> {
  return got(await session.unrevert());
}

/** One call of a step. */
async function step(story: Story, stepId: string, command: string): Promise<void> {
  const session = story.session();
  const callId = `${stepId}-${command.length}-${Math.random()}`;
  got(await session.beginCall(callId, { stepId }));
  story.space.sh(command);
  got(await session.endCall(callId));
}

describeBackends('revert', (backend) => {
  /** Three turns; `a` changes in each, `new` appears in the second, `gone` goes in the third. */
  async function threeTurns(): Promise<Story> {
    const story = await Story.begin(backend, 'printf a0 >a; printf gone >gone; printf mine >mine');
    await story.cp('m1');
    await story.t('printf a1 >a');
    await story.cp('m2');
    await story.t('printf a2 >a; printf new >new');
    await story.cp('m3');
    await story.t('printf a3 >a; rm gone');
    return story;
  }

  const files = (story: Story, ...paths: string[]): (string | null)[] => paths.map((path) => story.space.bytes(path));

  test('goes back to the files as they were when a message of the transcript was complete', async () => {
    await using story = await threeTurns();
    const result = await revert(story, 'm2');
    expect(result.message).toBe('Went back to the message. Files restored: 3.');
    expect(result.outcome).toBe('done');
    expect(digest(result.receipt as never)).toEqual({
      outcome: 'done',
      restored: { a: 'restore', gone: 'recreate', new: 'delete' },
    });
    expect(files(story, 'a', 'gone', 'new', 'mine')).toEqual(['a1', 'gone', null, 'mine']);
  });

  test('a step goes back to the end of its last call, in the middle of its turn too', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await step(story, 's1', 'printf 1 >a');
    await step(story, 's1', 'printf 2 >a; printf b >b');
    await step(story, 's2', 'printf 3 >a; rm b');
    await story.cp('m2');
    await step(story, 's3', 'printf 4 >a');
    const result = await revert(story, 's1');
    expect(result.receipt?.boundaryId).toBe('s1');
    expect(files(story, 'a', 'b')).toEqual(['2', 'b']);
    // What the step itself did is still there to undo, once the next prompt has made the revert final.
    await story.cp('m3');
    expect(got(await story.session().undo()).message).toBe('Undid the last turn. Files restored: 2.');
    expect(files(story, 'a', 'b')).toEqual(['0', null]);
  });

  test('unrevert brings back the files as they were when the revert started, with your edits', async () => {
    await using story = await threeTurns();
    story.u('printf edited >a');
    const kept = await revert(story, 'm1');
    expect(kept.outcome).toBe('partial');
    expect(kept.message).toBe('Went back to the message. Files restored: 2. Kept 1 that changed since: a');
    await unrevert(story);
    expect(files(story, 'a', 'gone', 'new')).toEqual(['edited', null, 'new']);
    const over = got(await story.session().revert({ messageId: 'm1', onConflict: 'overwrite' }));
    expect(over.outcome).toBe('done');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a0', 'gone', null]);
    const back = await unrevert(story);
    expect(back.message).toBe('Took the revert back. Files restored: 3.');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['edited', null, 'new']);
  });

  test('your own edits between the hidden turns, on other files, stay in a revert and in its unrevert', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf mine >mine');
    await story.cp('m1');
    await story.t('printf 1 >a');
    story.u('printf between >mine; printf made >made');
    await story.cp('m2');
    await story.t('printf 2 >a');
    await revert(story, 'm1');
    expect(files(story, 'a', 'mine', 'made')).toEqual(['0', 'between', 'made']);
    story.u('printf later >mine');
    await unrevert(story);
    expect(files(story, 'a', 'mine', 'made')).toEqual(['2', 'later', 'made']);
  });

  test('unrevert touches only the files of the revert, and keeps what changed since', async () => {
    await using story = await threeTurns();
    await revert(story, 'm1');
    story.u('printf user >a');
    const result = await unrevert(story);
    expect(result.outcome).toBe('partial');
    expect(result.message).toBe('Took the revert back. Files restored: 2. Kept 1 that changed since: a');
    expect(files(story, 'a', 'gone', 'new', 'mine')).toEqual(['user', null, 'new', 'mine']);
    expect((await unrevert(story)).message).toBe('Nothing to unrevert.');
  });

  test('while a revert stands, undo, redo and another revert answer so, and write nothing', async () => {
    await using story = await threeTurns();
    await revert(story, 'm2');
    const session = story.session();
    expect(await session.undo()).toEqual(STANDS);
    expect(await session.undo({ boundaryId: 'm1' })).toEqual(STANDS);
    expect(await session.redo()).toEqual(STANDS);
    expect(await session.revert({ messageId: 'm1' })).toEqual(STANDS);
    expect(files(story, 'a', 'new')).toEqual(['a1', null]);
    await unrevert(story);
    expect(got(await session.undo()).outcome).toBe('done');
    expect(files(story, 'a', 'gone')).toEqual(['a2', 'gone']);
    expect(got(await session.redo()).message).toBe('Redid the last turn.');
    expect(files(story, 'a', 'gone')).toEqual(['a3', null]);
  });

  test('another session is not held up by a revert', async () => {
    await using story = await threeTurns();
    const other = story.session('s2');
    await story.cp('o1', { session: other });
    await story.turnOf(other, 'printf o >o');
    await revert(story, 'm1');
    expect(got(await other.undo()).outcome).toBe('done');
    expect(story.space.exists('o')).toBe(false);
  });

  test('the revert is saved, so unrevert still works after a restart', async () => {
    await using story = await threeTurns();
    await revert(story, 'm1');
    await story.reopen();
    expect(await story.session().undo()).toEqual(STANDS);
    await unrevert(story);
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', null, 'new']);
  });

  test('the next prompt drops the hidden messages for good; then unrevert does not change the files', async () => {
    await using story = await threeTurns();
    await revert(story, 'm2');
    await story.cp('m4');
    const session = story.session();
    expect(await unrevert(story)).toEqual({ available: true, message: 'Nothing to unrevert.', outcome: 'nothing' });
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a1', 'gone', null]);
    expect(await session.restore('m3')).toMatchObject({ available: false, reason: 'unknown-boundary' });
    expect(await session.revert({ messageId: 'm3' })).toMatchObject({ available: false, reason: 'unknown-boundary' });
    // The message that was gone back to stays, and its turn is one that was taken back.
    expect(got(await session.undo()).message).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'a')).toEqual(['a0']);
  });

  test('a revert over turns that changed nothing stands all the same, and its end is as final', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('printf 1 >a');
    await story.cp('m2');
    await story.cp('m3');
    const result = await revert(story, 'm2');
    expect([result.message, result.outcome]).toEqual(['Went back to the message. Files restored: 0.', 'done']);
    expect(await story.session().undo()).toEqual(STANDS);
    expect((await unrevert(story)).message).toBe('Took the revert back. Files restored: 0.');
    expect((await unrevert(story)).message).toBe('Nothing to unrevert.');
    await revert(story, 'm2');
    await story.cp('m4');
    expect(await story.session().plan('m3')).toMatchObject({ reason: 'unknown-boundary' });
    expect(got(await story.session().plan('m2')).entries).toEqual([]);
  });

  test('a revert of which every file was kept stands too; unrevert of a kept file may be tried again', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('printf 1 >a');
    story.u('printf user >a');
    const result = await revert(story, 'm1');
    expect([result.message, result.outcome]).toEqual(['Nothing was restored. Kept 1 that changed since: a', 'nothing']);
    expect(await story.session().undo()).toEqual(STANDS);
    await unrevert(story);
    got(await story.session().revert({ messageId: 'm1', onConflict: 'overwrite' }));
    story.u('printf again >a');
    expect((await unrevert(story)).message).toBe('Nothing was restored. Kept 1 that changed since: a');
    expect(await story.session().undo()).toEqual(STANDS);
    got(await story.session().unrevert({ onConflict: 'overwrite' }));
    expect(files(story, 'a')).toEqual(['user']);
  });

  test('a change of the session’s own ends it: undo works again, unrevert has nothing', async () => {
    await using story = await threeTurns();
    await revert(story, 'm1');
    await story.t('printf own >own');
    expect((await unrevert(story)).message).toBe('Nothing to unrevert.');
    expect(got(await story.session().undo()).message).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'a', 'own')).toEqual(['a0', null]);
  });

  test('a prompt or a call that comes during a revert or unrevert waits until it ends', async () => {
    await using story = await threeTurns();
    const session = story.session();
    const order: string[] = [];
    const noted = async <T>(name: string, work: Promise<T>): Promise<T> => {
      const value = await work;
      order.push(name);
      return value;
    };
    const [, , begin] = await Promise.all([
      noted('revert', session.revert({ messageId: 'm1' })),
      noted('capture', session.capture('m4')),
      noted('call', session.beginCall('c')),
    ]);
    expect(order).toEqual(['revert', 'capture', 'call']);
    expect(begin.available).toBe(true);
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a0', 'gone', null]);
    story.space.sh('printf after >a');
    const { changes } = got(await session.endCall('c'));
    expect(changes.map((change) => change.path)).toEqual(['a']);
  });

  test('an open call refuses revert and unrevert', async () => {
    await using story = await threeTurns();
    const session = story.session();
    got(await session.beginCall('open'));
    const open = { available: false, reason: 'calls-in-flight', detail: 'Wait until the turn ends, then try again.' };
    expect(await session.revert({ messageId: 'm1' })).toEqual(open);
    expect(await session.unrevert()).toEqual(open);
    got(await session.endCall('open'));
    expect((await revert(story, 'm1')).outcome).toBe('done');
  });

  test('a revert over many turns, and back', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    const session = story.session();
    await story.cp('m0');
    for (let n = 1; n <= 40; n++) {
      await story.turnOf(session, `printf ${n} >a; printf ${n} >f${n % 20}`);
      got(await session.capture(`m${n}`));
    }
    await revert(story, 'm0');
    expect(story.space.sh('ls; cat a')).toBe('a\n0');
    await unrevert(story);
    expect(files(story, 'a', 'f0', 'f1', 'f19')).toEqual(['40', '40', '21', '39']);
  });

  test('an unknown message, one of another session, a step that never was: unknown-boundary, nothing is written', async () => {
    await using story = await threeTurns();
    const other = story.session('s2');
    expect(await other.revert({ messageId: 'm1' })).toMatchObject({ available: false, reason: 'no-checkpoint' });
    await story.cp('o1', { session: other });
    for (const [session, id] of [
      [story.session(), 'o1'],
      [other, 'm1'],
      [story.session(), 'nothing'],
      [story.session(), 'call-1'],
    ] as const)
      expect(await session.revert({ messageId: id })).toMatchObject({ available: false, reason: 'unknown-boundary' });
    expect(await story.session().unrevert()).toEqual({
      available: true,
      message: 'Nothing to unrevert.',
      outcome: 'nothing',
    });
    await expect(story.session().revert({ messageId: '' })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', null, 'new']);
    expect(got(await story.session().undo()).outcome).toBe('done');
  });

  test('a turn that was undone before stays undone through a revert and its unrevert', async () => {
    await using story = await threeTurns();
    got(await story.session().undo());
    await revert(story, 'm1');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a0', 'gone', null]);
    await unrevert(story);
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a2', 'gone', 'new']);
    expect(got(await story.session().redo()).outcome).toBe('done');
    expect(files(story, 'a', 'gone', 'new')).toEqual(['a3', null, 'new']);
  });

  test('the timeline says which turns a revert took back, and that it stands', async () => {
    await using story = await threeTurns();
    await revert(story, 'm2');
    const { items } = got(await story.session().timeline());
    const turns = items.flatMap((i) => (i.type === 'boundary' ? [[i.boundaryId, i.undone, i.reverted]] : []));
    expect(turns).toEqual([
      ['m1', false, false],
      ['m2', true, true],
      ['m3', true, true],
    ]);
    expect(items.at(-1)).toMatchObject({ type: 'operation', kind: 'revert', boundaryId: 'm2', standing: true });
    await unrevert(story);
    const after = got(await story.session().timeline()).items;
    expect(after.flatMap((i) => (i.type === 'boundary' ? [i.undone] : []))).toEqual([false, false, false]);
    expect(after.flatMap((i) => (i.type === 'operation' ? [[i.kind, i.standing]] : []))).toEqual([
      ['revert', false],
      ['unrevert', false],
    ]);
  });

  test('revert and unrevert tell of each file that they change, with no toolCallId', async () => {
    await using story = await threeTurns();
    const heard: string[] = [];
    story.workspace.on('fileChanged', (event) =>
      heard.push(`${event.change} ${event.path} ${event.toolCallId ?? '-'}`),
    );
    await revert(story, 'm2');
    await unrevert(story);
    expect(heard).toEqual([
      ...['updated a -', 'created gone -', 'deleted new -'],
      ...['updated a -', 'deleted gone -', 'created new -'],
    ]);
  });
});
