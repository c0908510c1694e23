/**
 * Undo and redo, revert and unrevert: which turn or operation is next, and what is said of it. The doing is that of
 * `engine/operate.ts` and `engine/revert.ts`.
 *
 * A turn is undone while it carries the mark of an operation (a redo, or a new change of the session's own in the turn,
 * takes it away). Redo is open while neither a capture nor a change of the session's own came after the operation.
 */
import type { HistoryResult } from './api.ts';
import { UnavailableError } from './engine/answers.ts';
import type { Engine } from './engine/engine.ts';
import { endDeadCalls } from './engine/observe.ts';
import {
  findBoundary,
  type OperationRequest,
  operate,
  preview,
  refuseOpenCalls,
  restoring,
  takingBack,
} from './engine/operate.ts';
import { callOf, messagePosition, refuseStandingRevert, reverting, standingRevert } from './engine/revert.ts';
import { attributionInput } from './engine/rows.ts';
import { attribute } from './model/attribution.ts';
import {
  keptPaths,
  NOTHING_TO_REDO,
  NOTHING_TO_UNDO,
  NOTHING_TO_UNREVERT,
  NOTHING_WRITTEN,
  redoText,
  revertedText,
  revertText,
  undoText,
  unrevertText,
} from './model/receipt.ts';
import type { AttributedRow, Turn, Window } from './model/types.ts';
import type { BoundaryRecord, OperationRecord, SessionRecord } from './timeline/timeline.ts';
import type { ConflictPolicy, Receipt, WorkOptions } from './types.ts';

/** How an operation is to be done, or only to be told of. */
export interface HistoryRequest extends WorkOptions {
  /** Plan it, write nothing. */
  readonly dryRun: boolean | undefined;
  /** Refuse where this is not its plan any more. */
  readonly planToken: string | undefined;
}

export interface UndoRequest extends HistoryRequest {
  readonly boundaryId: string | undefined;
  readonly onConflict: ConflictPolicy;
}

function nothing(message: string): HistoryResult {
  return { message, outcome: 'nothing' };
}

/** Does it and says what came of it; or, on a dry run, says what it would do. */
async function perform(
  engine: Engine,
  session: SessionRecord,
  operation: OperationRequest,
  { dryRun, say }: { dryRun: boolean | undefined; say: (receipt: Receipt) => HistoryResult },
): Promise<HistoryResult> {
  if (dryRun === true) return { ...nothing(NOTHING_WRITTEN), plan: await preview(engine, session, operation) };
  return say(await operate(engine, session, operation));
}

/** Takes back the session's newest turn that has owed rows and no undo mark, or the turn of a boundary. */
export async function undoNewest(
  engine: Engine,
  session: SessionRecord | null,
  request: UndoRequest,
): Promise<HistoryResult> {
  await engine.checkRoot();
  await engine.catchUp();
  if (session === null) {
    // A boundary that is named must be known, also where the session isn't.
    if (request.boundaryId !== undefined) await findBoundary(engine, null, request.boundaryId);
    return nothing(NOTHING_TO_UNDO);
  }
  await endDeadCalls(engine, request.signal);
  await refuseOpenCalls(engine, session);
  await refuseStandingRevert(engine, session);
  const turn =
    request.boundaryId === undefined
      ? await newestTurn(engine, session)
      : await namedTurn(engine, session, request.boundaryId);
  if (turn === null) return nothing(NOTHING_TO_UNDO);
  await findBoundary(engine, session, turn.boundary.boundaryId);
  const { onConflict, planToken, signal, onProgress } = request;
  const planned = { kind: 'undo', window: turn.window, onConflict, planToken, signal, onProgress } as const;
  return perform(engine, session, restoring(engine, session, turn.boundary, planned), {
    dryRun: request.dryRun,
    say: (receipt) => ({ message: undoText(receipt), outcome: receipt.outcome, receipt }),
  });
}

/** Boundaries a page when the history is walked back. */
const PAGE = 64;

async function newestTurn(engine: Engine, session: SessionRecord): Promise<Turn | null> {
  let toSeq: number | null = null;
  for (;;) {
    const page: BoundaryRecord[] = await engine.timeline.boundaries(session.id, {
      all: true,
      limit: PAGE,
      ...(toSeq === null ? {} : { beforeSeq: toSeq }),
    });
    for (const boundary of page) {
      const window: Window = { afterSeq: boundary.seq, toSeq };
      if (boundary.state === 'live' && (await isUndoable(engine, session, boundary, window)))
        return { boundary, window };
      toSeq = boundary.seq;
    }
    if (page.length < PAGE) return null;
  }
}

/** Rows of a turn that are asked first: most turns owe one of them, and the plan reads all of them again anyway. */
const FIRST_ROWS = 64;

async function isUndoable(
  engine: Engine,
  session: SessionRecord,
  boundary: BoundaryRecord,
  window: Window,
): Promise<boolean> {
  if (boundary.undoneBy !== null) return false;
  const first = await rowsIn(engine, session, { ...window, limit: FIRST_ROWS });
  if (first.some((row) => row.owed)) return true;
  return first.length === FIRST_ROWS && (await rowsIn(engine, session, window)).some((row) => row.owed);
}

async function rowsIn(
  engine: Engine,
  session: SessionRecord,
  { afterSeq, toSeq, limit }: Window & { limit?: number },
): Promise<AttributedRow[]> {
  const range = { afterSeq, ...(toSeq === null ? {} : { toSeq }), ...(limit === undefined ? {} : { limit }) };
  return attribute(await attributionInput(engine, session.id, range));
}

async function namedTurn(engine: Engine, session: SessionRecord | null, boundaryId: string): Promise<Turn> {
  const boundary = await findBoundary(engine, session, boundaryId);
  const next = await engine.timeline.nextBoundary(boundary.session, boundary.seq);
  return { boundary, window: { afterSeq: boundary.seq, toSeq: next?.seq ?? null } };
}

export interface RevertOneRequest extends HistoryRequest {
  /** The turn, or the call, that is taken back. */
  readonly boundaryId?: string;
  readonly callId?: string;
  readonly onConflict: ConflictPolicy | undefined;
}

/** Takes back one turn or one call, and keeps what came later. */
export async function revertOne(
  engine: Engine,
  session: SessionRecord | null,
  request: RevertOneRequest,
): Promise<HistoryResult> {
  await engine.checkRoot();
  await engine.catchUp();
  await endDeadCalls(engine, request.signal);
  if (session !== null) {
    await refuseOpenCalls(engine, session);
    await refuseStandingRevert(engine, session);
  }
  const turn =
    request.callId === undefined
      ? await namedTurn(engine, session, request.boundaryId as string)
      : await namedCall(engine, session, request.callId);
  const { dryRun, onConflict = 'refuse', planToken, signal, onProgress } = request;
  const planned = { kind: 'undo', window: turn.window, keepLater: true, onConflict, planToken } as const;
  const operation = restoring(engine, session as SessionRecord, turn.boundary, { ...planned, signal, onProgress });
  const what = request.callId === undefined ? 'turn' : 'call';
  return perform(engine, session as SessionRecord, operation, {
    dryRun,
    say: (receipt) => {
      const isNothing = receipt.outcome === 'nothing' && keptPaths(receipt).length === 0;
      if (isNothing) return nothing(NOTHING_TO_UNDO);
      return { message: revertedText(receipt, what), outcome: receipt.outcome, receipt };
    },
  });
}

/** A call as the part of its turn that it made. */
async function namedCall(engine: Engine, session: SessionRecord | null, callId: string): Promise<Turn> {
  const call = session === null ? null : await callOf(engine, session, callId);
  if (session === null || call === null) {
    throw new UnavailableError('unknown-boundary', `the session has no call of that id: ${JSON.stringify(callId)}`);
  }
  const turnOf = { beforeSeq: call.turnSeq + 1, limit: 1, all: true };
  const made = (await engine.timeline.boundaries(session.id, turnOf))[0];
  const boundary = await findBoundary(engine, session, made?.boundaryId ?? callId);
  return { boundary, window: { afterSeq: call.beginSeq, toSeq: call.endSeq, invocation: call.invocation } };
}

/** Takes back the newest standing undo or restore that wrote something, while nothing of the session's came after it. */
export async function redoNewest(
  engine: Engine,
  session: SessionRecord | null,
  request: HistoryRequest & { readonly onConflict: ConflictPolicy },
): Promise<HistoryResult> {
  await engine.checkRoot();
  await engine.catchUp();
  if (session === null) return nothing(NOTHING_TO_REDO);
  await endDeadCalls(engine, request.signal);
  await refuseOpenCalls(engine, session);
  await refuseStandingRevert(engine, session);
  const operation = await newestStanding(engine, session);
  if (operation === null) return nothing(NOTHING_TO_REDO);
  return perform(engine, session, await takingBack(engine, operation, { ...request, kind: 'redo' }), {
    dryRun: request.dryRun,
    say: (receipt) => ({ message: redoText(receipt), outcome: receipt.outcome, receipt }),
  });
}

async function newestStanding(engine: Engine, session: SessionRecord): Promise<OperationRecord | null> {
  const newest = (await engine.timeline.boundaries(session.id, { limit: 1, all: true }))[0];
  if (newest === undefined) return null;
  const since = await engine.timeline.operations(session.id, { afterSeq: newest.seq });
  const operation = since.find(
    (o) => (o.kind === 'undo' || o.kind === 'restore') && o.redoneBy === null && o.receipt.restored.length > 0,
  );
  if (operation === undefined) return null;
  const after = await rowsIn(engine, session, { afterSeq: operation.seq, toSeq: null });
  const ownChange = after.some(
    (row) => row.operation === undefined && (row.owner === 'own' || row.owner === 'contested'),
  );
  return ownChange ? null : operation;
}

/** Goes back to the files as they were when the message was complete. */
export async function revertToMessage(
  engine: Engine,
  session: SessionRecord | null,
  request: HistoryRequest & { readonly messageId: string; readonly onConflict: ConflictPolicy },
): Promise<HistoryResult> {
  const { messageId, dryRun, ...rest } = request;
  await engine.checkRoot();
  await engine.catchUp();
  await endDeadCalls(engine, request.signal);
  const position = await messagePosition(engine, session, messageId);
  await refuseOpenCalls(engine, session as SessionRecord);
  await refuseStandingRevert(engine, session as SessionRecord);
  return perform(engine, session as SessionRecord, reverting(engine, session as SessionRecord, position, rest), {
    dryRun,
    say: (receipt) => ({ message: revertText(receipt), outcome: standingOutcome(receipt), receipt }),
  });
}

/** Brings back the files as they were when the standing revert started. */
export async function takeRevertBack(
  engine: Engine,
  session: SessionRecord | null,
  request: HistoryRequest & { readonly onConflict: ConflictPolicy },
): Promise<HistoryResult> {
  await engine.checkRoot();
  await engine.catchUp();
  if (session === null) return nothing(NOTHING_TO_UNREVERT);
  await endDeadCalls(engine, request.signal);
  await refuseOpenCalls(engine, session);
  const revert = await standingRevert(engine, session);
  if (revert === null) return nothing(NOTHING_TO_UNREVERT);
  return perform(engine, session, await takingBack(engine, revert, { ...request, kind: 'unrevert' }), {
    dryRun: request.dryRun,
    say: (receipt) => ({ message: unrevertText(receipt), outcome: standingOutcome(receipt), receipt }),
  });
}

/** With no files to take back it is done all the same: the revert stands, or doesn't any more. */
function standingOutcome(receipt: Receipt): Receipt['outcome'] {
  return keptPaths(receipt).length === 0 ? 'done' : receipt.outcome;
}
