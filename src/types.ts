/**
 * The words of the design, as types. Owns no logic; imports nothing.
 *
 * Names of files are bytes. In JavaScript a path is a string in which a byte that is not part of valid UTF-8 stands as
 * a lone surrogate (byte 0x80–0xFF → U+DC80–U+DCFF), so that no name is lossy. `rel-path.ts` converts.
 */

declare const relPathBrand: unique symbol;

/** A normalised, `/`-separated path relative to the root. `''` is the root itself. */
export type RelPath = string & { readonly [relPathBrand]: true };

/** 32 lower-case hex digits: XXH3-128 of the bytes, seeded with the store's seed. Names a blob. */
export type Hash = string;

/** 32 lower-case hex digits, random. Names an observation, an operation or a store. */
export type RandomId = string;

/** What a directory entry is, as lstat tells. */
export type FileKind = 'file' | 'symlink' | 'dir' | 'fifo' | 'socket' | 'char' | 'block' | 'other';

export type SpecialType = 'fifo' | 'socket' | 'char' | 'block' | 'other';

/** Why the bytes of a path that exists are not kept. */
export type UncoveredReason =
  | 'too-large' // larger than limits.maxFileBytes
  | 'unreadable' // the file, or the folder that holds it, could not be read
  | 'secret' // .env and the like: stat-ed, never read
  | 'ignored' // a rule of the turn's own making hides it, or a rule change took it out of coverage
  | 'unstable' // it changed each time it was read
  | 'out-of-time' // a capture's deadline came first; read later
  | 'git' // a nested .git
  | 'mount'; // another file system is mounted here

/**
 * What lstat says of a path, in the precision of the file system.
 * For `git` and `mount` only kind, ino and dev are kept; the rest is 0.
 */
export interface StatKey {
  readonly kind: FileKind;
  /** The nine permission bits. */
  readonly mode: number;
  /** Bytes. */
  readonly size: number;
  /** Nanoseconds since the Unix epoch. */
  readonly mtimeNs: bigint;
  /** Nanoseconds since the Unix epoch. */
  readonly ctimeNs: bigint;
  readonly ino: bigint;
  readonly dev: bigint;
}

/** What is at a path. `mode` is the nine permission bits; setuid, setgid and sticky are not recorded. */
export type Version =
  | { readonly kind: 'absent' }
  | { readonly kind: 'file'; readonly mode: number; readonly size: number; readonly content: Hash }
  | { readonly kind: 'symlink'; readonly target: string }
  | { readonly kind: 'dir'; readonly mode: number }
  | { readonly kind: 'special'; readonly type: SpecialType; readonly ino: bigint }
  | { readonly kind: 'uncovered'; readonly reason: UncoveredReason; readonly stat: StatKey };

/** A stat key as callers see it, so that JSON holds it: what has 64 bits is a decimal string. */
export interface PublicStat extends Pick<StatKey, 'kind' | 'mode' | 'size'> {
  /** Nanoseconds since the Unix epoch. */
  readonly mtimeNs: string;
  /** Nanoseconds since the Unix epoch. */
  readonly ctimeNs: string;
  readonly ino: string;
  readonly dev: string;
}

/** A version as callers see it: JSON holds it. */
export type PublicVersion =
  | Extract<Version, { kind: 'absent' | 'file' | 'symlink' | 'dir' }>
  | { readonly kind: 'special'; readonly type: SpecialType; readonly ino: string }
  | { readonly kind: 'uncovered'; readonly reason: UncoveredReason; readonly stat: PublicStat };

export const ABSENT: Version = { kind: 'absent' };

/** Bits of `Change.flags` and of a row's flags. */
export const RowFlag = {
  /** Could not be observed fully: below a folder that was unreadable, or it changed between two looks. */
  incomplete: 1,
  /** A writer had the file open while it was copied; the bytes may be torn. */
  inFlux: 2,
  /** Bytes that a deadline had left behind, read later under an unchanged stat key. Nobody's change. */
  late: 4,
  /** Coverage changed, not the file: a rule changed, or its folder became visible. Nobody's change. */
  coverage: 8,
} as const;

/** A path, the version before and the version after, in one observation. */
export interface Change {
  readonly path: RelPath;
  readonly before: Version;
  readonly after: Version;
  readonly flags: number;
  /** It came here from there in the same observation: one inode. Only where `before` is absent. */
  readonly movedFrom?: RelPath | undefined;
}

/** A change at its place in the timeline. */
export interface Row extends Change {
  readonly seq: number;
}

/** A soft fault of a look at the tree. `path` is where; the rest of the look went on. */
export interface Problem {
  readonly path: RelPath;
  readonly kind: 'unreadable-dir' | 'unreadable-file' | 'vanished' | 'unreadable-rules' | 'root-ignored' | 'collision';
  readonly detail: string;
}

export interface UncoveredPath {
  readonly path: RelPath;
  readonly reason: UncoveredReason | 'special';
}

/** Why an answer is not available. Append only. */
export type UnavailableReason =
  | 'root-missing'
  | 'not-a-directory'
  | 'protected-root'
  | 'permission-denied'
  | 'data-dir-unwritable'
  | 'store-newer'
  | 'store-corrupt'
  | 'too-many-entries'
  | 'no-checkpoint'
  | 'unknown-boundary'
  | 'calls-in-flight'
  | 'stale-plan'
  | 'root-changed'
  | 'busy'
  | 'revert-stands'
  | 'no-space'
  | 'unsupported'
  | 'closed';

export interface Unavailable {
  readonly available: false;
  readonly reason: UnavailableReason;
  /** One sentence for people: names the thing and the remedy. */
  readonly detail: string;
}

export type Result<T> = ({ readonly available: true } & T) | Unavailable;

/**
 * What to do where the disk is not the session's last result: keep it; save it and go on; or take the session's changes
 * out of the text and keep the rest, where that doesn't clash.
 */
export type ConflictPolicy = 'refuse' | 'overwrite' | 'merge';

export type PlanAction = 'restore' | 'recreate' | 'delete' | 'merge' | 'skip' | 'refuse';

/** Why an entry is not plain. Append only. */
export type EntryReason =
  | 'not-attributed'
  | 'already-matches'
  | 'uncovered'
  | 'moved-uncovered'
  | 'contested'
  | 'incomplete'
  | 'changed-between'
  | 'changed-outside-session'
  | 'open-for-write'
  | 'not-empty'
  | 'unsupported'
  // only in receipts
  | 'blob-missing'
  | 'blob-corrupt'
  | 'walk-failed'
  | 'permission-denied'
  | 'no-space'
  | 'io-error'
  | 'exists'
  | 'cancelled';

export interface PlanEntry {
  readonly path: RelPath;
  readonly action: PlanAction;
  readonly reason?: EntryReason;
  /** Present on a row that `onConflict` overrode: the bytes on disk are saved first. */
  readonly overrides?: EntryReason;
  /** `xxh3:<32 hex>` of what the guard expects on disk, `absent`, or a kind such as `symlink`, `dir`. */
  readonly expectedHash?: string;
  /** The same for what was found on disk. */
  readonly foundHash?: string;
  /** The other end of a move, as the operation moves: it comes from there, or goes there. */
  readonly movedFrom?: RelPath;
  readonly movedTo?: RelPath;
  /** Set where mode, type or link target changes without content, for display; where a merge clashes; where hunks go back. */
  readonly detail?: string;
  /** Asked for with `hunks: true`: what a restore of this text file would change on disk. */
  readonly hunks?: readonly PlanHunk[];
}

/** Lines that a restore replaces, without context. Lines count from 1; a start with 0 lines names the line before. */
export interface PlanHunk {
  /** For `restore(…, { hunks })`; good for the files as the plan saw them. */
  readonly id: string;
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
  /** Lines on disk behind `-`, then those that would come in their place behind `+`, as a patch has them. */
  readonly lines: readonly string[];
}

export type SideEffect =
  | 'none'
  | 'read_only'
  | 'workspace_write'
  | 'process_exec'
  | 'network_read'
  | 'network'
  | 'desktop_control';

export interface Irreversible {
  readonly callId: string;
  readonly invocation: number;
  readonly sideEffect: 'network' | 'desktop_control';
}

export interface Plan {
  readonly boundaryId: string;
  readonly token: string;
  readonly entries: readonly PlanEntry[];
  readonly irreversible: readonly Irreversible[];
  readonly uncovered: readonly UncoveredPath[];
  readonly notes: readonly string[];
}

export interface ReceiptEntry extends PlanEntry {
  /** Remarks on a path that was settled, such as `hardlink-broken`. */
  readonly note?: string;
}

export interface Receipt {
  readonly operationId: string;
  readonly boundaryId: string;
  readonly outcome: 'done' | 'partial' | 'nothing';
  readonly restored: readonly ReceiptEntry[];
  readonly refused: readonly ReceiptEntry[];
  readonly skipped: readonly ReceiptEntry[];
  readonly failed: readonly ReceiptEntry[];
  readonly irreversible: readonly Irreversible[];
  readonly uncovered: readonly UncoveredPath[];
  readonly notes: readonly string[];
}

/** One changed path as a caller sees it. Folders appear only where the folder itself is the change. */
export interface ChangeSummary {
  readonly path: RelPath;
  readonly kind: 'created' | 'modified' | 'deleted' | 'moved';
  /** For `moved`: the old path. */
  readonly from?: RelPath;
  readonly before: PublicVersion;
  readonly after: PublicVersion;
  readonly incomplete?: boolean;
}

export interface CaptureResult {
  readonly boundaryId: string;
  /** Opaque; names its workspace. */
  readonly position: string;
  /** False where `uncovered` names a path that a deadline left. */
  readonly complete: boolean;
  readonly scannedFiles: number;
  readonly storedFiles: number;
  readonly storedBytes: number;
  readonly uncovered: readonly UncoveredPath[];
  readonly problems: readonly Problem[];
  readonly tookMs: number;
}

/** Progress of one piece of work. `done` and `total` are files; `total` is absent while it is not known. */
export interface Progress {
  readonly phase: 'scan' | 'ingest' | 'apply' | 'verify' | 'gc';
  readonly done: number;
  readonly total?: number;
}

export interface WorkOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

export interface Logger {
  debug(message: string, data?: unknown): void;
  info(message: string, data?: unknown): void;
  warn(message: string, data?: unknown): void;
  error(message: string, data?: unknown): void;
}
