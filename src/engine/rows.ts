/** What the model needs to know of a range of the timeline, in one place. */
import { adopt } from '../model/lineage.ts';
import type { AttributionInput } from '../model/types.ts';
import type { Change, RelPath } from '../types.ts';
import type { Engine } from './engine.ts';
import type { Moment } from './observe.ts';

export interface Range {
  readonly afterSeq: number;
  readonly toSeq?: number;
  /** These paths only (exact). */
  readonly paths?: readonly RelPath[];
  /** The first so many rows only. Not with `paths`. */
  readonly limit?: number;
}

export async function attributionInput(engine: Engine, session: number, range: Range): Promise<AttributionInput> {
  const { timeline } = engine;
  const { afterSeq, toSeq, paths, limit } = range;
  const [lineage, rows, calls, observations, operations, taken] = await Promise.all([
    timeline.lineage(session),
    limit === undefined ? timeline.rows(afterSeq, toSeq, paths) : timeline.firstRows(afterSeq, toSeq, limit),
    timeline.callsBetween(afterSeq, toSeq),
    timeline.observations(afterSeq, toSeq),
    timeline.operationsAfter(afterSeq),
    timeline.taken(session, afterSeq),
  ]);
  const inherited = await Promise.all(lineage.map((a) => timeline.taken(a.session, afterSeq, a.forkSeq)));
  return adopt({ session, rows, calls, observations, operations, taken: [...inherited.flat(), ...taken] }, lineage);
}

/**
 * The same for the newest observation alone, of a look that was no operation, without a question to the timeline. Nothing
 * that an earlier operation took back, and no fork, reaches past it.
 */
export function rowsOfOne(one: {
  session: number;
  seq: number;
  changes: readonly Change[];
  moment: Moment;
}): AttributionInput {
  const { session, seq, changes, moment } = one;
  const rows = changes.map(({ path, before, after, flags, movedFrom }) => ({
    seq,
    path,
    before,
    after,
    flags,
    movedFrom,
  }));
  const observation = { seq, id: '', kind: 'look' as const, createdAt: 0, operation: null, overlap: moment.overlap };
  return { session, rows, calls: moment.open, observations: [observation], operations: [], taken: [] };
}
