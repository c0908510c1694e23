/** The plugin in a small host; `opencode-real.test.ts` runs it in the program itself. */
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type OpenCodeOptions, takeback } from '../../src/adapters/opencode.ts';
import { adapterSuite, type Setting } from '../../src/adapters/testkit.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { type FakeCall, FakeOpenCode } from './opencode-kit.ts';

const SESSION = 'ses_1';

function optionsOf(backend: BackendKind, { dataDir }: { dataDir: string }): OpenCodeOptions {
  return { dataDir, backend, durability: 'fast' };
}

describeBackends('the adapter suite in the OpenCode plugin', (backend) => {
  const start = async (setting: Setting) => {
    const host = await FakeOpenCode.open(takeback(optionsOf(backend, setting)), { directory: setting.root });
    let calls = 0;
    return {
      turn: (steps: Parameters<Awaited<ReturnType<Parameters<typeof adapterSuite>[0]['start']>>['turn']>[0]) =>
        host.turn(
          SESSION,
          steps.map((step) =>
            step.map((call) => {
              const args =
                call.tool === 'shell' ? { command: call.command } : { filePath: join(setting.root, call.path) };
              const tool = { shell: 'bash', edit: 'write', fail: 'edit' }[call.tool];
              calls += 1;
              return { id: `call_${calls}`, tool, args, run: () => setting.runTool(call) };
            }),
          ),
        ),
      undo: () => host.command(SESSION, 'takeback-undo'),
      redo: () => host.command(SESSION, 'takeback-redo'),
      close: () => host.close(),
    };
  };
  for (const { name, run } of adapterSuite({ name: 'OpenCode', start })) test(name, run);
});

describeBackends('the OpenCode plugin', (backend) => {
  async function opened(space: Space, more: OpenCodeOptions = {}, client = true) {
    const plugin = takeback({ ...optionsOf(backend, space), ...more });
    const host = await FakeOpenCode.open(plugin, { directory: space.root, worktree: '/' }, { client });
    return Object.assign(host, { [Symbol.asyncDispose]: () => host.close() });
  }

  const write = (space: Space, id: string, path: string): FakeCall => ({
    id,
    tool: 'write',
    args: { filePath: join(space.root, path) },
    run: () => space.write(path, '1\n'),
  });

  const bash = (id: string, run: () => unknown): FakeCall => ({ id, tool: 'bash', args: { command: '' }, run });

  async function sessionOf(space: Space, threadId: string) {
    const workspace = await space.open(backend);
    return workspace.session({ threadId });
  }

  async function itemsOf(space: Space, threadId = SESSION) {
    return got(await (await sessionOf(space, threadId)).timeline()).items;
  }

  test('calls carry tool, id and the message that asked for them; the boundary is the user’s message', async () => {
    await using space = new Space();
    await using host = await opened(space);
    await host.turn(SESSION, [[write(space, 'c1', 'a.txt'), bash('c2', () => space.write('b.txt', '1\n'))]]);
    expect(await itemsOf(space)).toMatchObject([
      { type: 'boundary', boundaryId: 'msg_1', label: 'Go on.' },
      { type: 'call', callId: 'c1', tool: 'write', stepId: 'msg_1_0', state: 'ended', sideEffect: 'workspace_write' },
      { type: 'call', callId: 'c2', tool: 'bash', stepId: 'msg_1_0', state: 'ended', sideEffect: 'process_exec' },
    ]);
    expect(host.logged).toEqual([]);
  });

  test('a tool that failed, of which no after tells, is ended by the event of its failure', async () => {
    await using space = new Space();
    await using host = await opened(space);
    const broken = bash('c1', () => {
      space.write('half.txt', '1\n');
      throw new Error('no');
    });
    await host.turn(SESSION, [[broken]]);
    expect((await itemsOf(space))[1]).toMatchObject({ callId: 'c1', state: 'ended', isError: true });
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Undid the last turn. Files restored: 1.');
    expect(space.exists('half.txt')).toBe(false);
  });

  test.each(['session.idle', 'session.error'])('a call whose end nobody tells is ended by %s', async (end) => {
    await using space = new Space();
    await using host = await opened(space);
    await host.user(SESSION, [{ type: 'text', text: 'Go on.' }]);
    // The promise never settles: the run was cut off.
    let begun: () => void = () => undefined;
    const running = new Promise<void>((resolve) => {
      begun = resolve;
    });
    void host.call(
      SESSION,
      'm',
      bash('c1', () => {
        space.write('a.txt', '1\n');
        begun();
        return new Promise(() => undefined);
      }),
    );
    await running;
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Wait until the turn ends, then try again.');
    await host.event(end, { sessionID: SESSION });
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Undid the last turn. Files restored: 1.');
  });

  test('commands answer by a note that the model doesn’t see and that begins no turn, and stop there', async () => {
    await using space = new Space();
    await using host = await opened(space);
    expect(Object.keys(host.config.command ?? {})).toEqual(['takeback-undo', 'takeback-redo', 'takeback-diff']);
    await host.turn(SESSION, [[write(space, 'c1', 'a.txt')]]);
    await host.command(SESSION, 'takeback-diff');
    await host.command(SESSION, 'takeback-undo');
    expect(await host.command(SESSION, 'takeback-redo')).toBe('Redid the last turn.');
    await host.command(SESSION, 'takeback-redo');
    expect(host.seen).toEqual([
      { kind: 'prompt', text: 'Go on.' },
      { kind: 'note', text: expect.stringContaining('+++ b/a.txt') },
      { kind: 'note', text: 'Undid the last turn. Files restored: 1.' },
      { kind: 'note', text: 'Redid the last turn.' },
      { kind: 'note', text: 'Nothing to redo.' },
    ]);
    const boundaries = (await itemsOf(space)).filter(({ type }) => type === 'boundary');
    expect(boundaries).toHaveLength(1);
  });

  test.each([
    ['with answer: model', { answer: 'model' } as const, true],
    ['without a client', {}, false],
  ])('%s the model is told the answer, and its message begins no turn', async (_, more, client) => {
    await using space = new Space();
    await using host = await opened(space, more, client);
    await host.turn(SESSION, [[write(space, 'c1', 'a.txt')]]);
    expect(await host.command(SESSION, 'takeback-undo')).toBeUndefined();
    expect(host.seen.at(-1)).toEqual({
      kind: 'prompt',
      text: expect.stringContaining('Undid the last turn. Files restored: 1.'),
    });
    await host.command(SESSION, 'takeback-redo');
    expect(space.read('a.txt'), 'no turn cleared redo').toBe('1\n');
  });

  test('commands of others are left alone, and one of the user’s by our name is kept', async () => {
    await using space = new Space();
    await using host = await opened(space);
    expect(await host.command(SESSION, 'review')).toBeUndefined();
    expect(host.seen).toEqual([{ kind: 'prompt', text: 'the template' }]);
    const hooks = await takeback(optionsOf(backend, space))({ directory: space.root });
    const config: { command: Record<string, unknown> } = { command: { 'takeback-undo': 'mine' } };
    await hooks.config(config);
    expect(config.command['takeback-undo']).toBe('mine');
    await hooks.dispose();
  });

  test('a subagent’s call lies in its task: undo of either session takes it back, and neither contests the other', async () => {
    await using space = new Space();
    await using host = await opened(space);
    const task: FakeCall = {
      id: 'c1',
      tool: 'task',
      args: {},
      run: async () => {
        await host.event('session.created', { info: { id: 'ses_sub', parentID: SESSION } });
        await host.turn('ses_sub', [
          [write(space, 's1', 'sub.txt')],
          [bash('s2', () => space.write('sub2.txt', '1\n'))],
        ]);
      },
    };
    await host.turn(SESSION, [[task]]);
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Undid the last turn. Files restored: 2.');
    expect(await host.command(SESSION, 'takeback-redo')).toBe('Redid the last turn.');
    expect(await host.command('ses_sub', 'takeback-undo')).toBe('Undid the last turn. Files restored: 2.');
  });

  test('two subagents at once lie in their own tasks, as their events tell', async () => {
    await using space = new Space();
    await using host = await opened(space);
    const task = (id: string, sub: string): FakeCall => ({
      id,
      tool: 'task',
      args: {},
      run: async () => {
        await host.event('session.created', { sessionID: sub, info: { id: sub, parentID: SESSION } });
        await host.event('message.part.updated', {
          part: {
            ...{ type: 'tool', sessionID: SESSION, callID: id, messageID: 'm' },
            state: { status: 'running', metadata: { sessionId: sub } },
          },
        });
        await host.turn(sub, [[write(space, `${sub}-1`, `${sub}.txt`)]]);
      },
    });
    await host.turn(SESSION, [[task('c1', 'ses_a'), task('c2', 'ses_b')]]);
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Undid the last turn. Files restored: 2.');
  });

  test('a file tool whose path goes through a link owns the file that it changes', async () => {
    await using space = new Space();
    await using host = await opened(space);
    space.sh('mkdir real');
    symlinkSync('real', join(space.root, 'link'));
    await host.turn(SESSION, [[write(space, 'c1', 'link/a.txt')]]);
    expect(await host.command(SESSION, 'takeback-undo')).toBe('Undid the last turn. Files restored: 1.');
    expect(space.exists('real/a.txt')).toBe(false);
  });

  test('a session that is deleted is forgotten', async () => {
    await using space = new Space();
    await using host = await opened(space);
    await host.turn(SESSION, [[write(space, 'c1', 'a.txt')]]);
    await host.event('session.deleted', { info: { id: SESSION } });
    const workspace = await space.open(backend);
    expect(got(await workspace.sessions()).sessions).toEqual([]);
    expect(space.read('a.txt')).toBe('1\n');
    expect(host.logged).toEqual([]);
  });

  test('the root is the git worktree where there is one', async () => {
    await using space = new Space();
    space.sh('mkdir -p packages/one');
    const plugin = takeback(optionsOf(backend, space));
    const host = await FakeOpenCode.open(plugin, { directory: join(space.root, 'packages/one'), worktree: space.root });
    await host.turn(SESSION, [[write(space, 'c1', 'top.txt')]]);
    await host.command(SESSION, 'takeback-undo');
    expect(space.exists('top.txt')).toBe(false);
    await host.close();
  });
});

describe('failures of ours in OpenCode', () => {
  test('where nothing can be recorded tools run, the log says why, and the user is shown it once', async () => {
    await using space = new Space();
    rmSync(space.root, { recursive: true });
    const host = await FakeOpenCode.open(takeback(optionsOf('portable', space)), { directory: space.root });
    const ran: string[] = [];
    const call = (id: string): FakeCall => ({ id, tool: 'bash', args: {}, run: () => void ran.push(id) });
    await host.turn(SESSION, [[call('c1')], [call('c2')]]);
    await host.turn(SESSION, [[call('c3')]]);
    expect(ran).toEqual(['c1', 'c2', 'c3']);
    expect(host.shown).toEqual([expect.stringContaining('takeback: ')]);
    expect(host.logged.length).toBeGreaterThan(1);
    expect(await host.command(SESSION, 'takeback-undo')).toContain('root');
    await host.close();
  });

  test('what OpenCode never should tell is logged, and stops nothing', async () => {
    await using space = new Space();
    const host = await FakeOpenCode.open(takeback(optionsOf('portable', space)), { directory: space.root });
    await host.turn('', [[{ id: 'c1', tool: 'bash', args: {}, run: () => undefined }]]);
    await host.event('message.part.updated', undefined);
    await host.event('session.idle', null);
    expect(host.logged[0]).toContain('threadId must not be empty');
    await host.close();
  });

  test('options of the wrong form fail the loading of the plugin, and say which', async () => {
    await expect(takeback({ dataDirectory: '/x' } as never)({ directory: '/y' })).rejects.toThrow('dataDirectory');
  });
});
