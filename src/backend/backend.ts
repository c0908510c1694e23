/**
 * The backend contract: what touches the tree, the segments and the disk. Interfaces only; `native.ts` (Rust addon) and
 * `portable/` (node:fs in a worker thread) implement it, `open.ts` chooses.
 *
 * Both give the same answers and write the same formats (docs/formats.md). All methods are asynchronous and leave the
 * JS thread free. Faults of one path are values; a method rejects with a `TakebackError` only where the whole of it
 * could not be done, and then nothing of the index has moved. An aborted signal rejects with `ERR_CANCELLED`.
 */
import type { Change, Hash, Problem, RandomId, RelPath, UncoveredPath, Version, WorkOptions } from '../types.ts';

export type BackendKind = 'native' | 'portable';

/** What this file system and OS can do, found by trying. Never inferred from the OS name. */
export interface Abilities {
  /** How parents are resolved: `openat2`, component by component, or by name with checks. */
  readonly walk: 'openat2' | 'component' | 'by-name';
  /** Atomic exchange of two names. */
  readonly exchange: boolean;
  /** Rename that fails where the target exists. */
  readonly noReplace: boolean;
  /** Read lease: tells whether anybody has the file open for writing. */
  readonly lease: boolean;
  readonly reflink: boolean;
  /** Names that differ in case only are one file. */
  readonly caseFolding: boolean;
  readonly execBit: boolean;
  readonly symlinks: boolean;
  /** A same-size rewrite with the old mtime put back moves ctime. */
  readonly ctime: boolean;
  /** Granularity of file times, nanoseconds: after this long a stat key proves a file unchanged. */
  readonly tickNs: bigint;
  /** The rung of the guard's ladder that restores use here. */
  readonly guard: 'exchange+lease' | 'exchange' | 'take-out+link' | 'refuse';
}

export interface Backend {
  readonly kind: BackendKind;
  openSegments(options: SegmentsOptions): Promise<Segments>;
  /** `segments` must come from the same backend; it stays open for as long as the tree. */
  openTree(options: TreeOptions): Promise<Tree>;
  /**
   * Segments and a tree of a store that exists, there at once, with a first look that has begun. Most looks find nothing
   * changed, so segments are read by the first use of a blob, and faults of them told there. Null where this backend has no
   * such way. Changes nothing on disk.
   */
  openAhead?(options: AheadOptions): OpenedAhead | null;
  /** Opens or makes a SQLite file. One driver, one connection. Its work runs off the JS thread. */
  openDatabase(options: DatabaseOptions): Promise<SqlDriver>;
  /** Ends threads and workers. Handles must be closed first. */
  close(): Promise<void>;
}

// ---- segments --------------------------------------------------------------------------------------------------

export interface SegmentsOptions {
  /** Absolute folder of the segments; made (0700) where missing. */
  readonly dir: string;
  /** Seed of XXH3-128, an unsigned 64-bit number. */
  readonly seed: bigint;
}

/** Bytes named by their hash, in append-only files. Each process appends to a segment of its own. */
export interface Segments {
  /** Stores bytes (or finds them stored, comparing the bytes) and answers their name. */
  put(bytes: Uint8Array): Promise<Hash>;
  /** @throws {TakebackError} `ERR_BLOB_MISSING`, `ERR_BLOB_CORRUPT` (the bytes are checked against the name) */
  read(hash: Hash): Promise<Uint8Array>;
  /** Answers, for each hash, whether it is stored. Looks for segments of other processes first. */
  has(hashes: readonly Hash[]): Promise<boolean[]>;
  /** Makes all that was appended durable (fdatasync, and the folder where a segment is new). */
  sync(): Promise<void>;
  stats(): Promise<{ segments: number; blobs: number; bytes: number }>;
  /** Reads and checks every record, and every borrowed object. `problems` names hashes (or segment file names) and what is wrong. */
  verify(
    options?: WorkOptions,
  ): Promise<{ checked: number; problems: { hash?: Hash; segment: string; detail: string }[] }>;
  /**
   * Drops every blob and every loan that isn't in `live` (borrowed names among it) and was not put since the last sync, and returns the space. Segments that another live process appends to are
   * left alone; so is a segment with nothing dead. Call under the workspace's lock.
   */
  collect(live: readonly Hash[], options?: WorkOptions): Promise<{ freedBytes: number; keptBytes: number }>;
  close(): Promise<void>;
}

// ---- tree ------------------------------------------------------------------------------------------------------

export interface TreeOptions {
  /** Absolute real path. */
  readonly root: string;
  /** Absolute path of the index file. A cache: missing, foreign or damaged means that `load` answers null. */
  readonly indexFile: string;
  readonly storeId: RandomId;
  readonly segments: Segments;
  /** Paths inside the root that are never looked at: the data directory, `.takeback`. */
  readonly skip: readonly RelPath[];
  readonly maxFileBytes: number;
  readonly maxEntries: number;
  /** A folder on the root's device (or not) that is ours, for clock and ability probes where the root allows none. */
  readonly scratchDir: string;
  /** Test seam: `component` forces the second path resolver of `apply`. */
  readonly resolver?: 'auto' | 'component';
}

export interface AheadOptions extends Omit<TreeOptions, 'segments'> {
  readonly segments: SegmentsOptions;
}

export interface OpenedAhead {
  readonly segments: Segments;
  readonly tree: Tree;
  /** What `load`, and then `rules`, would answer; rejects where the tree can't be opened. */
  readonly loaded: Promise<{ readonly at: Position | null; readonly rules: Uint8Array | null }>;
  /** Of the tree as it stands; `ERR_CANCELLED` where there is no index. */
  readonly scan: Promise<ScanResult>;
}

/** Where an index stands. */
export interface Position {
  readonly seq: number;
  readonly observationId: RandomId;
}

/** Where ignore rules come from. Made by `git/context.ts`; the backend reads the files that it names. */
export interface RuleSources {
  /** The repository that the root lies in, or null. All absolute. */
  readonly repo: { readonly top: string; readonly gitDir: string; readonly commonDir: string } | null;
  /** Absolute path of the user's global excludes file, or null. */
  readonly globalExcludes: string | null;
  /** core.ignoreCase. */
  readonly ignoreCase: boolean;
  /** gitignore lines of ours; `include` wins over ignore rules and secrets, `exclude` over everything but include. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** A repository whose objects may stand for its clean files. Made by `git/borrow.ts`. All absolute. */
export interface BorrowSources {
  readonly top: string;
  readonly gitDir: string;
  readonly commonDir: string;
  /** Attribute files outside the tree and the repository; any may be missing. */
  readonly attributes: readonly string[];
}

export interface ScanOptions extends WorkOptions {
  /**
   * Given at a boundary: read the rules anew and freeze them; what became ignored leaves coverage, what became visible
   * enters with `before: uncovered` (flag `coverage`). Without it the frozen rules stand (DESIGN §4.2). The first scan
   * of a tree needs it.
   */
  readonly renewRules?: RuleSources;
  /** With renewRules: paths (and what lies below) that stay covered whatever the new rules say. */
  readonly hold?: readonly RelPath[];
  /** Look at these paths only (and, for a folder, at its own entry, not below). */
  readonly only?: readonly RelPath[];
  /** Trust no stat key: hash every covered file. */
  readonly rehash?: boolean;
}

export interface ScanResult {
  /** Names the change set in the calls below. One set at a time: a new scan drops an older set. */
  readonly set: number;
  /** Covered files and symlinks. */
  readonly files: number;
  /** Files whose bytes `ingest` will read. */
  readonly suspects: number;
  readonly counters: Counters;
  readonly problems: readonly Problem[];
}

/** Proof of work done; tests assert it. */
export interface Counters {
  readonly entries: number;
  readonly statCalls: number;
  readonly dirsRead: number;
  readonly rulesEvaluated: number;
}

export interface IngestOptions extends WorkOptions {
  /** Date.now() at which to stop: what is left becomes `uncovered: out-of-time`. */
  readonly deadlineMs?: number;
  /** These paths first. */
  readonly first?: readonly RelPath[];
  /** Hash only, store nothing (verify, and a look that is not kept). */
  readonly hashOnly?: boolean;
  /**
   * Contents that were read from the store a moment ago, to write these files: a file that has one is hashed, and the
   * store isn't asked whether it holds those bytes. Anything else is stored as ever.
   */
  readonly stored?: ReadonlySet<Hash>;
  /**
   * At a first capture: files that this repository's index proves clean need not be read. Their `content` is a borrowed
   * name then: the store reads it like any other, but it is not the hash of the bytes. No change ever has one; versions
   * of the index and of a manifest may. The portable backend reads all files.
   */
  readonly borrow?: BorrowSources;
}

export interface IngestResult {
  readonly filesHashed: number;
  /** Blobs that were new to the store, and their bytes before compression. */
  readonly storedFiles: number;
  readonly storedBytes: number;
  /** Files that were not read: git's objects stand for them. */
  readonly borrowedFiles: number;
  /** Files left for lack of time. */
  readonly left: number;
  readonly problems: readonly Problem[];
}

/** A file or link that went from one path to another. */
export interface MovedPath {
  readonly from: RelPath;
  readonly to: RelPath;
}

/** What is on disk at a path now, whatever the index and the rules say. Secrets and large files stay uncovered. */
export interface Peek {
  readonly path: RelPath;
  readonly version: Version;
  /** 0n where absent. */
  readonly ino: bigint;
  readonly nlink: number;
  /** Somebody has it open for writing; null where this can't be told here. */
  readonly openForWrite: boolean | null;
  /** All names in it, sorted by bytes, where it is a folder that could be read. */
  readonly names?: readonly string[];
}

export interface Tree {
  /** Loads the index file. Null: missing, of another store, or damaged; call `reset` and `catchUp`. */
  load(): Promise<Position | null>;
  /**
   * Forgets the index and takes these versions as current with no stat key (all is hashed at the next scan). Null: an
   * empty tree, for a first capture.
   */
  reset(manifest: Hash | null, at: Position | null): Promise<void>;
  /** Takes rows that other processes appended; their stat keys are unknown. Rows in timeline order. */
  catchUp(rows: readonly Pick<Change, 'path' | 'after'>[], at: Position): Promise<void>;
  /** The frozen rules, for the timeline; null before the first scan. */
  rules(): Promise<Uint8Array | null>;
  /** Takes the frozen rules that another process's boundary made, or that the timeline has. */
  setRules(snapshot: Uint8Array): Promise<void>;

  /**
   * From the next scan on, events of the kernel tell scans within a turn where to look; all other scans look everywhere, and so
   * do these in any doubt. Null: so it is. A text says why it can't be: each scan then looks everywhere. Ask again at any time.
   */
  watch(): Promise<string | null>;
  scan(options?: ScanOptions): Promise<ScanResult>;
  /** Reads and stores the suspects of a set. After it the set's changes are final. */
  ingest(set: number, options?: IngestOptions): Promise<IngestResult>;
  /** Looks again at these paths, reads them where needed, and updates the set. Use after `catchUp`. */
  look(set: number, paths: readonly RelPath[]): Promise<void>;
  /** The set's changes against the index, sorted by path bytes. */
  changes(set: number): Promise<Change[]>;
  /**
   * Which of the set's paths that are gone and which that came are one inode, proven (birth time; without one, size and
   * mtime). Covered files and links; each path in one move at most; sorted by the new path. Ask before `commit`.
   */
  moves(set: number): Promise<MovedPath[]>;
  /** Every path that is known and not covered, once the set is taken in; sorted. Ignored names are not among them. */
  uncovered(set: number): Promise<UncoveredPath[]>;
  /** Stores the manifest of the tree with the set taken in. */
  manifest(set: number): Promise<{ hash: Hash; entries: number }>;
  /** Moves the index forward and appends to the index file. Call under the lock, after the timeline's commit. */
  commit(set: number, at: Position): Promise<void>;
  /** Drops a set; the index stays. */
  discard(set: number): Promise<void>;
  /** Current versions by the index; `absent` where it has none. `content` may be a borrowed name (`IngestOptions.borrow`). */
  versions(paths: readonly RelPath[]): Promise<Version[]>;
  /** Covered or uncovered paths that the index has below a folder, the folder itself left out; sorted. */
  list(folder: RelPath): Promise<RelPath[]>;

  peek(paths: readonly RelPath[], options?: WorkOptions): Promise<Peek[]>;
  apply(request: ApplyRequest, options?: WorkOptions): Promise<ApplyOutcome[]>;
  /** Ends an operation whose owner died. Idempotent. Removes the journal when all is settled. */
  recover(request: RecoverRequest): Promise<RecoverOutcome>;
  /** Removes the journal and the temp files of an operation that is in the timeline. */
  finish(journal: string): Promise<void>;

  abilities(): Promise<Abilities>;
  /** Kept inodes of a trash folder, for gc: hashed again, dropped where nothing moved, else ingested. */
  emptyTrash(
    trashDir: string,
  ): Promise<{ freedBytes: number; kept: number; lateWrites: { name: string; hash: Hash }[] }>;
  close(): Promise<void>;
}

// ---- apply -----------------------------------------------------------------------------------------------------

export interface ApplyEntry {
  readonly path: RelPath;
  /** What the guard must find. */
  readonly expect: Version;
  /** What is to be there afterwards: file, symlink, dir or absent. */
  readonly target: Version;
  /**
   * Goes on where somebody has the file open for writing, instead of `open-for-write`: its bytes must be `expect`'s all
   * the same, the inode stays in the trash, and the outcome's note says `open-for-write`.
   */
  readonly force?: boolean;
}

export interface ApplyRequest {
  readonly operationId: RandomId;
  /** Absolute path of the journal file to write. */
  readonly journal: string;
  /** Absolute folder for inodes that leave their path; where it is on another mount, `.takeback/trash/` of the root. */
  readonly trash: string;
  readonly durability: 'full' | 'fast';
  /** Any order; the backend sorts (DESIGN §7). No two entries have one path. */
  readonly entries: readonly ApplyEntry[];
}

export type ApplyStatus = 'done' | 'refused' | 'skipped' | 'failed';

export interface ApplyOutcome {
  readonly path: RelPath;
  readonly status: ApplyStatus;
  /** Machine-readable; one of `EntryReason`. Absent where done. */
  readonly reason?: string;
  readonly detail?: string;
  /** What the guard found, where it refused. */
  readonly found?: Version;
  /** `hardlink-broken`, `guard:exchange`, `open-for-write`, … */
  readonly note?: string;
}

export interface RecoverRequest {
  readonly journal: string;
  readonly trash: string;
  readonly mode: 'rollback' | 'complete';
}

export interface RecoverOutcome {
  readonly operationId: RandomId;
  /** What each path came to be: `old`, `new`, or `neither` (left as it was found). */
  readonly paths: readonly { path: RelPath; state: 'old' | 'new' | 'neither'; detail?: string }[];
}

// ---- SQL -------------------------------------------------------------------------------------------------------

export type SqlValue = null | number | bigint | string | Uint8Array;
/** Columns in the order of the query. Integers are numbers where safe, else bigints; bytes may be a view of the whole answer: copy what is kept. */
export type SqlRow = readonly SqlValue[];

export interface SqlStatement {
  readonly sql: string;
  readonly params?: readonly SqlValue[];
  /** Run once for each list of parameters, prepared once. */
  readonly many?: readonly (readonly SqlValue[])[];
}

export interface DatabaseOptions {
  readonly file: string;
  /** Milliseconds that SQLite itself waits for another process. Default 10,000. */
  readonly busyTimeoutMs?: number;
}

/** A generic driver: no SQL of its own but BEGIN IMMEDIATE, COMMIT, ROLLBACK. Faults reject with `ERR_IO`, `ERR_BUSY` (SQLITE_BUSY), `ERR_NO_SPACE` (SQLITE_FULL), `ERR_STORE_CORRUPT` (SQLITE_CORRUPT, SQLITE_NOTADB). */
export interface SqlDriver {
  /** One or more statements without parameters or results. */
  exec(sql: string): Promise<void>;
  query(sql: string, params?: readonly SqlValue[]): Promise<SqlRow[]>;
  /** All in one transaction, rolled back as a whole on a fault. Answers the rows of each statement. */
  transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]>;
  close(): Promise<void>;
}
