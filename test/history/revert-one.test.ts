/** `revertTurn` and `revertCall`: one turn or call goes, what came later stays, and what comes after them still works. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

/** Three turns a, b, c that change lines 2, 5 and 8 of one file, and make a file of their own. */
async function threeTurns(story: Story): Promise<void> {
  for (const [id, line] of Object.entries({ a: 2, b: 5, c: 8 })) {
    await story.cp(id);
    await story.t(`sed -i 's/^${line}$/${id}/' f; echo ${id} >${id}.txt`);
  }
}

const f = (story: Story): string => story.space.sh('paste -sd, f').trim();

describeBackends('revertTurn', (backend) => {
  const begin = (): Promise<Story> => Story.begin(backend, 'seq 1 9 >f');

  test('takes a middle turn out, and keeps what came before and after', async () => {
    await using story = await begin();
    await threeTurns(story);
    const result = got(await story.session().revertTurn('b'));
    expect(result).toMatchObject({ outcome: 'done', message: 'Undid the turn. Files restored: 2.' });
    expect(result.receipt?.restored).toMatchObject([
      { path: 'b.txt', action: 'delete' },
      { path: 'f', action: 'merge', overrides: 'changed-between' },
    ]);
    expect(f(story)).toBe('1,a,3,4,5,6,7,c,9');
    expect(story.space.sh('ls')).toBe('a.txt\nc.txt\nf\n');
  });

  test('redo brings it back, and the turn’s undo mark comes and goes', async () => {
    await using story = await begin();
    await threeTurns(story);
    const undone = async (): Promise<boolean[]> =>
      got(await story.session().timeline()).items.flatMap((item) => (item.type === 'boundary' ? [item.undone] : []));
    got(await story.session().revertTurn('b'));
    expect(await undone()).toEqual([false, true, false]);
    await story.reopen();
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,a,3,4,b,6,7,c,9');
    expect(story.space.read('b.txt')).toBe('b\n');
    expect(await undone()).toEqual([false, false, false]);
    expect(got(await story.session().revertTurn('b')).outcome).toBe('done');
  });

  test('undo walks on over it, and leaves none of its changes behind', async () => {
    await using story = await begin();
    await threeTurns(story);
    const session = story.session();
    got(await session.revertTurn('b'));
    expect(got(await session.undo()).receipt?.restored.map((entry) => entry.path)).toEqual(['c.txt', 'f']);
    expect(f(story)).toBe('1,a,3,4,5,6,7,8,9');
    expect(got(await session.undo()).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    expect(got(await session.undo())).toMatchObject({ message: 'Nothing to undo.' });
    for (const state of ['1,a,3,4,5,6,7,8,9', '1,a,3,4,5,6,7,c,9', '1,a,3,4,b,6,7,c,9']) {
      expect(got(await session.redo()).outcome).toBe('done');
      expect(f(story)).toBe(state);
    }
  });

  test('a restore to its boundary, or to one before it, gives the files of then', async () => {
    for (const [to, state] of Object.entries({ a: '1,2,3,4,5,6,7,8,9', b: '1,a,3,4,5,6,7,8,9' })) {
      await using story = await begin();
      await threeTurns(story);
      got(await story.session().revertTurn('b'));
      expect((await story.undo(to)).outcome).toBe('done');
      expect(f(story), to).toBe(state);
    }
  });

  test('every order of three reverts ends where the first turn began', async () => {
    for (const order of ['abc', 'acb', 'bac', 'bca', 'cab', 'cba']) {
      await using story = await begin();
      await threeTurns(story);
      for (const id of order) expect(got(await story.session().revertTurn(id)).outcome, order).toBe('done');
      expect(f(story), order).toBe('1,2,3,4,5,6,7,8,9');
      expect(story.space.sh('ls'), order).toBe('f\n');
      for (const _ of order) expect((await story.redo()).outcome, order).toBe('done');
      expect(f(story), order).toBe('1,a,3,4,b,6,7,c,9');
    }
  });

  test('no later row and the disk as the turn left it: the file goes back, mode and all, text or not', async () => {
    await using story = await Story.begin(backend, "printf '1\\0' >bin; chmod 600 bin; ln -s bin link; mkdir d");
    await story.cp('a');
    await story.t("printf '2\\0' >bin; chmod 755 bin; ln -sfn d link; rmdir d; mkdir e");
    await story.cp('b');
    await story.t('echo b >b.txt');
    expect(got(await story.session().revertTurn('a')).outcome).toBe('done');
    expect(story.space.bytes('bin')).toBe('1\0');
    expect(story.space.sh('stat -c %a bin; readlink link; ls')).toBe('600\nbin\nb.txt\nbin\nd\nlink\n');
  });

  test('a clash keeps the path, named with its lines, and the rest of the turn goes', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/a/' f; echo a >a.txt");
    await story.cp('b');
    await story.t("sed -i 's/^a$/b/' f");
    const result = got(await story.session().revertTurn('a'));
    expect(result).toMatchObject({
      outcome: 'partial',
      message: 'Undid the turn. Files restored: 1. Kept 1 that changed since: f',
      receipt: {
        restored: [{ path: 'a.txt' }],
        refused: [{ path: 'f', reason: 'changed-between', detail: 'clash: line 2' }],
      },
    });
    expect(f(story)).toBe('1,b,3,4,5,6,7,8,9');
    expect(got(await story.session().revertTurn('a', { onConflict: 'overwrite' })).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,b,3,4,5,6,7,8,9');
  });

  test('a user’s edit since stays, and one in the same lines keeps the path', async () => {
    await using story = await Story.begin(backend, 'seq 1 9 >f; seq 1 9 >g');
    await story.cp('a');
    await story.t("sed -i 's/^2$/a/' f g");
    story.u("sed -i 's/^8$/mine/' f; sed -i 's/^a$/mine/' g");
    expect(got(await story.session().revertTurn('a')).receipt).toMatchObject({
      restored: [{ path: 'f', action: 'merge' }],
      refused: [{ path: 'g', reason: 'changed-outside-session', detail: 'clash: line 2' }],
    });
    expect(f(story)).toBe('1,2,3,4,5,6,7,mine,9');
    expect(story.space.sh('paste -sd, g')).toBe('1,mine,3,4,5,6,7,8,9\n');
  });

  test('a binary file that a later turn changed is kept', async () => {
    await using story = await Story.begin(backend, "printf '1\\0' >f");
    await story.cp('a');
    await story.t("printf '2\\0' >f");
    await story.cp('b');
    await story.t("printf '3\\0' >f");
    expect(got(await story.session().revertTurn('a'))).toMatchObject({
      outcome: 'nothing',
      message: 'Nothing was restored. Kept 1 that changed since: f',
      receipt: { refused: [{ path: 'f', reason: 'changed-between', detail: 'clash: binary' }] },
    });
  });

  test('an unknown id, a turn that is undone, an open call', async () => {
    await using story = await begin();
    const session = story.session();
    expect(await session.revertTurn('a')).toMatchObject({ available: false, reason: 'no-checkpoint' });
    await story.cp('a');
    await story.t("sed -i 's/^2$/a/' f");
    expect(await session.revertTurn('nowhere')).toMatchObject({ available: false, reason: 'unknown-boundary' });
    expect(await session.revertCall('nowhere')).toMatchObject({ available: false, reason: 'unknown-boundary' });
    expect(await story.session('s2').revertCall('call-1')).toMatchObject({ reason: 'unknown-boundary' });
    got(await session.beginCall('open'));
    for (const answer of [await session.revertTurn('a'), await session.revertCall('call-1')]) {
      expect(answer).toMatchObject({ available: false, reason: 'calls-in-flight' });
    }
    got(await session.endCall('open'));
    got(await session.revertTurn('a'));
    expect(got(await session.revertTurn('a'))).toEqual({
      available: true,
      outcome: 'nothing',
      message: 'Nothing to undo.',
    });
  });

  test('contested changes are kept unless merge is asked for', async () => {
    await using story = await begin();
    const [s1, s2] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: s1 });
    await story.cp('a', { session: s2 });
    got(await s1.beginCall('one'));
    got(await s2.beginCall('two'));
    story.u("sed -i 's/^2$/either/' f");
    got(await s1.endCall('one'));
    got(await s2.endCall('two'));
    expect(got(await s1.revertTurn('a')).receipt?.refused).toMatchObject([{ path: 'f', reason: 'contested' }]);
    expect(got(await s1.revertTurn('a', { onConflict: 'merge' })).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
  });

  test('events tell what it changed', async () => {
    await using story = await begin();
    await threeTurns(story);
    const heard: string[] = [];
    story.workspace.on('fileChanged', (event) => heard.push(`${event.change} ${event.path}`));
    got(await story.session().revertTurn('b'));
    expect(heard).toEqual(['deleted b.txt', 'updated f']);
  });
});

describeBackends('revertCall', (backend) => {
  const begin = (): Promise<Story> => Story.begin(backend, 'seq 1 9 >f');

  test('takes one call of a turn out, keeps the others, and marks no turn', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    await story.t("sed -i 's/^2$/one/' f", "sed -i 's/^5$/two/' f; echo two >g", "sed -i 's/^8$/three/' f");
    const result = got(await session.revertCall('call-2'));
    expect(result).toMatchObject({ outcome: 'done', message: 'Undid the call. Files restored: 2.' });
    expect(f(story)).toBe('1,one,3,4,5,6,7,three,9');
    expect(story.space.exists('g')).toBe(false);
    expect(got(await session.timeline()).items[0]).toMatchObject({ type: 'boundary', undone: false });
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,one,3,4,two,6,7,three,9');
    got(await session.revertCall('call-2'));
    expect(got(await session.undo())).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
  });

  test('each of three calls, in every order, then redo for redo', async () => {
    for (const order of [
      [1, 2, 3],
      [2, 1, 3],
      [3, 1, 2],
      [2, 3, 1],
    ]) {
      await using story = await begin();
      await story.cp('a');
      await story.t("sed -i 's/^2$/one/' f", "sed -i 's/^5$/two/' f", "sed -i 's/^8$/three/' f");
      for (const n of order) {
        expect(got(await story.session().revertCall(`call-${n}`)).outcome, `${order}`).toBe('done');
      }
      expect(f(story), `${order}`).toBe('1,2,3,4,5,6,7,8,9');
      for (const _ of order) expect((await story.redo()).outcome).toBe('done');
      expect(f(story), `${order}`).toBe('1,one,3,4,two,6,7,three,9');
    }
  });

  test('a call around another one loses only what is its own', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    got(await session.beginCall('shell'));
    story.u("sed -i 's/^2$/shell/' f");
    got(await session.beginCall('edit', { paths: ['f'] }));
    story.u("sed -i 's/^5$/edit/' f");
    got(await session.endCall('edit'));
    story.u("sed -i 's/^8$/shell/' f");
    got(await session.endCall('shell'));
    expect(got(await session.revertCall('shell')).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,edit,6,7,8,9');
    expect(got(await session.revertCall('edit')).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    for (const state of ['1,2,3,4,edit,6,7,8,9', '1,shell,3,4,edit,6,7,shell,9']) {
      expect((await story.redo()).outcome).toBe('done');
      expect(f(story)).toBe(state);
    }
  });

  test('a clash with a later call keeps the path', async () => {
    await using story = await begin();
    await story.cp('a');
    await story.t("sed -i 's/^2$/one/' f", "sed -i 's/^one$/two/' f");
    expect(got(await story.session().revertCall('call-1')).receipt?.refused).toMatchObject([
      { path: 'f', reason: 'changed-between', detail: 'clash: line 2' },
    ]);
    expect(f(story)).toBe('1,two,3,4,5,6,7,8,9');
  });

  test('of an id that came again, the newest run', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    for (const [line, text] of [
      [2, 'first'],
      [8, 'second'],
    ]) {
      got(await session.beginCall('same'));
      story.u(`sed -i 's/^${line}$/${text}/' f`);
      got(await session.endCall('same'));
    }
    got(await session.revertCall('same'));
    expect(f(story)).toBe('1,first,3,4,5,6,7,8,9');
  });

  test('only its own effects that can’t be taken back are listed', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    for (const id of ['one', 'two']) {
      got(await session.beginCall(id));
      story.u(`echo ${id} >>f`);
      got(await session.endCall(id, { sideEffect: 'network' }));
    }
    expect(got(await session.revertCall('two')).receipt?.irreversible.map((call) => call.callId)).toEqual(['two']);
  });
});
