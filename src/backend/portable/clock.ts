/**
 * The file system's own now, for the racy rule of DESIGN §4.1: an entry that was changed within a tick of it proves
 * nothing. Taken from an unnamed file in the root, else from a file in the scratch folder if that is on the same device.
 */
import { closeSync, fstatSync, openSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Linux: O_TMPFILE with O_DIRECTORY, for writing. */
const UNNAMED_FILE = 0o20200000 | 2;
const TICK_NS = 10_000_000n;
/** Where stamps have whole seconds only. */
const SECONDS_TICK_NS = 2_000_000_000n;

export interface FsNow {
  readonly ns: bigint;
  readonly tickNs: bigint;
}

function stampOf(fd: number): { ns: bigint; dev: bigint } {
  try {
    const stat = fstatSync(fd, { bigint: true });
    return { ns: stat.mtimeNs, dev: stat.dev };
  } finally {
    closeSync(fd);
  }
}

function unnamedStamp(root: string): bigint | null {
  if (process.platform !== 'linux') return null;
  try {
    return stampOf(openSync(root, UNNAMED_FILE, 0o600)).ns;
  } catch {
    return null; // another file system, or a root that can't be written: the scratch folder is next
  }
}

function scratchStamp(root: string, scratchDir: string): bigint | null {
  const file = join(scratchDir, `clock-${process.pid}-${process.hrtime.bigint()}`);
  try {
    const stamp = stampOf(openSync(file, 'wx', 0o600));
    unlinkSync(file);
    return stamp.dev === statSync(root, { bigint: true }).dev ? stamp.ns : null;
  } catch {
    return null;
  }
}

/** Null: this file system's clock can't be read, and no stat key is to be trusted. */
export function fsNow(root: string, scratchDir: string): FsNow | null {
  const ns = unnamedStamp(root) ?? scratchStamp(root, scratchDir);
  if (ns === null) return null;
  return { ns, tickNs: ns % 1_000_000_000n === 0n ? SECONDS_TICK_NS : TICK_NS };
}

/** Whether a stat key with these stamps proves nothing. */
export function isRacy(stat: { mtimeNs: bigint; ctimeNs: bigint }, now: FsNow | null): boolean {
  if (now === null) return true;
  return stat.mtimeNs + now.tickNs > now.ns || stat.ctimeNs + now.tickNs > now.ns;
}
