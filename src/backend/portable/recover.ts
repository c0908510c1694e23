/**
 * Ends an operation whose owner died, to exactly the old tree (`rollback`) or the new one (`complete`).
 *
 * Nothing is remembered but the journal: each path's state is read off the disk, by inode and hash, from three places:
 * the path, its temp name, its name in the trash. So recovery can itself be killed at any moment and run again. It moves
 * paths under the same guard as `apply`, `from` (what the operation left there) to `to` (what shall stand there). A path
 * that is neither stays as it is, and is reported.
 *
 * What came out of a path is preferred to bytes from the store: it is the same inode, with its times and attributes.
 */
import { comparePaths, touchesGit } from '../../rel-path.ts';
import { ABSENT, type Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import type { RecoverOutcome } from '../backend.ts';
import type { WorkHooks } from './faults.ts';
import { changeMode, nameOf, putBack, type Spot, type Supply } from './guard.ts';
import type { JournalEntry, StoredJournal } from './journal.ts';
import type { Seen } from './observe.ts';
import type { FolderId } from './resolve.ts';
import { type DirVersion, type FileVersion, MAKING, type Steps } from './steps.ts';
import { asStop, refusedFor, Stop } from './stop.ts';

type State = RecoverOutcome['paths'][number]['state'];

interface Task extends JournalEntry {
  readonly index: number;
  readonly from: Version;
  readonly to: Version;
  /** Inode of the temp file, where it was made durable. */
  readonly temp: FolderId | undefined;
  state?: State;
  detail?: string;
  /** A fault that another try may not meet: the journal stays. */
  failed?: boolean;
}

const UNMADE: DirVersion = { kind: 'dir', mode: MAKING };

export class Recovery {
  readonly #steps: Steps;
  readonly #journal: StoredJournal;
  readonly #hooks: WorkHooks;
  readonly #rollback: boolean;
  /** In path order. */
  readonly #tasks: readonly Task[];

  constructor(
    steps: Steps,
    journal: StoredJournal,
    { mode, hooks }: { mode: 'rollback' | 'complete'; hooks: WorkHooks },
  ) {
    this.#steps = steps;
    this.#journal = journal;
    this.#hooks = hooks;
    this.#rollback = mode === 'rollback';
    const tasks = journal.entries.map((entry, index): Task => {
      const [from, to] = this.#rollback ? [entry.target, entry.expect] : [entry.expect, entry.target];
      return { ...entry, index, from, to, temp: journal.prepared?.get(index) };
    });
    this.#tasks = tasks.sort((a, b) => comparePaths(a.path, b.path));
  }

  /** False where a path met a fault: the journal must stay for another try. */
  get complete(): boolean {
    return this.#tasks.every((task) => task.failed !== true);
  }

  run(): RecoverOutcome['paths'] {
    const deepestFirst = [...this.#tasks].reverse();
    // An apply refused it, so there is nothing to end; a journal that says otherwise isn't believed.
    for (const task of this.#tasks) if (touchesGit(task.path)) this.#foreign(task, 'nothing is ever written to a .git');
    this.#each(this.#tasks, (task) => this.#settleTemp(task));
    this.#each(deepestFirst, (task) => this.#remove(task));
    this.#each(this.#tasks, (task) => this.#makeDir(task));
    this.#each(this.#tasks, (task) => this.#place(task));
    this.#each(deepestFirst, (task) => this.#setMode(task));
    for (const task of this.#tasks) this.#tidy(task);
    this.#steps.forgetParent();
    if (this.#journal.durability === 'full') this.#steps.syncTouched();
    return this.#tasks.map(({ path, state, detail }) => ({
      path,
      state: state ?? 'neither',
      ...(detail === undefined ? {} : { detail }),
    }));
  }

  #each(tasks: readonly Task[], step: (task: Task) => void): void {
    for (const [done, task] of tasks.entries()) {
      if (task.state !== undefined) continue;
      try {
        step(task);
      } catch (error) {
        const stop = asStop(error);
        task.state = 'neither';
        task.detail = stop.message === '' ? stop.reason : `${stop.reason}: ${stop.message}`;
        task.failed = ['no-space', 'permission-denied', 'io-error'].includes(stop.reason);
      }
      this.#hooks.progress({ phase: 'apply', done: done + 1, total: tasks.length });
    }
  }

  /** A finished temp file that was kept for a path which somebody else changed. */
  #tidy(task: Task): void {
    if (task.temp === undefined || task.failed) return;
    try {
      this.#steps.clearTemp(task.path, task, task.temp);
    } catch (error) {
      task.failed = true;
      task.detail = `a temp file was left: ${asStop(error).message}`;
    }
  }

  #reached(task: Task): void {
    task.state = this.#rollback ? 'old' : 'new';
  }

  #foreign(task: Task, detail: string): void {
    task.state = 'neither';
    task.detail = detail;
  }

  /** What came out of the path and is kept, or null. */
  #kept(task: Task): { spot: Spot; seen: Seen } | null {
    const spot = this.#steps.trash.find(task.trashName);
    return spot === null ? null : { spot, seen: this.#steps.look(spot) };
  }

  /** True where the temp name's inode is the one that the operation wrote, or was still writing. */
  #isOurTemp(task: Task, seen: Seen): boolean {
    if (seen.version.kind === 'symlink') return sameVersion(seen.version, task.target);
    if (this.#journal.prepared === null) return true;
    return task.temp !== undefined && task.temp.ino === seen.ino;
  }

  /**
   * Leaves under the temp name nothing, or (to complete) the finished temp file. After an exchange of the native backend
   * what came out stands there: it goes where it belongs, to the trash, or back if it is not what was expected.
   */
  #settleTemp(task: Task): void {
    const seen = this.#steps.lookAt(task.path, task.tempName);
    if (seen.version.kind === 'absent') return;
    const here = this.#steps.lookAt(task.path);
    const finished = this.#journal.prepared !== null && sameVersion(seen.version, task.target);
    if (this.#isOurTemp(task, seen) && (finished || this.#journal.prepared === null)) {
      if (this.#rollback || !finished || here.ino === seen.ino)
        this.#steps.hand.sys.unlink(nameOf(this.#steps.spot(task.path, task.tempName)));
      return;
    }
    const temp = this.#steps.spot(task.path, task.tempName);
    if (!sameVersion(seen.version, task.expect) && sameVersion(here.version, task.target)) {
      this.#steps.move(task.path, {
        expect: task.target,
        target: ABSENT,
        supply: null,
        aside: this.#steps.trash.free(task.trashName),
      });
      putBack(this.#steps.hand, temp, this.#steps.spot(task.path));
      return;
    }
    this.#steps.touch(task.path);
    this.#steps.hand.sys.rename(nameOf(temp), nameOf(this.#steps.trash.free(task.trashName)));
  }

  /** Removals, and what must go before a folder can come or after it went. Deepest first. */
  #remove(task: Task): void {
    const { path, from, to } = task;
    if (from.kind === 'absent' || (from.kind === 'dir' && to.kind === 'dir')) return;
    if (to.kind !== 'absent' && to.kind !== 'dir' && from.kind !== 'dir') return;
    const here = this.#steps.lookAt(path).version;
    if (from.kind === 'dir') {
      const unmade = this.#rollback && sameVersion(here, UNMADE);
      if (unmade || sameVersion(here, from)) this.#steps.removeDir(path, here as DirVersion, 'refused');
    } else if (sameVersion(here, from)) {
      this.#steps.move(path, {
        expect: from,
        target: ABSENT,
        supply: null,
        aside: this.#steps.trash.free(task.trashName),
      });
    }
    if (to.kind !== 'absent' || this.#steps.lookAt(path).version.kind !== 'absent') return;
    const kept = this.#rollback ? null : this.#kept(task);
    if (kept === null || sameVersion(kept.seen.version, from)) this.#reached(task);
    else this.#fillGap(task);
  }

  #makeDir(task: Task): void {
    const { path, from, to } = task;
    if (to.kind !== 'dir' || from.kind === 'dir') return;
    if (this.#steps.lookAt(path).version.kind !== 'absent' || !this.#isGap(task)) return;
    const kept = this.#rollback ? this.#kept(task) : null;
    if (kept !== null && sameVersion(kept.seen.version, to))
      putBack(this.#steps.hand, kept.spot, this.#steps.spot(path));
    else this.#steps.makeDir(path);
  }

  /** True where the path is absent by the operation's doing, not by somebody else's. */
  #isGap(task: Task): boolean {
    if (task.expect.kind === 'absent' || task.expect.kind === 'dir') return true;
    const kept = this.#kept(task);
    return kept !== null && sameVersion(kept.seen.version, task.expect);
  }

  /** Files, symlinks and special files come to their places. */
  #place(task: Task): void {
    const { path, from, to } = task;
    if (to.kind === 'dir') return;
    const here = this.#steps.lookAt(path);
    if (sameVersion(here.version, to)) {
      this.#steps.clearTemp(path, task, task.temp ?? task.target);
      this.#reached(task);
    } else if (here.version.kind === 'absent' && from.kind !== 'absent') this.#fillGap(task);
    else if (here.version.kind === 'absent' && to.kind !== 'absent') this.#fillGap(task);
    else if (sameVersion(here.version, from)) this.#replace(task, from);
    else throw refusedFor(here.version, 'somebody else changed it');
  }

  #fillGap(task: Task): void {
    const kept = this.#kept(task);
    if (kept !== null && (this.#rollback || !sameVersion(kept.seen.version, task.expect))) {
      this.#steps.touch(task.path);
      const back = putBack(this.#steps.hand, kept.spot, this.#steps.spot(task.path));
      if (back && sameVersion(kept.seen.version, task.expect) && this.#rollback) this.#reached(task);
      else
        this.#foreign(
          task,
          back
            ? 'somebody else changed it; it was put back'
            : `what was there is kept as ${kept.spot.leaf} in the trash`,
        );
      return;
    }
    if (!this.#isGap(task) || (this.#rollback && task.expect.kind !== 'absent')) {
      this.#foreign(task, 'somebody else removed it');
      return;
    }
    this.#replace(task, ABSENT);
  }

  #replace(task: Task, from: Version): void {
    const { path, to } = task;
    this.#steps.touch(path);
    if (from.kind === 'file' && to.kind === 'file' && from.content === to.content) {
      changeMode(this.#steps.hand, this.#steps.spot(path), from, to.mode);
    } else {
      const kept = this.#rollback ? this.#kept(task) : null;
      if (kept !== null && sameVersion(kept.seen.version, to)) this.#returnKept(task, kept);
      else {
        const supply = this.#supply(task, to);
        this.#steps.move(path, { expect: from, target: to, supply, aside: this.#steps.trash.free(task.trashName) });
        if (supply.kind === 'inode') this.#steps.clearTemp(path, task, supply.id);
      }
    }
    this.#reached(task);
  }

  /** Puts the inode back that came out; ours goes to the trash in its stead. */
  #returnKept(task: Task, kept: { spot: Spot; seen: Seen }): void {
    const { path, from, to } = task;
    const aside = this.#steps.spot(path, task.tempName);
    const supply: Supply = { kind: 'inode', spot: kept.spot, id: kept.seen };
    this.#steps.move(path, { expect: from, target: to, supply, aside });
    this.#steps.hand.sys.unlink(nameOf(kept.spot));
    this.#steps.hand.sys.rename(nameOf(aside), nameOf(kept.spot));
  }

  /** From the finished temp file where there is one, else from the store. */
  #supply(task: Task, to: Version): Supply {
    const { path, tempName } = task;
    const spot = this.#steps.spot(path, tempName);
    if (to.kind === 'symlink') return { kind: 'symlink', target: to.target, spot };
    if (to.kind !== 'file') throw new Stop('refused', 'unsupported', { detail: `a ${to.kind} can't be made again` });
    const there = this.#steps.look(spot);
    if (sameVersion(there.version, to)) return { kind: 'inode', spot, id: there };
    const { id } = this.#steps.writeTemp(path, tempName, to as FileVersion);
    return { kind: 'inode', spot: this.#steps.spot(path, tempName), id };
  }

  #setMode(task: Task): void {
    const { path, from, to } = task;
    if (to.kind !== 'dir') return;
    const here = this.#steps.lookAt(path).version;
    const ours = (from.kind === 'dir' && sameVersion(here, from)) || (from.kind !== 'dir' && sameVersion(here, UNMADE));
    if (!sameVersion(here, to)) {
      if (!ours) throw refusedFor(here, 'somebody else changed it');
      this.#steps.setDirMode(path, here as DirVersion, to.mode);
    }
    this.#reached(task);
  }
}

/** Clears the temp names of an operation that is in the timeline. */
export function finishOperation(steps: Steps, journal: StoredJournal): void {
  for (const [index, entry] of journal.entries.entries()) {
    const temp = journal.prepared?.get(index);
    try {
      steps.clearTemp(entry.path, entry, temp ?? (journal.prepared === null ? 'any' : entry.target));
    } catch (error) {
      // A folder that the operation itself may have closed to us, after its temp names were cleared.
      if (asStop(error).reason !== 'permission-denied') throw error;
    }
  }
}
