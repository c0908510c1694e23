/** Faults about moved files. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

describeBackends('moves', (backend) => {
  // B16 · Kilo-Org/kilocode #9741
  test('undo of moves brings every source back and removes every target, and redo moves them again', async () => {
    await using story = await Story.begin(backend, 'mkdir A; for i in 1 2 3; do seq $i 40 >A/f$i; done');
    const before = contents(snapshot(story.space.root));
    await story.cp('a');
    await story.t('mkdir B; mv A/f1 A/f2 B/; mv A/f3 A/g3; echo extra>>B/f2');
    const moved = contents(snapshot(story.space.root));
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: {
        'A/f1': 'recreate',
        'A/f2': 'recreate',
        'A/f3': 'recreate',
        'A/g3': 'delete',
        'B/f1': 'delete',
        'B/f2': 'delete',
      },
    });
    expect(contents(snapshot(story.space.root))).toEqual(before);
    await story.redo();
    expect(contents(snapshot(story.space.root))).toEqual(moved);
  });

  test.each([
    ['a folder renamed', 'mkdir -p d/e; echo 1 >d/1; echo 2 >d/e/2', 'mv d new'],
    ['two files swapped', 'echo a>a; echo b>b', 'mv a t; mv b a; mv t b'],
    ['a rotation', 'for i in 1 2 3; do echo $i>$i; done', 'mv 1 t; mv 2 1; mv 3 2; mv t 3'],
    ['a file moved over another', 'echo a>a; echo b>b', 'mv a b'],
    ['a folder moved into another', 'mkdir a b; echo 1 >a/1; echo 2 >b/2', 'mv a b/'],
    ['a parent swapped with its child', 'mkdir -p p/c; echo 1 >p/1; echo 2 >p/c/2', 'mv p/c t; mv p t/c; mv t p'],
    ['case only', 'echo a>readme', 'mv readme README'],
    ['moved and moved back', 'echo a>a', 'mv a b; mv b a'],
    ['a link moved', 'echo a>a; ln -s a l; mkdir d', 'mv l d/l'],
  ])('%s comes back exactly, and forth again', async (_, setup, change) => {
    await using story = await Story.begin(backend, setup);
    const before = contents(snapshot(story.space.root));
    await story.cp('a');
    await story.t(change);
    const after = contents(snapshot(story.space.root));
    expect((await story.undo('a')).outcome).toBe(change === 'mv a b; mv b a' ? 'nothing' : 'done');
    expect(contents(snapshot(story.space.root))).toEqual(before);
    await story.redo();
    expect(contents(snapshot(story.space.root))).toEqual(after);
  });

  test('a move whose target the user edited keeps the edit, and brings the source back', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a');
    await story.cp('a');
    await story.t('mv a b');
    story.u('echo mine>>b');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'partial',
      restored: { a: 'recreate' },
      refused: { b: 'changed-outside-session' },
    });
    expect(story.space.sh('tail -1 a; tail -1 b')).toBe('40\nmine\n');
  });
});
