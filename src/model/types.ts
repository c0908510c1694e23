/**
 * What the model's functions take and give. Types only; the functions are in the files that each block names.
 *
 * The model is pure: no I/O, no clock. The caller reads the timeline and the disk, calls, and writes what comes out.
 */
import type { ApplyOutcome, Peek } from '../backend/backend.ts';
import type {
  BoundaryRecord,
  CallRecord,
  ObservationRecord,
  OperationRecord,
  TakenRecord,
} from '../timeline/timeline.ts';
import type {
  ChangeSummary,
  ConflictPolicy,
  EntryReason,
  Irreversible,
  PlanAction,
  RandomId,
  Receipt,
  RelPath,
  Row,
  Version,
} from '../types.ts';
import type { PathFacts } from './facts.ts';

// ---- attribution.ts --------------------------------------------------------------------------------------------

/** Everything that bears on whose the rows are. `attribute(input: AttributionInput): AttributedRow[]`. */
export interface AttributionInput {
  /** The session that asks. */
  readonly session: number;
  /** All rows of a range of the timeline, external ones too. */
  readonly rows: readonly Row[];
  /** Calls of every session that overlap the range, and the calls that these are nested in. */
  readonly calls: readonly CallRecord[];
  /** Observations of the range: overlap with other roots, and which operation they belong to. */
  readonly observations: readonly ObservationRecord[];
  /** Operations of every session in the range. */
  readonly operations: readonly OperationRecord[];
  /** Of the session: `timeline.taken(session, afterSeq of the range)`. */
  readonly taken: readonly TakenRecord[];
}

/** `own`: the session's; `other`: other sessions' alone; `contested`: the session's or another's; `external`: nobody's. */
export type RowOwner = 'external' | 'own' | 'other' | 'contested';

export interface AttributedRow extends Row {
  readonly owner: RowOwner;
  /** Invocations of the calls that may have made it, of any session, innermost ones only; ascending. */
  readonly candidates: readonly number[];
  /** It is its declarer's, but another session's call that declared nothing was open as well. */
  readonly sharedWindow: boolean;
  /** The operation that made it. */
  readonly operation?: RandomId;
  /** A row of a call of the session (or contested) that no standing operation took back. */
  readonly owed: boolean;
  /** A row that an operation of the session made on a path that it still holds taken back. */
  readonly standing: boolean;
  /** Of a standing row: the first row that its operation took back of the path; an earlier one where it took parts. */
  readonly reach?: number;
  /** Flagged so, or found by the look that closed its interrupted call. */
  readonly incomplete: boolean;
}

// ---- plan.ts, redo.ts ------------------------------------------------------------------------------------------

/** Rows with afterSeq < seq ≤ toSeq; no upper end where `toSeq` is null. */
export interface Window {
  readonly afterSeq: number;
  readonly toSeq: number | null;
  /** Only those that this call may have made. */
  readonly invocation?: number;
}

/** Rows of a path, each beginning where the one before it ended, that are taken back together. */
export interface Run {
  /** Before its first row. */
  readonly before: Version;
  /** After its last row. */
  readonly after: Version;
  readonly fromSeq: number;
  readonly toSeq: number;
}

/** A path of which runs are to be taken out of what is on disk, newest first. `mergeNeeds(…): MergeNeed[]`. */
export interface MergeNeed {
  readonly path: RelPath;
  readonly disk: Version;
  readonly runs: readonly Pick<Run, 'before' | 'after'>[];
}

/** What a merge came to: the version that is to be there, or what clashed. */
export type Merged = { readonly version: Version } | { readonly clash: string };

/** How a conflict is met (DESIGN §6, the starred lines). */
export interface Conflicts {
  readonly onConflict: ConflictPolicy;
  /** What came later is kept: changes since are merged, whatever the policy, and a clash is refused. */
  readonly keepLater?: boolean | undefined;
  /** Paths at which an operation of the session failed: what is there may be what it left. */
  readonly tried?: ReadonlySet<RelPath> | undefined;
  /** Answers to `mergeNeeds`. A merge that lacks its answer is refused. */
  readonly merges?: ReadonlyMap<RelPath, Merged> | undefined;
}

/** `planRestore(input: RestoreInput): ModelPlan`. */
export interface RestoreInput extends Conflicts {
  /** All rows after the boundary (`window.afterSeq`, where a window is given), in any order. */
  readonly rows: readonly AttributedRow[];
  /** Only the turn in this window is to be taken back. */
  readonly window?: Window;
  /** `factsByPath` of both, where the caller has it already. */
  readonly facts?: ReadonlyMap<RelPath, PathFacts>;
  /** What `tree.peek(peekPaths(…))` answered. */
  readonly disk: ReadonlyMap<RelPath, Peek>;
  /** Only these paths and what lies below them. */
  readonly paths?: readonly RelPath[] | undefined;
  /** Inodes that stood at an uncovered path at the boundary. */
  readonly uncoveredInodes: ReadonlySet<bigint>;
}

/** `planRedo(input: RedoInput): ModelPlan`. */
export interface RedoInput extends Conflicts {
  /** Of the operation that is taken back; returned ones are passed over. */
  readonly taken: readonly TakenRecord[];
  /** Rows of the operation's own observation. */
  readonly rows: readonly Row[];
  /** What `tree.peek(redoPeekPaths(…))` answered. */
  readonly disk: ReadonlyMap<RelPath, Peek>;
}

export interface ModelEntry {
  readonly path: RelPath;
  readonly action: PlanAction;
  readonly reason?: EntryReason;
  /** The first reason that `onConflict` overrode. */
  readonly overrides?: EntryReason;
  /** What is on disk: the guard must find it. */
  readonly expect: Version;
  /** What the session (for a redo: the operation) left there. */
  readonly last: Version;
  readonly target: Version;
  /** Owed rows that success takes back (for a redo: gives back). Both 0 where there are none. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** The same in parts, where rows between them stay. */
  readonly ranges?: readonly { readonly fromSeq: number; readonly toSeq: number }[];
  /** Only some hunks go back: the path stays owed. */
  readonly partial?: boolean;
  /** A folder that only carries other entries: hidden unless it is refused, skipped or failed. */
  readonly implicit: boolean;
  readonly sharedWindow: boolean;
  /** What changes besides content (mode, type, link target), or what stands in the way. */
  readonly detail?: string;
  /** The file, or the folder's names, could not be read when it was planned. */
  readonly unread?: boolean;
  /** The other end, where the plan moves something: to here, or away from here. */
  readonly movedFrom?: RelPath;
  readonly movedTo?: RelPath;
}

/** One entry a path, in the order of path bytes. */
export interface ModelPlan {
  readonly entries: readonly ModelEntry[];
}

// ---- changes.ts, moves.ts --------------------------------------------------------------------------------------

/** One changed path of an interval, with its versions as the store has them. `publicChange` makes a `ChangeSummary` of it. */
export interface PathChange extends Omit<ChangeSummary, 'before' | 'after'> {
  readonly before: Version;
  readonly after: Version;
}

// ---- receipt.ts ------------------------------------------------------------------------------------------------

/** `buildReceipt(input: ReceiptInput): SettledReceipt`. */
export interface ReceiptInput {
  readonly operationId: RandomId;
  readonly boundaryId: string;
  readonly plan: ModelPlan;
  /** What `tree.apply` answered for `applyEntries(plan)`. */
  readonly outcomes: readonly ApplyOutcome[];
  readonly irreversible: readonly Irreversible[];
  readonly notes: readonly string[];
}

export interface SettledReceipt {
  readonly receipt: Receipt;
  /** Written, deleted or already as wanted, with the owed rows that this takes back; ready for `Append.taken`. */
  readonly settled: readonly { readonly path: RelPath; readonly fromSeq: number; readonly toSeq: number }[];
  /** Written in part: they stay owed, from this row on. */
  readonly partial: readonly { readonly path: RelPath; readonly fromSeq: number }[];
  /** Every path with an owed row (or taken row, for a redo) was settled. */
  readonly settledAll: boolean;
  /** A path was kept by a fault of the system, which another try may not meet; not by what somebody else did. */
  readonly unfinished: boolean;
  /** At least one path was written. */
  readonly wrote: boolean;
}

// ---- turns.ts --------------------------------------------------------------------------------------------------

export interface Turn {
  readonly boundary: BoundaryRecord;
  readonly window: Window;
}
