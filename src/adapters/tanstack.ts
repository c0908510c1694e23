/**
 * `takeback/adapters/tanstack`: snapshots for the chat of `@tanstack/ai` and for its harness.
 *
 * {@link snapshots} makes one object that is three things: a plugin definition for `definePlugin` of the harness, chat
 * middleware for `chat({ middleware })`, and the way to sessions, diffs and events outside a run. Nothing of theirs is
 * imported. Not covered: a workspace in a sandbox (give `open` one that reaches it).
 */
import type { Session, Workspace } from '../api.ts';
import { TakebackError } from '../errors.ts';
import type { ChatContext, ChatHooks, PluginContext, PluginContributions } from './tanstack/host.ts';
import { chatMiddleware } from './tanstack/middleware.ts';
import {
  EVENT_NAMES,
  failureOf,
  type HostThread,
  type Listener,
  NAME,
  pathsOf,
  type SnapshotEvents,
  type SnapshotsOptions,
  type ThreadKey,
} from './tanstack/options.ts';
import { setUp } from './tanstack/plugin.ts';
import { openOptionsOf, Threads } from './tanstack/threads.ts';

export { purgeSnapshots } from '../index.ts';
export type { ChatHooks, PluginContext, PluginContributions, PluginEvent } from './tanstack/host.ts';
export type {
  CallFacts,
  FileChange,
  HostThread,
  SnapshotEvents,
  SnapshotFailure,
  SnapshotStep,
  SnapshotsOptions,
  ThreadKey,
} from './tanstack/options.ts';
export { FileChanged, FileChangedMore, SnapshotFailed, STEP_RECORD } from './tanstack/options.ts';

/** What `snapshots` gives. All are own properties, so that `definePlugin` can copy them. */
export interface Snapshots {
  readonly name: string;
  /** Chat middleware for `chat()` without the harness; a plugin brings its own. */
  readonly middleware: ChatHooks;
  /** Called by the harness, once a session. No contributions where the workspace can't be opened. */
  setup(ctx: PluginContext): Promise<PluginContributions | undefined>;
  /**
   * What changed between two positions, or from one to the files now.
   *
   * @returns sorted paths relative to the root, and a git-format patch that `git apply` takes
   * @throws {TakebackError} `ERR_ROOT_MISMATCH` or `ERR_INVALID_ARGUMENT` for a position that no open workspace has,
   *   `ERR_UNSUPPORTED` where the workspace is not available; the message says why
   */
  diff(from: string, to?: string): Promise<{ files: string[]; patch: string }>;
  /** The session of a thread: undo, redo, plan and all else. Its workspace stays open until `close`. */
  session(thread: ThreadKey): Promise<Session>;
  /** Hears of every thread. Answers what ends it. */
  on<K extends keyof SnapshotEvents>(event: K, listener: (value: SnapshotEvents[K]) => void): () => void;
  /** Closes the workspaces that the middleware and `session` opened. */
  close(): Promise<void>;
}

/**
 * Records what the tools of a conversation do to the files below `root`, and takes it back.
 *
 * The chat never fails because of it: what goes wrong is told as {@link SnapshotFailed}. `dataDir` belongs outside the
 * root; its default is that of `openWorkspace`.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function snapshots(options: SnapshotsOptions): Snapshots {
  openOptionsOf(options);
  const listeners = new Map<keyof SnapshotEvents, Set<(value: never) => void>>();
  const everywhere: Listener = (event, value) => {
    for (const listener of listeners.get(event) ?? []) (listener as (v: typeof value) => void)(value);
  };
  const threads = new Threads(options, everywhere);
  const onStream = (ctx: ChatContext): Listener => {
    return (event, value) => ctx.emitCustomEvent(EVENT_NAMES[event], { ...value });
  };
  return Object.freeze({
    name: NAME,
    middleware: chatMiddleware({
      describeCall: options.describeCall,
      lease: (ctx) => threads.hold(hostOf(ctx)),
      listener: onStream,
      failed: async (ctx, cause) => {
        const failure = failureOf({ threadId: ctx.threadId }, cause, true);
        everywhere('snapshotFailed', failure);
        onStream(ctx)('snapshotFailed', failure);
      },
    }),
    setup: (ctx: PluginContext) => setUp(ctx, threads, options),
    diff: (from: string, to?: string) => diff(threads, options, { from, to }),
    session: async (thread: ThreadKey) => {
      const lease = await threads.hold({ threadId: thread.threadId }, thread);
      await lease.release();
      return lease.thread.session;
    },
    on: <K extends keyof SnapshotEvents>(event: K, listener: (value: SnapshotEvents[K]) => void) => {
      const set = listeners.get(event) ?? new Set();
      listeners.set(event, set.add(listener));
      return () => set.delete(listener);
    },
    close: () => threads.close(),
  });
}

function hostOf({ threadId, context }: ChatContext): HostThread {
  return { threadId, context };
}

async function diff(
  threads: Threads,
  options: SnapshotsOptions,
  { from, to }: { from: string; to: string | undefined },
): Promise<{ files: string[]; patch: string }> {
  const ask = async (workspace: Workspace): Promise<{ files: string[]; patch: string }> => {
    const result = await workspace.session({ threadId: NAME }).diff(from, to);
    if (!result.available) throw new TakebackError('ERR_UNSUPPORTED', `${result.reason}: ${result.detail}`);
    return { files: pathsOf(result.files), patch: result.patch };
  };
  const open = await threads.workspaces();
  for (const workspace of open) {
    try {
      return await ask(workspace);
    } catch (error) {
      if (!(error instanceof TakebackError) || error.code !== 'ERR_ROOT_MISMATCH') throw error;
    }
  }
  if (open.length > 0 || typeof options.root === 'function') {
    throw new TakebackError('ERR_ROOT_MISMATCH', `no workspace that is open here has the position ${from}`);
  }
  const lease = await threads.lease({ threadId: NAME });
  try {
    return await ask(lease.thread.workspace);
  } finally {
    await lease.release();
  }
}
