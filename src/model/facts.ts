/**
 * What a session's rows say of each path that it owes: target, last result, and what speaks against taking it back.
 *
 * Owns: which rows count (DESIGN §6): those of the session's calls, taken back or not, and those of its standing
 * operations. Late rows are transparent: they give a name to bytes that were there all along. Knows nothing of the disk.
 */
import { comparePaths } from '../rel-path.ts';
import { type RelPath, RowFlag, type Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { AttributedRow, Run, Window } from './types.ts';

export interface PathFacts {
  readonly path: RelPath;
  /** `before` of the first owed row. */
  readonly target: Version;
  /** `after` of the session's newest row. */
  readonly last: Version;
  /** First and last owed row. */
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly contested: boolean;
  readonly incomplete: boolean;
  /** Somebody's change lies between two rows of the session, or a later turn of the session that isn't to be taken back. */
  readonly changedBetween: boolean;
  /** A standing operation took earlier rows out from under these: what was there before them is not the target. */
  readonly rebased: boolean;
  /** What is to be taken back, oldest first. */
  readonly runs: readonly Run[];
  readonly sharedWindow: boolean;
  /** It was never anything but a folder, or absent. */
  readonly folder: boolean;
}

/** Facts of each path with an owed row (within the window, where one is given), in the order of path bytes. */
export function factsByPath(rows: readonly AttributedRow[], window?: Window): Map<RelPath, PathFacts> {
  const byPath = new Map<RelPath, AttributedRow[]>();
  for (const row of rows) {
    const list = byPath.get(row.path);
    if (list === undefined) byPath.set(row.path, [row]);
    else list.push(row);
  }
  const facts = new Map<RelPath, PathFacts>();
  for (const path of [...byPath.keys()].sort(comparePaths)) {
    const list = (byPath.get(path) as AttributedRow[]).sort((a, b) => a.seq - b.seq);
    const start = list.findIndex((row) => row.owed && isIn(row, window));
    if (start >= 0) facts.set(path, factsOf(list.slice(start), window));
  }
  return facts;
}

function isIn({ seq, candidates }: AttributedRow, window: Window | undefined): boolean {
  if (window === undefined) return true;
  if (window.invocation !== undefined && !candidates.includes(window.invocation)) return false;
  return seq > window.afterSeq && (window.toSeq === null || seq <= window.toSeq);
}

/** True for a row that counts as the session's. A redone operation's row, and a redo's own, do not. */
export function countsAsOwn(row: AttributedRow): boolean {
  return row.operation !== undefined ? row.standing : row.owner === 'own' || row.owner === 'contested';
}

/** `rows`: those of one path in order, from the target's row on. */
function factsOf(rows: readonly AttributedRow[], window: Window | undefined): PathFacts {
  const first = rows[0] as AttributedRow;
  let last = first.after;
  let changedBetween = false;
  for (const row of rows.slice(1)) {
    const follows = sameVersion(row.before, last);
    if ((row.flags & RowFlag.late) !== 0) {
      if (follows) last = row.after;
    } else if (countsAsOwn(row)) {
      changedBetween ||= !follows;
      last = row.after;
    }
  }
  const owed = rows.filter((row) => row.owed);
  return {
    path: first.path,
    target: first.before,
    last,
    fromSeq: first.seq,
    toSeq: (owed.at(-1) as AttributedRow).seq,
    contested: owed.some((row) => row.owner === 'contested'),
    incomplete: owed.some((row) => row.incomplete),
    changedBetween: changedBetween || owed.some((row) => !isIn(row, window)),
    rebased: rows.some((row) => row.standing && (row.reach ?? first.seq) < first.seq),
    runs: runsOf(rows, window),
    sharedWindow: owed.some((row) => row.sharedWindow),
    folder: rows.filter(countsAsOwn).every((row) => isFolderOrAbsent(row.before) && isFolderOrAbsent(row.after)),
  };
}

function runsOf(rows: readonly AttributedRow[], window: Window | undefined): Run[] {
  const runs: Run[] = [];
  let joins = false;
  for (const row of rows) {
    const run = runs.at(-1);
    const follows = run !== undefined && sameVersion(run.after, row.before);
    if ((row.flags & RowFlag.late) !== 0) {
      if (follows) runs[runs.length - 1] = { ...run, after: row.after };
    } else if (row.owed && isIn(row, window)) {
      if (follows && joins) runs[runs.length - 1] = { ...run, after: row.after, toSeq: row.seq };
      else runs.push({ before: row.before, after: row.after, fromSeq: row.seq, toSeq: row.seq });
      joins = true;
    } else if (row.owed) joins = false;
  }
  return runs;
}

function isFolderOrAbsent(version: Version): boolean {
  return version.kind === 'dir' || version.kind === 'absent';
}
