/** The adapter in the real AI SDK, with its own mock model. */
import { generateText, isStepCount, type ModelMessage, streamText, ToolLoopAgent, tool } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type AiCheckpoints, checkpoints } from '../../src/adapters/ai-sdk.ts';
import type { AdapterOptions, Problem } from '../../src/adapters/kit.ts';
import { adapterSuite, type ScriptedCall, type Setting } from '../../src/adapters/testkit.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import type { TimelineItem } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { type AskedCall, asked, type Step, scripted, suiteTools } from './ai-kit.ts';

const THREAD = 'fix-login';
const LOOP = { stopWhen: isStepCount(20) };

interface Kit {
  readonly space: Space;
  readonly history: AiCheckpoints;
  readonly problems: Problem[];
  [Symbol.asyncDispose](): Promise<void>;
}

function kit(backend: BackendKind, more: Partial<AdapterOptions> = {}): Kit {
  const space = new Space();
  const problems: Problem[] = [];
  const history = checkpoints({
    root: space.root,
    dataDir: space.dataDir,
    backend,
    durability: 'fast',
    onProblem: (problem) => problems.push(problem),
    ...more,
  });
  return {
    space,
    history,
    problems,
    [Symbol.asyncDispose]: async () => {
      await history.close();
      await space[Symbol.asyncDispose]();
    },
  };
}

type Mode = (run: { history: AiCheckpoints; tools: ReturnType<typeof suiteTools>; steps: Step[] }) => {
  turn(messages: ModelMessage[]): Promise<unknown>;
};

const drained = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const part of stream) void part;
};

/** Every way to run tools, and both ways to record them. */
const MODES: Record<string, Mode> = {
  'generateText, integration': ({ history, tools, steps }) => ({
    turn: (messages) =>
      generateText({
        model: scripted(steps.splice(0)),
        tools,
        messages,
        ...LOOP,
        telemetry: { integrations: [history.integration(THREAD)] },
      }),
  }),
  'generateText, wrapped tools': ({ history, tools, steps }) => ({
    turn: (messages) =>
      generateText({ model: scripted(steps.splice(0)), tools: history.tools(tools, THREAD), messages, ...LOOP }),
  }),
  'streamText, integration': ({ history, tools, steps }) => ({
    turn: (messages) =>
      drained(
        streamText({
          model: scripted(steps.splice(0)),
          tools,
          messages,
          ...LOOP,
          telemetry: { integrations: [history.integration(THREAD)] },
        }).stream,
      ),
  }),
  'streamText, wrapped tools': ({ history, tools, steps }) => ({
    turn: (messages) =>
      drained(
        streamText({ model: scripted(steps.splice(0)), tools: history.tools(tools, THREAD), messages, ...LOOP }).stream,
      ),
  }),
  'an agent, integration': ({ history, tools, steps }) => {
    const agent = (): ToolLoopAgent<never, typeof tools> =>
      new ToolLoopAgent({
        model: scripted(steps.splice(0)),
        tools,
        ...LOOP,
        telemetry: { integrations: [history.integration(THREAD)] },
      });
    return { turn: (messages) => agent().generate({ messages }) };
  },
  'an agent, wrapped tools': ({ history, tools, steps }) => {
    const agent = (): ToolLoopAgent<never, typeof tools> =>
      new ToolLoopAgent({ model: scripted(steps.splice(0)), tools: history.tools(tools, THREAD), ...LOOP });
    return { turn: (messages) => agent().generate({ messages }) };
  },
};

describeBackends('the adapter suite in the AI SDK', (backend) => {
  for (const [name, mode] of Object.entries(MODES)) {
    const start = async (setting: Setting) => {
      const { root, dataDir } = setting;
      const history = checkpoints({ root, dataDir, backend, durability: 'fast', onProblem: () => undefined });
      const steps: Step[] = [];
      const host = mode({ history, tools: suiteTools(setting), steps });
      const messages: ModelMessage[] = [];
      return {
        turn: async (calls: readonly (readonly ScriptedCall[])[]) => {
          const turn = messages.push({ role: 'user', content: 'Go on.' });
          steps.push(...calls.map((step, s) => step.map((call, c) => asked(`t${turn}-s${s}-c${c}`, call))), 'Done.');
          await host.turn([...messages]);
          messages.push({ role: 'assistant', content: 'Done.' });
        },
        undo: () => history.conversation(THREAD).undo(),
        redo: () => history.conversation(THREAD).redo(),
        close: () => history.close(),
      };
    };
    for (const { name: claim, run } of adapterSuite({ name, start })) test(claim, run);
  }
});

async function calls(history: AiCheckpoints): Promise<Extract<TimelineItem, { type: 'call' }>[]> {
  const timeline = got(await (await history.conversation(THREAD).session()).timeline());
  return timeline.items.filter((item) => item.type === 'call');
}

async function boundaries(history: AiCheckpoints): Promise<string[]> {
  const timeline = got(await (await history.conversation(THREAD).session()).timeline());
  return timeline.items.flatMap((item) => (item.type === 'boundary' ? [item.boundaryId] : []));
}

const edit = (id: string, path: string, content = '1\n'): AskedCall => ({ id, tool: 'edit', input: { path, content } });

describeBackends('checkpoints of the AI SDK', (backend) => {
  /** `integration` and `tools`, to be run both. */
  const ways = (history: AiCheckpoints, thread: { threadId: string; messageId?: string } = { threadId: THREAD }) => ({
    integration: <T extends object>(tools: T) => ({
      tools,
      telemetry: { integrations: [history.integration(thread)] },
    }),
    wrapped: <T extends object>(tools: T) => ({ tools: history.tools(tools, thread) }),
  });

  const toolsOf = (space: Space) =>
    suiteTools({
      runTool: async (call) => {
        if (call.tool === 'shell') return space.sh(call.command);
        space.write(call.path, call.content);
        return 'ok';
      },
    });

  test.each(['integration', 'wrapped'] as const)(
    'calls carry their tool, id and step; those of one step share it (%s)',
    async (way) => {
      await using run = kit(backend);
      const { space, history } = run;
      await generateText({
        model: scripted([[edit('c1', 'a.txt'), edit('c2', 'b.txt')], [edit('c3', 'c.txt')], 'Done.']),
        prompt: 'Write.',
        ...LOOP,
        ...ways(history)[way](toolsOf(space)),
      });
      const seen = await calls(history);
      expect(seen.map(({ callId, tool, state }) => [callId, tool, state])).toEqual([
        ['c1', 'edit', 'ended'],
        ['c2', 'edit', 'ended'],
        ['c3', 'edit', 'ended'],
      ]);
      expect(seen[0]?.stepId).toBeTruthy();
      expect(seen[1]?.stepId).toBe(seen[0]?.stepId);
      expect(seen[2]?.stepId).not.toBe(seen[0]?.stepId);
      expect(run.problems).toEqual([]);
    },
  );

  test.each(['integration', 'wrapped'] as const)(
    'the boundary is the application’s message id where it gives one (%s)',
    async (way) => {
      await using run = kit(backend);
      await generateText({
        model: scripted([[edit('c1', 'a.txt')], 'Done.']),
        prompt: 'Write.',
        ...LOOP,
        ...ways(run.history, { threadId: THREAD, messageId: 'msg-7' })[way](toolsOf(run.space)),
      });
      expect(await boundaries(run.history)).toEqual(['msg-7']);
    },
  );

  test.each(['integration', 'wrapped'] as const)(
    'a tool that waits for approval is not bracketed until it runs, and runs in the turn of its message (%s)',
    async (way) => {
      await using run = kit(backend);
      const { space, history } = run;
      const tools = {
        edit: tool({
          inputSchema: z.object({ path: z.string(), content: z.string() }),
          needsApproval: ({ path }) => path === 'b.txt',
          execute: ({ path, content }) => space.write(path, content),
        }),
      };
      const prepared = ways(history)[way](tools);
      const messages: ModelMessage[] = [{ role: 'user', content: 'Write.' }];
      const first = await generateText({
        model: scripted([[edit('c1', 'a.txt')], [edit('c2', 'b.txt')]]),
        messages,
        ...LOOP,
        ...prepared,
      });
      expect((await calls(history)).map(({ callId }) => callId)).toEqual(['c1']);
      space.write('user.txt', 'while it waits\n');
      const request = first.content.find((part) => part.type === 'tool-approval-request');
      messages.push(...first.responseMessages, {
        role: 'tool',
        content: [{ type: 'tool-approval-response', approvalId: request?.approvalId ?? '', approved: true }],
      });
      await generateText({ model: scripted(['Done.']), messages, ...LOOP, ...prepared });
      expect(space.read('b.txt')).toBe('1\n');
      expect(await boundaries(history)).toHaveLength(1);
      expect((await history.conversation(THREAD).undo()).message).toBe('Undid the last turn. Files restored: 2.');
      expect([space.exists('a.txt'), space.exists('b.txt'), space.exists('user.txt')]).toEqual([false, false, true]);
    },
  );

  test.each(['integration', 'wrapped'] as const)(
    'a tool that gives its output bit by bit is one call, and its bits reach the stream (%s)',
    async (way) => {
      await using run = kit(backend);
      const { space, history } = run;
      const slow = tool({
        inputSchema: z.object({}),
        async *execute() {
          yield 'begun';
          space.write('a.txt', '1\n');
          yield 'done';
        },
      });
      const result = streamText({
        model: scripted([[{ id: 'c1', tool: 'slow', input: {} }], 'Done.']),
        prompt: 'Write.',
        ...LOOP,
        ...ways(history)[way]({ slow }),
      });
      const outputs: unknown[] = [];
      for await (const part of result.stream) {
        if (part.type === 'tool-result') outputs.push([part.output, part.preliminary ?? false]);
      }
      expect(outputs).toEqual([
        ['begun', true],
        ['done', true],
        ['done', false],
      ]);
      expect(await calls(history)).toMatchObject([{ callId: 'c1', state: 'ended', isError: false }]);
      await history.conversation(THREAD).undo();
      expect(space.exists('a.txt')).toBe(false);
    },
  );

  test('a wrapped function that turns out to give an iterable is run to its end, and its last output counts', async () => {
    await using run = kit(backend);
    async function* bits() {
      yield 'begun';
      run.space.write('a.txt', '1\n');
      yield 'done';
    }
    const old = tool({ inputSchema: z.object({}), execute: () => bits() });
    const { toolResults } = await generateText({
      model: scripted([[{ id: 'c1', tool: 'old', input: {} }]]),
      prompt: 'Write.',
      tools: run.history.tools({ old }, THREAD),
    });
    expect(toolResults).toMatchObject([{ output: 'done' }]);
    await run.history.conversation(THREAD).undo();
    expect(run.space.exists('a.txt')).toBe(false);
  });

  test.each(['integration', 'wrapped'] as const)('a tool that throws is a failed call (%s)', async (way) => {
    await using run = kit(backend);
    const broken = tool({
      inputSchema: z.object({}),
      execute: (): string => {
        run.space.write('half.txt', '1\n');
        throw new Error('no');
      },
    });
    const { content } = await generateText({
      model: scripted([[{ id: 'c1', tool: 'broken', input: {} }]]),
      prompt: 'Write.',
      ...ways(run.history)[way]({ broken }),
    });
    expect(content.find((part) => part.type === 'tool-error')).toMatchObject({ error: new Error('no') });
    expect(await calls(run.history)).toMatchObject([{ callId: 'c1', isError: true, state: 'ended' }]);
  });

  test.each(['integration', 'wrapped'] as const)(
    'tools of the provider, and tools without execute, are not bracketed (%s)',
    async (way) => {
      await using run = kit(backend);
      const ask = tool({ inputSchema: z.object({ question: z.string() }), outputSchema: z.string() });
      const search = tool({
        type: 'provider',
        id: 'mock.search',
        args: {},
        inputSchema: z.object({}),
        outputSchema: z.string(),
        isProviderExecuted: true,
      });
      await generateText({
        model: scripted([
          [
            { id: 'c1', tool: 'search', input: {}, atProvider: true },
            { id: 'c2', tool: 'ask', input: { question: 'why' } },
            edit('c3', 'a.txt'),
          ],
        ]),
        prompt: 'Write.',
        ...ways(run.history)[way]({ ask, search, ...toolsOf(run.space) }),
      });
      expect((await calls(run.history)).map(({ callId }) => callId)).toEqual(['c3']);
    },
  );

  test.each(['integration', 'wrapped'] as const)('an abort leaves no call open (%s)', async (way) => {
    await using run = kit(backend);
    const stop = new AbortController();
    const wait = tool({
      inputSchema: z.object({}),
      execute: (_input, { abortSignal }) => {
        run.space.write('a.txt', '1\n');
        return new Promise<string>((_, reject) => {
          abortSignal?.addEventListener('abort', () => reject(new Error('stopped')));
          stop.abort();
        });
      },
    });
    const result = streamText({
      model: scripted([[{ id: 'c1', tool: 'wait', input: {} }], 'Done.']),
      prompt: 'Write.',
      abortSignal: stop.signal,
      ...LOOP,
      ...ways(run.history)[way]({ wait }),
    });
    await drained(result.stream);
    expect(await calls(run.history)).toMatchObject([{ callId: 'c1', state: 'ended', isError: true }]);
    expect((await run.history.conversation(THREAD).undo()).message).toBe('Undid the last turn. Files restored: 1.');
  });

  test.each(['integration', 'wrapped'] as const)(
    'a generation inside a tool is nested: undo of the thread takes back what it did too (%s)',
    async (way) => {
      await using run = kit(backend);
      const { space, history } = run;
      const inner = ways(history, { threadId: 'sub' })[way](toolsOf(space));
      const same = ways(history)[way](toolsOf(space));
      const research = tool({
        inputSchema: z.object({}),
        execute: async () => {
          const model = (id: string, path: string) => scripted([[edit(id, path)], 'Done.']);
          await generateText({ model: model('i1', 'by-sub.txt'), prompt: 'Dig.', ...LOOP, ...inner });
          await generateText({ model: model('i2', 'by-same.txt'), prompt: 'Dig on.', ...LOOP, ...same });
          return 'found';
        },
      });
      await generateText({
        model: scripted([[{ id: 'c1', tool: 'research', input: {} }], 'Done.']),
        prompt: 'Research.',
        ...LOOP,
        ...ways(history)[way]({ research }),
      });
      expect(await boundaries(history), 'what ran inside the call is part of its turn').toHaveLength(1);
      expect((await history.conversation(THREAD).undo()).message).toBe('Undid the last turn. Files restored: 2.');
      expect([space.exists('by-sub.txt'), space.exists('by-same.txt')]).toEqual([false, false]);
      expect(run.problems).toEqual([]);
    },
  );

  /** Two calls of one step, each of which does `during` and then writes its file. */
  async function pair(run: Kit, way: 'integration' | 'wrapped', during: () => Promise<void>): Promise<void> {
    const write = tool({
      inputSchema: z.object({ path: z.string() }),
      execute: async ({ path }) => {
        await during();
        run.space.write(path, '1\n');
      },
    });
    await generateText({
      model: scripted([
        [
          { id: 'c1', tool: 'write', input: { path: 'a.txt' } },
          { id: 'c2', tool: 'write', input: { path: 'b.txt' } },
        ],
      ]),
      prompt: 'Write.',
      ...ways(run.history)[way]({ write }),
    });
  }

  test.each(['integration', 'wrapped'] as const)(
    'calls of one step overlap, and each change has both as candidates (%s)',
    async (way) => {
      await using run = kit(backend);
      let open = 0;
      let meet: () => void;
      const met = new Promise<void>((resolve) => {
        meet = resolve;
      });
      await pair(run, way, async () => {
        open += 1;
        if (open === 2) meet();
        await met;
      });
      expect((await calls(run.history)).map(({ files }) => files.created)).toEqual([2, 2]);
      expect((await run.history.conversation(THREAD).undo()).message).toBe('Undid the last turn. Files restored: 2.');
    },
  );

  test.each(['integration', 'wrapped'] as const)(
    'with serialize calls of one step run one after another, and each change has one (%s)',
    async (way) => {
      await using run = kit(backend, { serialize: true });
      let open = 0;
      let most = 0;
      await pair(run, way, async () => {
        open += 1;
        most = Math.max(most, open);
        await new Promise(setImmediate);
        open -= 1;
      });
      expect(most).toBe(1);
      await (await run.history.conversation(THREAD).session()).revertCall('c1');
      expect([run.space.exists('a.txt'), run.space.exists('b.txt')]).toEqual([false, true]);
    },
  );

  test('tools that only read own nothing, and side effects are told', async () => {
    await using run = kit(backend, {
      tools: {
        edit: { paths: ({ path }: { path: string }) => [path], sideEffect: 'workspace_write' },
        shell: { paths: [], sideEffect: 'network' },
      },
    });
    const { space, history } = run;
    await generateText({
      model: scripted([[edit('c1', 'a.txt'), { id: 'c2', tool: 'shell', input: { command: 'echo 1 > b.txt' } }]]),
      prompt: 'Write.',
      tools: history.tools(toolsOf(space), THREAD),
    });
    const session = await history.conversation(THREAD).session();
    const [boundary] = await boundaries(history);
    const plan = got(await session.plan(boundary as string));
    expect(plan.entries.map(({ path }) => path)).toEqual(['a.txt']);
    expect(plan.irreversible).toMatchObject([{ callId: 'c2', sideEffect: 'network' }]);
  });

  test('a message that comes again after undo is a new turn', async () => {
    await using run = kit(backend);
    const { space, history } = run;
    const turn = () =>
      generateText({
        model: scripted([[edit('c1', 'a.txt')], 'Done.']),
        prompt: 'Write.',
        ...LOOP,
        tools: history.tools(toolsOf(space), THREAD),
      });
    await turn();
    await history.conversation(THREAD).undo();
    await turn();
    const [first, second] = await boundaries(history);
    expect(second).toBe(`${first}#2`);
    await history.conversation(THREAD).undo();
    expect(space.exists('a.txt')).toBe(false);
  });
});

describe('options of the AI SDK adapter', () => {
  test('the thread of a tool run may be told by the run', async () => {
    await using run = kit('portable');
    const { space, history } = run;
    const { edit: write } = suiteTools({ runTool: async () => String(space.write('a.txt', '1\n')) });
    const agent = new ToolLoopAgent({
      model: scripted([[edit('c1', 'a.txt')], 'Done.']),
      tools: history.tools({ edit: write }, ({ messages }) => `thread-of-${messages?.length}`),
      ...LOOP,
    });
    await agent.generate({ prompt: 'Write.' });
    expect((await history.conversation('thread-of-1').undo()).message).toBe('Undid the last turn. Files restored: 1.');
  });

  test('a thread that can’t be told is a problem, and the tool runs', async () => {
    await using run = kit('portable');
    const { space, history, problems } = run;
    const { edit: write } = suiteTools({ runTool: async () => String(space.write('a.txt', '1\n')) });
    const tools = history.tools({ edit: write }, () => {
      throw new Error('no thread');
    });
    await generateText({ model: scripted([[edit('c1', 'a.txt')]]), prompt: 'Write.', tools });
    expect(space.exists('a.txt')).toBe(true);
    expect(problems).toMatchObject([{ adapter: 'ai-sdk', during: 'thread', detail: 'no thread' }]);
  });

  test('a misspelt option is an error at once', () => {
    expect(() => checkpoints({ root: '/x', dataDirectory: '/y' } as never)).toThrow('dataDirectory');
    expect(() => checkpoints({} as never)).toThrow('root');
    expect(() => checkpoints({ root: '/x', tools: { edit: { path: [] } } } as never)).toThrow('path');
  });
});
