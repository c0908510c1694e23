/**
 * Who a process is, so that another one can tell later whether it is gone; a process id alone comes again.
 *
 * Linux gives a start time and a boot id; elsewhere both are unknown and only a missing process id proves anything. Not
 * covered: two containers of one kernel that share a host name, a machine id and a data directory (their process ids
 * mean different processes).
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { CallOwner } from './timeline/timeline.ts';

/** Field 22 of /proc/<pid>/stat, counted from the field after the command's name. */
const START_TIME_FIELD = 22 - 3;

/** The text of a file, or '' where it can't be read: what is unknown proves nothing. */
function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** The command's name may hold spaces and parentheses, so the fields count from its last `)`. */
function statFields(pid: number | 'self'): string[] {
  const stat = readOr(`/proc/${pid}/stat`);
  return stat === '' ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** This process. Reads three small files: a caller keeps the answer. */
export function currentOwner(): CallOwner {
  const machineId = readOr('/etc/machine-id') || readOr('/var/lib/dbus/machine-id');
  return {
    pid: process.pid,
    startTime: Number(statFields('self')[START_TIME_FIELD] ?? 0),
    bootId: readOr('/proc/sys/kernel/random/boot_id').trim(),
    hostId: createHash('sha256').update(`${hostname()}\n${machineId.trim()}`).digest('hex').slice(0, 16),
  };
}

/**
 * True where it is certain that the process of `owner` has ended. False for another host's, of which nothing is known.
 *
 * @param here the process that asks, as {@link currentOwner} gave it
 */
export function ownerGone(owner: CallOwner, here: CallOwner = currentOwner()): boolean {
  if (owner.hostId !== here.hostId) return false;
  if (owner.bootId !== here.bootId) return owner.bootId !== '' && here.bootId !== '';
  if (owner.pid === here.pid && owner.startTime === here.startTime) return false;
  if (!exists(owner.pid)) return true;
  const fields = statFields(owner.pid);
  const [state] = fields;
  // A zombie does nothing any more; only its parent has not looked yet.
  if (state === 'Z' || state === 'X') return true;
  const startTime = Number(fields[START_TIME_FIELD] ?? 0);
  return owner.startTime !== 0 && startTime !== 0 && owner.startTime !== startTime;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: another user's process.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
