/** How busy others keep the machine: its cores' time, less that of this process and its children that have ended. Linux only. */
import { readFileSync } from 'node:fs';

/** Of the first line of /proc/stat: user, nice, system, irq, softirq, steal. */
const BUSY = [1, 2, 3, 6, 7, 8];
/** Of /proc/self/stat, behind the name: utime, stime, cutime, cstime. */
const OWN = [11, 12, 13, 14];
/** Both count in these, in practice everywhere. */
const TICKS_A_SECOND = 100;

/** Null where it can't be told. */
export function busyNow() {
  try {
    const machine = readFileSync('/proc/stat', 'latin1').split('\n', 1)[0].split(/\s+/);
    const self = readFileSync('/proc/self/stat', 'latin1');
    const own = self.slice(self.lastIndexOf(')') + 2).split(' ');
    const sum = (fields, places) => places.reduce((total, place) => total + Number(fields[place]), 0);
    return { at: performance.now(), ticks: sum(machine, BUSY) - sum(own, OWN) };
  } catch (fault) {
    if (fault.code === 'ENOENT') return null;
    throw fault;
  }
}

/** Cores that others used since `before`, on average; null where it can't be told. */
export function othersSince(before) {
  const now = busyNow();
  if (before === null || now === null) return null;
  const seconds = (now.at - before.at) / 1000;
  return Math.max(0, (now.ticks - before.ticks) / TICKS_A_SECOND / seconds);
}
