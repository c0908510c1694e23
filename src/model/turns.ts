/**
 * Marks of turns: which ones an operation sets and clears, which boundaries a restore ends; and what no restore can
 * take back. Pure. Which turn or operation is next is found where the timeline can be read page by page.
 *
 * A mark (`undoneBy`) keeps undo from taking a turn twice: what an undo had to leave stays owed, and is retried by
 * naming the turn.
 */
import type { BoundaryRecord, CallRecord, OperationRecord } from '../timeline/timeline.ts';
import type { Irreversible, RandomId } from '../types.ts';
import type { Window } from './types.ts';

type Mark = { session: number; boundaryId: string };

function markOf({ session, boundaryId }: BoundaryRecord): Mark {
  return { session, boundaryId };
}

/** Turns that an undo marks: its own, once it settled a path. For `Append.markUndone`. */
export function undoMarks({ session, boundaryId }: Mark, settled: number): Mark[] {
  return settled > 0 ? [{ session, boundaryId }] : [];
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

/** Marks that go because a redo of the operation settled a path. */
export function marksClearedByRedo(boundaries: readonly BoundaryRecord[], operation: RandomId): Mark[] {
  return boundaries.filter((boundary) => boundary.undoneBy === operation).map(markOf);
}

/**
 * Boundaries that the session's next capture makes unknown: those after the boundary of a whole restore, or the message
 * of a revert, that stands. A turn that got changes of its own since then has lost its mark, and stays.
 */
export function discardedAtCapture(
  boundaries: readonly BoundaryRecord[],
  operations: readonly OperationRecord[],
): Mark[] {
  // One that was taken back, or begun to be, brought its turns back.
  const takenBack = new Set(operations.map(({ takesBack }) => takesBack));
  const restores = operations.filter(
    ({ id, kind, redoneBy }) =>
      redoneBy === null &&
      !takenBack.has(id) &&
      (kind === 'revert' || (kind === 'restore' && boundaries.some((boundary) => boundary.undoneBy === id))),
  );
  const falls = (boundary: BoundaryRecord): boolean =>
    boundary.undoneBy !== null && restores.some((r) => r.boundarySeq < boundary.seq && boundary.seq < r.seq);
  return boundaries.filter(falls).map(markOf);
}

/** The session's calls in turns of the window whose effect no restore can take back. */
export function irreversibleCalls(calls: readonly CallRecord[], session: number, window: Window): Irreversible[] {
  return calls.flatMap(({ session: owner, callId, invocation, sideEffect, turnSeq, beginSeq }): Irreversible[] => {
    // A call may have begun after a position inside its turn.
    const after = Math.max(turnSeq, beginSeq) >= window.afterSeq;
    const inside =
      window.invocation === undefined
        ? after && (window.toSeq === null || turnSeq < window.toSeq)
        : window.invocation === invocation;
    if (owner !== session || !inside) return [];
    return sideEffect === 'network' || sideEffect === 'desktop_control' ? [{ callId, invocation, sideEffect }] : [];
  });
}
