/** A file that went elsewhere is told as one move, wherever changes are told, and taken back as two entries. */
import { expect, test } from 'vitest';
import type { ChangeSummary, PlanEntry } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

/** `old → new` of a move, `path kind` of the others. */
const lines = (changes: readonly ChangeSummary[]): string[] =>
  changes.map(({ kind, from, path }) => (kind === 'moved' ? `${from} → ${path}` : `${path} ${kind}`));

const links = (entries: readonly PlanEntry[]): string[] =>
  entries.map(({ path, action, movedFrom, movedTo }) =>
    [path, action, movedFrom && `from ${movedFrom}`, movedTo && `to ${movedTo}`].filter(Boolean).join(' '),
  );

describeBackends('moves', (backend) => {
  test('a move is one change of the call, of the turn and of the diff', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a; mkdir d; echo other >b; ln -s t l');
    const { position } = await story.cp('1');
    const told = ['a → d/a', 'l → d/m', 'b modified'].sort();
    expect(lines(await story.t('mv a d/; mv l d/m; echo x >>b')).sort()).toEqual(told);
    const turn = got(await story.session().turnChanges('1')).changes;
    expect(lines(turn)).toEqual(['b modified', 'a → d/a', 'l → d/m']);
    expect(turn[1]).toMatchObject({
      path: 'd/a',
      kind: 'moved',
      from: 'a',
      before: { size: 111 },
      after: { size: 111 },
    });
    const diff = got(await story.session().diff(position));
    expect(lines(diff.files)).toEqual(['b modified', 'a → d/a', 'l → d/m']);
    expect(diff.stats).toEqual({ files: 3, linesAdded: 1, linesDeleted: 0 });
  });

  test('a file that was edited on its way is a move, and one that kept less than half is not', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a; seq 100 140 >b');
    await story.cp('1');
    expect(lines(await story.t('sed 3d a >c; rm a; seq 130 170 >d; rm b'))).toEqual([
      'b deleted',
      'a → c',
      'd created',
    ]);
  });

  test('a pure copy is no move', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a');
    await story.cp('1');
    expect(lines(await story.t('cp a b'))).toEqual(['b created']);
  });

  test('a renamed folder is a move of each file, and an empty one a folder made and one removed', async () => {
    await using story = await Story.begin(backend, 'mkdir -p d/e void; echo 1 >d/1; echo 2 >d/e/2; echo 1 >d/3');
    await story.cp('1');
    expect(lines(await story.t('mv d new; mv void still-void'))).toEqual([
      'd/1 → new/1',
      'd/3 → new/3',
      'd/e/2 → new/e/2',
      'still-void created',
      'void deleted',
    ]);
  });

  test('the way back of a diff moves back', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a');
    const first = await story.cp('1');
    await story.t('mv a b');
    const second = await story.cp('2');
    const diff = got(await story.session().diff(second.position, first.position));
    expect(lines(diff.files)).toEqual(['b → a']);
    expect(diff.patch).toBe('diff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n');
  });

  test('a plan and a receipt keep two entries that name each other, in the direction of the operation', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a; seq 50 90 >b; echo c >c');
    const before = contents(snapshot(story.space.root));
    await story.cp('1');
    await story.t('mkdir d; mv a d/; sed 1d b >d/b2; rm b; rm c');
    const after = contents(snapshot(story.space.root));
    const plan = await story.plan('1');
    const back = ['a recreate from d/a', 'b recreate from d/b2', 'c recreate', 'd/a delete to a', 'd/b2 delete to b'];
    expect(links(plan.entries)).toEqual(back);
    const receipt = await story.undo('1', { planToken: plan.token });
    expect(receipt.outcome).toBe('done');
    expect(links(receipt.restored)).toEqual(back);
    expect(contents(snapshot(story.space.root))).toEqual(before);
    const redo = await story.redo();
    expect(links(redo.receipt?.restored ?? [])).toEqual([
      'a delete to d/a',
      'b delete to d/b2',
      'c delete',
      'd/a recreate from a',
      'd/b2 recreate from b',
    ]);
    expect(contents(snapshot(story.space.root))).toEqual(after);
  });

  test('an end that is kept still names the other one', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a');
    await story.cp('1');
    await story.t('mv a b');
    story.u('echo mine >>b');
    const receipt = await story.undo('1');
    expect(digest(receipt)).toMatchObject({ refused: { b: 'changed-outside-session' } });
    expect([...links(receipt.restored), ...links(receipt.refused)]).toEqual(['a recreate from b', 'b refuse to a']);
  });

  test('lists count a move as one modified file, and its edited lines', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a');
    await story.cp('1');
    await story.t('sed 3d a >b; rm a');
    const { items } = got(await story.session().timeline());
    const files = { created: 0, modified: 1, deleted: 0, linesAdded: 0, linesDeleted: 1 };
    expect(items.filter(({ type }) => type !== 'operation')).toMatchObject([
      { type: 'boundary', files },
      { type: 'call', files },
    ]);
  });

  test('a move of a secret file is no move: nothing of its bytes is known', async () => {
    await using story = await Story.begin(backend, 'echo SECRET=1 >.env');
    await story.cp('1');
    expect(lines(await story.t('mv .env settings'))).not.toContain('.env → settings');
  });
});
