/**
 * `takeback/adapters/kit`: what every adapter needs, so that a new host is a page of code.
 *
 * {@link defineAdapter} takes what an adapter knows of its host (its tools, how it is mounted) and gives a function of the
 * user's options. What the host tells goes to a {@link Conversation}: user messages become boundaries, tool runs become
 * calls. Workspaces are opened once a root, sessions once a thread; nothing that fails reaches the host. Not covered: the
 * conversation of the host (an undo puts files back, and leaves the transcript to the adapter).
 */
import { TakebackError } from '../errors.ts';
import { check, type SessionKeyOptions } from '../schemas.ts';
import { Conversation } from './kit/conversation.ts';
import {
  type AdapterOptions,
  adapterOptionsSchema,
  conversationKeySchema,
  type HostThread,
  type ToolTable,
  toolTableSchema,
} from './kit/options.ts';
import { Reporter } from './kit/problems.ts';
import { Rooms } from './kit/rooms.ts';
import { Nesting } from './kit/running.ts';

export type { Conversation, HistoryAnswer } from './kit/conversation.ts';
export { type ChatMessage, lastUserMessage, type Message } from './kit/ids.ts';
export {
  type AdapterOptions,
  adapterOptionsSchema,
  type HostThread,
  type ToolFacts,
  type ToolTable,
  toolFactsSchema,
} from './kit/options.ts';
export type { Problem } from './kit/problems.ts';
export type { CallEnd, HostCall, OpenCall } from './kit/running.ts';

/** What an adapter tells, and asks. */
export interface Recorder {
  /** The conversation of a thread; the same object for the same thread. Opens nothing yet. */
  conversation(thread: string | HostThread): Conversation;
  /** Tells of something that the adapter itself could not do. */
  problem(thread: HostThread, during: string, cause: unknown): void;
}

export interface AdapterDefinition<Host> {
  /** Of the adapter: names it in problems. */
  readonly name: string;
  /** What is known of the host's own tools. The user's `tools` go before. */
  readonly tools?: ToolTable | undefined;
  /** Makes what the host takes: hooks, middleware, a plugin. */
  mount(recorder: Recorder): Host;
}

export interface Adapter<Host> extends Pick<Recorder, 'conversation'> {
  /** What `mount` made. */
  readonly host: Host;
  /** Ends open calls and closes the workspaces. What the host tells afterwards is a problem, `ERR_CLOSED`. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes an adapter from what is known of a host.
 *
 * @returns a function of the user's options; it throws `ERR_INVALID_ARGUMENT` for options of the wrong form
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a table of tools of the wrong form
 */
export function defineAdapter<Host>(definition: AdapterDefinition<Host>): (options: AdapterOptions) => Adapter<Host> {
  const own = check(toolTableSchema, definition.tools ?? {}, 'tools');
  return (given) => {
    const options = check(adapterOptionsSchema, given, 'options');
    const { tools, ...rest } = options;
    const recorder = new Recording(definition.name, rest, new Map(Object.entries({ ...own, ...tools })));
    return {
      host: definition.mount(recorder),
      conversation: (thread) => recorder.conversation(thread),
      close: () => recorder.close(),
      [Symbol.asyncDispose]: () => recorder.close(),
    };
  };
}

class Recording implements Recorder {
  readonly #conversations = new Map<string, Conversation>();
  readonly #nesting = new Nesting();
  readonly #reporter: Reporter;
  readonly #rooms: Rooms;
  readonly #options: Omit<AdapterOptions, 'tools'>;
  readonly #tools: ConstructorParameters<typeof Conversation>[0]['tools'];

  constructor(
    name: string,
    options: Omit<AdapterOptions, 'tools'>,
    tools: ConstructorParameters<typeof Conversation>[0]['tools'],
  ) {
    this.#options = options;
    this.#tools = tools;
    this.#reporter = new Reporter(name, options);
    this.#rooms = new Rooms(options);
  }

  conversation(thread: string | HostThread): Conversation {
    const host = check(conversationKeySchema, typeof thread === 'string' ? { threadId: thread } : thread, 'thread');
    const key = this.#keyOf(host);
    const name = JSON.stringify([key.tenantId ?? null, key.threadId]);
    const known = this.#conversations.get(name);
    if (known !== undefined) return known;
    const { onConflict, serialize } = this.#options;
    const conversation = new Conversation({
      key,
      tools: this.#tools,
      nesting: this.#nesting,
      serialize: serialize ?? false,
      enter: async () => (await this.#rooms.of(host)).session({ ...key, ...(onConflict ? { onConflict } : {}) }),
      report: (during, cause, callId) => this.#reporter.report(key, during, { cause, callId }),
    });
    this.#conversations.set(name, conversation);
    return conversation;
  }

  problem(thread: HostThread, during: string, cause: unknown): void {
    this.#reporter.report(this.#keyOf(thread), during, { cause });
  }

  #keyOf(host: HostThread): SessionKeyOptions {
    const { tenantId: tenantOf } = this.#options;
    const tenant = host.tenantId ?? (typeof tenantOf === 'function' ? tenantOf(host) : tenantOf);
    return { threadId: host.threadId, ...(tenant === undefined ? {} : { tenantId: tenant }) };
  }

  async close(): Promise<void> {
    for (const conversation of this.#conversations.values()) await conversation.aborted();
    await this.#rooms.close(new TakebackError('ERR_CLOSED', 'the adapter was closed'));
  }
}
