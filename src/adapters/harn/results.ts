/**
 * What Harn's methods answer: the shapes of Harn's document, made of the engine's. Pure.
 *
 * `reason` holds Harn's own text where its document has one, else our code in snake_case; `reason_code` is our code as it
 * is. All else of ours stands beside Harn's fields, never instead. Numbers of files and of errors are counts; what they
 * count is listed in `uncovered` and `problems`. A move, which Harn doesn't know, is a deletion and a creation.
 */
import type { BeginCallResult, EndCallResult } from '../../api.ts';
import { hashText } from '../../model/version.ts';
import { comparePaths } from '../../rel-path.ts';
import type {
  CaptureResult,
  ChangeSummary,
  EntryReason,
  Irreversible,
  Plan,
  PlanAction,
  PlanEntry,
  Problem,
  PublicVersion,
  Receipt,
  ReceiptEntry,
  SideEffect,
  Unavailable,
  UnavailableReason,
  UncoveredPath,
} from '../../types.ts';

export interface UnavailableAnswer {
  readonly available: false;
  /** `reason_code` in snake_case, such as `root_missing`. */
  readonly reason: string;
  readonly reason_code: UnavailableReason;
  /** One sentence for people. */
  readonly detail: string;
}

export type Answer<T> = ({ readonly available: true } & T) | UnavailableAnswer;

export interface CaptureAnswer {
  readonly boundary_id: string;
  readonly scanned_files: number;
  readonly stored_files: number;
  readonly stored_bytes: number;
  /** How many paths exist of which no bytes are kept; `uncovered` lists them. */
  readonly unrestorable_files: number;
  /** How many places could not be looked at; `problems` lists them. */
  readonly scan_errors: number;
  /** Milliseconds. */
  readonly scan_ms: number;
  readonly position: string;
  readonly complete: boolean;
  readonly uncovered: readonly UncoveredPath[];
  readonly problems: readonly Problem[];
}

export interface CallBeginAnswer {
  readonly call_id: string;
  readonly scanned_files: number;
  readonly scan_errors: number;
  readonly scan_ms: number;
  readonly invocation: number;
  readonly problems: readonly Problem[];
}

export interface ChangeAnswer {
  readonly path: string;
  readonly kind: 'created' | 'modified' | 'deleted';
  /** `xxh3:<32 hex>`, or the kind of what is there and isn't a file. Absent where nothing is there, or no bytes are kept. */
  readonly post_hash?: string;
  readonly incomplete?: true;
  readonly moved_from?: string;
  readonly moved_to?: string;
}

export interface CallEndAnswer {
  readonly call_id: string;
  /** Sorted by path. */
  readonly changes: readonly ChangeAnswer[];
  readonly scan_errors: number;
  readonly invocation: number;
  readonly problems: readonly Problem[];
}

export interface EntryAnswer {
  readonly path: string;
  readonly action: PlanAction;
  readonly reason?: string;
  readonly reason_code?: EntryReason;
  readonly expected_hash?: string;
  readonly found_hash?: string;
  /** What `on_conflict` overrode: our code. */
  readonly overrides?: EntryReason;
  readonly moved_from?: string;
  readonly moved_to?: string;
  readonly detail?: string;
  readonly note?: string;
}

export interface IrreversibleAnswer {
  readonly call_id: string;
  readonly side_effect: Extract<SideEffect, 'network' | 'desktop_control'>;
  readonly invocation: number;
}

export interface PlanAnswer {
  readonly boundary_id: string;
  readonly entries: readonly EntryAnswer[];
  readonly irreversible: readonly IrreversibleAnswer[];
  readonly plan_token: string;
  readonly uncovered: readonly UncoveredPath[];
  readonly notes: readonly string[];
}

export interface RestoreAnswer {
  readonly boundary_id: string;
  readonly restored: readonly EntryAnswer[];
  readonly refused: readonly EntryAnswer[];
  readonly skipped: readonly EntryAnswer[];
  readonly failed: readonly EntryAnswer[];
  readonly irreversible: readonly IrreversibleAnswer[];
  readonly operation_id: string;
  readonly outcome: Receipt['outcome'];
  readonly uncovered: readonly UncoveredPath[];
  readonly notes: readonly string[];
}

/** `dropped` is false, without an `error`, where nothing was recorded of the session. */
export type DropAnswer =
  | { readonly available: true; readonly dropped: boolean; readonly freed_bytes: number }
  | (UnavailableAnswer & { readonly dropped: false; readonly error: string });

export interface ForkAnswer {
  readonly session_id: string;
  readonly boundary_id: string;
}

/** The texts that Harn's document gives its reasons. */
const HARN_TEXTS: Partial<Record<EntryReason, string>> = {
  'already-matches': 'already matches',
  'changed-outside-session': 'changed outside the session',
};

const snake = (code: string): string => code.replaceAll('-', '_');

export function unavailableAnswer({ reason, detail }: Unavailable): UnavailableAnswer {
  return { available: false, reason: snake(reason), reason_code: reason, detail };
}

/** Milliseconds, to the microsecond. */
const rounded = (ms: number): number => Math.round(ms * 1000) / 1000;

export function captureAnswer(result: CaptureResult): CaptureAnswer {
  return {
    boundary_id: result.boundaryId,
    scanned_files: result.scannedFiles,
    stored_files: result.storedFiles,
    stored_bytes: result.storedBytes,
    unrestorable_files: result.uncovered.length,
    scan_errors: result.problems.length,
    scan_ms: rounded(result.tookMs),
    position: result.position,
    complete: result.complete,
    uncovered: result.uncovered,
    problems: result.problems,
  };
}

export function callBeginAnswer(result: BeginCallResult): CallBeginAnswer {
  return {
    call_id: result.callId,
    scanned_files: result.scannedFiles,
    scan_errors: result.problems.length,
    scan_ms: rounded(result.tookMs),
    invocation: result.invocation,
    problems: result.problems,
  };
}

export function callEndAnswer(result: EndCallResult): CallEndAnswer {
  return {
    call_id: result.callId,
    changes: result.changes.flatMap(changeAnswers).sort((a, b) => comparePaths(a.path, b.path)),
    scan_errors: result.problems.length,
    invocation: result.invocation,
    problems: result.problems,
  };
}

function changeAnswers({ path, kind, from, after, incomplete }: ChangeSummary): ChangeAnswer[] {
  const flag = incomplete === true ? { incomplete } : {};
  const hash = postHash(after);
  if (kind !== 'moved') return [{ path, kind, ...hash, ...flag }];
  const origin = from as string;
  return [
    { path: origin, kind: 'deleted', ...flag, moved_to: path },
    { path, kind: 'created', ...hash, ...flag, moved_from: origin },
  ];
}

function postHash(after: PublicVersion): { post_hash?: string } {
  return after.kind === 'absent' || after.kind === 'uncovered' ? {} : { post_hash: hashText(after) };
}

export function planAnswer(plan: Plan): PlanAnswer {
  return {
    boundary_id: plan.boundaryId,
    entries: plan.entries.map(entryAnswer),
    irreversible: plan.irreversible.map(irreversibleAnswer),
    plan_token: plan.token,
    uncovered: plan.uncovered,
    notes: plan.notes,
  };
}

export function restoreAnswer(receipt: Receipt): RestoreAnswer {
  return {
    boundary_id: receipt.boundaryId,
    restored: receipt.restored.map(entryAnswer),
    refused: receipt.refused.map(entryAnswer),
    skipped: receipt.skipped.map(entryAnswer),
    failed: receipt.failed.map(entryAnswer),
    irreversible: receipt.irreversible.map(irreversibleAnswer),
    operation_id: receipt.operationId,
    outcome: receipt.outcome,
    uncovered: receipt.uncovered,
    notes: receipt.notes,
  };
}

function entryAnswer(entry: PlanEntry | ReceiptEntry): EntryAnswer {
  const { path, action, reason, expectedHash, foundHash, overrides, movedFrom, movedTo, detail } = entry;
  const note = 'note' in entry ? entry.note : undefined;
  return {
    path,
    action,
    ...(reason === undefined ? {} : { reason: HARN_TEXTS[reason] ?? snake(reason), reason_code: reason }),
    ...(expectedHash === undefined ? {} : { expected_hash: expectedHash }),
    ...(foundHash === undefined ? {} : { found_hash: foundHash }),
    ...(overrides === undefined ? {} : { overrides }),
    ...(movedFrom === undefined ? {} : { moved_from: movedFrom }),
    ...(movedTo === undefined ? {} : { moved_to: movedTo }),
    ...(detail === undefined ? {} : { detail }),
    ...(note === undefined ? {} : { note }),
  };
}

function irreversibleAnswer({ callId, sideEffect, invocation }: Irreversible): IrreversibleAnswer {
  return { call_id: callId, side_effect: sideEffect, invocation };
}
