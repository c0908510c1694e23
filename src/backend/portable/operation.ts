/**
 * One run of `apply`: the entries as jobs, in the order of DESIGN §7. A job that fails keeps its reason and the rest runs
 * on; what it had taken out is put back. Until the first swap a cancelled run puts everything back.
 *
 * Order: removals and type changes, deepest first; folders, top down; temp files, each synced; their inodes into the
 * journal; swaps; folder modes, deepest first; touched folders synced.
 */
import { comparePaths, isBadPath, touchesGit } from '../../rel-path.ts';
import { ABSENT } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import type { ApplyEntry, ApplyOutcome } from '../backend.ts';
import { doing, type WorkHooks } from './faults.ts';
import { changeMode, putBack, type Spot, type Supply } from './guard.ts';
import type { JournalFile } from './journal.ts';
import type { Seen } from './observe.ts';
import { type FolderId, WalkError } from './resolve.ts';
import { type DirVersion, type FileVersion, MAKING, type Steps } from './steps.ts';
import { asStop, refusedFor, Stop } from './stop.ts';

export interface Job extends ApplyEntry {
  readonly index: number;
  readonly tempName: string;
  readonly trashName: string;
  readonly notes: string[];
  stop?: Stop;
  done?: boolean;
  /** Where the thing is that was taken out before the swaps; `dir` for a removed folder. */
  takenOut?: Spot | 'dir';
  temp?: FolderId;
  /** The folder that we made. */
  made?: FolderId;
  /** The folder that we made in place of one that we had removed. */
  remade?: FolderId;
}

/** A folder that is gone took a path that must exist with it. */
function stopFor({ expect }: ApplyEntry, error: unknown): Stop {
  const gone = error instanceof WalkError && error.errno === 'ENOENT';
  return gone && expect.kind !== 'absent' ? refusedFor(ABSENT) : asStop(error);
}

function isModeOnly({ expect, target }: ApplyEntry): boolean {
  return expect.kind === 'file' && target.kind === 'file' && expect.content === target.content;
}

/** Taken out before anything is made: removals, and what gives way to a folder. */
function goesFirst({ expect, target }: ApplyEntry): boolean {
  return expect.kind !== 'absent' && (target.kind === 'absent' || (target.kind === 'dir' && expect.kind !== 'dir'));
}

export class Operation {
  readonly #steps: Steps;
  readonly #journal: JournalFile;
  readonly #hooks: WorkHooks;
  /** In path order. */
  readonly #jobs: readonly Job[];
  #settled = 0;
  /** What a run that is put back says of each path. */
  #why = new Stop('failed', 'cancelled');

  constructor(steps: Steps, journal: JournalFile, { jobs, hooks }: { jobs: readonly Job[]; hooks: WorkHooks }) {
    this.#steps = steps;
    this.#journal = journal;
    this.#hooks = hooks;
    this.#jobs = [...jobs].sort((a, b) => comparePaths(a.path, b.path));
  }

  run(durability: 'full' | 'fast'): ApplyOutcome[] {
    this.#each(this.#jobs, (job) => this.#admit(job));
    if (this.#prepare() && this.#record()) {
      this.#each(this.#jobs, (job) => this.#swap(job));
      this.#each(this.#deepestFirst(), (job) => this.#finishDir(job));
    } else this.#cancel();
    this.#steps.forgetParent();
    if (durability === 'full') doing("can't make the changes durable", () => this.#steps.syncTouched());
    this.#settle();
    return this.#jobs.map((job) => outcomeOf(job));
  }

  /** Names the temp files in the journal. False: it can't be written, so there must be no swap. */
  #record(): boolean {
    try {
      this.#journal.prepared(
        this.#jobs.flatMap(({ index, temp }) => (temp === undefined ? [] : [{ index, id: temp }])),
      );
      return true;
    } catch (error) {
      this.#why = asStop(error);
      return false;
    }
  }

  #settle(): void {
    try {
      this.#journal.settled(this.#jobs.map(({ index, done }) => ({ index, done: done === true })));
    } catch (error) {
      // Advisory: recovery asks the disk, and the outcomes are in our hands.
      asStop(error);
    }
  }

  #deepestFirst(): Job[] {
    return [...this.#jobs].reverse();
  }

  /** Runs a step on every job that is still to do. */
  #each(jobs: readonly Job[], step: (job: Job) => void): void {
    for (const job of jobs) {
      if (job.stop !== undefined || job.done) continue;
      try {
        step(job);
      } catch (error) {
        job.stop = stopFor(job, error);
        this.#giveUp(job);
      }
      if (job.stop !== undefined || job.done)
        this.#hooks.progress({ phase: 'apply', done: ++this.#settled, total: this.#jobs.length });
    }
  }

  /** All that comes before the first swap. False: cancelled. */
  #prepare(): boolean {
    const stages: [readonly Job[], (job: Job) => void][] = [
      [this.#jobs, (job) => this.#widenDir(job)],
      [this.#deepestFirst(), (job) => this.#takeOut(job)],
      [this.#jobs, (job) => this.#makeDir(job)],
      [this.#jobs, (job) => this.#writeTemp(job)],
    ];
    for (const [jobs, step] of stages) {
      for (const job of jobs) {
        if (this.#hooks.cancelled()) return false;
        this.#each([job], step);
      }
    }
    return !this.#hooks.cancelled();
  }

  /** Refuses what can't be done before anything is touched. */
  #admit(job: Job): void {
    const { path, expect, target } = job;
    if (isBadPath(path))
      throw new Stop('failed', 'walk-failed', { detail: 'the path has a part that no file can have' });
    if (touchesGit(path)) throw new Stop('refused', 'uncovered', { detail: 'nothing is ever written to a .git' });
    if (target.kind === 'uncovered' || expect.kind === 'uncovered') throw new Stop('refused', 'uncovered');
    if (sameVersion(expect, target)) {
      const seen = this.#steps.lookAt(path);
      if (!sameVersion(seen.version, target)) throw refusedFor(seen.version);
      job.done = true;
    } else if (target.kind === 'special')
      throw new Stop('failed', 'unsupported', { detail: `a ${target.type} can't be made again` });
  }

  /** A folder that gets its write bits back gets them before its entries need them. */
  #widenDir(job: Job): void {
    const { path, expect, target } = job;
    if (expect.kind !== 'dir' || target.kind !== 'dir') return;
    if ((expect.mode & 0o300) === 0o300 || (target.mode & 0o300) !== 0o300) return;
    this.#steps.setDirMode(path, expect, target.mode);
    job.done = true;
  }

  #takeOut(job: Job): void {
    if (!goesFirst(job)) return;
    const { path, expect, target } = job;
    if (expect.kind === 'dir') {
      this.#steps.removeDir(path, expect, 'skipped');
      job.takenOut = 'dir';
    } else {
      const aside = this.#steps.trash.free(job.trashName);
      this.#note(job, this.#steps.move(path, { expect, target: { kind: 'absent' }, supply: null, aside }));
      job.takenOut = aside;
    }
    job.done = target.kind === 'absent';
  }

  #note(job: Job, out: Seen | null): void {
    if (out === null) return;
    if (out.version.kind === 'file' && out.nlink > 1) job.notes.push('hardlink-broken');
    job.notes.push('guard:take-out+link');
  }

  #makeDir(job: Job): void {
    if (job.target.kind !== 'dir' || job.expect.kind === 'dir') return;
    job.made = this.#steps.makeDir(job.path);
  }

  #writeTemp(job: Job): void {
    if (job.target.kind !== 'file' || isModeOnly(job)) return;
    const { id, ownerKept } = this.#steps.writeTemp(job.path, job.tempName, job.target);
    job.temp = id;
    if (!ownerKept) job.notes.push('owner-not-kept');
  }

  #swap(job: Job): void {
    const { path, target, expect } = job;
    if (target.kind === 'dir') return;
    if (isModeOnly(job)) {
      this.#steps.touch(path);
      changeMode(this.#steps.hand, this.#steps.spot(path), expect as FileVersion, (target as FileVersion).mode);
    } else {
      const from = job.takenOut === undefined ? expect : ({ kind: 'absent' } as const);
      const aside = this.#steps.trash.free(job.trashName);
      const supply = this.#supplyOf(job);
      this.#note(job, this.#steps.move(path, { expect: from, target, supply, aside }));
    }
    job.done = true;
    this.#tidy(job, () => this.#clearTemp(job));
  }

  /** What can't be cleared away now goes with `finish`. */
  #tidy(job: Job, act: () => void): void {
    try {
      act();
    } catch (error) {
      job.notes.push(`a temp file was left: ${asStop(error).message}`);
    }
  }

  #clearTemp(job: Job): void {
    if (job.temp !== undefined) this.#steps.clearTemp(job.path, job, job.temp);
    else if (job.target.kind === 'symlink') this.#steps.clearTemp(job.path, job, job.target);
  }

  #supplyOf({ path, target, tempName, temp }: Job): Supply {
    const spot = this.#steps.spot(path, tempName);
    if (target.kind === 'symlink') return { kind: 'symlink', target: target.target, spot };
    return { kind: 'inode', spot, id: temp as FolderId };
  }

  #finishDir(job: Job): void {
    const { path, expect, target, made } = job;
    if (target.kind !== 'dir') return;
    if (made === undefined) this.#steps.setDirMode(path, expect as DirVersion, target.mode);
    else this.#steps.setDirMode(path, { kind: 'dir', mode: MAKING }, target.mode, made);
    job.done = true;
  }

  /** After a job's stop: removes its temp, and puts back what was taken out for it. */
  #giveUp(job: Job): void {
    this.#tidy(job, () => this.#clearTemp(job));
    // A folder of ours whose mode could not be set stays: others may be in it by now.
    if (job.made === undefined) {
      this.#return(job);
      this.#remode(job);
    }
  }

  /** Puts back what was taken out; a folder for its owner only until `#remode`. */
  #return(job: Job): void {
    const { takenOut, path } = job;
    if (takenOut === undefined) return;
    try {
      if (takenOut === 'dir') job.remade = this.#steps.makeDir(path);
      else if (!putBack(this.#steps.hand, takenOut, this.#steps.spot(path))) throw new Stop('failed', 'exists');
      delete job.takenOut;
    } catch (error) {
      const { message, reason } = asStop(error);
      const kept =
        takenOut === 'dir'
          ? 'the folder stays removed'
          : `what was there is kept as ${takenOut.leaf.toString()} in the trash`;
      job.notes.push(`${kept}: ${message || reason}`);
    }
  }

  #remode(job: Job): void {
    if (job.remade === undefined) return;
    try {
      this.#steps.setDirMode(job.path, { kind: 'dir', mode: MAKING }, (job.expect as DirVersion).mode, job.remade);
    } catch (error) {
      job.notes.push(`the folder has another mode than before: ${asStop(error).message}`);
    }
  }

  /** Puts everything back that was done before the first swap. */
  #cancel(): void {
    for (const job of this.#jobs) this.#tidy(job, () => this.#clearTemp(job));
    for (const job of this.#deepestFirst()) this.#unmake(job);
    for (const job of this.#jobs) this.#return(job);
    for (const job of this.#deepestFirst()) {
      this.#remode(job);
      if (job.stop !== undefined || sameVersion(job.expect, job.target)) continue;
      if (job.done && job.expect.kind === 'dir' && job.target.kind === 'dir') this.#narrow(job);
      job.done = false;
      job.stop ??= this.#why;
    }
  }

  #unmake(job: Job): void {
    if (job.made === undefined) return;
    try {
      this.#steps.removeDir(job.path, { kind: 'dir', mode: MAKING }, 'refused');
    } catch (error) {
      job.stop ??= asStop(error);
    }
  }

  #narrow(job: Job): void {
    try {
      this.#steps.setDirMode(job.path, job.target as DirVersion, (job.expect as DirVersion).mode);
    } catch (error) {
      job.stop = asStop(error);
    }
  }
}

function outcomeOf({ path, stop, notes }: Job): ApplyOutcome {
  const note = notes.length === 0 ? {} : { note: notes.join(', ') };
  if (stop === undefined) return { path, status: 'done', ...note };
  const detail = stop.message === '' ? {} : { detail: stop.message };
  const found = stop.found === undefined ? {} : { found: stop.found };
  return { path, status: stop.status, reason: stop.reason, ...detail, ...found, ...note };
}
