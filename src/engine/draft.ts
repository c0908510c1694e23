/**
 * Plans: what an operation would do, from the rows, the disk and the policy; with the merges that it wants, the moves in it,
 * its token and its notes. Reads the disk and writes nothing there. `operate.ts` executes them.
 */
import { createHash } from 'node:crypto';
import type { Peek } from '../backend/backend.ts';
import { headState, ruleSources } from '../git/context.ts';
import { attribute } from '../model/attribution.ts';
import { factsByPath } from '../model/facts.ts';
import { adoptCalls } from '../model/lineage.ts';
import {
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
import { irreversibleCalls } from '../model/turns.ts';
import type { MergeNeed, ModelPlan, RedoInput, RestoreInput, Window } from '../model/types.ts';
import type { BoundaryRecord, OperationRecord, SessionRecord } from '../timeline/timeline.ts';
import {
  ABSENT,
  type ConflictPolicy,
  type Irreversible,
  type Plan,
  type PlanHunk,
  type RelPath,
  type Version,
  type WorkOptions,
} from '../types.ts';
import type { Engine } from './engine.ts';
import { keepDisk, mergeAll } from './merge.ts';
import { movedInInodes } from './moved-in.ts';
import { linkedMoves } from './moves.ts';
import { isUsable, peekKnown } from './peek.ts';
import { attributionInput } from './rows.ts';

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
  readonly irreversible: readonly Irreversible[];
  readonly notes: readonly string[];
  /** What the index knew of the paths that were looked at; empty where the caller holds no lock, and will not write. */
  readonly known: ReadonlyMap<RelPath, Version>;
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
  const [calls, lineage] = await Promise.all([
    engine.timeline.callsBetween(window.afterSeq),
    engine.timeline.lineage(session.id),
  ]);
  const { locked = false } = request;
  const read = async (): Promise<RestoreInput & Seen> => {
    const all = await attributionInput(engine, session.id, { afterSeq: boundary.seq });
    const rows = attribute(all);
    const { paths, onConflict, keepLater, signal } = request;
    const facts = factsByPath(rows, request.window);
    const seen = await see(engine, peekPaths({ rows, facts, paths }), { signal, locked });
    const uncoveredInodes = await movedInInodes(engine, { rows, peeks: [...seen.disk.values()], calls });
    const tried = triedBy(all.operations.filter((operation) => operation.session === session.id));
    return { rows, facts, ...seen, onConflict, keepLater, paths, uncoveredInodes, tried, ...windowed };
  };
  // What git says is read beside the rest.
  const [input, notes] = await Promise.all([
    withMerges(engine, { read, needs: mergeNeeds, locked }),
    gitNotes(engine, boundary),
  ]);
  const { afterSeq, toSeq } = window;
  const within = input.rows.filter(({ seq }) => seq > afterSeq && (toSeq === null || seq <= toSeq));
  const plan = await linkedMoves(engine, planRestore(input), within);
  return {
    plan,
    irreversible: irreversibleCalls(adoptCalls(calls, session.id, lineage), session.id, window),
    notes,
    known: input.known,
  };
}

interface Seen {
  readonly disk: ReadonlyMap<RelPath, Peek>;
  readonly known: Draft['known'];
}

/** What is on disk; under the lock also what the index says, on its own thread meanwhile. */
async function see(
  engine: Engine,
  paths: readonly RelPath[],
  { signal, locked }: Pick<PlanRequest, 'signal' | 'locked'>,
): Promise<Seen> {
  const asked = locked ? paths.filter((path) => isUsable({ path })) : [];
  const [peeks, versions] = await Promise.all([
    peekKnown(engine, paths, { signal }),
    asked.length === 0 ? [] : engine.tree.versions(asked),
  ]);
  return {
    disk: new Map(peeks.map((peek) => [peek.path, peek])),
    known: new Map(asked.map((path, i) => [path, versions[i] ?? ABSENT])),
  };
}

/** Plans to take an operation back: what it took comes again. Under the lock. */
export async function draftRedo(
  engine: Engine,
  operation: OperationRecord,
  { onConflict, signal }: WorkOptions & { readonly onConflict: ConflictPolicy },
): Promise<Draft> {
  const { timeline } = engine;
  const taken = await timeline.takenBy(operation.id);
  const rows = await timeline.rows(operation.seq - 1, operation.seq);
  const tried = triedBy(await timeline.operations(operation.session, { afterSeq: operation.seq }));
  const read = async (): Promise<RedoInput & Seen> => {
    const seen = await see(engine, redoPeekPaths(taken), { signal, locked: true });
    return { taken, rows, ...seen, onConflict, tried };
  };
  const input = await withMerges(engine, { read, needs: redoMergeNeeds, locked: true });
  const plan = await linkedMoves(engine, planRedo(input), rows);
  return { plan, irreversible: [], notes: [], known: input.known };
}

/** Paths at which operations failed. */
function triedBy(operations: readonly OperationRecord[]): ReadonlySet<RelPath> {
  return new Set(operations.flatMap(({ receipt }) => receipt.failed.map(({ path }) => path)));
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

/** Names a plan: another one has another token. */
export function tokenOf(plan: ModelPlan): string {
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
  boundary: Pick<BoundaryRecord, 'boundaryId'>,
  draft: Draft,
  hunks: ReadonlyMap<RelPath, readonly PlanHunk[]> = new Map(),
): Plan {
  return {
    boundaryId: boundary.boundaryId,
    token: tokenOf(draft.plan),
    entries: publicPlan(draft.plan).map((entry) => {
      const own = hunks.get(entry.path);
      return own === undefined ? entry : { ...entry, hunks: own };
    }),
    irreversible: draft.irreversible,
    uncovered: planUncovered(draft.plan),
    notes: draft.notes,
  };
}
