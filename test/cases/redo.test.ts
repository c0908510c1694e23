/** Faults of going back and forth. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

describeBackends('redo', (backend) => {
  // B25 · zed-industries/zed #28676 and anthropics/claude-code #16023
  test('a forced restore is taken back byte for byte, after a restart too; a new turn ends redo', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f; echo n>g');
    story.u('echo 3 >f; echo mine>g');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'nothing',
      refused: { f: 'changed-outside-session', g: 'changed-outside-session' },
    });
    expect(story.space.sh('cat f g')).toBe('3\nmine\n');
    expect(digest(await story.undo('a', { onConflict: 'overwrite' }))).toEqual({
      outcome: 'done',
      restored: { f: 'restore!changed-outside-session', g: 'delete!changed-outside-session' },
    });
    expect(story.space.read('f')).toBe('1\n');
    expect(story.space.exists('g')).toBe(false);
    await story.reopen();
    expect(await story.redo()).toMatchObject({ outcome: 'done', message: 'Redid the last turn.' });
    expect(story.space.sh('cat f g')).toBe('3\nmine\n');
    await story.t('echo 4 >f');
    expect(await story.redo()).toMatchObject({ outcome: 'nothing', message: 'Nothing to redo.' });
    expect(story.space.read('f')).toBe('4\n');
  });

  test('undo and redo walk through every turn and back, with files made, changed, chmodded, linked and removed', async () => {
    await using story = await Story.begin(backend, 'echo 0 >f; mkdir d; echo 0 >d/g; echo 0 >gone');
    const turns = [
      'echo 1 >f; echo n>new',
      'chmod 755 f; rm gone',
      'rm -r d; ln -s f d',
      'echo 2 >f; mv new old',
      'rm f; mkdir f; echo x>f/x',
    ];
    const states = [contents(snapshot(story.space.root))];
    for (const [i, turn] of turns.entries()) {
      await story.cp(`m${i}`);
      await story.t(turn);
      states.push(contents(snapshot(story.space.root)));
    }
    for (let round = 0; round < 2; round++) {
      for (let i = turns.length - 1; i >= 0; i--) {
        expect(got(await story.session().undo()).outcome).toBe('done');
        expect(contents(snapshot(story.space.root)), `undone to ${i}`).toEqual(states[i]);
      }
      expect(got(await story.session().undo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to undo.' });
      for (let i = 1; i <= turns.length; i++) {
        expect(got(await story.session().redo()).outcome).toBe('done');
        expect(contents(snapshot(story.space.root)), `redone to ${i}`).toEqual(states[i]);
      }
      expect(got(await story.session().redo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to redo.' });
      await story.reopen();
    }
  });

  test('a user’s edit after an undo is kept by redo, and told', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 1 >g');
    await story.cp('a');
    await story.t('echo 2 >f; echo 2 >g');
    await story.undo('a');
    story.u('echo mine>f');
    const result = await story.redo();
    expect(result).toMatchObject({ outcome: 'partial', message: 'Redid the last turn. Kept 1 that changed since: f' });
    expect(story.space.sh('cat f g')).toBe('mine\n2\n');
  });

  test('a capture ends redo, and the undone turn stays undone', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f');
    await story.undo('a');
    await story.cp('b');
    expect(await story.redo()).toMatchObject({ outcome: 'nothing' });
    expect(story.space.read('f')).toBe('1\n');
  });

  test('undo keeps what the user changed since, in words, and finishes when it is asked for the turn again', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 1 >g');
    const session = story.session();
    await story.cp('a');
    await story.t('echo 2 >f; echo 2 >g');
    story.u('echo mine>f');
    expect(got(await session.undo())).toMatchObject({
      outcome: 'partial',
      message: 'Undid the last turn. Files restored: 1. Kept 1 that changed since: f',
    });
    expect(got(await session.undo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to undo.' });
    expect(got(await session.undo({ boundaryId: 'a' }))).toMatchObject({
      outcome: 'nothing',
      message: 'Nothing was restored. Kept 1 that changed since: f',
    });
    expect(got(await session.undo({ boundaryId: 'a', onConflict: 'overwrite' }))).toMatchObject({ outcome: 'done' });
    expect(story.space.sh('cat f g')).toBe('1\n1\n');
    expect(got(await session.redo())).toMatchObject({ outcome: 'done' });
    expect(story.space.read('f')).toBe('mine\n');
  });

  test('undo while a call is open waits in words, and other sessions’ calls do not matter', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [s1, s2] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: s1 });
    await story.cp('a', { session: s2 });
    await story.turnOf(s1, 'echo 2 >f');
    got(await s2.beginCall('open'));
    expect(got(await s1.undo()).outcome).toBe('done');
    expect(await s2.undo()).toEqual({
      available: false,
      reason: 'calls-in-flight',
      detail: 'Wait until the turn ends, then try again.',
    });
    expect(await s2.restore('a')).toMatchObject({ available: false, reason: 'calls-in-flight' });
    got(await s2.endCall('open'));
    expect(got(await s2.undo()).outcome).toBe('nothing');
  });
});
