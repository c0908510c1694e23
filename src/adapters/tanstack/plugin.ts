/**
 * What the plugin does when a session of the harness sets it up: middleware for its turns, commands for its user, step
 * records in its log, and the plugin's events.
 *
 * File tools of the host may send the event of a changed file themselves; such a file is not sent again. Everything that
 * must outlive a restart lies in one plugin state: the host keeps one a plugin.
 */
import { resolve } from 'node:path';
import type { FileChangedMoreEvent } from '../../api.ts';
import { commandsOf } from './commands.ts';
import type { Removed, TakenOut } from './conversation.ts';
import type {
  ChatContext,
  ChatMessage,
  LogWriter,
  PluginContext,
  PluginContributions,
  PluginEvent,
  PluginState,
} from './host.ts';
import { chatMiddleware } from './middleware.ts';
import {
  type FileChange,
  FileChanged,
  FileChangedMore,
  type Listener,
  SnapshotFailed,
  type SnapshotFailure,
  type SnapshotStep,
  type SnapshotsOptions,
  STEP_RECORD,
} from './options.ts';
import type { Lease, Threads } from './threads.ts';

/** What the plugin keeps in the host's state. */
interface Kept {
  /** Only where the host has no session log: the newest steps, oldest first. */
  readonly steps: readonly SnapshotStep[];
  /** What undo took out of the transcript, newest last. */
  readonly removed: readonly Removed[];
  /** What the standing revert took out. */
  readonly hidden: readonly ChatMessage[];
}

const MAX_KEPT_STEPS = 500;

export async function setUp(
  ctx: PluginContext,
  threads: Threads,
  options: SnapshotsOptions,
): Promise<PluginContributions | undefined> {
  const { threadId, principal } = ctx.session;
  const { thread } = await ctx.resources.acquire<Lease>(
    () => threads.lease({ threadId, principal }),
    (lease) => lease.release(),
  );
  const events = new PluginEvents(ctx, thread.workspace.root, options);
  await ctx.resources.acquire(
    () => thread.listen(events.listener),
    (unlisten) => unlisten(),
  );
  if (!thread.workspace.available) {
    await thread.failed(thread.workspace, true);
    return undefined;
  }
  const state = ctx.state<Kept>({ steps: [], removed: [], hidden: [] });
  const middleware = chatMiddleware({
    describeCall: options.describeCall,
    lease: async () => ({ thread, release: async () => undefined }),
    listener: (run) => async (event, value) => {
      if (event === 'step') await keepStep(value as SnapshotStep, logOf(run, options), state);
    },
    failed: (_run, cause) => thread.failed(cause),
    turnBegan: async () => {
      const { removed, hidden } = await state.get();
      if (removed.length > 0 || hidden.length > 0) await state.update((kept) => ({ ...kept, removed: [], hidden: [] }));
    },
    callsBegin: () => events.forgetReported(),
  });
  return { middleware: [middleware], commands: commandsOf(thread, takenOutIn(state)) };
}

function logOf(run: ChatContext, { logRecords }: SnapshotsOptions): LogWriter | undefined {
  return logRecords?.[0](run as never, { optional: true });
}

async function keepStep(step: SnapshotStep, log: LogWriter | undefined, state: PluginState<Kept>): Promise<void> {
  if (log !== undefined) return log.append([{ type: STEP_RECORD, ...step }]);
  await state.update((kept) => ({ ...kept, steps: [...kept.steps, step].slice(-MAX_KEPT_STEPS) }));
}

function takenOutIn(state: PluginState<Kept>): TakenOut {
  const change = async (next: (kept: Kept) => Partial<Kept>): Promise<void> => {
    await state.update((kept) => ({ ...kept, ...next(kept) }));
  };
  return {
    newestUndone: async () => (await state.get()).removed.at(-1),
    pushUndone: (one) => change(({ removed }) => ({ removed: [...removed, one] })),
    popUndone: () => change(({ removed }) => ({ removed: removed.slice(0, -1) })),
    hidden: async () => (await state.get()).hidden,
    hide: (messages) => change(() => ({ hidden: messages })),
  };
}

/** Sends the plugin's events, and knows which files the host's tools have sent themselves. */
class PluginEvents {
  readonly #ctx: PluginContext;
  readonly #fileChanged: PluginEvent<FileChange>;
  readonly #reported = new Set<string>();
  #sending = false;

  constructor(ctx: PluginContext, root: string, { fileChanged = FileChanged }: SnapshotsOptions) {
    this.#ctx = ctx;
    this.#fileChanged = fileChanged;
    ctx.on(fileChanged, ({ path }) => {
      if (!this.#sending) this.#reported.add(resolve(root, path));
    });
  }

  readonly listener: Listener = (event, value) => {
    if (event === 'fileChanged') this.#sendFile(value as FileChange);
    if (event === 'fileChangedMore') this.#ctx.emit(FileChangedMore, value as FileChangedMoreEvent);
    if (event === 'snapshotFailed') this.#ctx.emit(SnapshotFailed, value as SnapshotFailure);
  };

  #sendFile(file: FileChange): void {
    if (file.operationId === undefined && this.#reported.has(file.path)) return;
    this.#sending = true;
    try {
      this.#ctx.emit(this.#fileChanged, file);
    } finally {
      this.#sending = false;
    }
  }

  /** Before the first of the calls that run together. */
  forgetReported(): void {
    this.#reported.clear();
  }
}
