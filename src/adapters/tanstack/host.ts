/**
 * What this adapter uses of its hosts, as structural types: the chat of `@tanstack/ai` and the plugins of its harness.
 * No package of theirs is imported, so that none is needed to install this one. Types only.
 */

/** A message, as far as it is read here. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly id?: string | undefined;
  /** Of an assistant message: the calls that it asks for. */
  readonly toolCalls?: readonly { readonly id: string }[] | undefined;
  /** Of a tool message: the call that it answers. */
  readonly toolCallId?: string | undefined;
}

/** The context of one run of `chat()`; one object for all hooks of the run. */
export interface ChatContext {
  readonly threadId: string;
  readonly runId: string;
  /** 0 for the first model step of the run. */
  readonly iteration: number;
  /** Id of the assistant message that the model step writes; null before the first. */
  readonly currentMessageId: string | null;
  readonly messages: readonly ChatMessage[];
  /** The host's own value, as given to `chat({ context })`. */
  readonly context: unknown;
  emitCustomEvent(name: string, value: Record<string, unknown>): void;
}

export interface ToolCallStart {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly args: unknown;
}

export interface ToolCallEnd {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly ok: boolean;
}

/** Chat middleware: `chat({ middleware: [it] })` takes it. */
export interface ChatHooks {
  readonly name: string;
  onStart(ctx: ChatContext): Promise<void>;
  onIteration(ctx: ChatContext): Promise<void>;
  onBeforeToolCall(ctx: ChatContext, call: ToolCallStart): Promise<undefined>;
  onAfterToolCall(ctx: ChatContext, call: ToolCallEnd): Promise<void>;
  onToolPhaseComplete(ctx: ChatContext): Promise<void>;
  onFinish(ctx: ChatContext): Promise<void>;
  onAbort(ctx: ChatContext): Promise<void>;
  onError(ctx: ChatContext): Promise<void>;
}

/** Appends records to the session log of a run. */
export interface LogWriter {
  append(records: readonly ({ readonly type: string } & Record<string, unknown>)[]): Promise<void>;
}

/** The host's `LogRecordsCapability`: its first element reads the writer of a run. */
export type LogRecords = readonly [
  get: (ctx: never, options: { optional: true }) => LogWriter | undefined,
  ...rest: unknown[],
];

/** A typed event of plugins; `name` is all that counts when it is sent. */
export interface PluginEvent<T> {
  readonly name: string;
  /** Never there: it carries the type. */
  readonly __type?: T;
}

/** State of a plugin that the host keeps across restarts. */
export interface PluginState<T> {
  get(): Promise<T>;
  update(change: (current: T) => T): Promise<T>;
}

/** What a command does to the conversation. */
export interface ConversationApi {
  snapshot(): { readonly status: string };
  transcript(): Promise<ChatMessage[]>;
  replaceTranscript(messages: ChatMessage[]): Promise<void>;
}

export interface CommandContext {
  readonly session: ConversationApi;
}

/** A user's action; the host checks `input` (a Standard Schema) before `run`. */
export interface Command {
  readonly description: string;
  readonly input?: unknown;
  run(input: unknown, ctx: CommandContext): Promise<unknown>;
}

/** What `setup` gets. */
export interface PluginContext {
  readonly session: { readonly threadId: string; readonly principal?: unknown };
  readonly resources: {
    acquire<T>(open: () => T | Promise<T>, close: (resource: T) => unknown): Promise<T>;
  };
  emit<T>(event: PluginEvent<T>, value: T): void;
  on<T>(event: PluginEvent<T>, handler: (value: T) => void): () => void;
  state<T>(initial: T): PluginState<T>;
}

export interface PluginContributions {
  readonly middleware: readonly ChatHooks[];
  readonly commands: Readonly<Record<string, Command>>;
}
