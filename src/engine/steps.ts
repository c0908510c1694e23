/**
 * The steps of a session that changed something: read from the newest turn back, a page at a time, so that a long history
 * costs no more than what is asked for.
 *
 * Steps of turns that a restore made unknown are left out, as in the timeline, and those whose rows retention has cut.
 */
import type { Step } from '../api.ts';
import { attribute } from '../model/attribution.ts';
import { publicChange, summarize } from '../model/changes.ts';
import { type StepCalls, stepsOf } from '../model/steps.ts';
import type { AttributedRow } from '../model/types.ts';
import type { BoundaryRecord, CallRecord, SessionRecord } from '../timeline/timeline.ts';
import type { Engine } from './engine.ts';
import { foldedChanges } from './moves.ts';
import { encodePosition } from './position.ts';
import { attributionInput } from './rows.ts';

/** Boundaries a page, at most. */
const PAGE = 64;

/** What was read so far. */
interface History {
  readonly session: SessionRecord;
  /** Of every session: subagents' calls are found by their parents. */
  readonly calls: Map<number, CallRecord>;
  /** The session's own, of turns that are known. */
  readonly own: CallRecord[];
  /** By invocation of the session's call. In timeline order. */
  readonly rows: Map<number, AttributedRow[]>;
}

/** The newest `limit` steps, oldest first. */
export async function sessionSteps(engine: Engine, session: SessionRecord | null, limit: number): Promise<Step[]> {
  if (session === null) return [];
  await engine.catchUp();
  const head = await engine.timeline.head();
  const oldest = (await engine.timeline.newestManifest())?.seq ?? 0;
  const history: History = { session, calls: new Map(), own: [], rows: new Map() };
  const size = Math.min(PAGE, limit);
  let found: StepCalls[] = [];
  for (let toSeq: number | undefined; found.length <= limit; ) {
    const page = await engine.timeline.boundaries(session.id, {
      all: true,
      limit: size,
      ...(toSeq === undefined ? {} : { beforeSeq: toSeq }),
    });
    const first = page.at(-1);
    if (first === undefined || (toSeq !== undefined && toSeq <= oldest)) break;
    await readPage(engine, history, { page, afterSeq: Math.max(first.seq, oldest), toSeq });
    found = stepsOf(history.own).filter((step) => summarize(rowsOf(step, history)).length > 0);
    toSeq = first.seq;
  }
  return Promise.all(found.slice(-limit).map((step) => told(engine, step, { history, headSeq: head.seq })));
}

async function readPage(
  engine: Engine,
  history: History,
  { page, afterSeq, toSeq }: { page: readonly BoundaryRecord[]; afterSeq: number; toSeq: number | undefined },
): Promise<void> {
  const { session, calls, own, rows } = history;
  const input = await attributionInput(engine, session.id, {
    afterSeq,
    ...(toSeq === undefined ? {} : { toSeq }),
  });
  const unknown = new Set(page.filter(({ state }) => state === 'discarded').map(({ seq }) => seq));
  for (const call of input.calls) {
    calls.set(call.invocation, call);
    const begins = call.beginSeq > afterSeq && (toSeq === undefined || call.beginSeq < toSeq);
    if (call.session === session.id && begins && !unknown.has(call.turnSeq)) own.push(call);
  }
  const older = new Map<number, AttributedRow[]>();
  for (const row of attribute(input)) {
    if (row.operation !== undefined || (row.owner !== 'own' && row.owner !== 'contested')) continue;
    for (const invocation of new Set(row.candidates.flatMap((id) => ownCall(history, id)))) {
      const list = older.get(invocation);
      if (list === undefined) older.set(invocation, [row]);
      else list.push(row);
    }
  }
  for (const [invocation, list] of older) rows.set(invocation, [...list, ...(rows.get(invocation) ?? [])]);
}

/** The session's call that a candidate is, or lies in. */
function ownCall({ calls, session }: History, invocation: number): number[] {
  const seen = new Set<number>();
  for (let at: number | null = invocation; at !== null && !seen.has(at); at = calls.get(at)?.parent ?? null) {
    if (calls.get(at)?.session === session.id) return [at];
    seen.add(at);
  }
  return [];
}

/** The rows of a step's calls, each once, in timeline order. */
function rowsOf(step: StepCalls, { rows }: History): AttributedRow[] {
  const found = new Set(step.calls.flatMap(({ invocation }) => rows.get(invocation) ?? []));
  return [...found].sort((a, b) => a.seq - b.seq);
}

async function told(
  engine: Engine,
  step: StepCalls,
  { history, headSeq }: { history: History; headSeq: number },
): Promise<Step> {
  const { storeId } = engine.timeline;
  return {
    id: step.id,
    from: encodePosition(storeId, Math.min(...step.calls.map(({ beginSeq }) => beginSeq))),
    to: encodePosition(storeId, Math.max(...step.calls.map(({ endSeq }) => endSeq ?? headSeq))),
    files: (await foldedChanges(engine, rowsOf(step, history))).map(publicChange),
    toolCallIds: [...new Set(step.calls.map(({ callId }) => callId))],
  };
}
