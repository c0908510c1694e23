/** The checkpoint hook over a real tree: what is recorded of a call, what undo takes back, and what happens without an engine. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  type CheckpointHookOptions,
  checkpointHook,
  filePlanWriter,
  HookRegistry,
  offloadHook,
  openWorkspace,
  type Session,
  type ToolRegistry,
  todoWriteTool,
  type Workspace,
} from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';
import { Heard, registryOf, type ToolFunction, toolCall, warningsDuring } from './kit.ts';

const FILE_TOOLS = ['write_file'];
const describeCall: NonNullable<CheckpointHookOptions['describeCall']> = ({ name, arguments: args }) =>
  FILE_TOOLS.includes(name) ? { paths: [(args as { path: string }).path], sideEffect: 'workspace_write' } : undefined;

describeBackends('checkpoint hook', (backend) => {
  let space: Space;
  let workspace: Workspace;
  let session: Session;
  let heard: Heard;
  beforeEach(async () => {
    space = new Space();
    space.write('a.txt', 'a\n');
    space.write('b.txt', 'b\n');
    space.write('user.txt', 'user\n');
    workspace = await space.open(backend);
    session = workspace.session({ threadId: 's1' });
    heard = new Heard();
  });
  afterEach(() => space[Symbol.asyncDispose]());

  function tools(more: Record<string, ToolFunction> = {}): ToolRegistry {
    return registryOf({
      write_file: ({ path, content }: { path: string; content: string }) => {
        space.write(path, content);
        return 'written';
      },
      bash: ({ command }: { command: string }) => space.sh(command),
      ...more,
    });
  }

  function hooked(options: CheckpointHookOptions = {}, inner = tools()): HookRegistry {
    return new HookRegistry(inner, checkpointHook(session, { describeCall, logger: heard, ...options }));
  }

  /** The calls of the timeline: id, tool, whether they failed. */
  async function calls(): Promise<unknown[]> {
    const { items } = got(await session.timeline());
    return items.flatMap((item) => (item.type === 'call' ? [[item.callId, item.tool, item.state, item.isError]] : []));
  }

  test('a turn with an edit tool, two parallel calls, a failing tool and a shell tool: undo takes back exactly that', async () => {
    const before = contents(snapshot(space.root));
    got(await session.capture('m1'));
    const registry = hooked(
      {},
      tools({
        half: () => {
          space.write('half.txt', 'half done');
          throw new Error('then it failed');
        },
      }),
    );
    await registry.execute(toolCall('c1', 'write_file', { path: 'a.txt', content: 'edited\n' }));
    await Promise.all([
      registry.execute(toolCall('c2', 'write_file', { path: 'new/one.txt', content: '1' })),
      registry.execute(toolCall('c3', 'write_file', { path: 'new/two.txt', content: '2' })),
    ]);
    const failed = await registry.execute(toolCall('c4', 'half'));
    const shell = await registry.execute(
      toolCall('c5', 'bash', { command: 'rm b.txt && echo x > made.txt && echo ok' }),
    );
    expect(failed).toEqual({ toolCallId: 'c4', output: 'then it failed', isError: true });
    expect(shell).toEqual({ toolCallId: 'c5', output: 'ok\n', isError: false });
    expect(heard.lines).toEqual([]);

    // Between the turn and the undo: the user's own work.
    space.write('user.txt', 'user, edited\n');
    space.write('note.txt', 'a note');
    const undone = got(await session.undo());
    expect(undone.message).toBe('Undid the last turn. Files restored: 6.');
    const { 'user.txt': _, ...rest } = before;
    const { 'user.txt': __, 'note.txt': ___, ...now } = contents(snapshot(space.root));
    expect(now).toEqual(rest);
    expect([space.read('user.txt'), space.read('note.txt')]).toEqual(['user, edited\n', 'a note']);
    expect(got(await session.redo()).message).toBe('Redid the last turn.');
    expect([space.read('half.txt'), space.read('new/two.txt'), space.exists('b.txt')]).toEqual([
      'half done',
      '2',
      false,
    ]);
  });

  test('each execution is a call with the tool’s name, ended also where the tool failed', async () => {
    got(await session.capture('m1'));
    const registry = hooked({}, tools());
    await registry.execute(toolCall('c1', 'bash', { command: 'echo x > x' }));
    await registry.execute(toolCall('c2', 'bash', { command: 'exit 3' }));
    expect(await calls()).toEqual(
      expect.arrayContaining([
        ['c1', 'bash', 'ended', false],
        ['c2', 'bash', 'ended', true],
      ]),
    );
  });

  test('a call ends also where the registry throws, and where a hook after it refuses', async () => {
    got(await session.capture('m1'));
    const thrower: ToolRegistry = { list: () => [], execute: () => Promise.reject(new Error('boom')) };
    await expect(hooked({}, thrower).execute(toolCall('c1', 'x'))).rejects.toThrow('boom');
    const guard = {
      beforeExecute: () => {
        throw new Error('not allowed');
      },
    };
    const guarded = new HookRegistry(tools(), checkpointHook(session, { logger: heard }), guard);
    expect((await guarded.execute(toolCall('c2', 'bash'))).isError).toBe(true);
    expect(await calls()).toEqual(
      expect.arrayContaining([
        ['c1', 'x', 'ended', true],
        ['c2', 'bash', 'ended', true],
      ]),
    );
    expect(got(await session.undo()).outcome).toBe('nothing');
  });

  test('declared paths, step and side effect reach the engine; onChanges hears what changed', async () => {
    got(await session.capture('m1'));
    const told: unknown[] = [];
    const registry = hooked({
      describeCall: () => ({ paths: ['a.txt'], stepId: 'step-1', sideEffect: 'network' }),
      onChanges: (call, changes) => told.push([call.id, changes.map(({ path, kind }) => `${kind} ${path}`)]),
    });
    await registry.execute(toolCall('c1', 'bash', { command: 'echo 1 > a.txt; echo 2 > b.txt' }));
    expect(told).toEqual([['c1', ['modified a.txt']]]);
    expect(got(await session.steps()).steps.map(({ id, toolCallIds }) => [id, toolCallIds])).toEqual([
      ['step-1', ['c1']],
    ]);
    expect(got(await session.plan('m1')).irreversible).toEqual([
      { callId: 'c1', invocation: expect.any(Number), sideEffect: 'network' },
    ]);
  });

  test('two executions of one id at once: one is the call, the other runs all the same and is told', async () => {
    got(await session.capture('m1'));
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const inner = tools({
      wait: async () => {
        await gate;
        space.write('late.txt', 'late');
        return 'late';
      },
    });
    const registry = hooked({}, inner);
    const first = registry.execute(toolCall('same', 'wait'));
    const second = await registry.execute(toolCall('same', 'bash', { command: 'echo second' }));
    open();
    expect([(await first).output, second.output]).toEqual(['late', 'second\n']);
    expect(heard.lines).toEqual([expect.stringMatching(/^checkpoint: call "same" of \w+ runs without a checkpoint: /)]);
    // Whichever was recorded, the other did not end it.
    expect(got(await session.timeline()).items.filter((item) => item.type === 'call' && item.state === 'open')).toEqual(
      [],
    );
    got(await session.capture('m2'));
  });

  test('before the first capture a tool runs, and that it is not recorded is told', async () => {
    const result = await hooked().execute(toolCall('c1', 'bash', { command: 'echo hi' }));
    expect(result).toEqual({ toolCallId: 'c1', output: 'hi\n', isError: false });
    expect(heard.lines).toEqual([
      expect.stringMatching(/^checkpoint: call "c1" of bash runs without a checkpoint: no-checkpoint: /),
    ]);
  });

  test('an engine that is unavailable never blocks a tool, and never is silent: logger, event, or a warning', async () => {
    got(await session.capture('m1'));
    const failures: string[] = [];
    workspace.on('snapshotFailed', ({ reason }) => failures.push(reason));
    space.sh(`mv ${space.root} ${space.root}-gone`, { cwd: space.base });
    const inner = registryOf({ think: () => 'thought' });
    expect((await hooked({}, inner).execute(toolCall('c1', 'think'))).output).toBe('thought');
    expect(heard.lines).toEqual([expect.stringContaining('runs without a checkpoint: root-missing')]);
    expect(failures).toEqual(['root-missing']);
    const silent = new HookRegistry(inner, checkpointHook(session));
    expect(await warningsDuring(() => silent.execute(toolCall('c2', 'think')))).toEqual([
      expect.stringContaining('call "c2" of think runs without a checkpoint: root-missing'),
    ]);
  });

  test('a workspace that could not be opened: the tool runs', async () => {
    await using none = await openWorkspace({ root: `${space.root}/none`, dataDir: space.dataDir, backend });
    const hook = checkpointHook(none.session({ threadId: 's1' }), { logger: heard });
    const result = await new HookRegistry(tools(), hook).execute(toolCall('c1', 'bash', { command: 'echo hi' }));
    expect(result.output).toBe('hi\n');
    expect(heard.lines).toEqual([expect.stringContaining('root-missing')]);
  });

  test('an end that is not recorded is told, and the result stays', async () => {
    got(await session.capture('m1'));
    const inner = tools({
      close: async () => {
        await workspace.close();
        return 'closed';
      },
    });
    expect((await hooked({}, inner).execute(toolCall('c1', 'close'))).output).toBe('closed');
    expect(heard.lines).toEqual([
      expect.stringMatching(/^checkpoint: what call "c1" of close changed is not recorded: closed/),
    ]);
  });

  test.each([
    ['outside the root', '../x'],
    ['that is none', ''],
  ])('a path %s: the call is recorded without paths', async (_name, path) => {
    got(await session.capture('m1'));
    const registry = hooked({ describeCall: () => ({ paths: [path] }) });
    await registry.execute(toolCall('c1', 'bash', { command: 'echo 1 > a.txt' }));
    expect(heard.lines).toEqual([]);
    got(await session.undo());
    expect(space.read('a.txt')).toBe('a\n');
  });

  test('describeCall or onChanges that fails is told, and the call is recorded', async () => {
    got(await session.capture('m1'));
    const registry = hooked({
      describeCall: () => {
        throw new Error('no idea');
      },
      onChanges: () => {
        throw new Error('no ear');
      },
    });
    await registry.execute(toolCall('c1', 'bash', { command: 'echo 1 > a.txt' }));
    const odd = hooked({ describeCall: () => ({ sideEffect: 'magic' as never }) });
    await odd.execute(toolCall('c2', 'bash', { command: 'echo 2 > b.txt' }));
    expect(heard.lines).toEqual([
      'checkpoint: describeCall failed for bash: no idea',
      'checkpoint: onChanges failed: no ear',
      expect.stringMatching(/^checkpoint: describeCall failed for bash: facts.sideEffect: /),
    ]);
    got(await session.undo());
    expect([space.read('a.txt'), space.read('b.txt')]).toEqual(['a\n', 'b\n']);
  });

  test.each([
    ['no session', undefined, {}, 'session must be one of a workspace'],
    ['an option that is misspelt', {}, { describecall: () => undefined }, 'describecall'],
    ['a callback that is none', {}, { onChanges: true }, 'options.onChanges: must be a function'],
  ])('%s is refused', (_name, given, options, message) => {
    const hook = (): unknown => checkpointHook((given && session) as Session, options as CheckpointHookOptions);
    expect(hook).toThrowError(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining(message) }),
    );
  });

  test('a signal that is aborted stops the call before it runs', async () => {
    got(await session.capture('m1'));
    const result = await hooked().execute(toolCall('c1', 'bash', { command: 'echo x > x.txt' }), {
      signal: AbortSignal.abort(),
    });
    expect(result).toMatchObject({ isError: true, output: expect.stringMatching(/^The tool was not run: .*aborted/) });
    expect(space.exists('x.txt')).toBe(false);
    expect(await calls()).toEqual([]);
  });

  test('a signal that is aborted while the tool runs does not keep its call from ending', async () => {
    got(await session.capture('m1'));
    const abort = new AbortController();
    const inner = tools({
      stop: () => {
        space.write('x.txt', 'x');
        abort.abort();
        throw new Error('stopped');
      },
    });
    await hooked({}, inner).execute(toolCall('c1', 'stop'), { signal: abort.signal });
    expect(await calls()).toEqual([['c1', 'stop', 'ended', true]]);
    expect(heard.lines).toEqual([]);
  });

  test('an offloaded file and a plan file are in no change, and survive undo', async () => {
    space.git('init', '-q');
    got(await session.capture('m1'));
    const changed: string[] = [];
    const store = {
      todos: [] as never[],
      read: () => store.todos,
      write: (todos: unknown) => {
        store.todos = todos as never[];
      },
    };
    const planWriter = await filePlanWriter({ workDir: space.root, sessionId: 's1' });
    const todo = todoWriteTool({ store, planWriter });
    const registry = new HookRegistry(
      tools({ todo_write: (args) => todo.execute(args) }),
      checkpointHook(session, {
        logger: heard,
        onChanges: (_call, changes) => changed.push(...changes.map(({ path }) => path)),
      }),
      offloadHook({ workDir: space.root, sessionId: 's1' }),
    );
    const long = await registry.execute(toolCall('c1', 'bash', { command: 'seq 5000 | tee numbers.txt' }));
    await registry.execute(toolCall('c2', 'todo_write', { todos: [{ content: 'Count', status: 'completed' }] }));
    expect(changed).toEqual(['numbers.txt']);
    const path = /saved to (\S+),/.exec(long.output)?.[1] as string;
    expect(got(await session.turnChanges('m1')).changes.map((change) => change.path)).toEqual(['numbers.txt']);
    got(await session.undo());
    expect(space.exists('numbers.txt')).toBe(false);
    expect(space.read(path).split('\n')).toHaveLength(5001);
    expect(space.read(planWriter.path.slice(space.root.length + 1))).toContain('- [x] Count\n');
    got(await session.capture('m2'));
    expect(got(await session.timeline()).items.filter(({ type }) => type === 'boundary')).toHaveLength(2);
  });
});
