/**
 * Finds the moves among changes and among the entries of a plan: `model/moves.ts` pairs, this reads the bytes that it
 * asks for. Where bytes are missing, the two ends stay a deletion and a creation: a move is a way of telling.
 */
import { exactMoves, foldMoves, type Move, type MoveEnds, readForMoves, similarMoves } from '../model/moves.ts';
import { linkMoves } from '../model/plan.ts';
import type { ModelPlan, PathChange } from '../model/types.ts';
import type { Hash } from '../types.ts';
import type { Engine } from './engine.ts';

/** The changes with both ends of each move folded into one. */
export async function foldedMoves(engine: Engine, changes: readonly PathChange[]): Promise<PathChange[]> {
  const gone = changes.filter(({ kind }) => kind === 'deleted');
  const made = changes.filter(({ kind }) => kind === 'created');
  const moves = await movesOf(engine, {
    gone: gone.map(({ path, before }) => ({ path, version: before })),
    made: made.map(({ path, after }) => ({ path, version: after })),
  });
  return foldMoves(changes, moves);
}

/** The plan with the two entries of each move naming each other. */
export async function linkedMoves(engine: Engine, plan: ModelPlan): Promise<ModelPlan> {
  const gone = plan.entries.filter(({ last, target }) => last.kind !== 'absent' && target.kind === 'absent');
  const made = plan.entries.filter(({ last, target }) => last.kind === 'absent' && target.kind !== 'absent');
  const moves = await movesOf(engine, {
    gone: gone.map(({ path, last }) => ({ path, version: last })),
    made: made.map(({ path, target }) => ({ path, version: target })),
  });
  return linkMoves(plan, moves);
}

async function movesOf(engine: Engine, ends: MoveEnds): Promise<Move[]> {
  if (ends.gone.length === 0 || ends.made.length === 0) return [];
  const exact = exactMoves(ends);
  const candidates = readForMoves(ends, exact);
  const bytes = new Map<Hash, Uint8Array>();
  for (const { content } of [...candidates.gone, ...candidates.made]) {
    if (bytes.has(content)) continue;
    const read = await engine.blobs.read(content).catch((error: unknown) => {
      engine.options.logger?.warn('a move could not be looked for: bytes are missing', error);
      return null;
    });
    if (read !== null) bytes.set(content, read);
  }
  return [...exact, ...similarMoves(candidates, bytes)];
}
