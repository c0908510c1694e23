/**
 * Tells listeners which files changed: at each end of a call and after each operation, moves as one change, with patches
 * where somebody listens. Each change of a session is told once, also where its calls overlap.
 *
 * The work that is told of is done: a fault in here is logged, and costs the patch or the event, never the work.
 */
import { attribute } from '../model/attribution.ts';
import type { AttributedRow, PathChange } from '../model/types.ts';
import type { CallRecord, SessionRecord } from '../timeline/timeline.ts';
import type { Receipt, RelPath, Row } from '../types.ts';
import type { Engine } from './engine.ts';
import type { Origin, ToldChange } from './events.ts';
import { foldedChanges } from './moves.ts';
import { pathPatch } from './query.ts';
import { attributionInput } from './rows.ts';

/** Guessed: a view shows no more of one file, and each listener gets it as one string. Bytes, either side. */
const PATCHED_BYTES = 1024 * 1024;

/** What the session's calls changed since its last telling, once a call has ended. */
export function tellEnd(engine: Engine, session: SessionRecord, call: CallRecord, endSeq: number): Promise<void> {
  return telling(engine, async () => {
    const { events } = engine;
    const afterSeq = events.toldSeq(session) ?? (await firstOverlap(engine, session, call));
    events.markTold(session, endSeq);
    if (!events.listens) return;
    const input = await attributionInput(engine, session.id, { afterSeq, toSeq: endSeq });
    const rows = attribute(input).filter(
      (row) => row.operation === undefined && (row.owner === 'own' || row.owner === 'contested'),
    );
    const own = new Map(input.calls.filter((c) => c.session === session.id).map((c) => [c.invocation, c.callId]));
    await emit(engine, rows, { origin: originOf(session), sole: soleCalls(rows, own) });
  });
}

/** What an operation wrote. `seq`: its observation; null where it wrote nothing, and there is nothing to tell. */
export function tellOperation(
  engine: Engine,
  session: SessionRecord,
  { receipt, seq }: { receipt: Receipt; seq: number | null },
): Promise<void> {
  return telling(engine, async () => {
    if (seq === null) return;
    engine.events.markTold(session, seq);
    if (!engine.events.listens) return;
    const rows = await engine.timeline.rows(seq - 1, seq);
    await emit(engine, rows, { origin: { ...originOf(session), operationId: receipt.operationId }, sole: new Map() });
  });
}

async function telling(engine: Engine, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    engine.options.logger?.error('listeners could not be told of changes', error);
  }
}

function originOf({ threadId, tenantId }: SessionRecord): Origin {
  return { threadId, ...(tenantId === null ? {} : { tenantId }) };
}

/** Begin of the session's first call that overlaps this one: what those that are still open did is told with it. */
async function firstOverlap(engine: Engine, session: SessionRecord, call: CallRecord): Promise<number> {
  const overlapping = (await engine.timeline.callsBetween(call.beginSeq)).filter((c) => c.session === session.id);
  return Math.min(call.beginSeq, ...overlapping.map((c) => c.beginSeq));
}

/** For each path the id of the one call of the session that can have made all that happened there. */
function soleCalls(rows: readonly AttributedRow[], own: ReadonlyMap<number, string>): Map<RelPath, string> {
  const candidates = new Map<RelPath, Set<number>>();
  for (const row of rows) {
    const known = candidates.get(row.path) ?? new Set();
    candidates.set(row.path, known);
    for (const invocation of row.candidates) known.add(invocation);
  }
  const sole = new Map<RelPath, string>();
  for (const [path, invocations] of candidates) {
    const [only] = invocations;
    const callId = invocations.size === 1 ? own.get(only as number) : undefined;
    if (callId !== undefined) sole.set(path, callId);
  }
  return sole;
}

interface Telling {
  readonly origin: Origin;
  readonly sole: ReadonlyMap<RelPath, string>;
}

async function emit(engine: Engine, rows: readonly Row[], { origin, sole }: Telling): Promise<void> {
  const { events } = engine;
  const changes = (await foldedChanges(engine, rows)).filter(isTold);
  const callOf = ({ path, from }: PathChange): string | undefined =>
    from === undefined || sole.get(from) === sole.get(path) ? sole.get(path) : undefined;
  const told: ToldChange[] = [];
  for (const change of changes.slice(0, events.maxFileEvents)) {
    const toolCallId = callOf(change);
    const patch = await patchText(engine, change);
    told.push({
      change,
      ...(toolCallId === undefined ? {} : { toolCallId }),
      ...(patch === undefined ? {} : { patch }),
    });
  }
  const calls = new Set(changes.map(callOf));
  const [only] = calls;
  const more = calls.size === 1 && only !== undefined ? { toolCallId: only } : {};
  events.changes(told, { origin, more: { total: changes.length, ...more } });
}

/** Secret files, and files that rules hide, are nobody's news. */
function isTold({ before, after }: PathChange): boolean {
  return ![before, after].some((v) => v.kind === 'uncovered' && (v.reason === 'secret' || v.reason === 'ignored'));
}

async function patchText(engine: Engine, change: PathChange): Promise<string | undefined> {
  const large = [change.before, change.after].some((v) => v.kind === 'file' && v.size > PATCHED_BYTES);
  if (large) return undefined;
  try {
    return (await pathPatch(engine, change))?.bytes.toString('utf8');
  } catch (error) {
    engine.options.logger?.warn(`an event has no patch: ${change.path}`, error);
    return undefined;
  }
}
