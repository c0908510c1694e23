/**
 * Finds the moves among changes and among the entries of a plan: what inodes proved when it was seen (`move-links.ts`),
 * then what the content tells (`model/moves.ts` pairs, this reads the bytes that it asks for). Where bytes are missing,
 * the two ends stay a deletion and a creation: a move is a way of telling.
 */
import { summarize } from '../model/changes.ts';
import { provenMoves, reversedMoves } from '../model/move-links.ts';
import {
  exactMoves,
  foldMoves,
  type Move,
  type MoveEnds,
  movesBetween,
  readForMoves,
  similarMoves,
  withoutMoves,
} from '../model/moves.ts';
import { linkMoves } from '../model/plan.ts';
import type { ModelPlan, PathChange } from '../model/types.ts';
import type { Hash, Row } from '../types.ts';
import type { Engine } from './engine.ts';

/**
 * What the rows changed, one change a path, both ends of each move folded into one.
 *
 * @param rows in timeline order
 */
export async function foldedChanges(engine: Engine, rows: readonly Row[]): Promise<PathChange[]> {
  return fold(engine, summarize(rows), provenMoves(rows));
}

/** The way back. */
export async function foldedChangesBack(engine: Engine, rows: readonly Row[]): Promise<PathChange[]> {
  return fold(engine, summarize(rows).map(reversed), reversedMoves(provenMoves(rows)));
}

const BACK = { created: 'deleted', deleted: 'created', modified: 'modified', moved: 'moved' } as const;

function reversed(change: PathChange): PathChange {
  return { ...change, kind: BACK[change.kind], before: change.after, after: change.before };
}

async function fold(engine: Engine, changes: readonly PathChange[], proven: readonly Move[]): Promise<PathChange[]> {
  const gone = changes.filter(({ kind }) => kind === 'deleted');
  const made = changes.filter(({ kind }) => kind === 'created');
  const ends = {
    gone: gone.map(({ path, before }) => ({ path, version: before })),
    made: made.map(({ path, after }) => ({ path, version: after })),
  };
  return foldMoves(changes, await movesOf(engine, ends, proven));
}

/**
 * The plan with the two entries of each move naming each other.
 *
 * @param rows that it takes back, in timeline order
 */
export async function linkedMoves(engine: Engine, plan: ModelPlan, rows: readonly Row[]): Promise<ModelPlan> {
  const gone = plan.entries.filter(({ last, target }) => last.kind !== 'absent' && target.kind === 'absent');
  const made = plan.entries.filter(({ last, target }) => last.kind === 'absent' && target.kind !== 'absent');
  const ends = {
    gone: gone.map(({ path, last }) => ({ path, version: last })),
    made: made.map(({ path, target }) => ({ path, version: target })),
  };
  return linkMoves(plan, await movesOf(engine, ends, reversedMoves(provenMoves(rows))));
}

async function movesOf(engine: Engine, ends: MoveEnds, proven: readonly Move[]): Promise<Move[]> {
  if (ends.gone.length === 0 || ends.made.length === 0) return [];
  const known = movesBetween(ends, proven);
  const left = withoutMoves(ends, known);
  const exact = exactMoves(left);
  const candidates = readForMoves(left, exact);
  const bytes = new Map<Hash, Uint8Array>();
  for (const { content } of [...candidates.gone, ...candidates.made]) {
    if (bytes.has(content)) continue;
    const read = await engine.blobs.read(content).catch((error: unknown) => {
      engine.options.logger?.warn('a move could not be looked for: bytes are missing', error);
      return null;
    });
    if (read !== null) bytes.set(content, read);
  }
  return [...known, ...exact, ...similarMoves(candidates, bytes)];
}
