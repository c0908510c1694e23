/**
 * Names of segments, and whether their writer still lives. `<pid>-<starttime>-<8 hex>.seg`; a writer that is done renames
 * its segment to pid 0, which is nobody.
 *
 * Where there is no /proc, a pid alone decides; then a pid that was given to another process keeps a segment from being
 * collected for as long as that process runs. Processes of other machines can't be told from dead ones.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { errnoOf } from './faults.ts';

const SEGMENT_NAME = /^(\d{1,10})-(\d{1,20})-([0-9a-f]{8})\.seg$/;

export interface Writer {
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat; 0 where unknown. */
  readonly startTime: bigint;
}

/** Start time of a process in clock ticks since boot; 0 where there is no /proc, null where there is no such process. */
export function startTimeOf(pid: number): bigint | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || procIsThere()) return null;
    return 0n;
  }
  // The command may hold spaces and parentheses; field 3 follows its last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return BigInt(fields[19] ?? 0);
}

function procIsThere(): boolean {
  try {
    readFileSync('/proc/self/stat');
    return true;
  } catch {
    return false;
  }
}

/** True where the process that a name or a journal tells of still runs. */
export function isAlive(writer: Writer): boolean {
  if (writer.pid === 0) return false;
  const startTime = startTimeOf(writer.pid);
  if (startTime === null) return false;
  if (startTime !== 0n) return writer.startTime === 0n || startTime === writer.startTime;
  try {
    process.kill(writer.pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) === 'EPERM';
  }
}

export function newSegmentName(): string {
  return `${process.pid}-${startTimeOf(process.pid) ?? 0n}-${randomBytes(4).toString('hex')}.seg`;
}

/** A name for a segment that nobody writes to any more. Never one that it had before: readers know such a segment whole. */
export function sealedName(): string {
  return `0-0-${randomBytes(4).toString('hex')}.seg`;
}

/** True for a segment that its writer closed. */
export function isSealed(name: string): boolean {
  return writerOf(name)?.pid === 0;
}

/** The writer that a segment's name tells of, or null where it is no segment's name. */
export function writerOf(name: string): Writer | null {
  const match = SEGMENT_NAME.exec(name);
  return match === null ? null : { pid: Number(match[1]), startTime: BigInt(match[2] as string) };
}
