/**
 * What the root's file system can do, found by trying in the scratch folder: never a file in the root. Where the scratch
 * folder is on another device, what can be read off the root itself is, and the rest is taken for usual: a link that
 * then fails is a failed path, not a lost one.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Abilities } from '../backend.ts';
import { doing, errnoOf } from './faults.ts';
import type { Walker } from './resolve.ts';

const TICK_NS = 10_000_000n;
/** For file systems that keep whole seconds, or two (vfat). */
const COARSE_TICK_NS = 2_000_000_000n;
/** Long enough for the kernel's coarse clock to move. */
const CTIME_WAIT_MS = 40;

type Probed = Pick<Abilities, 'noReplace' | 'reflink' | 'caseFolding' | 'execBit' | 'symlinks' | 'ctime' | 'tickNs'>;

function works(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

function fails(errno: string, act: () => void): boolean {
  try {
    act();
    return false;
  } catch (error) {
    return errnoOf(error) === errno;
  }
}

function swapCase(name: string): string {
  return name.replace(/[a-z]/gi, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase()));
}

function stat(file: string): fs.BigIntStats {
  return fs.lstatSync(file, { bigint: true });
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Whether a rewrite whose mtime is put back still moves ctime. */
function movesCtime(file: string, coarse: boolean): boolean {
  const old = new Date(1_000_000_000_000);
  fs.utimesSync(file, old, old);
  const before = stat(file);
  // With whole seconds a move can't be waited for; then ctime must at least not be what utimes set.
  if (coarse) return before.ctimeNs - before.mtimeNs > COARSE_TICK_NS;
  for (let waited = 0; waited <= CTIME_WAIT_MS; waited += 5) {
    fs.writeFileSync(file, 'b');
    fs.utimesSync(file, old, old);
    if (stat(file).ctimeNs !== before.ctimeNs) return true;
    sleep(5);
  }
  return false;
}

function probeIn(dir: string): Probed {
  const at = (name: string): string => join(dir, name);
  fs.writeFileSync(at('file'), 'a', { mode: 0o600 });
  fs.writeFileSync(at('other'), 'a', { mode: 0o600 });
  const coarse = ['file', 'other', ''].every((name) => stat(at(name)).mtimeNs % 1_000_000_000n === 0n);
  const modeAfter = (mode: number): number => {
    fs.chmodSync(at('file'), mode);
    return fs.statSync(at('file')).mode & 0o777;
  };
  return {
    noReplace:
      works(() => fs.linkSync(at('file'), at('linked'))) && fails('EEXIST', () => fs.linkSync(at('file'), at('other'))),
    reflink: works(() => fs.copyFileSync(at('file'), at('clone'), fs.constants.COPYFILE_FICLONE_FORCE)),
    caseFolding: fs.existsSync(at('FILE')),
    execBit: modeAfter(0o700) === 0o700 && modeAfter(0o600) === 0o600,
    symlinks: works(() => fs.symlinkSync('file', at('symlink'))),
    ctime: movesCtime(at('file'), coarse),
    tickNs: coarse ? COARSE_TICK_NS : TICK_NS,
  };
}

/** Without a file of ours on that device. */
function readOff(walker: Walker): Probed {
  const root = walker.openRoot();
  try {
    const names = fs.readdirSync(root.self, { encoding: 'buffer' }).slice(0, 100);
    const stats = names.map((name) => fs.lstatSync(root.at(name), { bigint: true, throwIfNoEntry: false }));
    const stamps = [fs.lstatSync(root.at(Buffer.from('.')), { bigint: true }), ...stats].flatMap((s) =>
      s ? [s.mtimeNs, s.ctimeNs] : [],
    );
    const folded = names.some((name, i) => {
      const swapped = swapCase(name.toString('latin1'));
      if (swapped === name.toString('latin1') || names.some((other) => other.toString('latin1') === swapped))
        return false;
      const other = fs.lstatSync(root.at(Buffer.from(swapped, 'latin1')), { bigint: true, throwIfNoEntry: false });
      return other !== undefined && other.ino === stats[i]?.ino;
    });
    const tickNs = stamps.every((ns) => ns % 1_000_000_000n === 0n) ? COARSE_TICK_NS : TICK_NS;
    const unix = process.platform !== 'win32';
    return { noReplace: true, reflink: false, caseFolding: folded, execBit: unix, symlinks: unix, ctime: unix, tickNs };
  } finally {
    root.close();
  }
}

export function probe(walker: Walker, scratchDir: string): Abilities {
  return doing(`can't probe the file system in ${scratchDir}`, () => {
    fs.mkdirSync(scratchDir, { recursive: true, mode: 0o700 });
    let probed: Probed;
    if (stat(scratchDir).dev === walker.root.dev) {
      const dir = fs.mkdtempSync(join(scratchDir, 'probe-'));
      try {
        probed = probeIn(dir);
      } finally {
        fs.rmSync(dir, { recursive: true });
      }
    } else probed = readOff(walker);
    const guard = probed.noReplace ? 'take-out+link' : 'refuse';
    return { walk: walker.walk, exchange: false, lease: false, guard, ...probed };
  });
}
