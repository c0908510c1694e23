/**
 * Operations: restore, undo and redo are one path. Under the lock from plan to done: plan, record what the user did
 * to the planned paths, apply under guard, look at what came of it, append it as an operation, drop the journal.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { ApplyEntry } from '../backend/backend.ts';
import { applyEntries } from '../model/plan.ts';
import { buildReceipt, CALL_IS_OPEN } from '../model/receipt.ts';
import type { SettledReceipt } from '../model/types.ts';
import type { BoundaryRecord, OperationKind, OperationRecord, SessionRecord } from '../timeline/timeline.ts';
import type { ConflictPolicy, Hash, Plan, RandomId, Receipt, RelPath, WorkOptions } from '../types.ts';
import { sameVersion } from '../wire.ts';
import { UnavailableError } from './answers.ts';
import { type Draft, draftRedo, draftRestore, type PlanRequest, tokenOf, toPlan } from './draft.ts';
import type { Engine } from './engine.ts';
import { type HunkChoices, onlyHunks } from './hunks.ts';
import { dropIntent, JOURNAL, writeIntent } from './intent.ts';
import { type Landing, land } from './landing.ts';
import { observeLocked } from './observe.ts';
import { withLateFaults } from './outcomes.ts';
import { isUsable } from './peek.ts';
import { sameRoot } from './root.ts';
import { tellOperation } from './tell.ts';

/** @throws {UnavailableError} no-checkpoint, unknown-boundary, root-changed */
export async function findBoundary(
  engine: Engine,
  session: SessionRecord | null,
  boundaryId: string,
): Promise<BoundaryRecord> {
  const { timeline } = engine;
  const [head, [newest], boundary] = await Promise.all([
    timeline.head(),
    session === null ? [] : timeline.boundaries(session.id, { limit: 1, all: true }),
    session === null ? null : timeline.boundary(session.id, boundaryId),
  ]);
  if (session === null || head.seq === 0 || newest === undefined) {
    throw new UnavailableError('no-checkpoint', 'the session has no checkpoint yet: capture a boundary first');
  }
  if (boundary === null || boundary.state !== 'live') {
    const why = boundary === null ? 'the session has no boundary of that id' : boundary.state;
    throw new UnavailableError('unknown-boundary', `${why}: ${JSON.stringify(boundaryId)}`);
  }
  if (!engine.options.adoptRoot && !sameRoot(boundary.root, engine.identity)) {
    throw new UnavailableError(
      'root-changed',
      `boundary ${JSON.stringify(boundaryId)} was made on another folder at ${engine.layout.root}; open with adoptRoot: true to use it here`,
    );
  }
  return boundary;
}

/** A live call of the session would mix its changes with ours. */
export async function refuseOpenCalls(engine: Engine, session: SessionRecord): Promise<void> {
  const open = (await engine.timeline.openCalls(session.id)).filter(
    (call) => !call.detached && !engine.pendingEnds.has(call.invocation),
  );
  if (open.length > 0) throw new UnavailableError('calls-in-flight', CALL_IS_OPEN);
}

export interface OperationRequest extends WorkOptions {
  readonly kind: OperationKind;
  readonly boundary: Pick<BoundaryRecord, 'boundaryId' | 'seq'>;
  readonly onConflict: ConflictPolicy;
  /** Made again under the lock: what is executed is what was just planned. */
  readonly draft: () => Promise<Draft>;
  /** Refuses where the token of the new draft differs. */
  readonly planToken?: string | undefined;
  /** Of the new draft, once its token was checked: only these hunks. */
  readonly hunks?: HunkChoices | undefined;
  /** Of a restore: not limited to paths or hunks. */
  readonly whole?: boolean;
  /** Of an undo: it takes back its turn, and not one call of it. */
  readonly marks?: boolean;
  readonly takesBack?: RandomId;
  /** Recorded also where nothing was settled and nothing had to be: it is a state, not only what was written. */
  readonly always?: boolean;
}

/** What an operation would do, were it run now. Runs in the engine's queue. */
export async function preview(engine: Engine, session: SessionRecord, request: OperationRequest): Promise<Plan> {
  await engine.checkRoot();
  return engine.locked(async () => {
    await engine.catchUp();
    await refuseOpenCalls(engine, session);
    return toPlan(request.boundary, await request.draft());
  }, request.signal);
}

/** Runs in the engine's queue. Nothing is appended where nothing was settled, unless `always`. */
export async function operate(engine: Engine, session: SessionRecord, request: OperationRequest): Promise<Receipt> {
  await engine.checkRoot();
  const done = await engine.locked(async () => {
    await engine.catchUp();
    await refuseOpenCalls(engine, session);
    const draft = await request.draft();
    if (request.planToken !== undefined && request.planToken !== tokenOf(draft.plan)) {
      throw new UnavailableError(
        'stale-plan',
        'files changed since the plan was made; make a new plan and look at it again',
      );
    }
    if (request.hunks === undefined) return execute(engine, session, request, draft);
    const plan = await onlyHunks(engine, draft.plan, request.hunks);
    return execute(engine, session, request, { ...draft, plan });
  }, request.signal);
  await tellOperation(engine, session, done);
  return done.receipt;
}

/** What came of it, and where it stands in the timeline; null where nothing of it does. */
interface Executed {
  readonly receipt: Receipt;
  readonly seq: number | null;
}

async function execute(
  engine: Engine,
  session: SessionRecord,
  request: OperationRequest,
  draft: Draft,
): Promise<Executed> {
  const operationId = randomBytes(16).toString('hex');
  const landing = landingOf(session, request);
  const entries = applyEntries(draft.plan);
  const journal = join(engine.layout.journal, `${operationId}${JOURNAL}`);
  const { trash } = engine.layout;
  const { durability } = engine.options;
  const work = { signal: request.signal, onProgress: request.onProgress };
  // Beside each other: one may look at files, the other writes its own.
  await Promise.all([
    recordForeign(engine, draft),
    entries.length > 0 ? writeIntent(engine, { operationId, landing, ...draft }) : undefined,
  ]);
  const answered =
    entries.length === 0 ? [] : await engine.tree.apply({ operationId, journal, trash, durability, entries }, work);
  const outcomes = await withLateFaults(engine, entries, answered);
  const settle = (): SettledReceipt =>
    buildReceipt({
      operationId,
      boundaryId: request.boundary.boundaryId,
      plan: draft.plan,
      outcomes,
      irreversible: draft.irreversible,
      notes: draft.notes,
    });
  const touched = outcomes.filter((o) => o.status === 'done').map((o) => o.path);
  const written = contentsOf(entries, new Set(touched));
  const unwritten = touched.length > 0 || request.always === true ? null : settle();
  const isNothing = unwritten !== null && unwritten.settled.length + unwritten.partial.length === 0;
  const executed = isNothing
    ? { receipt: unwritten.receipt, seq: null }
    : await land(engine, landing, { operationId, touched, written, settle });
  if (entries.length > 0) {
    await engine.tree.finish(journal);
    await dropIntent(engine, operationId);
  }
  return executed;
}

/** Contents that were read from the store to write these paths; a change of mode alone reads none. */
function contentsOf(entries: readonly ApplyEntry[], written: ReadonlySet<RelPath>): ReadonlySet<Hash> {
  const contents = new Set<Hash>();
  for (const { path, expect, target } of entries) {
    const isSame = expect.kind === 'file' && target.kind === 'file' && expect.content === target.content;
    if (target.kind === 'file' && !isSame && written.has(path)) contents.add(target.content);
  }
  return contents;
}

function landingOf(session: SessionRecord, request: OperationRequest): Landing {
  const { kind, boundary, onConflict, whole = true, marks = true, takesBack = null } = request;
  const { boundaryId, seq: boundarySeq } = boundary;
  return { session: session.id, kind, boundaryId, boundarySeq, onConflict, whole, marks, takesBack };
}

/**
 * What the user did to the planned paths since the last look, and to what lies in folders that go, is in the timeline
 * and its bytes in the store before we write: it must not pass for a row of the operation.
 */
async function recordForeign(engine: Engine, { plan, known }: Draft): Promise<void> {
  const moved = new Set<RelPath>();
  for (const { path, action, expect } of plan.entries.filter(isUsable)) {
    const was = known.get(path);
    if (was === undefined || !sameVersion(was, expect)) moved.add(path);
    if (action === 'delete' && expect.kind === 'dir')
      for (const below of await engine.tree.list(path)) moved.add(below);
  }
  if (moved.size > 0) await observeLocked(engine, { kind: 'look', only: [...moved], durable: true });
}

/** A restore to a boundary, or (with a window) the undo of one turn. */
export function restoring(
  engine: Engine,
  session: SessionRecord,
  boundary: BoundaryRecord,
  request: PlanRequest & {
    kind: 'restore' | 'undo';
    planToken?: string | undefined;
    hunks?: HunkChoices | undefined;
  },
): OperationRequest {
  return {
    ...request,
    boundary,
    draft: () => draftRestore(engine, session, boundary, { ...request, locked: true }),
    marks: request.window?.invocation === undefined,
    whole: request.paths === undefined && request.hunks === undefined,
  };
}

/** A redo or an unrevert of an operation. One that took nothing is taken back by saying so. */
export async function takingBack(
  engine: Engine,
  operation: OperationRecord,
  request: WorkOptions & { onConflict: ConflictPolicy; planToken?: string | undefined; kind: 'redo' | 'unrevert' },
): Promise<OperationRequest> {
  return {
    ...request,
    always: (await engine.timeline.takenBy(operation.id)).length === 0,
    boundary: { boundaryId: operation.boundaryId, seq: operation.boundarySeq },
    draft: () => draftRedo(engine, operation, request),
    takesBack: operation.id,
  };
}
