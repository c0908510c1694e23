/** Whole sessions of Claude Code, as hook events through real hook processes, and what `takeback undo` makes of them. */
import { expect, test, vi } from 'vitest';
import { describeBackends } from '../../kit/backends.ts';
import { Space } from '../../kit/space.ts';
import { contents, snapshot } from '../../kit/tree.ts';
import { Hooks, Script, SESSION, UNHEARD } from './kit.ts';

// Each event is a process, and some tests send dozens.
vi.setConfig({ testTimeout: 240_000 });

const P1 = 'b1a0b6c2-0000-4000-8000-000000000001';
const P2 = 'b1a0b6c2-0000-4000-8000-000000000002';

function begun(backend: 'native' | 'portable'): { space: Space; hooks: Hooks; script: Script } {
  const space = new Space();
  space.write('kept.txt', 'the user wrote this\n');
  space.write('src/app.ts', 'let a = 1;\n');
  space.write('old.txt', 'to be removed\n');
  return { space, hooks: new Hooks(space, backend), script: new Script(space.root) };
}

describeBackends('a session of Claude Code', (backend) => {
  test('an edit tool, a shell, two calls at once and one that fails: undo takes back exactly theirs', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    const before = contents(snapshot(space.root));

    expect(hooks.send(script.prompt(P1, 'Change it all\nplease'))).toEqual(UNHEARD);
    const edit = { file_path: `${space.root}/src/app.ts`, old_string: '1', new_string: '2' };
    expect(hooks.send(script.pre('Edit', 'toolu_1', edit))).toEqual(UNHEARD);
    space.write('src/app.ts', 'let a = 2;\n');
    expect(hooks.send(script.post('Edit', 'toolu_1', edit))).toEqual(UNHEARD);

    const shell = { command: 'rm old.txt; echo x > made.txt', description: 'change files' };
    hooks.send(script.pre('Bash', 'toolu_2', shell));
    space.sh('rm old.txt; echo x > made.txt');
    hooks.send(script.post('Bash', 'toolu_2', shell));

    await hooks.together(
      script.pre('Bash', 'toolu_3', { command: 'a' }),
      script.pre('Write', 'toolu_4', { file_path: `${space.root}/deep/er/new.md`, content: 'n' }),
    );
    space.write('deep/er/new.md', 'n');
    space.write('by-shell.txt', 's');
    await hooks.together(
      script.post('Write', 'toolu_4', { file_path: `${space.root}/deep/er/new.md`, content: 'n' }),
      script.post('Bash', 'toolu_3', { command: 'a' }),
    );

    hooks.send(script.pre('Bash', 'toolu_5', { command: 'false' }));
    space.write('half.txt', 'done by the failing command');
    hooks.send(script.failure('Bash', 'toolu_5', { command: 'false' }));
    hooks.send(script.stop());
    expect(hooks.problems()).toEqual([]);

    // The user, after the turn.
    space.write('mine.txt', 'written by hand\n');

    const log = hooks.takeback('log', '--calls', '--json').json() as { items: { type: string }[] };
    expect(log.items.filter((item) => item.type === 'boundary')).toMatchObject([
      { boundaryId: P1, label: 'Change it all' },
    ]);
    expect(log.items.filter((item) => item.type === 'call')).toMatchObject([
      { callId: 'toolu_1', tool: 'Edit', state: 'ended', isError: false, sideEffect: 'workspace_write' },
      { callId: 'toolu_2', tool: 'Bash', state: 'ended', isError: false, sideEffect: 'process_exec' },
      { state: 'ended', isError: false },
      { state: 'ended', isError: false },
      { callId: 'toolu_5', tool: 'Bash', state: 'ended', isError: true },
    ]);

    const undone = hooks.takeback('undo', '--json');
    expect(undone.status, undone.stdout + undone.stderr).toBe(0);
    expect(space.read('mine.txt')).toBe('written by hand\n');
    space.sh('rm mine.txt');
    expect(contents(snapshot(space.root))).toEqual(before);

    hooks.send(script.end());
    expect(hooks.problems()).toEqual([]);
  });

  test('each prompt is a turn of its own; undo without --session means the session of the newest', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    expect(hooks.takeback('run', '--', 'true').status).toBe(0);
    for (const [prompt, text] of [
      [P1, 'one'],
      [P2, 'two'],
    ] as const) {
      hooks.send(script.prompt(prompt, text));
      hooks.send(script.pre('Bash', `toolu_${text}`, { command: text }));
      space.write('kept.txt', text);
      hooks.send(script.post('Bash', `toolu_${text}`, { command: text }));
      hooks.send(script.stop());
    }
    expect(hooks.takeback('status', '--json').json()).toMatchObject({ threadId: SESSION, newest: { boundaryId: P2 } });
    hooks.takeback('undo');
    expect(space.read('kept.txt')).toBe('one');
    hooks.takeback('undo');
    expect(space.read('kept.txt')).toBe('the user wrote this\n');
    expect(hooks.problems()).toEqual([]);
  });

  test("what the user edits while the agent's edit tool runs stays, also where it is the same moment", async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    hooks.send(script.prompt(P1, 'edit'));
    const edit = { file_path: `${space.root}/src/app.ts` };
    hooks.send(script.pre('Edit', 'toolu_1', edit));
    space.write('src/app.ts', 'let a = 2;\n');
    space.write('kept.txt', 'the user, meanwhile\n');
    hooks.send(script.post('Edit', 'toolu_1', edit));
    hooks.takeback('undo');
    expect(space.read('src/app.ts')).toBe('let a = 1;\n');
    expect(space.read('kept.txt')).toBe('the user, meanwhile\n');
  });

  test("a subagent's calls lie in the call that started it, and are the session's", async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    const inside = { agent_id: 'a1', agent_type: 'general-purpose' };
    hooks.send(script.prompt(P1, 'delegate'));
    hooks.send(script.pre('Agent', 'toolu_agent', { description: 'd', prompt: 'p' }));
    expect(hooks.send(script.event('SubagentStart', inside))).toEqual(UNHEARD);
    hooks.send(script.pre('Bash', 'toolu_in', { command: 'x' }, inside));
    space.write('by-subagent.txt', 'x');
    hooks.send(script.post('Bash', 'toolu_in', { command: 'x' }, inside));
    // While no call of the subagent runs, a change is the user's.
    space.write('kept.txt', 'the user, while the subagent thinks\n');
    expect(hooks.send(script.event('SubagentStop', { ...inside, stop_hook_active: false }))).toEqual(UNHEARD);
    hooks.send(script.post('Agent', 'toolu_agent', { description: 'd', prompt: 'p' }));
    hooks.send(script.stop({ background_tasks: [] }));
    expect(hooks.problems()).toEqual([]);

    const workspace = await space.open(backend);
    const items = await workspace.session({ threadId: SESSION }).timeline();
    expect(items).toMatchObject({
      available: true,
      items: expect.arrayContaining([
        expect.objectContaining({
          callId: 'toolu_in',
          files: { created: 1, modified: 0, deleted: 0, linesAdded: 1, linesDeleted: 0 },
        }),
        expect.objectContaining({ callId: 'toolu_agent', files: expect.objectContaining({ created: 0, modified: 0 }) }),
      ]),
    });
    hooks.takeback('undo');
    expect(space.exists('by-subagent.txt')).toBe(false);
    expect(space.read('kept.txt')).toBe('the user, while the subagent thinks\n');
  });

  test('tools that only read are not recorded, and make no store', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    for (const tool of ['Read', 'Grep', 'Glob', 'LS', 'WebFetch', 'WebSearch', 'TodoWrite']) {
      expect(hooks.send(script.pre(tool, 'toolu_r', { file_path: 'x' }))).toEqual(UNHEARD);
      expect(hooks.send(script.post(tool, 'toolu_r', { file_path: 'x' }))).toEqual(UNHEARD);
    }
    hooks.send(script.stop());
    hooks.send(script.end());
    expect(hooks.problems()).toEqual([]);
    expect(hooks.takeback('log').status).toBe(1);
  });

  test('an edit outside the root is not recorded; one through a link is, at the file that it leads to', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    space.sh('ln -s app.ts src/link.ts; ln -s . here');
    hooks.send(script.prompt(P1, 'edit'));
    const outside = { file_path: `${space.base}/plan.md` };
    hooks.send(script.pre('Write', 'toolu_out', outside));
    hooks.send(script.post('Write', 'toolu_out', outside));
    const link = { file_path: `${space.root}/here/src/link.ts` };
    hooks.send(script.pre('Edit', 'toolu_link', link));
    space.write('src/app.ts', 'through the link\n');
    hooks.send(script.post('Edit', 'toolu_link', link));
    expect(hooks.problems()).toEqual([]);
    const log = hooks.takeback('log', '--calls', '--json').json() as { items: { callId?: string }[] };
    expect(log.items.flatMap((item) => item.callId ?? [])).toEqual(['toolu_link']);
    hooks.takeback('undo');
    expect(space.read('src/app.ts')).toBe('let a = 1;\n');
  });

  test('a call that never ended (denied, interrupted) ends with the turn; what follows is the user’s', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    hooks.send(script.prompt(P1, 'one'));
    hooks.send(script.pre('Bash', 'toolu_denied', { command: 'x' }));
    hooks.send(script.stop());
    space.write('mine.txt', 'after the turn\n');
    hooks.send(script.prompt(P2, 'two'));
    hooks.send(script.pre('Bash', 'toolu_open', { command: 'x' }));
    hooks.send(script.end());
    space.write('mine-too.txt', 'after the session\n');
    expect(hooks.takeback('status', '--json').json()).toMatchObject({ openCalls: [] });
    hooks.takeback('undo');
    expect([space.exists('mine.txt'), space.exists('mine-too.txt')]).toEqual([true, true]);
    expect(hooks.problems()).toEqual([]);
  });

  test('a subagent in the background keeps its open call when the main turn ends', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    hooks.send(script.prompt(P1, 'one'));
    hooks.send(script.pre('Bash', 'toolu_bg', { command: 'x' }, { agent_id: 'a1', agent_type: 't' }));
    hooks.send(script.stop({ background_tasks: [{ id: 'a1', type: 'agent', status: 'running' }] }));
    space.write('late.txt', 'by the subagent');
    hooks.send(script.post('Bash', 'toolu_bg', { command: 'x' }, { agent_id: 'a1', agent_type: 't' }));
    hooks.takeback('undo');
    expect(space.exists('late.txt')).toBe(false);
  });

  test('hooks that come into a running session, come twice, or come late, record what they can', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    // No prompt was seen.
    hooks.send(script.pre('Bash', 'toolu_1', { command: 'x' }));
    hooks.send(script.pre('Bash', 'toolu_1', { command: 'x' }));
    space.write('made.txt', 'x');
    hooks.send(script.post('Bash', 'toolu_1', { command: 'x' }));
    hooks.send(script.post('Bash', 'toolu_1', { command: 'x' }));
    // A prompt that was queued while a call ran, and the same prompt again.
    hooks.send(script.pre('Bash', 'toolu_2', { command: 'x' }));
    hooks.send(script.prompt(P2, 'more'));
    hooks.send(script.prompt(P2, 'more'));
    hooks.send(script.post('Bash', 'toolu_2', { command: 'x' }));
    expect(hooks.problems()).toEqual([]);
    // An end whose begin nobody saw is told.
    hooks.send(script.post('Bash', 'toolu_never', { command: 'x' }));
    expect(hooks.problems()).toMatchObject([{ host: 'claude-code', event: 'PostToolUse', reason: 'ERR_UNKNOWN_CALL' }]);
    hooks.takeback('undo');
    expect(space.exists('made.txt')).toBe(false);
  });

  test('without the project folder, a shell that changed its folder stays in the root of the session', async () => {
    const { space, hooks, script } = begun(backend);
    await using _ = space;
    const none = { CLAUDE_PROJECT_DIR: '' };
    hooks.send(script.prompt(P1, 'cd'), none);
    const moved = { cwd: `${space.root}/src` };
    hooks.send(script.pre('Bash', 'toolu_1', { command: 'x' }, moved), none);
    space.write('kept.txt', 'changed above the folder');
    hooks.send(script.post('Bash', 'toolu_1', { command: 'x' }, moved), none);
    expect(hooks.problems()).toEqual([]);
    hooks.takeback('undo');
    expect(space.read('kept.txt')).toBe('the user wrote this\n');
  });

  test('ids are data: one with ../ in it reaches no path', async () => {
    const { space, hooks } = begun(backend);
    await using _ = space;
    const id = '../../../../escape';
    const script = new Script(space.root, id);
    hooks.send(script.prompt(id, 'x'));
    hooks.send(script.pre('Bash', id, { command: 'x' }));
    space.write('made.txt', 'x');
    hooks.send(script.post('Bash', id, { command: 'x' }));
    expect(hooks.problems()).toEqual([]);
    expect(hooks.takeback('undo').status).toBe(0);
    expect(space.exists('made.txt')).toBe(false);
    expect(space.sh(`cd ..; find . -name '*escape*'`)).toBe('');
  });
});
