/**
 * Operations: restore, undo and redo are one path. Under the lock from plan to done: plan, record what the user did
 * to the planned paths, apply under guard, look at what came of it, append it as an operation, drop the journal.
 */
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { headState, ruleSources } from '../git/context.ts';
import { attribute } from '../model/attribution.ts';
import { adoptCalls } from '../model/lineage.ts';
import {
  applyEntries,
  mergeNeeds,
  peekPaths,
  planRedo,
  planRestore,
  planUncovered,
  publicPlan,
  redoMergeNeeds,
  redoPeekPaths,
  tokenBytes,
} from '../model/plan.ts';
import { buildReceipt, CALL_IS_OPEN } from '../model/receipt.ts';
import { irreversibleCalls, marksClearedByRedo, restoreMarks, undoMarks } from '../model/turns.ts';
import type { MergeNeed, ModelPlan, RedoInput, RestoreInput, SettledReceipt, Window } from '../model/types.ts';
import type { Append, BoundaryRecord, OperationKind, OperationRecord, SessionRecord } from '../timeline/timeline.ts';
import {
  ABSENT,
  type ConflictPolicy,
  type Irreversible,
  type Plan,
  type PlanHunk,
  type Receipt,
  type RelPath,
  type WorkOptions,
} from '../types.ts';
import { sameVersion } from '../wire.ts';
import { UnavailableError } from './answers.ts';
import type { Engine } from './engine.ts';
import { type HunkChoices, onlyHunks } from './hunks.ts';
import { keepDisk, mergeAll } from './merge.ts';
import { movedInInodes } from './moved-in.ts';
import { linkedMoves } from './moves.ts';
import { type ObserveContext, type Observed, observeLocked } from './observe.ts';
import { isUsable, peekKnown } from './peek.ts';
import { sameRoot } from './root.ts';
import { attributionInput } from './rows.ts';
import { tellOperation } from './tell.ts';

export interface PlanRequest extends WorkOptions {
  readonly paths?: readonly RelPath[] | undefined;
  readonly onConflict: ConflictPolicy;
  /** Take back only the turn, or the call, in this window. */
  readonly window?: Window;
  /** Changes since are merged whatever the policy. */
  readonly keepLater?: boolean;
  /** The caller holds the lock. */
  readonly locked?: boolean;
}

/** A plan with what its execution needs. */
export interface Draft {
  readonly plan: ModelPlan;
  readonly token: string;
  readonly irreversible: readonly Irreversible[];
  readonly notes: readonly string[];
}

/** @throws {UnavailableError} no-checkpoint, unknown-boundary, root-changed */
export async function findBoundary(
  engine: Engine,
  session: SessionRecord | null,
  boundaryId: string,
): Promise<BoundaryRecord> {
  const head = await engine.timeline.head();
  const newest =
    session === null ? undefined : (await engine.timeline.boundaries(session.id, { limit: 1, all: true }))[0];
  if (session === null || head.seq === 0 || newest === undefined) {
    throw new UnavailableError('no-checkpoint', 'the session has no checkpoint yet: capture a boundary first');
  }
  const boundary = await engine.timeline.boundary(session.id, boundaryId);
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

/** Plans a way back to a boundary. Reads the disk, writes nothing there; what a merge needs and makes is stored. */
export async function draftRestore(
  engine: Engine,
  session: SessionRecord,
  boundary: BoundaryRecord,
  request: PlanRequest,
): Promise<Draft> {
  const window = request.window ?? { afterSeq: boundary.seq, toSeq: null };
  const windowed = request.window === undefined ? {} : { window: request.window };
  const calls = await engine.timeline.callsBetween(window.afterSeq);
  const read = async (): Promise<RestoreInput> => {
    const rows = attribute(await attributionInput(engine, session.id, { afterSeq: boundary.seq }));
    const { paths, onConflict, keepLater, signal } = request;
    const peeks = await peekKnown(engine, peekPaths({ rows, paths, ...windowed }), { signal });
    const disk = new Map(peeks.map((peek) => [peek.path, peek]));
    const uncoveredInodes = await movedInInodes(engine, { rows, peeks, calls });
    return { rows, disk, onConflict, keepLater, paths, uncoveredInodes, ...windowed };
  };
  const restore = planRestore(await withMerges(engine, { read, needs: mergeNeeds, locked: request.locked ?? false }));
  const lineage = await engine.timeline.lineage(session.id);
  const plan = await linkedMoves(engine, restore);
  return {
    plan,
    token: tokenOf(plan),
    irreversible: irreversibleCalls(adoptCalls(calls, session.id, lineage), session.id, window),
    notes: await gitNotes(engine, boundary),
  };
}

interface Merging<T> {
  readonly read: () => Promise<T>;
  readonly needs: (input: T) => MergeNeed[];
  readonly locked: boolean;
}

/** Reads a plan's input, and again once the disk's bytes are kept; with the merges that it wants. */
async function withMerges<T extends RestoreInput | RedoInput>(
  engine: Engine,
  { read, needs, locked }: Merging<T>,
): Promise<T> {
  const first = await read();
  const wanted = needs(first);
  if (!(await keepDisk(engine, wanted, locked))) return { ...first, merges: await mergeAll(engine, wanted) };
  const input = await read();
  return { ...input, merges: await mergeAll(engine, needs(input)) };
}

function tokenOf(plan: ModelPlan): string {
  return createHash('sha256').update(tokenBytes(plan)).digest('hex');
}

async function gitNotes(engine: Engine, boundary: BoundaryRecord): Promise<string[]> {
  const now = await headState(await ruleSources(engine.layout.root, engine.settings));
  if (now === boundary.head) return [];
  return [
    'git: HEAD or its branch moved since the boundary. Git metadata is not covered: commits, index and refs stay as they are.',
  ];
}

/** The plan as a caller sees it. */
export function toPlan(
  boundary: BoundaryRecord,
  draft: Draft,
  hunks: ReadonlyMap<RelPath, readonly PlanHunk[]> = new Map(),
): Plan {
  return {
    boundaryId: boundary.boundaryId,
    token: draft.token,
    entries: publicPlan(draft.plan).map((entry) => {
      const own = hunks.get(entry.path);
      return own === undefined ? entry : { ...entry, hunks: own };
    }),
    irreversible: draft.irreversible,
    uncovered: planUncovered(draft.plan),
    notes: draft.notes,
  };
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
  /** What else lands with it, once it is known what was settled. */
  readonly effects: (
    settled: SettledReceipt,
    context: ObserveContext,
  ) => Promise<Pick<Append, 'taken' | 'returned' | 'markUndone' | 'clearUndone'>>;
  readonly takesBack?: OperationRecord;
  /** Recorded also where nothing was settled and nothing had to be: it is a state, not only what was written. */
  readonly always?: boolean;
}

/** Runs in the engine's queue. Nothing is appended where nothing was settled, unless `always`. */
export async function operate(engine: Engine, session: SessionRecord, request: OperationRequest): Promise<Receipt> {
  await engine.checkRoot();
  const receipt = await engine.locked(async () => {
    await engine.catchUp();
    await refuseOpenCalls(engine, session);
    const draft = await request.draft();
    if (request.planToken !== undefined && request.planToken !== draft.token) {
      throw new UnavailableError(
        'stale-plan',
        'files changed since the plan was made; make a new plan and look at it again',
      );
    }
    if (request.hunks === undefined) return execute(engine, session, request, draft);
    const plan = await onlyHunks(engine, draft.plan, request.hunks);
    return execute(engine, session, request, { ...draft, plan });
  }, request.signal);
  await tellOperation(engine, session, receipt);
  return receipt;
}

async function execute(
  engine: Engine,
  session: SessionRecord,
  request: OperationRequest,
  draft: Draft,
): Promise<Receipt> {
  const operationId = randomBytes(16).toString('hex');
  const entries = applyEntries(draft.plan);
  await recordForeign(engine, draft.plan);
  const journal = join(engine.layout.journal, `${operationId}.journal`);
  const { trash } = engine.layout;
  const { durability } = engine.options;
  const work = { signal: request.signal, onProgress: request.onProgress };
  const outcomes =
    entries.length === 0 ? [] : await engine.tree.apply({ operationId, journal, trash, durability, entries }, work);
  const settled = buildReceipt({
    operationId,
    boundaryId: request.boundary.boundaryId,
    plan: draft.plan,
    outcomes,
    irreversible: draft.irreversible,
    notes: draft.notes,
  });
  const touched = outcomes.filter((o) => o.status === 'done').map((o) => o.path);
  if (settled.settled.length + settled.partial.length > 0 || request.always === true)
    await append(engine, session, { request, settled, touched });
  if (entries.length > 0) await engine.tree.finish(journal);
  return settled.receipt;
}

/**
 * What the user did to the planned paths since the last look, and to what lies in folders that go, is in the timeline
 * and its bytes in the store before we write: it must not pass for a row of the operation.
 */
async function recordForeign(engine: Engine, plan: ModelPlan): Promise<void> {
  const entries = plan.entries.filter(isUsable);
  const known = await engine.tree.versions(entries.map((entry) => entry.path));
  const moved = new Set<RelPath>();
  for (const [i, { path, action, expect }] of entries.entries()) {
    if (!sameVersion(known[i] ?? ABSENT, expect)) moved.add(path);
    if (action === 'delete' && expect.kind === 'dir')
      for (const below of await engine.tree.list(path)) moved.add(below);
  }
  if (moved.size > 0) await observeLocked(engine, { kind: 'look', only: [...moved], durable: true });
}

interface Outcome {
  readonly request: OperationRequest;
  readonly settled: SettledReceipt;
  readonly touched: readonly RelPath[];
}

/** One observation of the paths that were written, with the operation in the same transaction. */
async function append(
  engine: Engine,
  session: SessionRecord,
  { request, settled, touched }: Outcome,
): Promise<Observed> {
  const { receipt } = settled;
  return observeLocked(engine, {
    kind: 'operation',
    only: touched,
    operation: receipt.operationId,
    durable: true,
    effects: async (context) => ({
      ...(await request.effects(settled, context)),
      operation: {
        id: receipt.operationId,
        session: session.id,
        kind: request.kind,
        boundaryId: request.boundary.boundaryId,
        boundarySeq: request.boundary.seq,
        createdAt: Date.now(),
        onConflict: request.onConflict,
        receipt,
        takesBack: request.takesBack?.id ?? null,
      },
    }),
  });
}

/** Restores to a boundary, or (with a window) takes back one turn. */
export async function restoreTo(
  engine: Engine,
  session: SessionRecord,
  boundary: BoundaryRecord,
  request: PlanRequest & {
    kind: 'restore' | 'undo';
    planToken?: string | undefined;
    hunks?: HunkChoices | undefined;
  },
): Promise<Receipt> {
  return operate(engine, session, {
    kind: request.kind,
    boundary,
    onConflict: request.onConflict,
    signal: request.signal,
    onProgress: request.onProgress,
    planToken: request.planToken,
    hunks: request.hunks,
    draft: () => draftRestore(engine, session, boundary, { ...request, locked: true }),
    effects: async (settled, { seq }) => ({
      // Hunks take back no row whole: a span that is turned around holds none, and says from where on they took parts.
      taken: [
        ...settled.settled,
        ...settled.partial.map(({ path, fromSeq }) => ({ path, fromSeq: seq, toSeq: fromSeq })),
      ],
      markUndone:
        request.kind === 'undo' && request.window?.invocation !== undefined
          ? []
          : request.kind === 'undo'
            ? undoMarks({ boundary, window: { afterSeq: boundary.seq, toSeq: null } }, settled.settled.length)
            : restoreMarks(await boundariesFrom(engine, session, boundary.seq), {
                boundarySeq: boundary.seq,
                settledAll: settled.settledAll,
                whole: request.paths === undefined && request.hunks === undefined,
              }),
    }),
  });
}

/** Boundaries a page when the history is walked back. */
const PAGE = 64;

/** The session's live boundaries from a seq on, newest first. */
export async function boundariesFrom(
  engine: Engine,
  session: SessionRecord,
  fromSeq: number,
): Promise<BoundaryRecord[]> {
  const found: BoundaryRecord[] = [];
  for (let beforeSeq: number | undefined; ; beforeSeq = found.at(-1)?.seq) {
    const page = await engine.timeline.boundaries(session.id, {
      limit: PAGE,
      ...(beforeSeq === undefined ? {} : { beforeSeq }),
    });
    const wanted = page.filter((boundary) => boundary.seq >= fromSeq);
    found.push(...wanted);
    if (wanted.length < PAGE) return found;
  }
}

/** Takes an operation of the session back. One that took nothing is taken back by saying so. */
export async function takeBack(
  engine: Engine,
  session: SessionRecord,
  operation: OperationRecord,
  request: WorkOptions & { onConflict: ConflictPolicy; kind?: 'redo' | 'unrevert' },
): Promise<Receipt> {
  const { timeline } = engine;
  const draft = async (): Promise<Draft> => {
    const taken = await timeline.takenBy(operation.id);
    const rows = await timeline.rows(operation.seq - 1, operation.seq);
    const read = async (): Promise<RedoInput> => {
      const peeks = await peekKnown(engine, redoPeekPaths(taken), { signal: request.signal });
      return { taken, rows, disk: new Map(peeks.map((peek) => [peek.path, peek])), onConflict: request.onConflict };
    };
    const redo = planRedo(await withMerges(engine, { read, needs: redoMergeNeeds, locked: true }));
    const plan = await linkedMoves(engine, redo);
    return { plan, token: tokenOf(plan), irreversible: [], notes: [] };
  };
  return operate(engine, session, {
    kind: request.kind ?? 'redo',
    always: (await timeline.takenBy(operation.id)).length === 0,
    boundary: { boundaryId: operation.boundaryId, seq: operation.boundarySeq },
    onConflict: request.onConflict,
    signal: request.signal,
    onProgress: request.onProgress,
    draft,
    takesBack: operation,
    effects: async (settled) => ({
      returned: settled.settled.map((s) => s.path),
      clearUndone: marksClearedByRedo(await boundariesFrom(engine, session, operation.boundarySeq), operation.id),
    }),
  });
}
