/**
 * The chat middleware: a boundary at each user message, a call around each tool run, a step for each model step that
 * changed files.
 *
 * The boundary is the user message's id, else the run's. A run that goes on with a message whose boundary there is (an
 * approval, a tool result of the client) goes on with that turn. The step is the assistant message's id. Nothing that
 * fails here reaches the chat: it is told as `snapshotFailed`. Not covered: tools that run at the client or the provider.
 */
import { TakebackError } from '../../errors.ts';
import type { BeginCallOptions } from '../../schemas.ts';
import type { ChatContext, ChatHooks, ToolCallEnd, ToolCallStart } from './host.ts';
import { type CallFacts, type Listener, NAME, pathsOf, type SnapshotsOptions } from './options.ts';
import type { Lease, Thread } from './threads.ts';

export interface ChatSettings {
  readonly describeCall: SnapshotsOptions['describeCall'];
  /** Opens the thread of a run. */
  lease(ctx: ChatContext): Promise<Lease>;
  /** Who hears of what happens while the run lasts. */
  listener(ctx: ChatContext): Listener;
  /** Told where there is no thread to tell it to. */
  failed(ctx: ChatContext, cause: unknown): Promise<void>;
  /** A new turn begins: its boundary was captured. */
  turnBegan?(): Promise<void>;
  /** The first call begins, while no other is open. */
  callsBegin?(): void;
}

/** Steps that are looked at to find one that has just ended. */
const NEWEST_STEPS = 16;

export function chatMiddleware(settings: ChatSettings): ChatHooks {
  const runs = new WeakMap<ChatContext, Run>();
  const during = async (ctx: ChatContext, work: (run: Run) => Promise<void>): Promise<void> => {
    const run = runs.get(ctx);
    if (run === undefined) return;
    try {
      await work(run);
    } catch (error) {
      await run.thread.failed(error);
    }
  };
  const end = (ctx: ChatContext): Promise<void> => during(ctx, (run) => run.end().finally(() => runs.delete(ctx)));
  return {
    name: NAME,
    onStart: async (ctx) => {
      try {
        runs.set(ctx, new Run(ctx, await settings.lease(ctx), settings));
      } catch (error) {
        return settings.failed(ctx, error);
      }
      await during(ctx, (run) => run.begin());
    },
    onIteration: (ctx) => during(ctx, (run) => run.beginStep()),
    onBeforeToolCall: async (ctx, call) => {
      await during(ctx, (run) => run.beginCall(call));
      return undefined;
    },
    onAfterToolCall: (ctx, call) => during(ctx, (run) => run.endCall(call)),
    onToolPhaseComplete: (ctx) => during(ctx, (run) => run.endStep()),
    onFinish: end,
    onAbort: end,
    onError: end,
  };
}

/** One run of `chat()`. */
class Run {
  readonly thread: Thread;
  readonly #ctx: ChatContext;
  readonly #lease: Lease;
  readonly #settings: ChatSettings;
  readonly #unlisten: () => void;
  readonly #facts = new Map<string, CallFacts>();
  /** Steps that had a call since the last look. */
  readonly #steps = new Set<string>();
  #captured = false;

  constructor(ctx: ChatContext, lease: Lease, settings: ChatSettings) {
    this.#ctx = ctx;
    this.#lease = lease;
    this.#settings = settings;
    this.thread = lease.thread;
    this.#unlisten = this.thread.listen(settings.listener(ctx));
  }

  async begin(): Promise<void> {
    const { workspace } = this.thread;
    if (!workspace.available) return this.thread.failed(workspace, true);
    if (this.#ctx.messages.at(-1)?.role === 'user') {
      // A new message in the thread: the run before it is over, however it ended.
      await this.thread.endLeftovers();
    } else if (await this.#goesOn()) {
      this.#captured = true;
      return;
    }
    await this.#capture();
  }

  /** The run answers no new message, and the thread has a turn that it belongs to. */
  async #goesOn(): Promise<boolean> {
    const newest = await this.thread.session.timeline({ limit: 1, lines: false });
    return newest.available && newest.items.length > 0;
  }

  async #capture(): Promise<void> {
    const message = this.#ctx.messages.findLast(({ role }) => role === 'user');
    try {
      const result = await this.thread.session.capture(message?.id ?? this.#ctx.runId);
      if (!result.available) return;
    } catch (error) {
      if (!(error instanceof TakebackError) || error.code !== 'ERR_DUPLICATE_BOUNDARY') throw error;
      this.#captured = true;
      return;
    }
    this.#captured = true;
    await this.#settings.turnBegan?.();
  }

  /** A capture that failed is tried again: better a late boundary than none. */
  async beginStep(): Promise<void> {
    if (!this.#captured && this.thread.workspace.available) await this.#capture();
  }

  async beginCall(call: ToolCallStart): Promise<void> {
    if (!this.thread.workspace.available) return;
    if (this.thread.openCalls.size === 0) this.#settings.callsBegin?.();
    const facts = await this.#factsOf(call);
    const stepId = this.#stepOf(call);
    const began = await this.#begin(call.toolCallId, {
      tool: call.toolName,
      stepId,
      ...(facts.paths === undefined ? {} : { paths: [...facts.paths] }),
    });
    if (!began) return;
    this.thread.openCalls.add(call.toolCallId);
    this.#facts.set(call.toolCallId, facts);
    this.#steps.add(stepId);
  }

  /** A call of which nothing is known is recorded all the same. */
  async #factsOf(call: ToolCallStart): Promise<CallFacts> {
    try {
      return this.#settings.describeCall?.(call) ?? {};
    } catch (error) {
      await this.thread.failed(error);
      return {};
    }
  }

  /** A tool may name a path outside the root: the call then owns what it changes, as one that names none. */
  async #begin(callId: string, options: BeginCallOptions): Promise<boolean> {
    const { session } = this.thread;
    try {
      return (await session.beginCall(callId, options)).available;
    } catch (error) {
      if (!(error instanceof TakebackError) || error.code !== 'ERR_OUTSIDE_ROOT') throw error;
      const { paths: _, ...undeclared } = options;
      return (await session.beginCall(callId, undeclared)).available;
    }
  }

  #stepOf({ toolCallId }: ToolCallStart): string {
    const asked = this.#ctx.messages.findLast(({ toolCalls }) => toolCalls?.some(({ id }) => id === toolCallId));
    return asked?.id ?? this.#ctx.currentMessageId ?? `${this.#ctx.runId}:${this.#ctx.iteration}`;
  }

  async endCall({ toolCallId, ok }: Pick<ToolCallEnd, 'toolCallId' | 'ok'>): Promise<void> {
    const facts = this.#facts.get(toolCallId);
    if (facts === undefined || !this.thread.openCalls.delete(toolCallId)) return;
    this.#facts.delete(toolCallId);
    await this.thread.session.endCall(toolCallId, {
      isError: !ok,
      ...(facts.sideEffect === undefined ? {} : { sideEffect: facts.sideEffect }),
    });
  }

  /** Records the steps that changed files. */
  async endStep(): Promise<void> {
    if (this.#steps.size === 0) return;
    const ended = new Set(this.#steps);
    this.#steps.clear();
    const result = await this.thread.session.steps({ limit: NEWEST_STEPS });
    if (!result.available) return this.thread.failed(result);
    for (const { id, from, to, files, toolCallIds } of result.steps) {
      if (ended.has(id)) await this.thread.tell('step', { from, to, files: pathsOf(files), toolCallIds });
    }
  }

  async end(): Promise<void> {
    try {
      // Calls that the chat cut off: an abort, or an error of another middleware.
      for (const toolCallId of [...this.#facts.keys()]) await this.endCall({ toolCallId, ok: false });
      await this.endStep();
    } finally {
      this.#unlisten();
      await this.#lease.release();
    }
  }
}
