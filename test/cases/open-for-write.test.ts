/** A file that somebody holds open for writing: refused by default, taken from under the writer's hands by overwrite. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { availableBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

// The portable backend has no leases: it can't tell who has a file open.
describe.skipIf(!availableBackends.includes('native'))('a file that is open for writing [native]', () => {
  for (const [what, setup, command, action] of [
    ['replaced', 'printf old>f', 'printf new>f', 'restore'],
    ['deleted', '', 'printf new>f', 'delete'],
    ['given its old mode', 'printf new>f; chmod 600 f', 'chmod 644 f', 'restore'],
  ] as const) {
    test(`is refused by default, ${what} with overwrite, and redo brings its bytes back`, async () => {
      await using story = await Story.begin('native', setup);
      await story.cp('a');
      await story.t(command);
      const writer = openSync(join(story.space.root, 'f'), 'r+');
      try {
        expect(digest(await story.undo('a'))).toEqual({ outcome: 'nothing', refused: { f: 'open-for-write' } });
        expect(story.space.read('f')).toBe('new');
        const receipt = await story.undo('a', { onConflict: 'overwrite' });
        expect(receipt.restored).toMatchObject([{ path: 'f', action, overrides: 'open-for-write' }]);
        expect(receipt.restored[0]?.note).toContain('open-for-write');
      } finally {
        closeSync(writer);
      }
      expect((await story.redo()).receipt?.outcome).toBe('done');
      expect(story.space.read('f')).toBe('new');
    });
  }

  test('what its writer writes after an overwrite is in the trash, and gc stores it before it drops the file', async () => {
    await using story = await Story.begin('native', 'printf old>f');
    await story.cp('a');
    await story.t('printf new>f');
    const writer = openSync(join(story.space.root, 'f'), 'r+');
    expect((await story.undo('a', { onConflict: 'overwrite' })).outcome).toBe('done');
    writeSync(writer, 'late');
    closeSync(writer);
    expect(story.space.read('f')).toBe('old');
    expect(got(await story.workspace.gc())).toMatchObject({ lateWrites: [{}] });
  });
});
