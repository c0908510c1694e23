/**
 * The public interfaces: what `openWorkspace` answers. Types only; `workspace.ts`, `session.ts` and `history.ts` implement.
 */
import type { Abilities, BackendKind } from './backend/backend.ts';
import type {
  BeginCallOptions,
  CaptureOptions,
  EndCallOptions,
  ForkOptions,
  PlanOptions,
  RedoOptions,
  RestoreOptions,
  RevertOneOptions,
  RevertOptions,
  SessionKeyOptions,
  SessionOptions,
  StepsOptions,
  TimelineOptions,
  UndoOptions,
} from './schemas.ts';
import type {
  CaptureResult,
  ChangeSummary,
  EntryReason,
  Irreversible,
  Plan,
  Receipt,
  RelPath,
  Result,
  SideEffect,
  UnavailableReason,
  UncoveredPath,
  WorkOptions,
} from './types.ts';

export interface Capabilities extends Omit<Abilities, 'tickNs'> {
  /** Granularity of file times, nanoseconds. */
  readonly tickNs: number;
  readonly backend: BackendKind;
  /** Why this backend runs: chosen, or what the addon's loading failed on. */
  readonly why: string;
  readonly root: string;
  readonly dataDir: string;
  readonly sqlite: string;
  /** Events tell begins and ends of calls where to look; where they don't, why: not asked for, or not to be had here. */
  readonly watch: { readonly on: boolean; readonly why: string };
}

export interface RecoveredOperation {
  readonly operationId: string;
  readonly mode: 'rollback' | 'complete' | 'finished';
  readonly paths: readonly {
    readonly path: RelPath;
    readonly state: 'old' | 'new' | 'neither';
    readonly detail?: string;
  }[];
}

export interface GcResult {
  readonly freedBytes: number;
  readonly keptBytes: number;
  readonly droppedBoundaries: number;
  /** Kept inodes that were written to after they left the tree; their bytes were stored under these hashes. */
  readonly lateWrites: readonly { readonly name: string; readonly hash: string }[];
}

export interface VerifyResult {
  readonly ok: boolean;
  readonly checked: number;
  readonly problems: readonly { readonly kind: string; readonly path?: RelPath; readonly detail: string }[];
}

export interface StatsResult {
  readonly bytes: {
    readonly segments: number;
    readonly timeline: number;
    readonly index: number;
    readonly trash: number;
    /** Packs of the user's repository that are pinned: shared with it, so not in `total`. */
    readonly borrowed: number;
    readonly total: number;
  };
  readonly counts: {
    readonly observations: number;
    readonly rows: number;
    readonly sessions: number;
    readonly boundaries: number;
    readonly calls: number;
    readonly operations: number;
    readonly blobs: number;
    readonly segments: number;
    readonly entries: number;
  };
}

export interface ExportFailure {
  readonly path: RelPath;
  readonly reason: EntryReason;
  readonly detail: string;
}

export interface ExportResult {
  /** Files and links written. */
  readonly files: number;
  readonly uncovered: readonly UncoveredPath[];
  /** What a damaged store does not let us write; the rest is there. */
  readonly failed: readonly ExportFailure[];
}

export interface SessionInfo {
  readonly threadId: string;
  readonly tenantId?: string;
  readonly createdAt: number;
  readonly boundaries: number;
  readonly openCalls: number;
  readonly newestBoundaryId?: string;
  readonly newestBoundaryAt?: number;
}

export interface FileCounts {
  readonly created: number;
  readonly modified: number;
  readonly deleted: number;
  /** Text lines; absent where a diff would cost too much. */
  readonly linesAdded?: number;
  readonly linesDeleted?: number;
}

export type TimelineItem =
  | {
      readonly type: 'boundary';
      readonly boundaryId: string;
      readonly position: string;
      readonly label?: string;
      readonly at: number;
      /** What the turn that starts here changed so far. */
      readonly files: FileCounts;
      /** An undo, a restore or a revert took it back, and that stands. */
      readonly undone: boolean;
      /** It was a revert that took it back. */
      readonly reverted: boolean;
    }
  | {
      readonly type: 'call';
      readonly callId: string;
      readonly invocation: number;
      readonly tool?: string;
      readonly stepId?: string;
      readonly at: number;
      readonly state: 'open' | 'ended' | 'interrupted';
      readonly isError: boolean;
      readonly sideEffect?: SideEffect;
      readonly files: FileCounts;
    }
  | {
      readonly type: 'operation';
      readonly operationId: string;
      readonly kind: 'restore' | 'undo' | 'redo' | 'revert' | 'unrevert';
      readonly boundaryId: string;
      readonly at: number;
      readonly outcome: Receipt['outcome'];
      readonly restored: number;
      readonly standing: boolean;
    };

export interface DiffResult {
  /** Sorted changed paths. */
  readonly files: readonly ChangeSummary[];
  /** Git-format patch; `git apply` takes it. A string in which each char is a byte is `patchBytes`' business: this is UTF-8 text. */
  readonly patch: string;
  /** The patch as bytes: exact where a file isn't UTF-8. The one part of an answer that JSON doesn't hold well. */
  readonly patchBytes: Uint8Array;
  readonly stats: { readonly files: number; readonly linesAdded: number; readonly linesDeleted: number };
}

/** What the calls of one model step changed. */
export interface Step {
  /** The `stepId` of its calls, or the id of the one call that had none. */
  readonly id: string;
  /** Positions before its first call and after its last; `session.diff` takes them. */
  readonly from: string;
  readonly to: string;
  /** What its own calls changed, sorted by path; a move is one. */
  readonly files: readonly ChangeSummary[];
  /** Ids of its calls, in the order of their begins; also of those that changed nothing. */
  readonly toolCallIds: readonly string[];
}

export interface HistoryResult {
  /** For people; the texts of the history design. */
  readonly message: string;
  readonly outcome: 'done' | 'partial' | 'nothing';
  readonly receipt?: Receipt;
  /** With `dryRun`, where there is something to do: what it would do. Its token is good for `planToken`. */
  readonly plan?: Plan;
}

export interface BeginCallResult {
  readonly callId: string;
  readonly invocation: number;
  readonly scannedFiles: number;
  readonly problems: CaptureResult['problems'];
  readonly tookMs: number;
}

export interface EndCallResult {
  readonly callId: string;
  readonly invocation: number;
  readonly changes: readonly ChangeSummary[];
  readonly problems: CaptureResult['problems'];
  readonly tookMs: number;
}

/** One conversation in a workspace. Every method answers `{ available: true, … }` or `{ available: false, reason, detail }`. */
export interface Session {
  readonly threadId: string;
  readonly tenantId: string | undefined;
  capture(boundaryId: string, options?: CaptureOptions): Promise<Result<CaptureResult>>;
  beginCall(callId: string, options?: BeginCallOptions): Promise<Result<BeginCallResult>>;
  endCall(callId: string, options?: EndCallOptions): Promise<Result<EndCallResult>>;
  /** Begin, run, end; ends also when `run` throws, and throws that again. Runs `run` also where no checkpoint is available. */
  call<T>(
    callId: string,
    options: BeginCallOptions & EndCallOptions,
    run: () => Promise<T> | T,
  ): Promise<{ value: T; begin: Result<BeginCallResult>; end: Result<EndCallResult> }>;
  /** The host says that the turn is over: a look that leaves nothing behind. */
  endTurn(): Promise<Result<{ tookMs: number }>>;
  plan(boundaryId: string, options?: PlanOptions): Promise<Result<Plan>>;
  /**
   * `hunks` limits it to single hunks of text files, by the ids that `plan(…, { hunks: true })` gives or by ranges of
   * lines on disk. All or nothing: a hunk that fits no longer is `stale-plan`, a file without hunks `unsupported`. A path
   * of which hunks are left stays owed.
   */
  restore(boundaryId: string, options?: RestoreOptions): Promise<Result<Receipt>>;
  /**
   * `dryRun`, here and with redo and the reverts, answers the plan of what it would do, and writes nothing; `planToken` of such a
   * plan makes it `stale-plan` where something else would be done by now.
   */
  undo(options?: UndoOptions): Promise<Result<HistoryResult>>;
  /** Where a fault of the system kept paths of it, another redo offers these again; so it is with `unrevert`. */
  redo(options?: RedoOptions): Promise<Result<HistoryResult>>;
  /**
   * Goes back to the files as they were when a message was complete: a boundary's position, or for a `stepId` the end of
   * its last call. Only what the session did after that is touched, and nothing that anybody changed since (`onConflict`).
   *
   * It stands until `unrevert`, the session's next capture or its next own change: undo, redo and another revert then answer
   * `revert-stands`. The next capture makes it final: later boundaries of the session become unknown. Another id answers
   * `unknown-boundary`, an open call `calls-in-flight`. With no files to restore the outcome is `done`: it stands all the same.
   */
  revert(options: RevertOptions): Promise<Result<HistoryResult>>;
  /** Brings back the files of the standing revert as they were when it started, edits of the user included. */
  unrevert(options?: RedoOptions): Promise<Result<HistoryResult>>;
  /**
   * Makes a session that inherits this one's boundaries up to `at` and all that it owes, also what came after `at`: a
   * `restore(at)` in the fork takes back the abandoned turns. From then on each goes its own way. Touches no file.
   *
   * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where that session has boundaries already
   */
  fork(key: SessionKeyOptions, options: ForkOptions): Promise<Result<{ session: SessionInfo }>>;
  /**
   * Takes back one turn, whichever, and keeps what came later: where a file changed since, by a merge of its text. What
   * clashes is refused and stays. An undo otherwise: redo brings it back, and the turn is marked as undone.
   * `onConflict: 'merge'` merges contested and incomplete changes too, `'overwrite'` saves and overwrites what clashes.
   */
  revertTurn(boundaryId: string, options?: RevertOneOptions): Promise<Result<HistoryResult>>;
  /** The same for the newest run of one call. Its turn gets no mark. An unknown id answers `unknown-boundary`. */
  revertCall(callId: string, options?: RevertOneOptions): Promise<Result<HistoryResult>>;
  /**
   * The newest `limit` (50) turns with their calls and operations, oldest first; `before`: those before that position.
   * `lines: false` leaves the counts of text lines out, which read and compare every file of the turns.
   */
  timeline(options?: TimelineOptions): Promise<Result<{ items: readonly TimelineItem[] }>>;
  /** From a position (of a capture) to another or, without `to`, to the files now. */
  diff(from: string, to?: string): Promise<Result<DiffResult>>;
  /** Steps that changed something, oldest first: the newest `limit` (500). */
  steps(options?: StepsOptions): Promise<Result<{ steps: readonly Step[] }>>;
  /** Changes that the session's turn made: rows owned by its calls from the boundary to the next. */
  turnChanges(boundaryId: string): Promise<Result<{ changes: readonly ChangeSummary[] }>>;
  /** What the newest run of one call changed, also where calls beside it may have made it. An unknown id answers `unknown-boundary`. */
  callChanges(callId: string): Promise<Result<{ changes: readonly ChangeSummary[] }>>;
  drop(): Promise<Result<{ freedBytes: number }>>;
}

/** A guarded tree. Open it with `openWorkspace`; close it, or let `await using` do so. */
export interface Workspace {
  /** False where it could not be opened; every method then answers the same reason. */
  readonly available: boolean;
  readonly reason: UnavailableReason | undefined;
  readonly detail: string | undefined;
  /** Real path of the root (or the path asked for, where it can't be opened). */
  readonly root: string;
  readonly dataDir: string;
  /** What `open` recovered of an operation whose process had died. */
  readonly recovered: readonly RecoveredOperation[];
  session(options: SessionOptions): Session;
  sessions(): Promise<Result<{ sessions: readonly SessionInfo[] }>>;
  stats(): Promise<Result<StatsResult>>;
  verify(options?: WorkOptions & { rehash?: boolean }): Promise<Result<VerifyResult>>;
  gc(options?: WorkOptions): Promise<Result<GcResult>>;
  /** Ends operations whose process died; open does it too. */
  recover(): Promise<Result<{ recovered: readonly RecoveredOperation[] }>>;
  capabilities(): Promise<Result<{ capabilities: Capabilities }>>;
  /** The covered tree as of a position, into an empty (or missing) folder outside the root. */
  export(position: string, targetDir: string): Promise<Result<ExportResult>>;
  on(event: 'fileChanged', listener: (event: FileChangedEvent) => void): () => void;
  on(event: 'fileChangedMore', listener: (event: FileChangedMoreEvent) => void): () => void;
  on(event: 'snapshotFailed', listener: (event: SnapshotFailedEvent) => void): () => void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface EventOrigin {
  readonly threadId: string;
  readonly tenantId?: string;
}

/** A file that a call, an undo, a redo or a restore changed. Told once the work is recorded, each change once. */
export interface FileChangedEvent extends EventOrigin {
  readonly change: 'created' | 'updated' | 'deleted' | 'moved';
  readonly path: RelPath;
  /** For `moved`: the old path. */
  readonly from?: RelPath;
  /** Git-format patch of this file; absent where git has none, or a side is over 1 MiB. */
  readonly patch?: string;
  /** Only where one call is the only one that can have made the change. */
  readonly toolCallId?: string;
  readonly operationId?: string;
}

/** More files changed at once than there are events: `total` counts all, those that were told too. */
export interface FileChangedMoreEvent extends EventOrigin {
  readonly total: number;
  /** Only where one call is the only one that can have made all these changes. */
  readonly toolCallId?: string;
  readonly operationId?: string;
}

export interface SnapshotFailedEvent extends EventOrigin {
  readonly reason: UnavailableReason;
  readonly detail: string;
}

export type { Irreversible };
