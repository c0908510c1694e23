/**
 * Follows files through rows by what inodes proved (`Change.movedFrom`), so that several moves, and edits between them,
 * are one move of the interval. Pure.
 *
 * Moves that `moves.ts` finds by content come on top, for ends that nothing is proven of.
 */
import type { RelPath, Row } from '../types.ts';
import { RowFlag } from '../types.ts';
import type { Move } from './moves.ts';

/**
 * For each path at the end of the rows that held another path's file at their beginning: the move.
 *
 * @param rows in timeline order; those that count, as the caller chose
 */
export function provenMoves(rows: readonly Row[]): Move[] {
  if (rows.every((row) => row.movedFrom === undefined)) return [];
  /** Where the file at a path stood at the beginning; null where it is none of then. Itself where it has no entry. */
  const origins = new Map<RelPath, RelPath | null>();
  for (let at = 0; at < rows.length; ) {
    const { seq } = rows[at] as Row;
    let end = at;
    while (rows[end]?.seq === seq) end++;
    const found = rows.slice(at, end).flatMap((row): [RelPath, RelPath | null][] => {
      const gone = row.after.kind === 'absent';
      if ((row.flags & RowFlag.coverage) !== 0 || (row.before.kind !== 'absent' && !gone)) return [];
      const from = gone ? undefined : row.movedFrom;
      const known = from === undefined ? null : origins.get(from);
      return [[row.path, known === undefined ? (from as RelPath) : known]];
    });
    // What one look saw happened at once: no move in it starts where another of it ends.
    for (const [path, origin] of found) origins.set(path, origin);
    at = end;
  }
  return [...origins].flatMap(([to, from]) => (from === null || from === to ? [] : [{ from, to }]));
}

/** The same moves, back. */
export function reversedMoves(moves: readonly Move[]): Move[] {
  return moves.map(({ from, to }) => ({ from: to, to: from }));
}
