/** Faults that took a changed file for an unchanged one. */
import { readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest, digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

const ROUNDS = 200;

describeBackends('change detection', (backend) => {
  // B17 · vedaant00/opendot #115
  test('a same-size write with the mtime put back is seen', async () => {
    await using story = await Story.begin(backend, 'echo AAAA>f; touch -d @1700000000 f');
    await story.cp('a');
    await story.t('echo BBBB>f; touch -d @1700000000 f');
    await story.cp('b');
    await story.t('echo CCCC>f; touch -d @1700000000 f');
    await story.undo('b');
    expect(story.space.read('f')).toBe('BBBB\n');
    await story.undo('a');
    expect(story.space.read('f')).toBe('AAAA\n');
  });

  test(`${ROUNDS} boundaries of quick same-size writes each export their own bytes, and undo newest first`, {
    timeout: 120_000,
  }, async () => {
    await using story = await Story.begin(backend, '');
    const file = join(story.space.root, 'f');
    const text = (round: number) => `${1000 + round}\n`;
    writeFileSync(file, text(0));
    const session = story.session();
    const positions: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      positions.push(got(await session.capture(`b${round}`)).position);
      got(await session.beginCall('c'));
      writeFileSync(file, text(round + 1));
      utimesSync(file, 1_700_000_000, 1_700_000_000);
      got(await session.endCall('c'));
    }
    for (const [round, position] of positions.entries()) {
      const target = join(story.space.base, 'data', `export-${round}`);
      expect(got(await story.workspace.export(position, target)).files).toBe(1);
      expect(readFileSync(join(target, 'f'), 'utf8')).toBe(text(round));
    }
    for (let round = ROUNDS - 1; round >= 0; round--) {
      expect(got(await session.restore(`b${round}`)).outcome).toBe('done');
      expect(story.space.read('f')).toBe(text(round));
    }
  });

  test.each([
    ['rename over', 'printf BBBB>t; touch -r f t; mv t f'],
    ['in place', 'printf BBBB | dd of=f conv=notrunc status=none; touch -d @1700000000 f'],
    ['unlink and create', 'rm f; printf BBBB>f; touch -d @1700000000 f'],
    ['a swap with a file of one size and mtime', 'printf BBBB>g; touch -d @1700000000 g; mv f t; mv g f; mv t g'],
    ['copied with all times', 'printf BBBB>../x; touch -d @1700000000 ../x; cp -p ../x f; rm ../x'],
  ])('a same-size edit by %s is seen by the call and undone', async (_, change) => {
    await using story = await Story.begin(backend, 'printf AAAA>f; touch -d @1700000000 f');
    await story.cp('a');
    expect(changeDigest(await story.t(change))).toMatchObject({ f: 'modified' });
    expect(digest(await story.undo('a')).restored).toMatchObject({ f: 'restore' });
    expect(story.space.read('f')).toBe('AAAA');
  });

  test('a user’s same-size edit after the call is seen by the guard', async () => {
    await using story = await Story.begin(backend, 'printf AAAA>f; touch -d @1700000000 f');
    await story.cp('a');
    await story.t('printf BBBB>f; touch -d @1700000000 f');
    story.u('printf CCCC>f; touch -d @1700000000 f');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'nothing', refused: { f: 'changed-outside-session' } });
    expect(story.space.read('f')).toBe('CCCC');
  });

  test('a touch alone is no change', async () => {
    await using story = await Story.begin(backend, 'echo A>f; mkdir d');
    await story.cp('a');
    expect(await story.t('touch f d; touch -d @1 f')).toEqual([]);
    expect((await story.undo('a')).outcome).toBe('nothing');
  });
});
