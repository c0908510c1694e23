/** `onConflict: 'merge'` for plan, restore, undo and redo: what is merged, what clashes, and what comes back. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

const merge = { onConflict: 'merge' } as const;

describeBackends('onConflict: merge', (backend) => {
  const begin = (): Promise<Story> => Story.begin(backend, 'seq 1 9 >f');

  test('undo takes the turn’s lines out and keeps what the user changed elsewhere in the file', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f");
    story.u("sed -i 's/^8$/mine/' f");
    const plan = await story.plan('a', merge);
    expect(plan.entries).toMatchObject([{ path: 'f', action: 'merge', overrides: 'changed-outside-session' }]);
    const result = got(await story.session().undo(merge));
    expect(result).toMatchObject({
      outcome: 'done',
      message: 'Undid the last turn. Files restored: 1.',
      receipt: { restored: [{ path: 'f', action: 'merge', overrides: 'changed-outside-session' }], refused: [] },
    });
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
  });

  test('what merge replaced comes back with redo, byte for byte, after a restart too', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f; chmod 755 f");
    story.u("sed -i 's/^8$/mine/' f");
    const before = story.space.bytes('f');
    expect((await story.undo('a', merge)).outcome).toBe('done');
    expect(story.space.sh('stat -c %a f')).toBe('644\n');
    await story.reopen();
    expect(await story.redo()).toMatchObject({ outcome: 'done', message: 'Redid the last turn.' });
    expect(story.space.bytes('f')).toBe(before);
    expect(story.space.sh('stat -c %a f')).toBe('755\n');
    expect((await story.undo('a', merge)).outcome).toBe('done');
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
  });

  test('a clash refuses the path with its reason and lines, writes nothing, and never leaves markers', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f; echo agent >g");
    story.u("sed -i 's/^agent$/mine/' f");
    const receipt = await story.undo('a', merge);
    expect(receipt).toMatchObject({
      outcome: 'partial',
      restored: [{ path: 'g', action: 'delete' }],
      refused: [{ path: 'f', action: 'refuse', reason: 'changed-outside-session', detail: 'clash: line 2' }],
    });
    expect(story.space.sh('paste -sd, f')).toBe('1,mine,3,4,5,6,7,8,9\n');
  });

  test('where somebody changed it in between, each own run is undone newest first', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/one/' f");
    story.u("sed -i 's/^8$/mine/' f");
    await story.t("sed -i 's/^5$/two/' f");
    expect((await story.plan('a')).entries).toMatchObject([{ action: 'refuse', reason: 'changed-between' }]);
    expect((await story.undo('a', merge)).restored).toMatchObject([{ action: 'merge', overrides: 'changed-between' }]);
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(story.space.sh('paste -sd, f')).toBe('1,one,3,4,two,6,7,mine,9\n');
  });

  test('a turn after a merged undo can be taken back with all before it', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/one/' f");
    await story.cp('b');
    await story.t("sed -i 's/^5$/two/' f");
    story.u("sed -i 's/^8$/mine/' f");
    expect(got(await story.session().undo(merge)).outcome).toBe('done');
    expect(story.space.sh('paste -sd, f')).toBe('1,one,3,4,5,6,7,mine,9\n');
    await story.cp('c');
    await story.t("sed -i 's/^1$/three/' f");
    expect((await story.undo('a', merge)).outcome).toBe('done');
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
  });

  test('redo merges what was edited since the undo', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f");
    await story.undo('a');
    story.u("sed -i 's/^8$/mine/' f");
    expect(got(await story.session().redo())).toMatchObject({ outcome: 'nothing' });
    expect(got(await story.session().redo(merge))).toMatchObject({ outcome: 'done' });
    expect(story.space.sh('paste -sd, f')).toBe('1,agent,3,4,5,6,7,mine,9\n');
  });

  test('a contested change is merged out of what is there, and an untouched result goes back whole', async () => {
    await using story = await begin();
    const [s1, s2] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: s1 });
    await story.cp('a', { session: s2 });
    got(await s1.beginCall('one'));
    got(await s2.beginCall('two'));
    story.u("sed -i 's/^2$/either/' f; echo new >g");
    got(await s1.endCall('one'));
    got(await s2.endCall('two'));
    story.u("sed -i 's/^8$/mine/' f");
    const receipt = await story.undo('a', merge);
    expect(receipt.restored).toMatchObject([{ path: 'f', action: 'merge', overrides: 'contested' }]);
    expect(receipt.refused, 'a contested file is not deleted by a merge').toMatchObject([
      { path: 'g', reason: 'contested' },
    ]);
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
  });

  test('the session’s default policy can be merge, and a file that only the agent changed is a plain restore', async () => {
    await using story = await Story.begin(backend, 'seq 1 9 >f; seq 1 9 >g');
    const session = story.workspace.session({ threadId: 's1', onConflict: 'merge' });
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f g");
    story.u("sed -i 's/^8$/mine/' f");
    const { receipt } = got(await session.undo());
    expect(receipt?.restored.map((entry) => [entry.path, entry.action])).toEqual([
      ['f', 'merge'],
      ['g', 'restore'],
    ]);
  });

  test('CRLF, a byte order mark and a missing last newline stay as they were', async () => {
    await using story = await Story.begin(backend, '');
    story.space.write('f', '\ufeff1\r\n2\r\n3\n4\n5');
    await story.cp('a');
    story.space.write('g', 'x');
    await story.t("sed -i 's/^2\\r$/agent\\r/' f");
    story.u("sed -i 's/^4$/mine/' f");
    expect((await story.undo('a', merge)).outcome).toBe('done');
    expect(story.space.read('f')).toBe('\ufeff1\r\n2\r\n3\nmine\n5');
  });

  test('a binary file that changed since is refused, and says so', async () => {
    await using story = await Story.begin(backend, "printf '1\\0\\n2\\n' >f");
    await story.cp('a');
    await story.t("printf '1\\0\\n3\\n' >f");
    story.u("printf '0\\0\\n3\\n' >f");
    expect((await story.undo('a', merge)).refused).toMatchObject([
      { path: 'f', reason: 'changed-outside-session', detail: 'clash: binary' },
    ]);
    expect(story.space.bytes('f')).toBe('0\0\n3\n');
  });

  test('a file that the agent made and the user edited, or that the user deleted, is kept as it is', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("echo agent >g; sed -i 's/^2$/agent/' f");
    story.u('echo mine >>g; rm f');
    expect((await story.undo('a', merge)).refused).toMatchObject([
      { path: 'f', reason: 'changed-outside-session', detail: "can't be merged: one side is absent" },
      { path: 'g', reason: 'changed-outside-session', detail: "can't be merged: one side is absent" },
    ]);
    expect(story.space.read('g')).toBe('agent\nmine\n');
  });

  test('the user’s own undo of the agent’s lines leaves nothing to write, and settles the path', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f");
    story.u("sed -i 's/^agent$/2/; s/^8$/mine/' f");
    const receipt = await story.undo('a', merge);
    expect(receipt).toMatchObject({ outcome: 'done', skipped: [{ path: 'f', reason: 'already-matches' }] });
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,9\n');
    expect(got(await story.session().undo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to undo.' });
  });

  test('a plan’s token holds for the same merge, and an edit after it makes the plan stale', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f");
    story.u("sed -i 's/^8$/mine/' f");
    const plan = await story.plan('a', merge);
    story.u("sed -i 's/^9$/more/' f");
    expect(await session.restore('a', { ...merge, planToken: plan.token })).toMatchObject({ reason: 'stale-plan' });
    const again = await story.plan('a', merge);
    expect(again.token).not.toBe(plan.token);
    expect((await story.undo('a', { ...merge, planToken: again.token })).outcome).toBe('done');
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,mine,more\n');
  });

  test('the store is sound after merges, and gc keeps what redo needs', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/' f");
    story.u("sed -i 's/^8$/mine/' f");
    await story.plan('a', merge);
    await story.undo('a', merge);
    got(await story.workspace.gc());
    expect(got(await story.workspace.verify({ rehash: true }))).toMatchObject({ ok: true, problems: [] });
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(story.space.sh('paste -sd, f')).toBe('1,agent,3,4,5,6,7,mine,9\n');
  });
});
