/**
 * A scripted model for the real `chat()` of `@tanstack/ai`, and a small host that mounts a plugin as the harness does:
 * a session log, plugin state, events, a transcript and commands.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AnyTextAdapter, AnyTool, ChatMiddleware, ModelMessage } from '@tanstack/ai';
import { chat, createCapability, EventType, toolDefinition } from '@tanstack/ai';
import { z } from 'zod';
import type { ChatHooks, PluginContext, PluginContributions, PluginEvent } from '../../src/adapters/tanstack.ts';
import type { Space } from '../kit/space.ts';

export interface ScriptedCall {
  readonly id: string;
  readonly tool: 'edit' | 'shell' | 'fail' | 'look';
  readonly args: Record<string, unknown>;
}

/** One model step: calls, or the closing text. */
export type ScriptedStep = readonly ScriptedCall[] | string;

export const edit = (id: string, path: string, content: string): ScriptedCall => ({
  id,
  tool: 'edit',
  args: { path, content },
});
export const shell = (id: string, command: string): ScriptedCall => ({ id, tool: 'shell', args: { command } });
export const fail = (id: string, path: string): ScriptedCall => ({ id, tool: 'fail', args: { path } });
export const look = (id: string): ScriptedCall => ({ id, tool: 'look', args: {} });

let streams = 0;

/** A model that says what the script says, step by step. */
export function scripted(steps: readonly ScriptedStep[]): AnyTextAdapter {
  let at = 0;
  const stamp = { timestamp: 1, model: 'script-1' };
  async function* chatStream(options: { threadId?: string; runId?: string }): AsyncGenerator<unknown> {
    const step = steps[at++] ?? 'Done.';
    const run = { threadId: options.threadId ?? 'thread', runId: options.runId ?? 'run' };
    const messageId = `assistant-${++streams}`;
    yield { type: EventType.RUN_STARTED, ...run, ...stamp };
    if (typeof step === 'string') {
      yield { type: EventType.TEXT_MESSAGE_START, messageId, role: 'assistant', ...stamp };
      yield { type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta: step, ...stamp };
      yield { type: EventType.TEXT_MESSAGE_END, messageId, ...stamp };
    } else {
      for (const { id, tool, args } of step) {
        const call = { toolCallId: id, parentMessageId: messageId, ...stamp };
        yield { type: EventType.TOOL_CALL_START, toolCallName: tool, toolName: tool, ...call };
        yield { type: EventType.TOOL_CALL_ARGS, delta: JSON.stringify(args), ...call };
        yield { type: EventType.TOOL_CALL_END, ...call };
      }
    }
    const finishReason = typeof step === 'string' ? 'stop' : 'tool_calls';
    yield { type: EventType.RUN_FINISHED, finishReason, metadata: { tanstack: { finishReason } }, ...run, ...stamp };
  }
  return {
    kind: 'text',
    name: 'script',
    model: 'script-1',
    '~types': {},
    chatStream,
    structuredOutput: () => Promise.reject(new Error('not scripted')),
  } as unknown as AnyTextAdapter;
}

/** Tools that change the files of a space. `onEdit` is told of what the edit tool wrote, as a host's file tools tell. */
export function toolsIn(space: Space, onEdit: (path: string) => void = () => undefined): AnyTool[] {
  const define = <S extends z.ZodObject>(name: string, input: S, run: (args: z.output<S>) => unknown): AnyTool =>
    toolDefinition({ name, description: name, inputSchema: input }).server(
      async (args) => run(args as z.output<S>) ?? 'ok',
    ) as unknown as AnyTool;
  return [
    define('edit', z.object({ path: z.string(), content: z.string() }), ({ path, content }) => {
      space.write(path, content);
      onEdit(path);
    }),
    define('shell', z.object({ command: z.string() }), ({ command }) => space.sh(command)),
    define('fail', z.object({ path: z.string() }), ({ path }) => {
      writeFileSync(join(space.root, path), 'half written\n');
      throw new Error('the tool failed');
    }),
    define('look', z.object({}), () => 'nothing to see'),
  ];
}

export interface Chunk {
  readonly type: string;
  readonly name?: string;
  readonly value?: unknown;
}

export interface ChatRun {
  readonly messages: readonly unknown[];
  readonly steps: readonly ScriptedStep[];
  readonly tools: AnyTool[];
  readonly middleware: readonly (ChatHooks | ChatMiddleware)[];
  readonly threadId: string;
  readonly signal?: AbortController;
}

/** Runs the real chat to its end; answers its chunks. */
export async function runChat({ messages, steps, tools, middleware, threadId, signal }: ChatRun): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  const stream = chat({
    adapter: scripted(steps),
    messages: messages as ModelMessage[],
    tools,
    // The structural types must fit the host's own: no cast.
    middleware: [...middleware] satisfies ChatMiddleware[],
    threadId,
    ...(signal === undefined ? {} : { abortController: signal }),
  });
  for await (const chunk of stream) chunks.push(chunk as Chunk);
  return chunks;
}

export const custom = (chunks: readonly Chunk[], name: string): Record<string, unknown>[] =>
  chunks.filter((chunk) => chunk.type === 'CUSTOM' && chunk.name === name).map(({ value }) => value as never);

export interface LogRecord extends Record<string, unknown> {
  readonly type: string;
}

/** The writer of a session log, as a capability of the real package. */
export const LogRecordsCapability = createCapability<{ append(records: readonly LogRecord[]): Promise<void> }>()(
  'log-records',
);

interface Plugin {
  readonly name: string;
  setup(ctx: PluginContext): Promise<PluginContributions | undefined>;
}

/** One session of a harness with one plugin. `saved` is what would outlive a restart. */
export class FakeHost {
  readonly records: LogRecord[] = [];
  readonly events: { name: string; value: unknown }[] = [];
  status: 'idle' | 'running' = 'idle';
  readonly #space: Space;
  readonly #threadId: string;
  readonly #saved: { state?: unknown; transcript: ModelMessage[] };
  readonly #handlers = new Map<string, Set<(value: unknown) => void>>();
  readonly #closers: (() => unknown)[] = [];
  #mounted: PluginContributions | undefined;
  #messages = 0;
  /** False for a host without a session log. */
  log = true;

  private constructor(space: Space, threadId: string, saved: FakeHost['saved']) {
    this.#space = space;
    this.#threadId = threadId;
    this.#saved = saved;
  }

  static async open(
    space: Space,
    plugin: Plugin,
    options: { threadId?: string; saved?: FakeHost['saved'] } = {},
  ): Promise<FakeHost> {
    const host = new FakeHost(space, options.threadId ?? 'fix-login', options.saved ?? { transcript: [] });
    host.#mounted = await plugin.setup(host.#context());
    return host;
  }

  get saved(): { state?: unknown; transcript: ModelMessage[] } {
    return this.#saved;
  }

  get commands(): string[] {
    return Object.keys(this.#mounted?.commands ?? {});
  }

  get transcript(): readonly ModelMessage[] {
    return this.#saved.transcript;
  }

  #context(): PluginContext {
    return {
      session: { threadId: this.#threadId },
      resources: {
        acquire: async (open, close) => {
          const resource = await open();
          this.#closers.unshift(() => close(resource));
          return resource;
        },
      },
      emit: (event, value) => {
        this.events.push({ name: event.name, value });
        for (const handler of this.#handlers.get(event.name) ?? []) handler(value);
      },
      on: (event, handler) => {
        const set = this.#handlers.get(event.name) ?? new Set();
        this.#handlers.set(event.name, set.add(handler as (value: unknown) => void));
        return () => set.delete(handler as (value: unknown) => void);
      },
      state: <T>(initial: T) => ({
        get: async () => structuredClone((this.#saved.state ?? initial) as T),
        update: async (change: (current: T) => T) => {
          const next = structuredClone(change(structuredClone((this.#saved.state ?? initial) as T)));
          this.#saved.state = next;
          return next;
        },
      }),
    };
  }

  emit<T>(event: PluginEvent<T>, value: T): void {
    this.#context().emit(event, value);
  }

  /** A prompt: one turn of the real chat, with the plugin's middleware. */
  async send(
    steps: readonly ScriptedStep[],
    options: { id?: string | null; tools?: AnyTool[]; middleware?: ChatMiddleware[] } = {},
  ): Promise<Chunk[]> {
    const id = options.id === undefined ? `user-${++this.#messages}` : options.id;
    const message = { role: 'user' as const, content: 'Go on.', ...(id === null ? {} : { id }) };
    const records = this.records;
    let end: readonly ModelMessage[] = [];
    const host: ChatMiddleware = {
      name: 'host',
      ...(this.log ? { provides: [LogRecordsCapability] } : {}),
      setup: (ctx) => {
        if (this.log) LogRecordsCapability[1](ctx, { append: async (more) => void records.push(...more) });
      },
      onFinish: (ctx) => {
        end = [...ctx.messages];
      },
    };
    this.status = 'running';
    try {
      return await runChat({
        messages: [...this.#saved.transcript, message],
        steps,
        tools: options.tools ?? toolsIn(this.#space),
        middleware: [host, ...(options.middleware ?? []), ...(this.#mounted?.middleware ?? [])],
        threadId: this.#threadId,
      });
    } finally {
      this.status = 'idle';
      this.#saved.transcript = [...end];
    }
  }

  async runCommand(name: string, input?: unknown): Promise<unknown> {
    const command = this.#mounted?.commands[name];
    if (command === undefined) throw new Error(`no command ${name}`);
    return command.run(input, {
      session: {
        snapshot: () => ({ status: this.status }),
        transcript: async () => structuredClone(this.#saved.transcript),
        replaceTranscript: async (messages: ModelMessage[]) => {
          this.#saved.transcript = messages;
        },
      },
    });
  }

  eventsOf<T>(event: PluginEvent<T>): T[] {
    return this.events.filter(({ name }) => name === event.name).map(({ value }) => value as T);
  }

  async close(): Promise<void> {
    for (const close of this.#closers) await close();
  }
}
