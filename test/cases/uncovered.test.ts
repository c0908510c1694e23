/** Faults that took what a boundary had not kept for something that the agent made. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest, digest } from '../kit/digest.ts';
import { Story } from '../kit/story.ts';

const CAP = { open: { limits: { maxFileBytes: 1024 * 1024 } } };

describeBackends('uncovered', (backend) => {
  // B09 · NousResearch/hermes-agent PR #95491
  test('a file above the size cap is never deleted, never called restored, and listed', async () => {
    await using story = await Story.begin(backend, 'seq 400000 >data.csv; echo a>a.txt', CAP);
    const capture = await story.cp('a');
    expect(capture.uncovered).toEqual([{ path: 'data.csv', reason: 'too-large' }]);
    const changes = await story.t('echo tail>>data.csv; echo b>a.txt; seq 300000 >made.csv');
    expect(changeDigest(changes)).toEqual({ 'a.txt': 'modified', 'data.csv': 'modified', 'made.csv': 'created' });
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'partial',
      restored: { 'a.txt': 'restore' },
      refused: { 'data.csv': 'uncovered', 'made.csv': 'uncovered' },
      uncovered: { 'data.csv': 'too-large', 'made.csv': 'too-large' },
    });
    expect(story.space.sh('tail -1 data.csv; tail -1 made.csv; cat a.txt')).toBe('tail\n300000\na\n');
  });

  test('a file that grows over the cap in a turn is refused, and comes back when it is small again', async () => {
    await using story = await Story.begin(backend, 'echo small>grow', CAP);
    await story.cp('a');
    await story.t('seq 300000 >grow');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'nothing',
      refused: { grow: 'uncovered' },
      uncovered: { grow: 'too-large' },
    });
    await story.t('echo 2 >grow');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { grow: 'restore' } });
    expect(story.space.read('grow')).toBe('small\n');
  });

  test('a large file that a turn shrank, deleted, moved or replaced by a folder is reported, not made up', async () => {
    await using story = await Story.begin(backend, 'for f in a b c d; do seq 300000 >$f; done', CAP);
    await story.cp('a');
    await story.t('echo s>a; rm b; mv c moved; mkdir t; echo x>t/x; rm d; mv t d');
    const receipt = await story.undo('a');
    expect(digest(receipt).refused).toMatchObject({ a: 'uncovered', b: 'uncovered', c: 'uncovered', d: 'uncovered' });
    // A name below what was uncovered is never the session's to delete; whether it was new can't be told.
    expect(Object.keys(digest(receipt).restored ?? {}).filter((path) => path !== 'd/x')).toEqual([]);
    expect(story.space.read('a')).toBe('s\n');
    expect(story.space.sh('tail -1 moved'), 'the only copy of c’s bytes stays').toBe('300000\n');
  });

  test('a lifted cap covers at the next boundary, and a lowered one never deletes', async () => {
    await using story = await Story.begin(backend, 'seq 300000 >big; echo 1 >f', CAP);
    await story.cp('a');
    await story.reopen({ limits: { maxFileBytes: 8 * 1024 * 1024 } });
    expect((await story.cp('b')).uncovered).toEqual([]);
    await story.t('echo x>big');
    expect(digest(await story.undo('b'))).toEqual({ outcome: 'done', restored: { big: 'restore' } });
    expect(story.space.sh('tail -1 big')).toBe('300000\n');
    await story.reopen({ limits: { maxFileBytes: 1024 } });
    expect((await story.cp('c')).uncovered).toEqual([{ path: 'big', reason: 'too-large' }]);
    await story.t('echo y>big; echo 2 >f');
    expect(digest(await story.undo('c'))).toMatchObject({ restored: { f: 'restore' }, refused: { big: 'uncovered' } });
  });
});
