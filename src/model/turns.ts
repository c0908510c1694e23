/**
 * Turns: which one undo takes, which operation redo takes back, and which marks an operation sets and clears. Pure.
 *
 * A turn lasts from a boundary of a session to its next; a change is in the turn of its position. A mark (`undoneBy`)
 * keeps undo from taking a turn twice: what an undo had to leave stays owed, and is retried by naming the turn.
 */
import type { BoundaryRecord, CallRecord, OperationRecord } from '../timeline/timeline.ts';
import type { Irreversible, RandomId } from '../types.ts';
import type { AttributedRow, Turn, Window } from './types.ts';

/** @param boundaries of one session, newest first */
export function turnsOf(boundaries: readonly BoundaryRecord[]): Turn[] {
  return boundaries.map((boundary, i) => {
    const next = boundaries[i - 1];
    return { boundary, window: { afterSeq: boundary.seq, toSeq: next === undefined ? null : next.seq } };
  });
}

export function isInWindow(seq: number, window: Window): boolean {
  return seq > window.afterSeq && (window.toSeq === null || seq <= window.toSeq);
}

/** True where some of these rows, in the window, is owed. */
export function owesIn(rows: readonly AttributedRow[], window: Window): boolean {
  return rows.some((row) => row.owed && isInWindow(row.seq, window));
}

/** The newest turn that has owed rows and no mark. */
export function nextToUndo(turns: readonly Turn[], owes: (turn: Turn) => boolean): Turn | null {
  return turns.find((turn) => turn.boundary.undoneBy === null && owes(turn)) ?? null;
}

/**
 * The newest undo or restore that stands, wrote something, and may still be redone.
 *
 * @param operations of one session, newest first
 */
export function nextToRedo(operations: readonly OperationRecord[]): OperationRecord | null {
  const stands = (operation: OperationRecord): boolean =>
    (operation.kind === 'undo' || operation.kind === 'restore') &&
    operation.redoable &&
    operation.redoneBy === null &&
    operation.receipt.restored.length > 0;
  return operations.find(stands) ?? null;
}

type Mark = { session: number; boundaryId: string };

function markOf({ session, boundaryId }: BoundaryRecord): Mark {
  return { session, boundaryId };
}

/** Turns that an undo marks: its own, once it settled a path. For `Append.markUndone`. */
export function undoMarks(turn: Turn, settled: number): Mark[] {
  return settled > 0 ? [markOf(turn.boundary)] : [];
}

/**
 * Turns that a restore marks: each from its boundary on, where it settled all that was owed. Turns that are marked
 * already keep their mark, so that a redo of the restore leaves them as they were.
 *
 * @param restore `whole` is false where it was limited to some paths
 */
export function restoreMarks(
  boundaries: readonly BoundaryRecord[],
  restore: { boundarySeq: number; settledAll: boolean; whole: boolean },
): Mark[] {
  if (!restore.settledAll || !restore.whole) return [];
  return boundaries.filter((b) => b.seq >= restore.boundarySeq && b.undoneBy === null).map(markOf);
}

/** Marks that go because the session's calls changed something at `seqs`: those of the turns that hold them. */
export function marksClearedByChange(boundaries: readonly BoundaryRecord[], seqs: readonly number[]): Mark[] {
  return turnsOf(boundaries)
    .filter((turn) => turn.boundary.undoneBy !== null && seqs.some((seq) => isInWindow(seq, turn.window)))
    .map((turn) => markOf(turn.boundary));
}

/** Marks that go because a redo of the operation settled a path. */
export function marksClearedByRedo(boundaries: readonly BoundaryRecord[], operation: RandomId): Mark[] {
  return boundaries.filter((boundary) => boundary.undoneBy === operation).map(markOf);
}

/**
 * Boundaries that the session's next capture makes unknown: those after the boundary of a whole restore that stands.
 * A turn that got changes of its own since then has lost its mark, and stays.
 */
export function discardedAtCapture(
  boundaries: readonly BoundaryRecord[],
  operations: readonly OperationRecord[],
): Mark[] {
  const restores = operations.filter(
    (operation) =>
      operation.kind === 'restore' &&
      operation.redoneBy === null &&
      boundaries.some((boundary) => boundary.undoneBy === operation.id),
  );
  const falls = (boundary: BoundaryRecord): boolean =>
    boundary.undoneBy !== null && restores.some((r) => r.boundarySeq < boundary.seq && boundary.seq < r.seq);
  return boundaries.filter(falls).map(markOf);
}

/** The session's calls in turns of the window whose effect no restore can take back. */
export function irreversibleCalls(calls: readonly CallRecord[], session: number, window: Window): Irreversible[] {
  return calls.flatMap(({ session: owner, callId, invocation, sideEffect, turnSeq }): Irreversible[] => {
    const inside = turnSeq >= window.afterSeq && (window.toSeq === null || turnSeq < window.toSeq);
    if (owner !== session || !inside) return [];
    return sideEffect === 'network' || sideEffect === 'desktop_control' ? [{ callId, invocation, sideEffect }] : [];
  });
}
