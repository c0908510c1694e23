/**
 * One observation: scan, ingest, then under the lock: catch up with other processes, look again where they wrote,
 * append, and move the index forward. The lock is never held over the scan or the ingest of one.
 *
 * What belongs to the observation (a boundary, a call's begin or end, an operation's rows) is given as `effects`, made
 * under the lock, and lands in the same transaction.
 */
import { randomBytes } from 'node:crypto';
import type { IngestResult, Position, RuleSources, ScanResult } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import { ownerGone } from '../process-owner.ts';
import { isWithin } from '../rel-path.ts';
import type { Append, CallRecord, Head, ObservationKind } from '../timeline/timeline.ts';
import {
  type Change,
  type Hash,
  type RandomId,
  type RelPath,
  RowFlag,
  type UncoveredPath,
  type WorkOptions,
} from '../types.ts';
import { UnavailableError } from './answers.ts';
import type { CaughtUp, Engine } from './engine.ts';
import { heldPaths } from './held.ts';
import { type Look, lookAt, sharedLook } from './look.ts';
import { clearedMarks } from './marks.ts';

export type Effects = Pick<
  Append,
  | 'boundary'
  | 'beginCall'
  | 'endCalls'
  | 'discard'
  | 'operation'
  | 'taken'
  | 'returned'
  | 'takesBackInPart'
  | 'markUndone'
  | 'clearUndone'
>;

export interface ObserveContext {
  readonly head: Head;
  /** The seq that this observation gets. */
  readonly seq: number;
  readonly changes: readonly Change[];
  /** Calls that are open, of all sessions. */
  readonly open: readonly CallRecord[];
}

export interface ObserveRequest extends WorkOptions {
  readonly kind: ObservationKind;
  /** A boundary of this session: rules are read anew, and a first observation is allowed. */
  readonly boundaryOf?: number;
  /** Where its rules come from, where the caller knows already. */
  readonly sources?: RuleSources;
  readonly only?: readonly RelPath[];
  /** Contents that the store was just read for: `IngestOptions.stored`. */
  readonly stored?: ReadonlySet<Hash>;
  readonly first?: readonly RelPath[];
  /** Date.now() at which to leave what is still unread. */
  readonly deadlineMs?: number | undefined;
  readonly rehash?: boolean;
  readonly durable: boolean;
  /** The operation whose rows these are. */
  readonly operation?: RandomId;
  /** Which of the paths that it wrote came from which (old by new path): its files are copies, no inode tells. */
  readonly moved?: ReadonlyMap<RelPath, RelPath>;
  /** What the caller has to know before anything is recorded: asked while the tree is scanned; a fault ends the observation. */
  readonly beside?: () => Promise<void>;
  /** `engine.scansBegun` when the caller asked: a look of another call that began since then serves this one, too. */
  readonly askedAt?: number | undefined;
  /** What effects need of the timeline: asked under the lock, in one go with the head. */
  readonly reads?: () => Promise<void>;
  readonly effects?: (context: ObserveContext) => Promise<Effects> | Effects;
  /** Called once all is appended, while the index moves on behind it: begins what may only follow, and throws nothing. */
  readonly recorded?: () => void;
}

export interface Observed {
  readonly seq: number;
  readonly changes: readonly Change[];
  readonly scan: ScanResult;
  readonly ingest: IngestResult;
  /** Only for a boundary. */
  readonly uncovered: readonly UncoveredPath[];
  /** Whose the changes are depends on this alone; null where ends that were recorded with it say more. */
  readonly moment: Moment | null;
}

/** Around one observation. */
export interface Moment {
  /** Calls that were open until then, of all sessions. */
  readonly open: readonly CallRecord[];
  /** As of `ObservationRecord`. */
  readonly overlap: readonly RelPath[];
}

const RESTARTS = 8;

/** Runs in the engine's queue. */
export async function observe(engine: Engine, request: ObserveRequest): Promise<Observed> {
  await engine.checkRoot();
  const gone = new Set<number>();
  let hold: readonly RelPath[] = [];
  for (let attempt = 0; attempt < RESTARTS; attempt++) {
    const look = (attempt === 0 ? await sharedLook(engine, request) : null) ?? (await lookAt(engine, request, hold));
    if (look === null) continue;
    const found = foundBy(engine, request, look);
    // A first look takes nothing out of coverage.
    const held =
      request.boundaryOf !== undefined && hold.length === 0 && !look.isFirst
        ? await heldPaths(engine, request.boundaryOf, leavingCoverage(await found))
        : [];
    if (held.length > 0) {
      hold = held;
      await engine.tree.discard(look.scan.set);
      continue;
    }
    const append = ({ recovered }: { recovered: boolean }) => {
      return appendLook(engine, request, look, { recovered, gone, found });
    };
    const observed = await engine.locked(append, request.signal);
    if (observed !== null) return observed;
    if (!look.isShared) await engine.tree.discard(look.scan.set);
  }
  throw new UnavailableError('busy', `other processes kept changing the timeline of ${engine.layout.root}; try again`);
}

/** The same where the lock is held already; looks at few paths (`only`). */
export async function observeLocked(engine: Engine, request: ObserveRequest): Promise<Observed> {
  const look = await lookAt(engine, request, []);
  const how = { recovered: false, gone: null };
  const observed =
    look === null ? null : await appendLook(engine, request, look, { ...how, found: foundBy(engine, request, look) });
  if (observed === null) throw new TakebackError('ERR_INTERNAL', 'the timeline moved under the lock');
  return observed;
}

/** Asked for before the lock, so that the answer comes while the lock is waited for. Whoever needs it hears of its fault. */
function foundBy(engine: Engine, request: ObserveRequest, look: Look): Promise<readonly Change[]> {
  const found = look.isFirst || look.isShared ? Promise.resolve([]) : withMoves(engine, look.scan.set, request.moved);
  found.catch(() => undefined);
  return found;
}

function leavingCoverage(changes: readonly Change[]): RelPath[] {
  return changes.filter((c) => (c.flags & RowFlag.coverage) !== 0 && c.before.kind !== 'uncovered').map((c) => c.path);
}

/**
 * Under the lock. Null: what was looked at is stale as a whole, look again.
 *
 * @param how.found what the look found, before any path is looked at again
 * @param how.gone calls whose process was found gone before this look began: it ends them. Null: it ends none, for it does
 *   not look everywhere
 */
async function appendLook(
  engine: Engine,
  request: ObserveRequest,
  look: Look,
  how: { recovered: boolean; gone: Set<number> | null; found: Promise<readonly Change[]> },
): Promise<Observed | null> {
  const { recovered, gone } = how;
  const { tree } = engine;
  const set = look.scan.set;
  const { head, paths, rebuilt, rulesChanged, open } = await underLock(engine, request);
  if (recovered || rebuilt || look.isFirst !== (head.seq === 0) || (rulesChanged && request.boundaryOf === undefined))
    return null;
  const again = [...look.moved, ...paths];
  const closed = gone === null ? [] : interruptedCalls(engine, open);
  // It began before this one asked whose process is gone.
  if (look.isShared && again.length + closed.length > 0) return null;
  if (again.length > 0) await tree.look(set, again);
  const found = await (again.length > 0 && !look.isFirst ? withMoves(engine, set, request.moved) : how.found);
  if (head.gcGeneration !== look.gcGeneration && !(await allStored(engine, found))) return null;
  if (diedSince(closed, gone)) return null;
  const changes = flagInterrupted(found, closed);
  const context: ObserveContext = { head, seq: head.seq + 1, changes, open };
  const { effects, rules, uncovered, overlap } = await factsOf(engine, request, { set, context });
  const ends = [...endsOf(closed), ...engine.pendingEnds.values(), ...(effects.endCalls ?? [])];
  const effective = Object.keys(effects).length > 0 || ends.length > 0 || rules !== undefined;
  if (changes.length === 0 && !effective && !look.isFirst) {
    await tree.commit(set, engine.position ?? { seq: head.seq, observationId: head.observationId ?? '' });
    return { seq: head.seq, changes, scan: look.scan, ingest: look.ingest, uncovered, moment: null };
  }
  await syncBytes(engine, look, again);
  const now = Date.now();
  const id = randomBytes(16).toString('hex');
  const after = await engine.timeline.append({
    ...effects,
    expectSeq: head.seq,
    observation: {
      id,
      kind: look.isFirst ? 'first' : request.kind,
      createdAt: now,
      overlap,
      ...(request.operation === undefined ? {} : { operation: request.operation }),
    },
    changes,
    ...(look.manifest === undefined ? {} : { manifest: look.manifest }),
    ...(rules === undefined ? {} : { rules }),
    endCalls: uniqueEnds(ends),
    durable: request.durable && engine.options.durability === 'full',
  });
  for (const end of ends) engine.pendingEnds.delete(end.invocation);
  engine.rulesId = after.rulesId;
  request.recorded?.();
  await moveOn(engine, look, { seq: after.seq, observationId: id });
  if (!look.isShared) engine.lastLookAt = now;
  if (isServing(request, look)) engine.newestLook = { ...look, seq: after.seq };
  const known = ends.length === (effects.endCalls?.length ?? 0) && ends.every(({ paths }) => paths === undefined);
  const moment = known ? { open, overlap } : null;
  return { seq: after.seq, changes, scan: look.scan, ingest: look.ingest, uncovered, moment };
}

/** What is recorded with the changes; asked of timeline, tree and table of open calls at once. */
async function factsOf(
  engine: Engine,
  request: ObserveRequest,
  { set, context }: { set: number; context: ObserveContext },
): Promise<{
  effects: Effects;
  overlap: readonly RelPath[];
  rules?: Uint8Array | undefined;
  uncovered: readonly UncoveredPath[];
}> {
  const given: Effects = (await request.effects?.(context)) ?? {};
  const [cleared, facts, overlap] = await Promise.all([
    given.operation === undefined ? clearedMarks(engine, context) : {},
    boundaryFacts(engine, request, set),
    context.changes.length === 0 ? [] : foldersOfOtherRoots(engine),
  ]);
  return { effects: { ...given, ...cleared }, ...facts, overlap };
}

/** What was looked at again may have been stored, too. */
async function syncBytes({ options, blobs }: Engine, { ingest }: Look, again: readonly RelPath[]): Promise<void> {
  if (options.durability === 'full' && (ingest.storedFiles > 0 || again.length > 0)) await blobs.sync();
}

/** The index moves to where the timeline stands. */
async function moveOn(engine: Engine, look: Look, at: Position): Promise<void> {
  engine.position = at;
  if (look.isShared) await engine.tree.catchUp([], at);
  else await engine.tree.commit(look.scan.set, at);
}

/** A look that others may share: not a boundary's, whose first scan can take long, and one that left nothing unread. */
function isServing({ kind, only }: ObserveRequest, { ingest }: Look): boolean {
  return (kind === 'begin' || kind === 'end') && only === undefined && ingest.left === 0;
}

/** The set's changes, those that came from elsewhere with where they came from. */
async function withMoves(
  engine: Engine,
  set: number,
  known: ReadonlyMap<RelPath, RelPath> | undefined,
): Promise<readonly Change[]> {
  const changes = await engine.tree.changes(set);
  const gone = new Set(changes.filter(({ after }) => after.kind === 'absent').map(({ path }) => path));
  if (gone.size === 0 || gone.size === changes.length) return changes;
  const sources = new Map([
    ...(known ?? []),
    ...(await engine.tree.moves(set)).map(({ from, to }) => [to, from] as const),
  ]);
  return changes.map((change) => {
    const movedFrom = change.before.kind === 'absent' ? sources.get(change.path) : undefined;
    return movedFrom !== undefined && gone.has(movedFrom) ? { ...change, movedFrom } : change;
  });
}

/** Asked together: one connection answers in order, and each answer by itself costs a change of threads. */
async function underLock(engine: Engine, request: ObserveRequest): Promise<CaughtUp & { open: CallRecord[] }> {
  const [caughtUp, open] = await Promise.all([engine.catchUp(), engine.timeline.openCalls(), request.reads?.()]);
  return { ...caughtUp, open };
}

async function boundaryFacts(
  engine: Engine,
  { boundaryOf }: ObserveRequest,
  set: number,
): Promise<{ rules?: Uint8Array | undefined; uncovered: readonly UncoveredPath[] }> {
  if (boundaryOf === undefined) return { uncovered: [] };
  const [rules, uncovered] = await Promise.all([changedRules(engine), engine.tree.uncovered(set)]);
  return { rules, uncovered };
}

type EndedCall = NonNullable<Append['endCalls']>[number];

function uniqueEnds(ends: readonly EndedCall[]): EndedCall[] {
  return [...new Map(ends.map((end) => [end.invocation, end])).values()];
}

/** A gc may have dropped a blob that the ingest had found stored. */
async function allStored(engine: Engine, changes: readonly Change[]): Promise<boolean> {
  const hashes = new Set<Hash>();
  for (const { after } of changes) if (after.kind === 'file') hashes.add(after.content);
  return (await engine.blobs.has([...hashes])).every(Boolean);
}

async function changedRules(engine: Engine): Promise<Uint8Array | undefined> {
  const [now, before] = await Promise.all([
    engine.tree.rules(),
    engine.rulesId === null ? null : engine.timeline.rules(engine.rulesId),
  ]);
  if (now === null) return undefined;
  return before !== null && Buffer.compare(before, now) === 0 ? undefined : now;
}

/** Open calls whose process is gone: this observation is the first to find it. */
function interruptedCalls(engine: Engine, open: readonly CallRecord[]): CallRecord[] {
  return open.filter(
    (call) => !call.detached && !engine.pendingEnds.has(call.invocation) && ownerGone(call.owner, engine.owner),
  );
}

/**
 * True where a process died since the look began: it may have written after the scan, so the next look, that finds it, is the one to end
 * its call. Notes it as gone.
 */
function diedSince(calls: readonly CallRecord[], gone: Set<number> | null): boolean {
  const late = calls.filter(({ invocation }) => gone?.has(invocation) === false);
  for (const { invocation } of late) gone?.add(invocation);
  return late.length > 0;
}

/** A call whose process died in it is no call in flight: one look ends it, and says what it left. Before a plan. */
export async function endDeadCalls(engine: Engine, signal?: AbortSignal): Promise<void> {
  const dead = interruptedCalls(engine, await engine.timeline.openCalls());
  if (dead.length > 0) await observe(engine, { kind: 'look', durable: false, signal });
}

function endsOf(calls: readonly CallRecord[]): EndedCall[] {
  return calls.map((call) => ({
    invocation: call.invocation,
    state: 'interrupted',
    endedAt: Date.now(),
    sideEffect: null,
    isError: true,
  }));
}

/** What is found when a call's process has died is the call's, and incomplete: it may have been cut off in the middle. */
function flagInterrupted(changes: readonly Change[], calls: readonly CallRecord[]): readonly Change[] {
  if (calls.length === 0) return changes;
  const touches = (path: RelPath): boolean =>
    calls.some((call) => call.paths === null || call.paths.some((declared) => isWithin(path, declared)));
  return changes.map((change) =>
    touches(change.path) ? { ...change, flags: change.flags | RowFlag.incomplete } : change,
  );
}

/** Where calls of roots that contain this one, or lie in it, were open since the last look. */
async function foldersOfOtherRoots(engine: Engine): Promise<RelPath[]> {
  const { root } = engine.layout;
  const others = await engine.openCalls.overlapping(root, engine.lastLookAt);
  const inside = root === '/' ? root : `${root}/`;
  return others.map((other) => (other.startsWith(inside) ? other.slice(inside.length) : '') as RelPath);
}
