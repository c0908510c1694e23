/**
 * Folds what nobody can go back to any more: rows of one path that are nobody's, with no live boundary and no begin or
 * end of a call between them, become one row. What a dropped session made over many turns then costs its last bytes
 * only, whatever older boundaries other sessions hold (DESIGN §9, `drop`).
 *
 * Positions inside a fold are marked in the timeline and are not answered any more: their content is gone. Does not
 * cover: rows that a session owns, rows of operations, and the user's changes between two live boundaries.
 */
import type { CallRecord, Fold } from '../timeline/timeline.ts';
import { type RelPath, type Row, RowFlag } from '../types.ts';
import type { Engine } from './engine.ts';

/** Under the lock. Answers how many rows went. */
export async function foldNobodys(engine: Engine): Promise<number> {
  const { timeline } = engine;
  const manifest = await timeline.newestManifest();
  if (manifest === null) return 0;
  const calls = await timeline.callsBetween(manifest.seq);
  const operated = new Set(
    (await timeline.observations(manifest.seq)).filter((o) => o.operation !== null).map((o) => o.seq),
  );
  const stops = [...(await timeline.liveBoundaries()).map((boundary) => boundary.seq), ...calls.flatMap(endsOf)];
  stops.sort((a, b) => a - b);
  const isNobodys = (row: Row): boolean =>
    (row.flags & (RowFlag.late | RowFlag.coverage)) === 0 &&
    !operated.has(row.seq) &&
    !calls.some((call) => call.beginSeq < row.seq && (call.endSeq === null || call.endSeq >= row.seq));
  const folds = foldsOf(await timeline.rows(manifest.seq), { isNobodys, stops });
  await timeline.fold(folds);
  return folds.reduce((sum, fold) => sum + fold.seqs.length - 1, 0);
}

function endsOf(call: CallRecord): number[] {
  return call.endSeq === null ? [call.beginSeq] : [call.beginSeq, call.endSeq];
}

interface FoldRules {
  readonly isNobodys: (row: Row) => boolean;
  /** Sorted seqs that somebody may go back to. */
  readonly stops: readonly number[];
}

function foldsOf(rows: readonly Row[], { isNobodys, stops }: FoldRules): Fold[] {
  const runs = new Map<RelPath, number[]>();
  const folds: Fold[] = [];
  const end = (path: RelPath): void => {
    const seqs = runs.get(path);
    if (seqs !== undefined && seqs.length > 1) folds.push({ path, seqs });
    runs.delete(path);
  };
  for (const row of rows) {
    const last = runs.get(row.path)?.at(-1);
    const joins = isNobodys(row);
    if (last !== undefined && (!joins || stopsBetween(stops, last, row.seq))) end(row.path);
    if (!joins) continue;
    const run = runs.get(row.path);
    if (run === undefined) runs.set(row.path, [row.seq]);
    else run.push(row.seq);
  }
  for (const path of [...runs.keys()]) end(path);
  return folds;
}

/** True where a stop N lies with from ≤ N < to. */
function stopsBetween(stops: readonly number[], from: number, to: number): boolean {
  let low = 0;
  let high = stops.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((stops[middle] as number) < from) low = middle + 1;
    else high = middle;
  }
  return low < stops.length && (stops[low] as number) < to;
}
