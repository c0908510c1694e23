/** The Agent SDK's in-process hooks: the same sessions as the command's, without processes. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type ClaudeCodeHooks,
  type ClaudeCodeProblem,
  claudeCodeHooks,
  HOOK_EVENTS,
} from '../../../src/adapters/claude-code.ts';
import { describeBackends } from '../../kit/backends.ts';
import { Space } from '../../kit/space.ts';
import { contents, snapshot } from '../../kit/tree.ts';
import { type HookEvent, Script, SESSION } from './kit.ts';

const P1 = 'b1a0b6c2-0000-4000-8000-000000000001';
const P2 = 'b1a0b6c2-0000-4000-8000-000000000002';

/** As the SDK calls them. */
async function fire(to: ClaudeCodeHooks, event: HookEvent): Promise<void> {
  for (const { hooks } of to.hooks[String(event.hook_event_name)] ?? []) {
    for (const hook of hooks) {
      expect(await hook(event, undefined, { signal: new AbortController().signal })).toEqual({});
    }
  }
}

describeBackends('hooks of the Agent SDK', (backend) => {
  const start = (space: Space): { to: ClaudeCodeHooks; problems: ClaudeCodeProblem[] } => {
    const problems: ClaudeCodeProblem[] = [];
    const to = claudeCodeHooks({
      root: space.root,
      dataDir: space.dataDir,
      backend,
      durability: 'fast',
      onProblem: (problem) => problems.push(problem),
    });
    return { to, problems };
  };

  test('an edit tool, a shell, two calls at once and one that fails: undo takes back exactly theirs', async () => {
    await using space = new Space();
    space.write('a.txt', 'a');
    space.write('b.txt', 'b');
    const before = contents(snapshot(space.root));
    const { to, problems } = start(space);
    const script = new Script(space.root);
    await fire(to, script.prompt(P1, 'go'));
    const edit = { file_path: join(space.root, 'a.txt') };
    await fire(to, script.pre('Edit', 't1', edit));
    space.write('a.txt', 'edited');
    await fire(to, script.post('Edit', 't1', edit));
    await Promise.all([fire(to, script.pre('Bash', 't2', {})), fire(to, script.pre('mcp__x__y', 't3', {}))]);
    space.write('c.txt', 'c');
    space.sh('rm b.txt');
    await Promise.all([fire(to, script.post('Bash', 't2', {})), fire(to, script.post('mcp__x__y', 't3', {}))]);
    await fire(to, script.pre('Bash', 't4', {}));
    space.write('d.txt', 'd');
    await fire(to, script.failure('Bash', 't4', {}));
    await fire(to, script.stop());
    space.write('mine.txt', 'mine');
    const session = await to.session(SESSION);
    expect(await session.undo()).toMatchObject({ available: true, outcome: 'done' });
    expect(space.read('mine.txt')).toBe('mine');
    space.sh('rm mine.txt');
    expect(contents(snapshot(space.root))).toEqual(before);
    expect(problems).toEqual([]);
    await to.close();
  });

  test('a call that was denied ends with the next prompt; an end without a begin is a problem, not a fault', async () => {
    await using space = new Space();
    const { to, problems } = start(space);
    const script = new Script(space.root);
    await fire(to, script.prompt(P1, 'go'));
    await fire(to, script.pre('Bash', 't1', {}));
    await fire(to, script.prompt(P2, 'go on'));
    space.write('mine.txt', 'between calls');
    await fire(
      to,
      script.event('PermissionDenied', { tool_name: 'Bash', tool_input: {}, tool_use_id: 't9', reason: 'r' }),
    );
    expect(problems).toMatchObject([{ event: 'PermissionDenied', reason: 'ERR_UNKNOWN_CALL' }]);
    const session = await to.session(SESSION);
    expect(await session.undo()).toMatchObject({ available: true, outcome: 'nothing' });
    expect(space.exists('mine.txt')).toBe(true);
    await to.close();
  });

  test('a root that is gone is a problem at each event, and recorded from when it is there', async () => {
    await using space = new Space();
    space.sh('mv w away', { cwd: space.base });
    const { to, problems } = start(space);
    const script = new Script(space.root);
    await fire(to, script.prompt(P1, 'go'));
    await fire(to, script.pre('Bash', 't1', {}));
    expect(problems.map(({ reason }) => reason)).toEqual(['root-missing', 'root-missing']);
    space.sh('mv away w', { cwd: space.base });
    await fire(to, script.prompt(P2, 'again'));
    expect(await (await to.session(SESSION)).timeline()).toMatchObject({ items: [{ boundaryId: P2 }] });
    expect(problems).toHaveLength(2);
    await to.close();
  });
});

describe('claudeCodeHooks', () => {
  test('has a hook for every event that means something, and takes only options that it knows', () => {
    const to = claudeCodeHooks({ root: '/' });
    expect(Object.keys(to.hooks)).toEqual([...HOOK_EVENTS]);
    expect(() => claudeCodeHooks({ root: '/', folder: 'x' } as never)).toThrow('options: Unrecognized key: "folder"');
    expect(() => claudeCodeHooks({ root: '/', onProblem: 7 } as never)).toThrow(
      'options.onProblem: onProblem must be a function',
    );
  });

  test('an event of the wrong form is a problem that names the field', async () => {
    const problems: ClaudeCodeProblem[] = [];
    const to = claudeCodeHooks({ root: '/', onProblem: (problem) => problems.push(problem) });
    await fire(to, { hook_event_name: 'Stop', session_id: 7 });
    expect(problems).toEqual([
      { event: 'Stop', reason: 'bad-input', detail: 'session_id must be a non-empty string, got a number' },
    ]);
    await to.close();
  });
});
