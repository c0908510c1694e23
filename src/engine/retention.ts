/**
 * Which boundaries retention may take: those older, or more, than the limits allow, and the oldest while history costs more
 * than `maxBytes`. Never a session's newest boundary, nor what its redo stack or a standing revert goes back to, nor what
 * lies after these. Reads only; `maintain.ts` expires and sweeps.
 */
import { stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BoundaryRecord } from '../timeline/timeline.ts';
import type { Hash, RelPath } from '../types.ts';
import type { Engine } from './engine.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

export type BoundaryKey = Pick<BoundaryRecord, 'session' | 'boundaryId'>;

/** Boundaries that retention may take, oldest first. */
async function expirable(engine: Engine, live: readonly BoundaryRecord[]): Promise<BoundaryRecord[]> {
  const bySession = new Map<number, BoundaryRecord[]>();
  for (const boundary of live) {
    const list = bySession.get(boundary.session);
    if (list === undefined) bySession.set(boundary.session, [boundary]);
    else list.push(boundary);
  }
  const floor = new Map<number, number>();
  for (const [session, list] of bySession) {
    const newest = list.at(-1) as BoundaryRecord;
    const since = await engine.timeline.operations(session, { afterSeq: newest.seq });
    const named = since.filter((o) => o.redoneBy === null && o.takesBack === null).map((o) => o.boundarySeq);
    const oldest = Math.min(newest.seq, ...named);
    // A revert may have gone back to a step, inside a turn: the turn's own boundary is the one to keep.
    floor.set(session, list.findLast((boundary) => boundary.seq <= oldest)?.seq ?? oldest);
  }
  return live.filter((boundary) => boundary.seq < (floor.get(boundary.session) ?? 0));
}

/** Boundaries older than `maxAgeDays`, and each session's oldest above `maxBoundaries`. */
export async function byAgeAndCount(engine: Engine): Promise<BoundaryKey[]> {
  const { maxAgeDays, maxBoundaries = Number.POSITIVE_INFINITY } = engine.options.retention;
  const oldest = Date.now() - maxAgeDays * DAY_MS;
  const live = await engine.timeline.liveBoundaries();
  const count = new Map<number, number>();
  for (const { session } of live) count.set(session, (count.get(session) ?? 0) + 1);
  const isOld = ({ session, createdAt }: BoundaryRecord): boolean =>
    createdAt < oldest || (count.get(session) ?? 0) > maxBoundaries;
  if (!live.some(isOld)) return [];
  return (await expirable(engine, live)).filter((boundary) => {
    if (!isOld(boundary)) return false;
    count.set(boundary.session, (count.get(boundary.session) ?? 0) - 1);
    return true;
  });
}

/** The oldest eighth of what may go, while history costs more than `maxBytes`. Current versions don't count. */
export async function overBytes(engine: Engine): Promise<BoundaryKey[]> {
  const { maxBytes } = engine.options.retention;
  const { bytes } = await engine.blobs.stats();
  if (bytes <= maxBytes) return [];
  const candidates = await expirable(engine, await engine.timeline.liveBoundaries());
  if (candidates.length === 0 || bytes - (await currentBytes(engine)) <= maxBytes) return [];
  return candidates.slice(0, Math.max(1, Math.floor(candidates.length / 8)));
}

/** Bytes before compression of what stands now: an upper bound of what the current versions cost. */
async function currentBytes(engine: Engine): Promise<number> {
  const paths = await engine.tree.list('' as RelPath);
  const sizes = new Map<Hash, number>();
  for (const version of await engine.tree.versions(paths))
    if (version.kind === 'file') sizes.set(version.content, version.size);
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** Milliseconds between two times that captures apply the limits. */
const CAPTURE_EVERY_MS = 60_000;

/**
 * True where a capture is to apply the limits: none did within the last minute, in any process, and there is something to
 * expire. Costs one stat otherwise. The moment is kept as the time of a file in the store.
 */
export async function captureExpires(engine: Engine): Promise<boolean> {
  const stamp = join(engine.layout.home, 'retention');
  const last = await stat(stamp).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.NEGATIVE_INFINITY,
  );
  const now = Date.now();
  // A clock that went back must not stop it for good.
  if (Math.abs(now - last) < CAPTURE_EVERY_MS) return false;
  await writeFile(stamp, '', { mode: 0o600 });
  await utimes(stamp, now / 1000, now / 1000);
  return (await byAgeAndCount(engine)).length > 0 || (await overBytes(engine)).length > 0;
}
