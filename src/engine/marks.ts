/** A change of a session's own in a turn that was undone makes the turn one that can be undone again. */
import { attribute } from '../model/attribution.ts';
import type { Append, BoundaryRecord } from '../timeline/timeline.ts';
import type { Engine } from './engine.ts';
import type { ObserveContext } from './observe.ts';

/** Undo marks that the changes of an observation, not yet appended, take away. */
export async function clearedMarks(engine: Engine, context: ObserveContext): Promise<Pick<Append, 'clearUndone'>> {
  if (context.changes.length === 0) return {};
  const { timeline } = engine;
  const calls = context.open;
  const cleared: BoundaryRecord[] = [];
  for (const session of new Set(calls.map((call) => call.session))) {
    const turn = (await timeline.boundaries(session, { limit: 1 }))[0];
    if (turn === undefined || turn.undoneBy === null) continue;
    const rows = attribute({
      session,
      rows: context.changes.map((change) => ({ ...change, seq: context.seq })),
      calls,
      observations: [],
      operations: [],
      taken: [],
    });
    if (rows.some((row) => row.owed)) cleared.push(turn);
  }
  return cleared.length === 0
    ? {}
    : { clearUndone: cleared.map(({ session, boundaryId }) => ({ session, boundaryId })) };
}
