/** Options and events of the TanStack adapter. Types, names, and the check of what callers pass. */
import type { FileChangedEvent, FileChangedMoreEvent, Workspace } from '../../api.ts';
import { TakebackError } from '../../errors.ts';
import { comparePaths } from '../../rel-path.ts';
import type { OpenOptions } from '../../schemas.ts';
import type { ChangeSummary, ConflictPolicy, PublicVersion, SideEffect } from '../../types.ts';
import type { LogRecords, PluginEvent, ToolCallStart } from './host.ts';

/** Name of the plugin and of its middleware; events and records begin with it. */
export const NAME = 'tanstack/snapshots';

/** The log record type of a {@link SnapshotStep}, and the name of its event on the chat stream. */
export const STEP_RECORD = 'tanstack/snapshots:step';

/** Which conversation: a thread in an optional tenant. */
export interface ThreadKey {
  readonly threadId: string;
  readonly tenantId?: string | undefined;
}

/** A thread as a host knows it, for options that depend on it. */
export interface HostThread {
  readonly threadId: string;
  /** `chat({ context })`, where the middleware is used without the harness. */
  readonly context?: unknown;
  /** Who opened the session of a harness. */
  readonly principal?: unknown;
}

/** What is known of a tool call before it runs. */
export interface CallFacts {
  /** Paths that the call may change; it then owns nothing else. `[]` for a tool that only reads. */
  readonly paths?: readonly string[] | undefined;
  readonly sideEffect?: SideEffect | undefined;
}

/** Options of {@link snapshots}: those of `openWorkspace`, and what follows. */
export interface SnapshotsOptions extends Omit<OpenOptions, 'root'> {
  /** The workspace folder, absolute; or a function that gives the folder of a thread. */
  readonly root: string | ((thread: HostThread) => string | Promise<string>);
  /** The tenant of a thread. Default: none. */
  readonly tenantId?: string | ((thread: HostThread) => string | undefined) | undefined;
  /** What undo and redo do with a file that somebody changed since. Default `refuse`: it is kept, and named. */
  readonly onConflict?: ConflictPolicy | undefined;
  /** Tells the paths of a call (file tools know them) and its side effect. Default: nothing is known. */
  readonly describeCall?: ((call: ToolCallStart) => CallFacts | undefined) | undefined;
  /** `LogRecordsCapability` of the host. Without it, steps go to the plugin's state. */
  readonly logRecords?: LogRecords | undefined;
  /** The event that the host's file tools send. Default: {@link FileChanged}. */
  readonly fileChanged?: PluginEvent<FileChange> | undefined;
  /** How a workspace is opened. Default: `openWorkspace`, on this machine. */
  readonly open?: ((options: OpenOptions) => Promise<Workspace>) | undefined;
}

/** The files that one model step changed, between two positions. */
export interface SnapshotStep {
  readonly from: string;
  readonly to: string;
  /** Changed paths, relative to the root, sorted. */
  readonly files: readonly string[];
  /** Tool calls of the step, also those that changed nothing. */
  readonly toolCallIds: readonly string[];
}

/** A changed file. `path` and `from` are absolute. `toolCallId` only where one call is the only candidate. */
export type FileChange = Omit<FileChangedEvent, 'path' | 'from'> & { readonly path: string; readonly from?: string };

export interface SnapshotFailure extends ThreadKey {
  /** A reason of an unavailable answer, or the code of an error. */
  readonly reason: string;
  readonly detail: string;
  /** For people. */
  readonly message: string;
}

/** What listeners hear, by name. */
export interface SnapshotEvents {
  readonly fileChanged: FileChange;
  readonly fileChangedMore: FileChangedMoreEvent;
  readonly snapshotFailed: SnapshotFailure;
  readonly step: SnapshotStep;
}

export type Listener = <K extends keyof SnapshotEvents>(event: K, value: SnapshotEvents[K]) => void | Promise<void>;

/** A file changed: by a call, an undo, a redo, a revert or an unrevert. */
export const FileChanged: PluginEvent<FileChange> = { name: 'tanstack/snapshots:file-changed' };
/** More files changed than are sent one by one; carries their total. */
export const FileChangedMore: PluginEvent<FileChangedMoreEvent> = { name: 'tanstack/snapshots:file-changed-more' };
/** What the agent does next is not recorded, or a record could not be written. The turn goes on. */
export const SnapshotFailed: PluginEvent<SnapshotFailure> = { name: 'tanstack/snapshots:failed' };

/** Names of the events on the chat stream. */
export const EVENT_NAMES: Readonly<Record<keyof SnapshotEvents, string>> = {
  fileChanged: FileChanged.name,
  fileChangedMore: FileChangedMore.name,
  snapshotFailed: SnapshotFailed.name,
  step: STEP_RECORD,
};

/** Makes a failure of what was answered or thrown. `off` where no snapshot is made from here on. */
export function failureOf(thread: ThreadKey, cause: unknown, off = false): SnapshotFailure {
  const { reason, detail } = causeOf(cause);
  const message = `snapshots: ${detail}${off ? `${/[.!?]$/.test(detail) ? '' : '.'} Snapshots are off.` : ''}`;
  return { ...thread, reason, detail, message };
}

function causeOf(cause: unknown): { reason: string; detail: string } {
  if (cause instanceof TakebackError) return { reason: cause.code, detail: cause.message };
  if (cause instanceof Error) return { reason: 'ERR_INTERNAL', detail: cause.message };
  const { reason, detail } = cause as { reason?: unknown; detail?: unknown };
  return typeof reason === 'string'
    ? { reason, detail: String(detail) }
    : { reason: 'ERR_INTERNAL', detail: String(cause) };
}

/** Paths of changes, sorted; a move has two. Secret and ignored files are no part of it. */
export function pathsOf(changes: readonly ChangeSummary[]): string[] {
  const seen = changes.filter(({ before, after }) => !isHidden(before) && !isHidden(after));
  const paths = seen.flatMap(({ path, from }) => (from === undefined ? [path] : [from, path]));
  return [...new Set(paths)].sort(comparePaths);
}

function isHidden(version: PublicVersion): boolean {
  return version.kind === 'uncovered' && (version.reason === 'secret' || version.reason === 'ignored');
}
