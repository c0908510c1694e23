/**
 * The look of an observation, with no lock held: a scan, beside it what the timeline has to say, then the ingest of what is
 * suspect. Begins and ends of calls that were asked for before a scan began may share it; one may have begun at the opening.
 * What is recorded of a look is `observe.ts`'s.
 */
import type { IngestResult, RuleSources, ScanOptions, ScanResult } from '../backend/backend.ts';
import { borrowSources } from '../git/borrow.ts';
import { ruleSources } from '../git/context.ts';
import type { Hash, RelPath } from '../types.ts';
import { UnavailableError } from './answers.ts';
import type { CaughtUp, Engine } from './engine.ts';
import type { ObserveRequest } from './observe.ts';

export interface Look {
  readonly scan: ScanResult;
  readonly ingest: IngestResult;
  readonly gcGeneration: number;
  readonly isFirst: boolean;
  readonly manifest: { hash: Hash; entries: number } | undefined;
  /** Another call's look, recorded already: its set is gone, and nothing of it is left to record. */
  readonly isShared: boolean;
  /** `engine.scansBegun` with this look's own scan. */
  readonly number: number;
  /** Rows of others were taken while the tree was scanned: of these paths the scan may have said what the index knew before. */
  readonly moved: readonly RelPath[];
}

const NOTHING_READ: IngestResult = {
  filesHashed: 0,
  storedFiles: 0,
  storedBytes: 0,
  borrowedFiles: 0,
  left: 0,
  problems: [],
};

/**
 * The newest look of a call's begin or end, where it began after this caller asked: all that was to be seen then is recorded.
 * What others append meanwhile is found under the lock, and then this one looks for itself.
 */
export async function sharedLook(engine: Engine, request: ObserveRequest): Promise<Look | null> {
  const { newestLook, position } = engine;
  if (newestLook === null || request.askedAt === undefined || newestLook.number <= request.askedAt) return null;
  // Anything recorded since (an undo, say) took its time: what somebody did meanwhile is not this call's.
  if (newestLook.seq !== position?.seq) return null;
  await request.beside?.();
  const { scan, gcGeneration, number } = newestLook;
  return {
    scan,
    ingest: NOTHING_READ,
    gcGeneration,
    isFirst: false,
    manifest: undefined,
    isShared: true,
    number,
    moved: [],
  };
}

/** Null: the index was made anew, or got other rules, while the tree was scanned. */
export async function lookAt(engine: Engine, request: ObserveRequest, hold: readonly RelPath[]): Promise<Look | null> {
  const { tree } = engine;
  // Within a turn, what the index knows is enough to begin with: rows of others that come in beside are looked at again.
  const isWarm = request.boundaryOf === undefined && engine.position !== null && engine.rulesId !== null;
  const before = isWarm ? null : await knownHead(engine, request);
  const work = { signal: request.signal, onProgress: request.onProgress };
  const sources = request.boundaryOf === undefined ? undefined : await sourcesOf(engine, request);
  const { number, scanning } = beginScan(engine, request, sources === undefined ? {} : { renewRules: sources, hold });
  const [caughtUp, scan] = await beside(engine, scanning, async () => {
    const [, after] = await Promise.all([request.beside?.(), before ?? engine.catchUp()]);
    return after;
  });
  if (before === null && (caughtUp.rebuilt || caughtUp.rulesChanged)) {
    await tree.discard(scan.set);
    return null;
  }
  const { head } = caughtUp;
  const isFirst = head.seq === 0;
  const borrow = isFirst && sources !== undefined ? borrowSources(sources) : null;
  const ingest =
    scan.suspects === 0
      ? NOTHING_READ
      : await tree.ingest(scan.set, {
          ...work,
          ...(request.deadlineMs === undefined ? {} : { deadlineMs: request.deadlineMs }),
          ...(request.first === undefined ? {} : { first: request.first }),
          ...(request.stored === undefined ? {} : { stored: request.stored }),
          ...(borrow === null ? {} : { borrow }),
        });
  const manifest = isFirst ? await tree.manifest(scan.set) : undefined;
  if (isFirst && engine.options.durability === 'full') await engine.blobs.sync();
  const moved = before === null ? caughtUp.paths : [];
  return { scan, ingest, gcGeneration: head.gcGeneration, isFirst, manifest, isShared: false, number, moved };
}

async function knownHead(engine: Engine, request: ObserveRequest): Promise<CaughtUp> {
  const caughtUp = await engine.catchUp();
  if (caughtUp.head.seq === 0 && request.boundaryOf === undefined) {
    // What would be asked beside the scan says more exactly what is missing.
    await request.beside?.();
    throw new UnavailableError('no-checkpoint', 'there is no checkpoint yet: capture a boundary first');
  }
  return caughtUp;
}

/** Waits for both, whatever becomes of one: a scan that goes on behind a fault would answer to nobody. */
async function beside<T>(
  engine: Engine,
  scanning: Promise<ScanResult>,
  ask: () => Promise<T>,
): Promise<[T, ScanResult]> {
  const [asked, scanned] = await Promise.allSettled([ask(), scanning]);
  if (asked.status === 'rejected') {
    if (scanned.status === 'fulfilled') await engine.tree.discard(scanned.value.set);
    throw asked.reason;
  }
  if (scanned.status === 'rejected') throw scanned.reason;
  return [asked.value, scanned.value];
}

/** One that began ahead keeps the number that it had then: it serves nobody who asked since. */
function beginScan(
  engine: Engine,
  request: ObserveRequest,
  rules: Pick<ScanOptions, 'renewRules' | 'hold'>,
): { number: number; scanning: Promise<ScanResult> } {
  const isPlain = request.boundaryOf === undefined && request.only === undefined && request.rehash !== true;
  const ahead = isPlain ? engine.takeAhead() : null;
  if (ahead !== null) return { number: engine.scansBegun, scanning: ahead };
  engine.scansBegun += 1;
  return { number: engine.scansBegun, scanning: scanNow(engine, request, rules) };
}

async function scanNow(
  engine: Engine,
  { only, rehash = false, signal, onProgress }: ObserveRequest,
  rules: Pick<ScanOptions, 'renewRules' | 'hold'>,
): Promise<ScanResult> {
  await engine.dropAhead();
  return engine.tree.scan({
    signal,
    onProgress,
    ...rules,
    ...(only === undefined ? {} : { only }),
    ...(rehash ? { rehash } : {}),
  });
}

function sourcesOf(engine: Engine, { sources }: ObserveRequest): Promise<RuleSources> | RuleSources {
  return sources ?? ruleSources(engine.layout.root, engine.settings);
}
