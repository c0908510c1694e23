/**
 * Changes of an interval as callers see them: one line a path, folders folded away. Pure.
 *
 * Rows of one path fold to the first `before` and the last `after`; nothing is left where these are equal. Coverage rows
 * tell of rules, not of files, and count for nothing; a late row only gives a name to bytes that were there. Moves are
 * not found here (`moves.ts` does): both ends stay, as deleted and created.
 */
import { comparePaths } from '../rel-path.ts';
import { type Change, type ChangeSummary, type RelPath, RowFlag, type Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { PathChange } from './types.ts';
import { foldersAbove, publicVersion } from './version.ts';

interface Folded {
  before: Version;
  after: Version;
  incomplete: boolean;
}

/**
 * Folds rows, which come in timeline order, to one summary a path, in the order of path bytes.
 *
 * @param rows those that count: of a call, of a session or all, as the caller chose
 */
export function summarize(rows: readonly Change[]): PathChange[] {
  const folded = new Map<RelPath, Folded>();
  for (const row of rows) fold(folded, row);
  const changed = [...folded].filter(([, { before, after }]) => !sameVersion(before, after));
  const holders = new Set(changed.flatMap(([path]) => foldersAbove(path)));
  return changed
    .filter(([path, change]) => !(holders.has(path) && isPlainFolder(change)))
    .map(([path, change]) => summaryOf(path, change))
    .sort((a, b) => comparePaths(a.path, b.path));
}

function fold(folded: Map<RelPath, Folded>, row: Change): void {
  if ((row.flags & RowFlag.coverage) !== 0) return;
  const known = folded.get(row.path);
  const late = (row.flags & RowFlag.late) !== 0;
  const incomplete = (row.flags & RowFlag.incomplete) !== 0;
  if (known === undefined) {
    if (!late) folded.set(row.path, { before: row.before, after: row.after, incomplete });
  } else if (!late || sameVersion(known.after, row.before)) {
    known.after = row.after;
    known.incomplete ||= incomplete;
  }
}

/** It was made or removed; what it holds tells that already. A mode or type change is told. */
function isPlainFolder({ before, after }: Folded): boolean {
  return (before.kind === 'absent' && after.kind === 'dir') || (before.kind === 'dir' && after.kind === 'absent');
}

function summaryOf(path: RelPath, { before, after, incomplete }: Folded): PathChange {
  const kind = before.kind === 'absent' ? 'created' : after.kind === 'absent' ? 'deleted' : 'modified';
  return { path, kind, before, after, ...(incomplete ? { incomplete } : {}) };
}

/** A change as callers see it. */
export function publicChange({ before, after, ...change }: PathChange): ChangeSummary {
  return { ...change, before: publicVersion(before), after: publicVersion(after) };
}

export interface ChangeCounts {
  readonly created: number;
  readonly modified: number;
  readonly deleted: number;
}

export function countChanges(changes: readonly PathChange[]): ChangeCounts {
  const count = (kind: PathChange['kind']): number => changes.filter((change) => change.kind === kind).length;
  return { created: count('created'), modified: count('modified') + count('moved'), deleted: count('deleted') };
}
