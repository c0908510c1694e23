/** What a long turn of hook processes leaves in the store: each one must not cost more than the one before. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openWorkspace } from '../../src/index.ts';
import { Hooks, Script, UNHEARD } from '../adapters/claude-code/kit.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';

/** On native, enough for a log well beyond the longest, if nothing emptied it; a portable hook closes its databases. */
const CALLS = { native: 60, portable: 8 };
/** `boundLog` of src/timeline/store.ts acts above half a mebibyte; one event adds some tens of kibibytes. */
const LONGEST_LOG = 640 * 1024;

describeBackends('a turn of many calls through hooks', (backend) => {
  test('leaves one segment beside the first, and a log that stays short', async () => {
    await using space = new Space();
    space.write('a.txt', '0\n');
    const hooks = new Hooks(space, backend);
    const script = new Script(space.root);
    expect(hooks.send(script.prompt('p1', 'Count'))).toEqual(UNHEARD);
    const home = join(space.dataDir, 'workspaces', readdirSync(join(space.dataDir, 'workspaces'))[0] as string);
    const send = (event: Parameters<Hooks['send']>[0]): void => {
      expect(hooks.send(event)).toEqual(UNHEARD);
      expect(statSync(join(home, 'timeline.db-wal'), { throwIfNoEntry: false })?.size ?? 0).toBeLessThan(LONGEST_LOG);
    };
    for (let i = 1; i <= CALLS[backend]; i += 1) {
      send(script.pre('Bash', `toolu_${i}`, { command: 'x' }));
      space.write('a.txt', `${i}\n`);
      send(script.post('Bash', `toolu_${i}`, { command: 'x' }));
    }
    expect(hooks.problems()).toEqual([]);
    expect(readdirSync(join(home, 'segments')).filter((name) => name.endsWith('.seg'))).toHaveLength(1);

    const workspace = await openWorkspace({ root: space.root, dataDir: space.dataDir, backend });
    if (!workspace.available) throw new Error(workspace.detail);
    expect(await workspace.verify()).toMatchObject({ problems: [] });
    const session = workspace.session({ threadId: script.prompt('p2', '').session_id as string });
    const { items } = got(await session.timeline({ limit: 100 }));
    expect(items.filter(({ type }) => type === 'call')).toHaveLength(CALLS[backend]);
    got(await session.undo());
    expect(space.read('a.txt')).toBe('0\n');
    await workspace.close();
  }, 240_000);
});
