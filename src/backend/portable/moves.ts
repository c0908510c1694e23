/**
 * Moves that inodes prove: a covered file or link that is gone, and one that came, are the same inode.
 *
 * A number alone proves nothing, since file systems give it again at once. Birth times do: what was born at or before
 * the change time under which the index saw the old path is what stood there, because another inode of that number
 * can only have been born after that look. Where there are no birth times, size and modification time must be the
 * old ones, so that a move with an edit is not found there. Folders and special files are left to themselves.
 */
import { lstatSync } from 'node:fs';
import { type Change, type RelPath, RowFlag, type StatKey, type Version } from '../../types.ts';
import type { MovedPath } from '../backend.ts';
import type { ChangeSet } from './change-set.ts';
import { fsPath, statKey } from './coverage.ts';
import { type Entry, EntryFlag, type IndexTree } from './index.ts';

interface Gone {
  readonly path: RelPath;
  readonly entry: Entry;
  readonly stat: StatKey;
}

/** The moves of a set, by new path. Looks at the disk for few paths: those whose number was at a path that is gone. */
export function provenMoves(set: ChangeSet, index: IndexTree, root: string): MovedPath[] {
  const changes = set.changes().filter(({ flags }) => (flags & (RowFlag.coverage | RowFlag.late)) === 0);
  const gone = goneByIdentity(changes, index);
  const moves: MovedPath[] = [];
  for (const { path, before, after } of gone.size === 0 ? [] : changes) {
    const now = set.drafts.get(path)?.stat;
    if (before.kind !== 'absent' || !mayMove(after) || now === undefined) continue;
    const sources = gone.get(identity(now));
    const born = sources === undefined ? null : birthOf(root, path, now);
    if (sources === undefined || born === null) continue;
    const proven = sources.filter((source) => !isAnother(source, now, born));
    const source = proven.find(({ path: from }) => baseName(from) === baseName(path)) ?? proven[0];
    if (source === undefined) continue;
    gone.set(
      identity(now),
      proven.filter((other) => other !== source),
    );
    moves.push({ from: source.path, to: path });
  }
  return moves;
}

function goneByIdentity(changes: readonly Change[], index: IndexTree): Map<string, Gone[]> {
  const gone = new Map<string, Gone[]>();
  for (const { path, before, after } of changes) {
    const entry = index.find(path);
    const stat = entry?.stat ?? null;
    if (after.kind !== 'absent' || !mayMove(before) || entry === undefined || stat === null || stat.ino === 0n)
      continue;
    const list = gone.get(identity(stat));
    if (list === undefined) gone.set(identity(stat), [{ path, entry, stat }]);
    else list.push({ path, entry, stat });
  }
  return gone;
}

function mayMove(version: Version): boolean {
  return version.kind === 'file' || version.kind === 'symlink';
}

function identity({ dev, ino, kind }: StatKey): string {
  return `${dev} ${ino} ${kind}`;
}

function baseName(path: RelPath): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The inode of that number is another one than the index saw. `born` is 0 where the file system has no birth times. */
export function isAnother({ entry, stat }: Omit<Gone, 'path'>, now: StatKey, born: bigint): boolean {
  const settled = (entry.flags & EntryFlag.untrusted) === 0;
  if (born === 0n) {
    const same = now.mtimeNs === stat.mtimeNs && now.size === stat.size && now.ctimeNs >= stat.ctimeNs;
    return !settled || !same;
  }
  // Where it was not settled, something may have happened in the tick in which it was seen.
  return settled ? born > stat.ctimeNs : born >= stat.ctimeNs;
}

/** Nanoseconds; 0 where the file system has none, null where something else is at the path by now. */
function birthOf(root: string, path: RelPath, seen: StatKey): bigint | null {
  try {
    const stat = lstatSync(fsPath(root, path), { bigint: true, throwIfNoEntry: false });
    if (stat === undefined || identity(statKey(stat)) !== identity(seen)) return null;
    return stat.birthtimeNs > 0n ? stat.birthtimeNs : 0n;
  } catch {
    return null;
  }
}
