/**
 * Files that a delete would lose though the session did not make them: what it moved out of an uncovered path (a secret,
 * an ignored file, something outside the root). Their bytes may exist nowhere else, so a plan refuses to delete them.
 *
 * Three signs: the inode stood at a path that was uncovered at the boundary; a file of that path's size appeared in
 * the observation in which it went; or the file is older than the call that it appeared in (birth time), and no
 * covered file that went away accounts for it. Not covered: file systems without birth times have the first two only.
 */
import { lstat } from 'node:fs/promises';
import type { Peek } from '../backend/backend.ts';
import type { AttributedRow } from '../model/types.ts';
import { encodeName } from '../rel-path.ts';
import type { CallRecord } from '../timeline/timeline.ts';
import type { RelPath, Version } from '../types.ts';
import type { Engine } from './engine.ts';

/** File times are stamped by a coarse clock; a file this much older than its call was there before it. Milliseconds. */
const MARGIN_MS = 100;

export interface MovedInQuestion {
  /** After the boundary, oldest first. */
  readonly rows: readonly AttributedRow[];
  readonly peeks: readonly Peek[];
  readonly calls: readonly CallRecord[];
}

/** Inodes that must not be deleted. */
export async function movedInInodes(engine: Engine, { rows, peeks, calls }: MovedInQuestion): Promise<Set<bigint>> {
  const first = new Map<RelPath, AttributedRow>();
  for (const row of rows) if (!first.has(row.path)) first.set(row.path, row);
  const inodes = new Set<bigint>();
  const lost = new Map<number, Set<number>>();
  for (const { before, after, seq } of first.values()) {
    if (before.kind !== 'uncovered') continue;
    inodes.add(before.stat.ino);
    if (after.kind === 'absent') lost.set(seq, (lost.get(seq) ?? new Set()).add(before.stat.size));
  }
  const began = new Map(calls.map((call) => [call.invocation, call.beganAt]));
  const made: { peek: Peek; row: AttributedRow }[] = [];
  for (const peek of peeks) {
    const row = first.get(peek.path);
    if (row === undefined || row.before.kind !== 'absent' || peek.version.kind !== 'file') continue;
    if (row.after.kind === 'file' && lost.get(row.seq)?.has(row.after.size)) inodes.add(peek.ino);
    else if (peek.nlink === 1) made.push({ peek, row });
  }
  const areOlder = await Promise.all(made.map(({ peek, row }) => isOlder(engine, peek, beganBy(row, began))));
  const older = made.filter((_, i) => areOlder[i]);
  for (const { peek } of unaccounted(older, rows)) inodes.add(peek.ino);
  return inodes;
}

function beganBy(row: AttributedRow, began: ReadonlyMap<number, number>): number | null {
  const times = row.candidates.flatMap((invocation) => began.get(invocation) ?? []);
  return times.length === 0 ? null : Math.min(...times);
}

async function isOlder(engine: Engine, peek: Peek, beganAt: number | null): Promise<boolean> {
  if (beganAt === null) return false;
  try {
    const stat = await lstat(encodeName(`${engine.layout.root}/${peek.path}`), { bigint: true });
    return stat.ino === peek.ino && stat.birthtimeNs > 0n && stat.birthtimeMs < BigInt(beganAt - MARGIN_MS);
  } catch {
    // Gone or out of reach: the guard will see what is there.
    return false;
  }
}

/**
 * Those left when each covered file that went away was taken for one: by its bytes, then by its name, then by count; and
 * each that was replaced where it stood (moved aside and written anew), by its bytes alone: most of these never moved.
 */
function unaccounted<T extends { row: AttributedRow }>(older: readonly T[], rows: readonly AttributedRow[]): T[] {
  if (older.length === 0) return [];
  const lost = rows.filter((row) => row.before.kind === 'file' && row.candidates.length > 0);
  const gone = lost.filter((row) => row.after.kind === 'absent');
  const replaced = lost.filter((row) => row.after.kind !== 'absent' && !sameContent(row.before, row.after));
  const take = (from: AttributedRow[], fits: (row: AttributedRow) => boolean): boolean => {
    const at = from.findIndex(fits);
    if (at >= 0) from.splice(at, 1);
    return at >= 0;
  };
  const unlike = older.filter(({ row }) => {
    const fits = (from: AttributedRow): boolean => sameContent(from.before, row.after);
    return !take(gone, fits) && !take(replaced, fits);
  });
  const unnamed = unlike.filter(({ row }) => !take(gone, (from) => baseName(from.path) === baseName(row.path)));
  return unnamed.slice(gone.length);
}

function sameContent(a: Version, b: Version): boolean {
  return a.kind === 'file' && b.kind === 'file' && a.content === b.content;
}

function baseName(path: RelPath): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
