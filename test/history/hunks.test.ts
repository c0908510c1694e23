/** Restoring single hunks: how a plan lists them, what goes back, what is refused as a whole, and what comes after. */
import { expect, test } from 'vitest';
import type { PlanHunk } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

const f = (story: Story): string => story.space.sh('paste -sd, f').trim();

/** One turn that changes line 2, takes line 5 out and adds two lines after 8, in a file of nine. */
async function turn(story: Story): Promise<void> {
  await story.cp('a');
  await story.t("sed -i 's/^2$/agent/; 5d; 8a x\\ny' f; printf '1\\0' >bin; chmod 755 f; rm gone; echo new >new");
  expect(f(story)).toBe('1,agent,3,4,6,7,8,x,y,9');
}

async function hunksOf(story: Story, path = 'f'): Promise<readonly PlanHunk[]> {
  const plan = await story.plan('a', { hunks: true });
  return plan.entries.find((entry) => entry.path === path)?.hunks ?? [];
}

describeBackends('hunks', (backend) => {
  const begin = (): Promise<Story> => Story.begin(backend, "seq 1 9 >f; printf '0\\0' >bin; echo gone >gone");

  test('a plan lists the hunks of text files that it writes over, where it is asked', async () => {
    await using story = await begin();
    await turn(story);
    expect((await hunksOf(story)).map(({ id, ...lines }) => [typeof id, lines])).toEqual([
      ['string', { oldStart: 2, oldLines: 1, newStart: 2, newLines: 1, lines: ['-agent', '+2'] }],
      ['string', { oldStart: 4, oldLines: 0, newStart: 5, newLines: 1, lines: ['+5'] }],
      ['string', { oldStart: 8, oldLines: 2, newStart: 8, newLines: 0, lines: ['-x', '-y'] }],
    ]);
    const plan = await story.plan('a', { hunks: true });
    expect(plan.entries.filter((entry) => entry.hunks !== undefined).map((entry) => entry.path)).toEqual(['f']);
    expect((await story.plan('a')).entries.every((entry) => entry.hunks === undefined)).toBe(true);
    expect((await story.plan('a')).token).toBe(plan.token);
  });

  test('by id: only these go back, the others and the mode stay, and redo brings them back', async () => {
    await using story = await begin();
    await turn(story);
    const [, second] = await hunksOf(story);
    const receipt = await story.undo('a', { hunks: [second?.id as string] });
    expect(receipt).toMatchObject({
      outcome: 'done',
      restored: [{ path: 'f', action: 'restore', detail: 'hunks: 1 of 3' }],
      skipped: [],
    });
    expect(f(story)).toBe('1,agent,3,4,5,6,7,8,x,y,9');
    expect(story.space.sh('stat -c %a f; ls')).toBe('755\nbin\nf\nnew\n');
    await story.reopen();
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,agent,3,4,6,7,8,x,y,9');
    expect(got(await story.session().redo())).toMatchObject({ message: 'Nothing to redo.' });
  });

  test('by lines on disk: every hunk that touches them, a gap by the line on either side', async () => {
    for (const [ranges, state] of [
      [[[2, 2]], '1,2,3,4,6,7,8,x,y,9'],
      [[[4, 4]], '1,agent,3,4,5,6,7,8,x,y,9'],
      [[[5, 5]], '1,agent,3,4,5,6,7,8,x,y,9'],
      [[[9, 9]], '1,agent,3,4,6,7,8,9'],
      [[[1, 6]], '1,2,3,4,5,6,7,8,x,y,9'],
      [
        [
          [2, 2],
          [8, 8],
        ],
        '1,2,3,4,6,7,8,9',
      ],
    ] as [[number, number][], string][]) {
      await using story = await begin();
      await turn(story);
      expect((await story.undo('a', { hunks: [{ path: 'f', ranges }] })).outcome).toBe('done');
      expect(f(story), JSON.stringify(ranges)).toBe(state);
    }
  });

  test('the path stays owed: undo takes the rest, and redo for redo gives all back', async () => {
    await using story = await begin();
    await turn(story);
    await story.undo('a', { hunks: [{ path: 'f', ranges: [[2, 2]] }] });
    expect((await story.plan('a')).entries.map((entry) => [entry.path, entry.action])).toEqual([
      ['bin', 'restore'],
      ['f', 'restore'],
      ['gone', 'recreate'],
      ['new', 'delete'],
    ]);
    expect(got(await story.session().undo())).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    expect(story.space.sh('stat -c %a f; ls')).toBe('644\nbin\nf\ngone\n');
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,2,3,4,6,7,8,x,y,9');
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,agent,3,4,6,7,8,x,y,9');
  });

  test('hunk after hunk, until nothing is owed but the mode', async () => {
    await using story = await Story.begin(backend, 'seq 1 9 >f');
    await story.cp('a');
    await story.t("sed -i 's/^2$/agent/; 5d' f");
    for (const left of [1, 0]) {
      const [hunk] = await hunksOf(story);
      await story.undo('a', { hunks: [hunk?.id as string] });
      expect((await hunksOf(story)).length).toBe(left);
    }
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
    expect(got(await story.session().undo()), 'the last hunk settled the path').toMatchObject({
      message: 'Nothing to undo.',
    });
  });

  test('a hunk of an earlier turn stays back when a later turn is undone', async () => {
    await using story = await Story.begin(backend, 'seq 1 9 >f');
    await story.cp('a');
    await story.t("sed -i 's/^2$/one/' f");
    await story.cp('b');
    await story.t("sed -i 's/^8$/two/' f");
    await story.undo('a', { hunks: [{ path: 'f', ranges: [[2, 2]] }] });
    expect(f(story)).toBe('1,2,3,4,5,6,7,two,9');
    expect(got(await story.session().undo()).outcome).toBe('done');
    expect(f(story)).toBe('1,2,3,4,5,6,7,8,9');
  });

  test('a hunk that fits no longer makes it stale, and nothing is written', async () => {
    await using story = await begin();
    const session = story.session();
    await turn(story);
    const [first] = await hunksOf(story);
    const ids = [first?.id as string];
    expect(await session.restore('a', { hunks: [...ids, { path: 'f', ranges: [[6, 7]] }] })).toMatchObject({
      available: false,
      reason: 'stale-plan',
      detail: 'f: no hunk there: lines 6–7 of f. Make a new plan and choose again; nothing was written.',
    });
    await story.undo('a', { hunks: ids });
    expect(await session.restore('a', { hunks: ids })).toMatchObject({ available: false, reason: 'stale-plan' });
    expect(f(story)).toBe('1,2,3,4,6,7,8,x,y,9');
  });

  test('a binary file, one that was made, one that was removed: unsupported, and nothing is written', async () => {
    await using story = await begin();
    await turn(story);
    for (const [path, why] of Object.entries({
      bin: 'it is a binary file',
      new: 'it comes or goes as a whole',
      gone: 'it comes or goes as a whole',
    })) {
      const hunks = [
        { path: 'f', ranges: [[2, 2]] as [number, number][] },
        { path, ranges: [[1, 1]] as [number, number][] },
      ];
      expect(await story.session().restore('a', { hunks }), path).toEqual({
        available: false,
        reason: 'unsupported',
        detail: `${path}: ${why}. Restore the path without hunks; nothing was written.`,
      });
    }
    expect(f(story)).toBe('1,agent,3,4,6,7,8,x,y,9');
  });

  test('a file that the user changed since is refused, and with merge only the agent’s hunk goes', async () => {
    await using story = await begin();
    await turn(story);
    story.u("sed -i 's/^3$/mine/' f");
    const hunks = [{ path: 'f', ranges: [[9, 9]] as [number, number][] }];
    expect(await story.undo('a', { hunks })).toMatchObject({
      outcome: 'nothing',
      refused: [{ path: 'f', reason: 'changed-outside-session' }],
    });
    expect(await story.undo('a', { hunks, onConflict: 'merge' })).toMatchObject({
      refused: [{ path: 'f', reason: 'changed-outside-session', detail: 'clash: lines 2–3' }],
    });
    story.u("sed -i 's/^mine$/3/; s/^7$/7b/' f");
    const receipt = await story.undo('a', { hunks, onConflict: 'merge' });
    expect(receipt.restored).toMatchObject([{ path: 'f', action: 'merge', detail: 'hunks: 1 of 3' }]);
    expect(f(story)).toBe('1,agent,3,4,6,7b,8,9');
    expect(await story.redo()).toMatchObject({ outcome: 'done' });
    expect(f(story)).toBe('1,agent,3,4,6,7b,8,x,y,9');
  });

  test('a path that the session does not owe, an id that is none, no hunks', async () => {
    await using story = await begin();
    const session = story.session();
    await turn(story);
    expect((await story.undo('a', { hunks: [{ path: 'nowhere', ranges: [[1, 1]] }] })).skipped).toMatchObject([
      { path: 'nowhere', reason: 'not-attributed' },
    ]);
    for (const hunks of [['x'], [], [{ path: 'f', ranges: [] }], [{ path: 'f', ranges: [[3, 2]] }]] as string[][]) {
      await expect(session.restore('a', { hunks }), JSON.stringify(hunks)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
      });
    }
    await expect(session.restore('a', { hunks: [{ path: '../f', ranges: [[1, 1]] }] })).rejects.toMatchObject({
      code: 'ERR_OUTSIDE_ROOT',
    });
  });

  test('a plan’s token holds for its hunks', async () => {
    await using story = await begin();
    await turn(story);
    const { token, entries } = await story.plan('a', { hunks: true });
    const id = entries.find((entry) => entry.path === 'f')?.hunks?.[0]?.id as string;
    expect((await story.undo('a', { hunks: [id], planToken: token })).outcome).toBe('done');
    expect(await story.session().restore('a', { hunks: [id], planToken: token })).toMatchObject({
      reason: 'stale-plan',
    });
  });

  test('CRLF and a missing last newline stay as they are, in every choice', async () => {
    await using story = await Story.begin(backend, '');
    story.space.write('f', '1\r\n2\r\n3\n4\n5');
    await story.cp('a');
    await story.t("printf '0\\r\\n2\\r\\n3\\n4\\n6\\n' >f");
    const hunks = await hunksOf(story);
    await story.undo('a', { hunks: [hunks[1]?.id as string] });
    expect(story.space.bytes('f')).toBe('0\r\n2\r\n3\n4\n5');
    await story.redo();
    await story.undo('a', { hunks: [hunks[0]?.id as string] });
    expect(story.space.bytes('f')).toBe('1\r\n2\r\n3\n4\n6\n');
  });
});
