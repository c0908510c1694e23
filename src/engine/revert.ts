/**
 * Reverts: where a message was complete, whether a revert stands, and the two operations. Planned and executed like a
 * restore (`operate.ts`).
 *
 * A revert is an operation like others; that it stands is computed: it is the session's newest, no unrevert took it back,
 * and neither a capture nor a change of the session's own came after it. It stands also where there was nothing to write.
 */
import { attribute } from '../model/attribution.ts';
import { REVERT_STANDS } from '../model/receipt.ts';
import type { Ancestor, BoundaryRecord, CallRecord, OperationRecord, SessionRecord } from '../timeline/timeline.ts';
import type { ConflictPolicy, WorkOptions } from '../types.ts';
import { UnavailableError } from './answers.ts';
import { draftRestore } from './draft.ts';
import type { Engine } from './engine.ts';
import { findBoundary, type OperationRequest } from './operate.ts';
import { attributionInput } from './rows.ts';

/**
 * Where the message was complete: a user message at its boundary, a model step at the end of its last call.
 *
 * @throws {UnavailableError} no-checkpoint, unknown-boundary, root-changed
 */
export async function messagePosition(
  engine: Engine,
  session: SessionRecord | null,
  messageId: string,
): Promise<BoundaryRecord> {
  if (session === null || (await engine.timeline.boundary(session.id, messageId)) !== null)
    return findBoundary(engine, session, messageId);
  const last = await lastCallOfStep(engine, session, messageId);
  const turn = last === null ? null : await turnAt(engine, session, last.beginSeq);
  if (last === null || turn === null) return findBoundary(engine, session, messageId);
  // The turn's own state decides: a step of a turn that is not there any more is unknown too.
  const boundary = await findBoundary(engine, session, turn.boundaryId);
  const { seq } = last.endSeq === null ? await engine.timeline.head() : { seq: last.endSeq };
  return { ...boundary, boundaryId: messageId, seq };
}

/** The session, and those that it was forked from: their calls are its own too, up to the fork. */
async function kin(engine: Engine, session: SessionRecord): Promise<readonly Ancestor[]> {
  return [{ session: session.id, forkSeq: Number.POSITIVE_INFINITY }, ...(await engine.timeline.lineage(session.id))];
}

/** The newest run of a call id that is the session's, or was inherited. */
export async function callOf(engine: Engine, session: SessionRecord, callId: string): Promise<CallRecord | null> {
  for (const { session: id, forkSeq } of await kin(engine, session)) {
    const call = await engine.timeline.call(id, callId);
    if (call !== null && (call.endSeq ?? Number.POSITIVE_INFINITY) <= forkSeq) return call;
  }
  return null;
}

async function lastCallOfStep(engine: Engine, session: SessionRecord, stepId: string): Promise<CallRecord | null> {
  for (const { session: id, forkSeq } of await kin(engine, session)) {
    const calls = (await engine.timeline.callsOfStep(id, stepId)).filter(
      (call) => (call.endSeq ?? Number.POSITIVE_INFINITY) <= forkSeq,
    );
    if (calls.length === 0) continue;
    return calls.reduce((a, b) => (a.endSeq !== null && (b.endSeq === null || b.endSeq > a.endSeq) ? b : a));
  }
  return null;
}

async function turnAt(engine: Engine, session: SessionRecord, seq: number): Promise<BoundaryRecord | null> {
  const [turn] = await engine.timeline.boundaries(session.id, { beforeSeq: seq + 1, limit: 1, all: true });
  return turn ?? null;
}

/** The revert of the session that stands, or null. */
export async function standingRevert(engine: Engine, session: SessionRecord): Promise<OperationRecord | null> {
  const [newest] = await engine.timeline.boundaries(session.id, { limit: 1, all: true });
  if (newest === undefined) return null;
  const since = await engine.timeline.operations(session.id, { afterSeq: newest.seq });
  const revert = since.find((operation) => operation.kind === 'revert' && operation.redoneBy === null);
  if (revert === undefined) return null;
  const rows = attribute(await attributionInput(engine, session.id, { afterSeq: revert.seq }));
  const own = rows.some((row) => row.operation === undefined && (row.owner === 'own' || row.owner === 'contested'));
  return own ? null : revert;
}

/** @throws {UnavailableError} revert-stands */
export async function refuseStandingRevert(engine: Engine, session: SessionRecord): Promise<void> {
  if ((await standingRevert(engine, session)) !== null) throw new UnavailableError('revert-stands', REVERT_STANDS);
}

/** Takes back what the session did after `position`, and stands from then on. */
export function reverting(
  engine: Engine,
  session: SessionRecord,
  position: BoundaryRecord,
  request: WorkOptions & { readonly onConflict: ConflictPolicy; readonly planToken?: string | undefined },
): OperationRequest {
  return {
    kind: 'revert',
    boundary: position,
    ...request,
    draft: async () => {
      await refuseStandingRevert(engine, session);
      return draftRestore(engine, session, position, { ...request, locked: true });
    },
    always: true,
  };
}
