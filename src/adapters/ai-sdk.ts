/**
 * `takeback/adapters/ai-sdk`: checkpoints for `generateText`, `streamText` and the agents of the AI SDK (`ai`).
 *
 * Two ways to the same record. `integration(thread)` goes to `telemetry.integrations` (version 7): the SDK then hands every
 * tool run through it. `tools(tools, thread)` wraps the tools themselves: for older versions, and where telemetry is off.
 * A boundary is the last user message: its id where one is given, else one made of its text and place. Not covered: tools
 * that run at the provider or the client, which this process never sees run.
 */

import { boundaryIdOf, lastUserMessage } from './kit/ids.ts';
import type { Adapter, AdapterOptions, ChatMessage, Conversation, HostThread, Message, Recorder } from './kit.ts';
import { defineAdapter } from './kit.ts';

/** The thread of a generation, and what is known of its turn. */
export interface AiThread extends HostThread {
  /** Id of the user message that this turn answers, where the application has one (`UIMessage.id`). */
  readonly messageId?: string | undefined;
  /** The tool call that this generation runs inside, where it is another process's or thread's. Default: found by itself. */
  readonly parentCallId?: string | undefined;
}

/** A thread, or what tells it by the options of a tool run (`{ toolCallId, messages, … }`). */
export type AiThreadOf = string | AiThread | ((options: ToolRun) => string | AiThread);

/** What the SDK tells of a tool run, as far as it is used. */
export interface ToolRun {
  readonly toolCallId?: string;
  readonly messages?: readonly ChatMessage[];
  readonly abortSignal?: AbortSignal | undefined;
  readonly [more: string]: unknown;
}

interface Start {
  readonly callId: string;
  readonly messages?: readonly ChatMessage[];
}

interface Step {
  readonly callId: string;
  readonly stepNumber: number;
}

interface ToolExecution<T> {
  readonly callId: string;
  readonly toolCallId: string;
  readonly toolCall?: { readonly toolName?: string; readonly input?: unknown };
  readonly messages?: readonly ChatMessage[];
  readonly execute: () => PromiseLike<T>;
}

/** An integration as `telemetry.integrations` of version 7 takes it. */
export interface AiIntegration {
  onStart(event: unknown): Promise<void>;
  onStepStart(event: Step): Promise<void>;
  onStepEnd(event: { readonly callId?: string }): Promise<void>;
  onStepError(event: { readonly callId?: string }): Promise<void>;
  executeTool<T>(options: ToolExecution<T>): Promise<T>;
  onEnd(event: unknown): Promise<void>;
  onAbort(event: unknown): Promise<void>;
  onError(error: unknown): Promise<void>;
}

export interface AiHost {
  /** The same tools, each run of one that runs here a call. Tools without `execute` are left as they are. */
  tools<T extends object>(tools: T, thread: AiThreadOf): T;
  /**
   * For `telemetry: { integrations: [history.integration(thread)] }`. Integrations of a generation replace those that were
   * registered for all: name them too. With `recordInputs: false` each generation is a turn, unless `messageId` is given.
   */
  integration(thread: string | AiThread): AiIntegration;
}

/** What `checkpoints` gives. */
export interface AiCheckpoints extends AiHost, Omit<Adapter<AiHost>, 'host'> {}

const adapter = defineAdapter<AiHost>({
  name: 'ai-sdk',
  mount: (recorder) => ({
    tools: (tools, thread) => wrapTools(recorder, tools, thread),
    integration: (thread) => integrationOf(recorder, typeof thread === 'string' ? { threadId: thread } : thread),
  }),
});

/**
 * Records what the tools of generations do to the files below `root`, and takes it back.
 *
 * The generation never fails because of it: what can't be recorded is told to `onProblem`. `tools` of the options tells
 * what is known of each tool; `serialize` makes parallel calls run one after another.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function checkpoints(options: AdapterOptions): AiCheckpoints {
  const { host, ...rest } = adapter(options);
  return { ...host, ...rest };
}

interface Place {
  readonly conversation: Conversation;
  readonly thread: AiThread;
}

function placeOf(recorder: Recorder, thread: AiThread): Place {
  const { messageId: _, parentCallId, ...key } = thread;
  return { conversation: recorder.conversation(key), thread };
}

function integrationOf(recorder: Recorder, thread: AiThread): AiIntegration {
  const { conversation } = placeOf(recorder, thread);
  const steps = new Map<string, number>();
  const forget = async ({ callId }: { readonly callId?: string }): Promise<void> => {
    if (callId !== undefined) steps.delete(callId);
  };
  return {
    onStart: async (event) => {
      const { callId, messages } = event as Start;
      // Embeddings and the like have no messages, and no tools.
      if (messages !== undefined) await conversation.message(messageOf(thread, messages, callId));
    },
    onStepStart: async ({ callId, stepNumber }) => {
      steps.set(callId, stepNumber);
    },
    onStepEnd: forget,
    onStepError: forget,
    executeTool: ({ callId, toolCallId, toolCall, execute }) => {
      const stepId = `${callId}:${steps.get(callId) ?? 0}`;
      const { toolName: tool, input } = toolCall ?? {};
      return conversation.around(
        { id: toolCallId, tool, input, stepId, parentCallId: thread.parentCallId },
        execute,
        isFailure,
      );
    },
    onEnd: () => conversation.turnEnded(),
    onAbort: () => conversation.aborted(),
    onError: () => conversation.aborted(),
  };
}

/** With inputs hidden, the SDK gives an empty list of messages. */
function messageOf({ messageId }: AiThread, messages: readonly ChatMessage[], callId?: string): Message {
  if (messageId === undefined && messages.length === 0 && callId !== undefined) return { id: `run-${callId}` };
  return lastUserMessage(messages, messageId);
}

type Execute = (this: unknown, input: unknown, options: ToolRun) => unknown;

function wrapTools<T extends object>(recorder: Recorder, tools: T, thread: AiThreadOf): T {
  const wrapped = Object.entries(tools).map(([name, tool]) => [name, wrapTool(recorder, { name, tool, thread })]);
  return Object.fromEntries(wrapped) as T;
}

function wrapTool(
  recorder: Recorder,
  { name, tool, thread }: { name: string; tool: object; thread: AiThreadOf },
): object {
  const execute = (tool as { execute?: Execute }).execute;
  if (typeof execute !== 'function') return tool;
  const enter = (options: ToolRun): Promise<Place | null> => enterTurn(recorder, thread, options);
  const wrapped: Execute = isGenerator(execute)
    ? async function* (input, options) {
        const run = (): AsyncIterable<unknown> => execute.call(tool, input, options) as AsyncIterable<unknown>;
        const place = await enter(options);
        yield* place === null ? run() : place.conversation.aroundEach(callOf(name, { input, options, place }), run);
      }
    : async (input, options) => {
        const run = (): unknown => lastOf(execute.call(tool, input, options));
        const place = await enter(options);
        return place === null
          ? run()
          : place.conversation.around(callOf(name, { input, options, place }), run, isFailure);
      };
  const properties = Object.getOwnPropertyDescriptors(tool) as PropertyDescriptorMap;
  const value = { value: wrapped, enumerable: true, writable: true, configurable: true };
  return Object.create(Object.getPrototypeOf(tool), { ...properties, execute: value }) as object;
}

/** The thread of a tool run, its turn begun. Null where the application could not tell it. */
async function enterTurn(recorder: Recorder, thread: AiThreadOf, options: ToolRun): Promise<Place | null> {
  let place: Place;
  try {
    const named = typeof thread === 'function' ? thread(options) : thread;
    place = placeOf(recorder, typeof named === 'string' ? { threadId: named } : named);
  } catch (error) {
    recorder.problem({ threadId: 'unknown' }, 'thread', error);
    return null;
  }
  await place.conversation.message(messageOf(place.thread, options.messages ?? []));
  return place;
}

function callOf(
  tool: string,
  { input, options, place }: { input: unknown; options: ToolRun; place: Place },
): Parameters<Conversation['around']>[0] {
  const { toolCallId, messages = [], abortSignal } = options;
  return {
    id: toolCallId,
    tool,
    input,
    // Calls of one step get the same messages, and those of the next step more.
    stepId: `${boundaryIdOf(messageOf(place.thread, messages))}:${messages.length}`,
    parentCallId: place.thread.parentCallId,
    signal: abortSignal,
  };
}

/** Tells `async function*`: what it gives is known before it runs. */
function isGenerator(execute: Execute): boolean {
  return Object.prototype.toString.call(execute) === '[object AsyncGeneratorFunction]';
}

/** A function that turns out to give an iterable has been begun by then: it is run to its end, and its last output counts. */
async function lastOf(output: unknown): Promise<unknown> {
  const value = await output;
  if (typeof (Object(value) as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] !== 'function') return value;
  let last: unknown;
  for await (const part of value as AsyncIterable<unknown>) last = part;
  return last;
}

/** Tools of MCP servers tell a failure as a value. */
function isFailure(value: unknown): boolean {
  return (Object(value) as { isError?: unknown }).isError === true;
}
