/** What each model step changed: one step for each `stepId` of a turn, with positions that diff takes. */
import { expect, test } from 'vitest';
import type { BeginCallOptions, Session, Step } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

async function call(story: Story, id: string, command: string, options: BeginCallOptions & { session?: Session } = {}) {
  const { session = story.session(), ...rest } = options;
  got(await session.beginCall(id, rest));
  story.u(command);
  got(await session.endCall(id));
}

const steps = async (story: Story, limit?: number): Promise<readonly Step[]> =>
  got(await story.session().steps(limit === undefined ? {} : { limit })).steps;

const lines = (found: readonly Step[]): string[] =>
  found.map(({ id, files, toolCallIds }) => {
    const names = files.map(({ path, from }) => (from === undefined ? path : `${from}→${path}`));
    return `${id}: ${names.join(' ')} [${toolCallIds.join(' ')}]`;
  });

describeBackends('steps', (backend) => {
  test('calls of one stepId are one step; a call without one is a step of its own', async () => {
    await using story = await Story.begin(backend, 'seq 20 >a; echo b >b');
    await story.cp('1');
    await call(story, 'c1', 'echo x >>a', { stepId: 'm1' });
    await call(story, 'c2', 'echo y >>b; echo n >n', { stepId: 'm1' });
    await call(story, 'c3', 'mv a d');
    expect(lines(await steps(story))).toEqual(['m1: a b n [c1 c2]', 'c3: a→d [c3]']);
  });

  test('a step that changed no file is not listed, and a call that changed none is still one of its step', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await call(story, 'c1', 'cat a', { stepId: 'm1' });
    await call(story, 'c2', 'cat a', { stepId: 'm2' });
    await call(story, 'c3', 'echo x >>a', { stepId: 'm2' });
    await call(story, 'c4', 'echo x >t; rm t');
    expect(lines(await steps(story))).toEqual(['m2: a [c2 c3]']);
  });

  test('from and to are positions that diff takes; without to, diff compares with the files now', async () => {
    await using story = await Story.begin(backend, 'seq 3 >a');
    await story.cp('1');
    await call(story, 'c1', 'echo one >>a', { stepId: 'm1' });
    await call(story, 'c2', 'echo two >>a', { stepId: 'm2' });
    const [first, second] = (await steps(story)) as [Step, Step];
    const patch = async (from: string, to?: string): Promise<string[]> =>
      got(await story.session().diff(from, to))
        .patch.split('\n')
        .filter((line) => /^[+-][^+-]/.test(line));
    expect(await patch(first.from, first.to)).toEqual(['+one']);
    expect(await patch(second.from, second.to)).toEqual(['+two']);
    expect(await patch(first.to)).toEqual(['+two']);
    expect(await patch(second.to)).toEqual([]);
    expect(await patch(second.to, first.from)).toEqual(['-one', '-two']);
  });

  test('diff refuses a position of another workspace, and one that is none', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await using other = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    const { position } = await other.cp('1');
    await expect(story.session().diff(position)).rejects.toMatchObject({ code: 'ERR_ROOT_MISMATCH' });
    await expect(story.session().diff('m1')).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('a step keeps only the files that its own calls changed', async () => {
    await using story = await Story.begin(backend, 'echo a >a; echo b >b; echo c >c');
    const other = story.session('other');
    await story.cp('1');
    await story.cp('1', { session: other });
    await story.session().beginCall('mine', { stepId: 'm1', paths: ['a'] });
    await call(story, 'theirs', 'echo x >>b', { session: other, paths: ['b'] });
    story.u('echo x >>a; echo user >>c');
    await story.session().endCall('mine');
    expect(lines(await steps(story))).toEqual(['m1: a [mine]']);
  });

  test('a shell call keeps every file that changed while it ran', async () => {
    await using story = await Story.begin(backend, 'echo a >a; echo c >c');
    await story.cp('1');
    await call(story, 'c1', 'echo x >>a; echo user >>c', { stepId: 'm1' });
    expect(lines(await steps(story))).toEqual(['m1: a c [c1]']);
  });

  test('a stepId that comes again in a later turn is another step', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await call(story, 'c1', 'echo x >>a', { stepId: '0' });
    await story.cp('2');
    await call(story, 'c1', 'echo y >b', { stepId: '0' });
    expect(lines(await steps(story))).toEqual(['0: a [c1]', '0: b [c1]']);
  });

  test('a message that is sent while a call runs does not cut its step', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await story.session().beginCall('c1', { stepId: 'm1' });
    story.u('echo x >>a');
    await story.cp('2');
    story.u('echo y >b');
    await story.session().endCall('c1');
    await call(story, 'c2', 'echo z >c', { stepId: 'm1' });
    expect(lines(await steps(story))).toEqual(['m1: a b c [c1 c2]']);
  });

  test('the newest steps, oldest first, over more turns than one page, also after a restart', async () => {
    await using story = await Story.begin(backend, '');
    for (let turn = 1; turn <= 7; turn++) {
      await story.cp(`${turn}`);
      await call(story, `c${turn}`, `echo ${turn} >f${turn}`, { stepId: `m${turn}` });
    }
    await story.cp('8');
    await story.reopen();
    expect(lines(await steps(story, 2))).toEqual(['m6: f6 [c6]', 'm7: f7 [c7]']);
    expect((await steps(story)).map(({ id }) => id)).toEqual(['m1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7']);
    await expect(story.session().steps({ limit: 0 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('an undone step is still listed; steps of turns that a restore ended are not, once a prompt came', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await call(story, 'c1', 'echo x >>a');
    await story.cp('2');
    await call(story, 'c2', 'echo y >>a');
    await story.undo('1');
    expect((await steps(story)).map(({ id }) => id)).toEqual(['c1', 'c2']);
    await story.cp('3');
    expect((await steps(story)).map(({ id }) => id)).toEqual(['c1']);
  });

  test('what a subagent changed is the step’s of the call that ran it', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    const child = story.session('child');
    await story.cp('1');
    await story.cp('1', { session: child });
    await story.session().beginCall('task', { stepId: 'm1' });
    await call(story, 'inner', 'echo x >>a', { session: child, parentCallId: 'task', stepId: 'k1' });
    await story.session().endCall('task');
    expect(lines(await steps(story))).toEqual(['m1: a [task]']);
    expect(lines(got(await child.steps()).steps)).toEqual(['k1: a [inner]']);
  });

  test('an open call’s step goes up to now, and a session without a checkpoint has none', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    expect(await steps(story)).toEqual([]);
    await story.cp('1');
    await story.session().beginCall('c1');
    story.u('echo x >>a');
    got(await story.session().endTurn());
    const [step] = await steps(story);
    expect(lines([step as Step])).toEqual(['c1: a [c1]']);
    expect(got(await story.session().diff(step?.from as string, step?.to)).stats.linesAdded).toBe(1);
  });
});
