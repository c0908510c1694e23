/** The recipe of docs/hosts.md, run as it stands by a program of its own. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { recipe, runRecipe } from '../kit/recipe.ts';
import { Space } from '../kit/space.ts';

describeBackends('recipe: Tool hooks', (backend) => {
  let space: Space;
  beforeEach(() => {
    space = new Space();
  });
  afterEach(() => space[Symbol.asyncDispose]());

  test('a turn is recorded, offloaded, read in pages, undone, and its session deleted', async () => {
    space.git('init', '-q');
    const [block, ...more] = recipe('Tool hooks');
    expect([block?.language, more]).toEqual(['js', []]);
    const home = join(space.base, 'home');
    const { stdout, stderr } = await runRecipe(block?.code ?? '', {
      cwd: space.root,
      env: { HOME: home, XDG_STATE_HOME: join(space.base, 'state'), TAKEBACK_BACKEND: backend },
    });
    expect(stderr).toBe('');
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(
        /^\[Output saved to \.takeback\/tool_results\/[0-9a-f-]{36}\/call-2\.txt, 5000 lines \/ 23893 bytes total\.$/,
      ),
      '1',
      '2',
      '3',
      '4',
      '',
      '',
      '[Bytes 0 to 8 of 23893; to continue reading use offset=8]',
      'Undid the last turn. Files restored: 1.',
      '1 folder of outputs removed',
      '',
    ]);
    expect(space.exists('numbers.txt')).toBe(false);
    expect(readdirSync(join(space.root, '.takeback/plans'))).toEqual([
      expect.stringMatching(/^\d{14}-[0-9a-f]{8}\.md$/),
    ]);
    expect(readdirSync(join(space.root, '.takeback/tool_results'))).toEqual(['.gitignore']);
    expect(readdirSync(join(home, '.takeback'))).toContain('sessions.db');
  });
});
