/**
 * The timeline store, as an interface: observations, rows, sessions, boundaries, calls, operations of one workspace.
 * `sqlite.ts` implements it over any `SqlDriver`; a Postgres one can follow. Imports types only.
 *
 * The timeline is append-only but for marks (a call's end, what an operation took back, what a redo gave back), for the
 * cut at its old end by `gc`, and for `drop`. Everything that belongs together is one `append`, one transaction.
 * All sequence numbers are those of observations: 1, 2, 3 … without gaps.
 */
import type { Change, ConflictPolicy, Hash, RandomId, Receipt, RelPath, Row, SideEffect } from '../types.ts';

/** `folded`: what stood at this position is not kept (see `Timeline.fold`). */
export type ObservationKind =
  | 'first'
  | 'capture'
  | 'begin'
  | 'end'
  | 'look'
  | 'late'
  | 'operation'
  | 'recovery'
  | 'folded';

export interface Head {
  /** 0 before the first observation. */
  readonly seq: number;
  readonly observationId: RandomId | null;
  /** Id of the frozen rules snapshot that stands, or null. */
  readonly rulesId: number | null;
  /** Grows at each gc that dropped blobs: what was found stored before may be gone. */
  readonly gcGeneration: number;
}

export interface RootIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
  /** 0n where the file system has none. */
  readonly birthNs: bigint;
}

export interface SessionRecord {
  readonly id: number;
  readonly threadId: string;
  readonly tenantId: string | null;
  readonly createdAt: number;
}

export interface BoundaryRecord {
  readonly session: number;
  readonly boundaryId: string;
  /** The boundary's position: rows with a greater seq came after it. */
  readonly seq: number;
  readonly label: string | null;
  /** Milliseconds since the epoch, for people. */
  readonly createdAt: number;
  readonly root: RootIdentity;
  /** Contents of HEAD and what it resolves to, for the note that git moved; null without a repository. */
  readonly head: string | null;
  /** The undo or restore that took this turn back, while it stands; null otherwise. */
  readonly undoneBy: RandomId | null;
  /** `discarded`: a full restore to an earlier boundary made it unknown from the next capture on. `expired`: retention. */
  readonly state: 'live' | 'discarded' | 'expired';
}

/** Rows of this session with seq ≤ forkSeq are inherited. */
export interface Ancestor {
  readonly session: number;
  readonly forkSeq: number;
}

export interface CallOwner {
  readonly pid: number;
  /** Start time of the process in clock ticks since boot; 0 where it can't be told. */
  readonly startTime: number;
  readonly bootId: string;
  readonly hostId: string;
}

export interface CallRecord {
  /** Unique in the workspace; an ended call id may come again under a new invocation. */
  readonly invocation: number;
  readonly session: number;
  readonly callId: string;
  readonly tool: string | null;
  readonly stepId: string | null;
  /** Invocation of the call that this one is nested in. */
  readonly parent: number | null;
  /** Seq of its begin observation: its changes have a greater seq. */
  readonly beginSeq: number;
  /** Seq of its end observation (its changes have at most this seq); null while open. */
  readonly endSeq: number | null;
  readonly state: 'open' | 'ended' | 'interrupted';
  readonly detached: boolean;
  readonly owner: CallOwner;
  readonly sideEffect: SideEffect | null;
  readonly isError: boolean;
  /** Declared paths; null: none declared. */
  readonly paths: readonly RelPath[] | null;
  /** Seq of the newest boundary of its session when it began. */
  readonly turnSeq: number;
  readonly beganAt: number;
  readonly endedAt: number | null;
}

export type OperationKind = 'restore' | 'undo' | 'redo' | 'revert' | 'unrevert';

export interface OperationRecord {
  readonly id: RandomId;
  readonly session: number;
  readonly kind: OperationKind;
  /** The boundary that it went to (for a redo: that of the operation it takes back). */
  readonly boundaryId: string;
  /** Seq of that boundary. */
  readonly boundarySeq: number;
  /** Its own observation: the rows that it made. */
  readonly seq: number;
  readonly createdAt: number;
  readonly onConflict: ConflictPolicy;
  readonly receipt: Receipt;
  /** For redo and unrevert: the operation that it took back. */
  readonly takesBack: RandomId | null;
  /** The redo or unrevert that took this one back; null also while one did so in part. */
  readonly redoneBy: RandomId | null;
}

/**
 * An operation took back the session's owed rows of `path` with fromSeq ≤ seq ≤ toSeq. Where fromSeq > toSeq it took
 * parts of rows from `toSeq` on, and no row.
 */
export interface TakenRecord {
  readonly operation: RandomId;
  readonly path: RelPath;
  readonly fromSeq: number;
  readonly toSeq: number;
  /** The redo that gave them back; null while they are taken back. */
  readonly returnedBy: RandomId | null;
}

export interface ObservationRecord {
  readonly seq: number;
  readonly id: RandomId;
  readonly kind: ObservationKind;
  readonly createdAt: number;
  /** The operation whose rows these are, for kind `operation`. */
  readonly operation: RandomId | null;
  /** Paths (folders) in which calls of another, containing or contained, root were open since the look before. */
  readonly overlap: readonly RelPath[];
}

/** Rows of one path that become one, at the last of `seqs` (ascending, at least two, no other row of the path between). */
export interface Fold {
  readonly path: RelPath;
  readonly seqs: readonly number[];
}

/** One transaction. The caller holds the lock and has caught up; `expectSeq` is checked. */
export interface Append {
  /** The head's seq that the caller saw; the observation becomes expectSeq + 1. */
  readonly expectSeq: number;
  readonly observation?: {
    readonly id: RandomId;
    readonly kind: ObservationKind;
    readonly createdAt: number;
    readonly operation?: RandomId;
    readonly overlap?: readonly RelPath[];
  };
  /** Sorted by path. Rows of the observation. */
  readonly changes?: readonly Change[];
  readonly manifest?: { readonly hash: Hash; readonly entries: number };
  /** Frozen rules, where they changed. */
  readonly rules?: Uint8Array;
  readonly boundary?: Omit<BoundaryRecord, 'seq' | 'undoneBy' | 'state'>;
  readonly beginCall?: Omit<CallRecord, 'beginSeq' | 'endSeq' | 'state' | 'endedAt' | 'sideEffect' | 'isError'>;
  readonly endCalls?: readonly {
    readonly invocation: number;
    readonly state: 'ended' | 'interrupted';
    readonly endedAt: number;
    readonly sideEffect: SideEffect | null;
    readonly isError: boolean;
    /** Replaces the declared paths where given. */
    readonly paths?: readonly RelPath[];
  }[];
  readonly operation?: Omit<OperationRecord, 'seq' | 'redoneBy'>;
  readonly taken?: readonly Omit<TakenRecord, 'returnedBy' | 'operation'>[];
  /** Of `takesBack`: these paths go back to being owed. */
  readonly returned?: readonly RelPath[];
  /** More of `takesBack` is to be given back: it still stands, for the rest. Default: it is over. */
  readonly takesBackInPart?: boolean;
  /** Boundaries (turns) that the operation marks as undone. */
  readonly markUndone?: readonly { readonly session: number; readonly boundaryId: string }[];
  /** Turns whose undo mark goes: a new own change in them, or a redo. */
  readonly clearUndone?: readonly { readonly session: number; readonly boundaryId: string }[];
  /** Boundaries that become `discarded`. */
  readonly discard?: readonly { readonly session: number; readonly boundaryId: string }[];
  /** Commit durably (survives power loss once the promise resolves); else at the next durable commit. */
  readonly durable: boolean;
}

export interface Lock {
  release(): Promise<void>;
}

export interface TimelineStats {
  readonly observations: number;
  readonly rows: number;
  readonly sessions: number;
  readonly boundaries: number;
  readonly calls: number;
  readonly operations: number;
  /** Bytes of the database files. */
  readonly bytes: number;
}

export interface Timeline {
  readonly storeId: RandomId;
  /** Seed of the store's content hash. */
  readonly seed: bigint;
  /** Options that are stored with the workspace: include, exclude, maxFileBytes. Null before they are set. */
  settings(): Promise<string | null>;
  setSettings(json: string): Promise<void>;

  /**
   * The workspace's lock across processes; dies with its owner. Waits up to `timeoutMs` (default 30,000).
   * @throws {TakebackError} `ERR_BUSY` after that, `ERR_CANCELLED` when aborted
   */
  lock(options?: { timeoutMs?: number; signal?: AbortSignal | undefined }): Promise<Lock>;

  head(): Promise<Head>;
  append(batch: Append): Promise<Head>;

  rules(rulesId: number): Promise<Uint8Array | null>;
  newestManifest(): Promise<{ seq: number; hash: Hash; entries: number } | null>;
  observation(seq: number): Promise<ObservationRecord | null>;
  observations(afterSeq: number, toSeq?: number): Promise<ObservationRecord[]>;
  /** Rows with afterSeq < seq ≤ toSeq, ordered by seq and path bytes; `paths`: these only (exact). */
  rows(afterSeq: number, toSeq?: number, paths?: readonly RelPath[]): Promise<Row[]>;
  /** The first `limit` of these. */
  firstRows(afterSeq: number, toSeq: number | undefined, limit: number): Promise<Row[]>;
  /** For each path that has a row after seq: the first such row. Ordered by path bytes. */
  firstRowsAfter(seq: number): Promise<Row[]>;

  /** Makes the session where it is new. */
  ensureSession(key: { threadId: string; tenantId: string | null }): Promise<SessionRecord>;
  findSession(key: { threadId: string; tenantId: string | null }): Promise<SessionRecord | null>;
  sessions(): Promise<SessionRecord[]>;
  /** A session, new until now, gets the parent's boundaries up to `atSeq` and inherits its calls and operations up to `forkSeq`. */
  fork(record: { session: number; parent: number; atSeq: number; forkSeq: number }): Promise<void>;
  /** The session that this one was forked from, that one's, and so on; empty for one that is no fork. */
  lineage(session: number): Promise<Ancestor[]>;

  boundary(session: number, boundaryId: string): Promise<BoundaryRecord | null>;
  /** Newest first. Live ones only, unless `all`. */
  boundaries(
    session: number,
    options?: { limit?: number; beforeSeq?: number; all?: boolean },
  ): Promise<BoundaryRecord[]>;
  /** The session's first boundary after seq, whatever its state. */
  nextBoundary(session: number, seq: number): Promise<BoundaryRecord | null>;
  /** Live boundaries of every session, oldest first. */
  liveBoundaries(): Promise<BoundaryRecord[]>;

  openCalls(session?: number): Promise<CallRecord[]>;
  /** Newest run of that id in the session. */
  call(session: number, callId: string): Promise<CallRecord | null>;
  /** Calls of one step of the session, in order of their begin. */
  callsOfStep(session: number, stepId: string): Promise<CallRecord[]>;
  /** Calls of all sessions that were open at some moment after afterSeq: endSeq is null or > afterSeq; beginSeq < toSeq. */
  callsBetween(afterSeq: number, toSeq?: number): Promise<CallRecord[]>;
  nextInvocation(): Promise<number>;

  operation(id: RandomId): Promise<OperationRecord | null>;
  /** Newest first, of one session. */
  operations(session: number, options?: { limit?: number; afterSeq?: number }): Promise<OperationRecord[]>;
  /** Operations of all sessions with seq > afterSeq, oldest first. */
  operationsAfter(afterSeq: number): Promise<OperationRecord[]>;
  /**
   * What a session's operations took back with toSeq > afterSeq, or after that seq. Returned ones too. With `asOf`: as it
   * stood at that seq.
   */
  taken(session: number, afterSeq?: number, asOf?: number): Promise<TakenRecord[]>;
  takenBy(operation: RandomId): Promise<TakenRecord[]>;

  /** Every content hash that rows and manifests name. */
  liveHashes(): Promise<Hash[]>;
  /** Replaces everything up to and with `seq` by a manifest at `seq`. Rows after it stay. */
  cut(seq: number, manifest: { hash: Hash; entries: number }): Promise<void>;
  /** Folds rows; observations from the first to before the last of each become `folded`. Under the lock. */
  fold(folds: readonly Fold[]): Promise<void>;
  /** Empties the timeline but keeps store id, seed and settings; the next capture is a first one. */
  clear(): Promise<void>;
  /** Marks boundaries as expired. */
  expire(boundaries: readonly { session: number; boundaryId: string }[]): Promise<void>;
  /** Forgets a session: its boundaries, calls, operations; its rows become external, but for what forks inherited. */
  dropSession(session: number): Promise<void>;
  bumpGcGeneration(): Promise<void>;

  /** Chain of rows (each before = the after of the row before), references, SQLite's own check. */
  verify(): Promise<{ checked: number; problems: { kind: string; path?: RelPath; detail: string }[] }>;
  stats(): Promise<TimelineStats>;
  sqliteVersion(): Promise<string>;
  /** For a process that will end without {@link close}, as its last call: keeps the log from growing without end. */
  boundLog(): Promise<void>;
  close(): Promise<void>;
}

export interface OpenTimelineOptions {
  /** Folder of timeline.db and lock.db; exists. */
  readonly dir: string;
  /** Real path of the root, kept for people. */
  readonly root: string;
  readonly networkFileSystem: boolean;
}
