/**
 * What came of the entries of an operation, by what is on disk: where its process died, and where a fault met a path that had
 * been written already.
 */
import type { ApplyEntry, ApplyOutcome } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { RelPath, Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { Engine } from './engine.ts';
import { peekKnown } from './peek.ts';

async function onDisk(engine: Engine, paths: readonly RelPath[]): Promise<ReadonlyMap<RelPath, Version>> {
  const peeks = await peekKnown(engine, paths, {});
  return new Map(peeks.map(({ path, version }) => [path, version]));
}

/** Of an operation that recovery completed: what is as the plan wanted it counts as done. */
export async function outcomesOnDisk(engine: Engine, entries: readonly ApplyEntry[]): Promise<ApplyOutcome[]> {
  const disk = await onDisk(
    engine,
    entries.map(({ path }) => path),
  );
  return entries.map(({ path, expect, target }): ApplyOutcome => {
    const found = disk.get(path);
    if (found !== undefined && sameVersion(found, target)) return { path, status: 'done' };
    if (found === undefined || sameVersion(found, expect)) {
      return { path, status: 'failed', reason: 'cancelled', detail: 'the process died before it was written' };
    }
    return { path, status: 'refused', reason: 'changed-outside-session', found };
  });
}

/** A path that failed, and is as it was to be, counts as done, with a note: else the session would not own what it wrote. */
export async function withLateFaults(
  engine: Engine,
  entries: readonly ApplyEntry[],
  outcomes: readonly ApplyOutcome[],
): Promise<readonly ApplyOutcome[]> {
  // Below a link or what is no folder every path looks absent: that tells nothing of a deletion.
  const faulted = ({ status, reason }: ApplyOutcome) => status === 'failed' && reason !== 'walk-failed';
  const failed = outcomes.filter(faulted).map(({ path }) => path);
  if (failed.length === 0) return outcomes;
  const disk = await onDisk(engine, failed).catch((error: unknown) => {
    // The fault lasts: nothing more can be told of these paths, and what was done must be recorded.
    if (error instanceof TakebackError) return new Map<RelPath, Version>();
    throw error;
  });
  const targets = new Map(entries.map(({ path, target }) => [path, target]));
  return outcomes.map((outcome): ApplyOutcome => {
    const { path, status, reason = 'io-error', detail, note } = outcome;
    const [found, target] = [disk.get(path), targets.get(path)];
    if (status !== 'failed' || found === undefined || target === undefined || !sameVersion(found, target))
      return outcome;
    const fault = detail === undefined ? reason : `${reason}: ${detail}`;
    return { path, status: 'done', note: note === undefined ? fault : `${note}, ${fault}` };
  });
}
