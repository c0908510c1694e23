/** Merge and the revert of one turn, together with revert, unrevert, forks and hunks. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

const f = (story: Story): string => story.space.sh('paste -sd, f').trim();

async function twoTurns(story: Story): Promise<void> {
  for (const [id, line] of Object.entries({ a: 2, b: 5 })) {
    await story.cp(id);
    await story.t(`sed -i 's/^${line}$/${id}/' f`);
  }
}

describeBackends('merge and revert together', (backend) => {
  const begin = (): Promise<Story> => Story.begin(backend, 'seq 1 9 >f');

  test('a revert that merges keeps the user’s lines, and unrevert brings all back', async () => {
    await using story = await begin();
    const session = story.session();
    await twoTurns(story);
    story.u("sed -i 's/^8$/mine/' f");
    expect(got(await session.revert({ messageId: 'a', onConflict: 'merge' })).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,mine,9');
    await story.reopen();
    expect(got(await story.session().unrevert()).outcome).toBe('done');
    expect(f(story)).toBe('1,a,3,4,b,6,7,mine,9');
  });

  test('unrevert merges what was edited while the revert stood', async () => {
    await using story = await begin();
    const session = story.session();
    await twoTurns(story);
    got(await session.revert({ messageId: 'b' }));
    story.u("sed -i 's/^8$/mine/' f");
    expect(got(await session.unrevert({ onConflict: 'merge' })).outcome).toBe('done');
    expect(f(story)).toBe('1,a,3,4,b,6,7,mine,9');
  });

  test('while a revert stands, one turn or call can’t be reverted', async () => {
    await using story = await begin();
    const session = story.session();
    await twoTurns(story);
    got(await session.revert({ messageId: 'b' }));
    for (const answer of [await session.revertTurn('a'), await session.revertCall('call-1')]) {
      expect(answer).toEqual({
        available: false,
        reason: 'revert-stands',
        detail: 'A revert stands. Run unrevert, or send a prompt, first.',
      });
    }
    expect(f(story)).toBe('1,a,3,4,5,6,7,8,9');
  });

  test('revert after the revert of a middle turn leaves none of its changes behind', async () => {
    await using story = await begin();
    const session = story.session();
    await twoTurns(story);
    got(await session.revertTurn('a'));
    expect(f(story)).toBe('1,2,3,4,b,6,7,8,9');
    expect(got(await session.revert({ messageId: 'b' })).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    got(await session.unrevert());
    expect(f(story)).toBe('1,2,3,4,b,6,7,8,9');
  });

  test('a fork inherits what was reverted and what is owed, and each goes its own way', async () => {
    await using story = await begin();
    const session = story.session();
    await twoTurns(story);
    got(await session.revertTurn('a'));
    got(await session.fork({ threadId: 'fork' }, { at: 'a' }));
    const fork = story.session('fork');
    expect(got(await fork.restore('a')).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    expect(got(await fork.redo()).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,b,6,7,8,9');
    expect(got(await session.undo()).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
  });

  test('a revert of a turn of which a hunk went back already takes the rest', async () => {
    await using story = await begin();
    const session = story.session();
    await story.cp('a');
    await story.t("sed -i 's/^2$/a/; s/^5$/a/' f");
    await story.cp('b');
    await story.t("sed -i 's/^8$/b/' f");
    await story.undo('a', { hunks: [{ path: 'f', ranges: [[5, 5]] }] });
    expect(f(story)).toBe('1,a,3,4,5,6,7,b,9');
    expect(got(await session.revertTurn('a')).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,b,9');
    for (const state of ['1,a,3,4,5,6,7,b,9', '1,a,3,4,a,6,7,b,9']) {
      expect((await story.redo()).outcome).toBe('done');
      expect(f(story)).toBe(state);
    }
  });
});
