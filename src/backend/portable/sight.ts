/**
 * Whether the files and folders in one folder are all as the index has them: the innermost loop of a portable scan, for two threads.
 *
 * Stats with numbers, not big integers: they cost less to make. A time in milliseconds is told apart from another to a quarter of a
 * microsecond then; that is enough here, because a key that is trusted is older by a tick (10 ms and more) than the look
 * that took it, so that whatever happens to the file later moves its ctime by more than that. All else is exact.
 */
import { lstatSync } from 'node:fs';
import type { FileKind, StatKey } from '../../types.ts';

/** Of each file: ctime, mtime (ms), size, inode, device, mode. */
const FIELDS = 6;
const TYPES: Partial<Record<FileKind, number>> = { file: 0o100000, dir: 0o040000 };
const MODE = 0o170777;
const OPTIONS = { bigint: false, throwIfNoEntry: false } as const;

/** Files and folders in one folder that are plainly covered, with their stat keys. */
export interface Sight {
  /** Absolute, with a slash at its end. */
  readonly folder: string;
  readonly names: readonly string[];
  readonly keys: Float64Array;
}

/** As Node makes them: from seconds and nanoseconds. */
function milliseconds(ns: bigint): number {
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  return Number((ns - rest) / 1_000_000_000n) * 1000 + Number(rest) / 1_000_000;
}

/** Null where a number can't hold an inode or a device exactly, or a name is no text. */
export function sightOf(root: string, path: string, known: readonly { name: string; stat: StatKey }[]): Sight | null {
  const top = root.endsWith('/') ? root : `${root}/`;
  const folder = path === '' ? top : `${top}${path}/`;
  const keys = new Float64Array(known.length * FIELDS);
  let at = 0;
  for (const { name, stat } of known) {
    const key = [Number(stat.ino), Number(stat.dev)];
    const type = TYPES[stat.kind];
    if (type === undefined || !key.every(Number.isSafeInteger) || !name.isWellFormed()) return null;
    keys.set([milliseconds(stat.ctimeNs), milliseconds(stat.mtimeNs), stat.size, ...key, type | stat.mode], at);
    at += FIELDS;
  }
  return folder.isWellFormed() ? { folder, names: known.map(({ name }) => name), keys } : null;
}

/** Each is there and as it was. False also where one can't be looked at. */
export function isAsKnown({ folder, names, keys }: Sight): boolean {
  let at = 0;
  try {
    for (const name of names) {
      const stat = lstatSync(folder + name, OPTIONS);
      if (
        stat === undefined ||
        stat.ctimeMs !== keys[at] ||
        stat.mtimeMs !== keys[at + 1] ||
        stat.size !== keys[at + 2] ||
        stat.ino !== keys[at + 3] ||
        stat.dev !== keys[at + 4] ||
        (stat.mode & MODE) !== keys[at + 5]
      )
        return false;
      at += FIELDS;
    }
  } catch {
    return false; // the scan looks by itself, and says what is wrong
  }
  return true;
}

/** What two threads share: numbers that both move, and of each sight whether it is one and what was found. */
export interface Board {
  /** See `Slot`. */
  readonly control: Int32Array;
  readonly alive: Uint8Array;
  readonly verdicts: Uint8Array;
}

export const Slot = { next: 0, count: 1, inside: 2 } as const;
export const Verdict = { unknown: 0, same: 1, differs: 2 } as const;
const CHUNK = 8;

export function boardOf(buffer: SharedArrayBuffer, capacity: number): Board {
  return {
    control: new Int32Array(buffer, 0, 3),
    alive: new Uint8Array(buffer, 12, capacity),
    verdicts: new Uint8Array(buffer, 12 + capacity, capacity),
  };
}

export const boardBytes = (capacity: number): number => 12 + 2 * capacity;

/** Takes sights off the board, a few at a time, until there are none; `check` may throw in between. */
export function glance(board: Board, sights: readonly (Sight | undefined)[], check: () => void): void {
  const { control, alive, verdicts } = board;
  for (;;) {
    const from = Atomics.add(control, Slot.next, CHUNK);
    const end = Math.min(from + CHUNK, Atomics.load(control, Slot.count));
    if (from >= end) return;
    check();
    for (let i = from; i < end; i++) {
      const sight = sights[i];
      if (alive[i] === 1 && sight !== undefined) verdicts[i] = isAsKnown(sight) ? Verdict.same : Verdict.differs;
    }
  }
}
