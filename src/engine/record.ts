/**
 * What sessions record: boundaries and calls. Each is one observation with its effect in the same transaction.
 * Runs in the engine's queue; the caller has checked its arguments.
 */

import type { BeginCallResult, EndCallResult } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { headState, ruleSources } from '../git/context.ts';
import { attribute } from '../model/attribution.ts';
import { publicChange } from '../model/changes.ts';
import { discardedAtCapture } from '../model/turns.ts';
import type { Append, CallRecord, SessionRecord } from '../timeline/timeline.ts';
import type { CaptureResult, ChangeSummary, RelPath, SideEffect, WorkOptions } from '../types.ts';
import { UnavailableError } from './answers.ts';
import type { Engine } from './engine.ts';
import { boundariesFrom } from './landing.ts';
import { collectGarbage } from './maintain.ts';
import { foldedChanges } from './moves.ts';
import { type Observed, observe } from './observe.ts';
import { encodePosition } from './position.ts';
import { captureExpires } from './retention.ts';
import { attributionInput, rowsOfOne } from './rows.ts';
import { tellEnd } from './tell.ts';

export interface CaptureRequest extends WorkOptions {
  readonly boundaryId: string;
  readonly label: string | undefined;
  readonly deadlineMs: number | undefined;
}

/** Records a boundary: one observation with the rules read anew. */
export async function capture(engine: Engine, session: SessionRecord, request: CaptureRequest): Promise<CaptureResult> {
  const started = performance.now();
  if ((await engine.timeline.boundary(session.id, request.boundaryId)) !== null)
    throw duplicateBoundary(request.boundaryId);
  const budget = request.deadlineMs ?? engine.options.captureDeadlineMs;
  const sources = await ruleSources(engine.layout.root, engine.settings);
  let head: string | null = null;
  let discard: Append['discard'];
  const observed = await observe(engine, {
    kind: 'capture',
    boundaryOf: session.id,
    sources,
    signal: request.signal,
    onProgress: request.onProgress,
    deadlineMs: budget === undefined ? undefined : Date.now() + budget,
    durable: true,
    beside: async () => {
      head = await headState(sources);
    },
    reads: async () => {
      discard = await discardedBy(engine, session);
    },
    effects: ({ open }) => ({
      boundary: {
        session: session.id,
        boundaryId: request.boundaryId,
        label: request.label ?? null,
        createdAt: Date.now(),
        root: engine.identity,
        head,
      },
      endCalls: open.filter((call) => call.session === session.id && call.detached).map((call) => endOf(call, {})),
      ...(discard === undefined ? {} : { discard }),
    }),
  });
  if (observed.ingest.left > 0) readTheRest(engine);
  applyLimits(engine);
  return {
    boundaryId: request.boundaryId,
    position: encodePosition(engine.timeline.storeId, observed.seq),
    complete: observed.ingest.left === 0,
    scannedFiles: observed.scan.files,
    storedFiles: observed.ingest.storedFiles,
    storedBytes: observed.ingest.storedBytes,
    uncovered: observed.uncovered,
    problems: [...observed.scan.problems, ...observed.ingest.problems],
    tookMs: performance.now() - started,
  };
}

/** Retention, behind the capture: what comes next waits for it, and so does the engine's close. */
function applyLimits(engine: Engine): void {
  const apply = async (): Promise<void> => {
    if (await captureExpires(engine)) await collectGarbage(engine, {});
  };
  void engine.queue.run(apply).catch((error: unknown) => {
    engine.options.logger?.warn('retention stopped; a later capture goes on', error);
  });
}

function duplicateBoundary(boundaryId: string): TakebackError {
  return new TakebackError(
    'ERR_DUPLICATE_BOUNDARY',
    `the session already has a boundary ${JSON.stringify(boundaryId)}. Give each user message an id of its own.`,
  );
}

/** A restore that settled all made the boundaries after its own unknown, from the next capture on. */
async function discardedBy(engine: Engine, session: SessionRecord): Promise<{ session: number; boundaryId: string }[]> {
  const newest = (await engine.timeline.boundaries(session.id, { limit: 1 }))[0];
  if (newest === undefined) return [];
  const operations = await engine.timeline.operations(session.id, { afterSeq: newest.seq });
  if (operations.length === 0) return [];
  const oldest = Math.min(newest.seq, ...operations.map((operation) => operation.boundarySeq));
  return discardedAtCapture(await boundariesFrom(engine, session.id, oldest), operations);
}

/** How long one slice of the reading behind a turn may hold the queue, milliseconds. */
const SLICE_MS = 400;

/** Reads what a deadline left, behind the turn, in slices so that other work comes between. */
function readTheRest(engine: Engine): void {
  const slice = async (): Promise<void> => {
    if (engine.closing.signal.aborted) return;
    const observed = await observe(engine, {
      kind: 'late',
      deadlineMs: Date.now() + SLICE_MS,
      signal: engine.closing.signal,
      durable: false,
    });
    if (observed.ingest.left > 0) void engine.queue.run(slice).catch(report);
  };
  const report = (error: unknown): void => {
    if (!engine.closing.signal.aborted)
      engine.options.logger?.warn('reading behind the turn stopped; the next look goes on', error);
  };
  void engine.queue.run(slice).catch(report);
}

export interface BeginRequest extends Pick<WorkOptions, 'signal'> {
  readonly callId: string;
  readonly tool: string | undefined;
  readonly stepId: string | undefined;
  readonly paths: readonly RelPath[] | undefined;
  readonly parentCallId: string | undefined;
  readonly detached: boolean;
  readonly deadlineMs: number | undefined;
  /** `engine.scansBegun` when it was asked; undefined: it looks for itself. */
  readonly askedAt?: number | undefined;
}

export async function beginCall(
  engine: Engine,
  session: SessionRecord,
  request: BeginRequest,
): Promise<BeginCallResult> {
  const started = performance.now();
  const { timeline, owner } = engine;
  let place: { parent: number | null; turnSeq: number } = { parent: null, turnSeq: 0 };
  let invocation = 0;
  let told: Promise<void> | undefined;
  const observed = await observe(engine, {
    kind: 'begin',
    signal: request.signal,
    deadlineMs: request.deadlineMs === undefined ? undefined : Date.now() + request.deadlineMs,
    first: request.paths ?? [],
    durable: false,
    askedAt: request.askedAt,
    beside: async () => {
      place = await placeOf(engine, session, request);
    },
    reads: async () => {
      invocation = await timeline.nextInvocation();
    },
    effects: () => ({
      beginCall: {
        invocation,
        session: session.id,
        callId: request.callId,
        tool: request.tool ?? null,
        stepId: request.stepId ?? null,
        ...place,
        detached: request.detached,
        owner,
        paths: request.paths ?? null,
        beganAt: Date.now(),
      },
    }),
    recorded: () => {
      told = engine.openCalls.begin({
        root: engine.layout.root,
        sessionKey: String(session.id),
        invocation,
        // A detached call outlives the process that began it.
        owner: request.detached ? null : owner,
      });
      told.catch(() => undefined);
    },
  });
  await told;
  if (observed.ingest.left > 0) readTheRest(engine);
  return {
    callId: request.callId,
    invocation,
    scannedFiles: observed.scan.files,
    problems: [...observed.scan.problems, ...observed.ingest.problems],
    tookMs: performance.now() - started,
  };
}

/** In which turn a call begins, and in which call. */
async function placeOf(
  { timeline, pendingEnds }: Engine,
  session: SessionRecord,
  { callId, parentCallId }: BeginRequest,
): Promise<{ parent: number | null; turnSeq: number }> {
  const [open, [turn]] = await Promise.all([timeline.openCalls(), timeline.boundaries(session.id, { limit: 1 })]);
  if (open.some((c) => c.session === session.id && c.callId === callId && !pendingEnds.has(c.invocation))) {
    throw new TakebackError(
      'ERR_DUPLICATE_CALL',
      `the session already has an open call ${JSON.stringify(callId)}. End it first, or give another id.`,
    );
  }
  const parent = parentOf(open, session, parentCallId);
  if (turn === undefined) {
    throw new UnavailableError(
      'no-checkpoint',
      'the session has no checkpoint yet: capture a boundary before its first call',
    );
  }
  return { parent, turnSeq: turn.seq };
}

/** A subagent's call lies in its parent's, which is often of another session. */
function parentOf(
  open: readonly CallRecord[],
  session: SessionRecord,
  parentCallId: string | undefined,
): number | null {
  if (parentCallId === undefined) return null;
  const named = open.filter((call) => call.callId === parentCallId);
  const parent = named.find((call) => call.session === session.id) ?? named.at(-1);
  if (parent === undefined) {
    throw new TakebackError(
      'ERR_UNKNOWN_CALL',
      `parentCallId ${JSON.stringify(parentCallId)} is not an open call of this workspace`,
    );
  }
  return parent.invocation;
}

export interface EndRequest extends Pick<WorkOptions, 'signal'> {
  readonly callId: string;
  readonly sideEffect: SideEffect | undefined;
  readonly paths: readonly RelPath[] | undefined;
  readonly isError: boolean;
  /** As in {@link BeginRequest}. */
  readonly askedAt?: number | undefined;
}

type EndedCall = NonNullable<Append['endCalls']>[number];

function endOf(call: CallRecord, end: Partial<Pick<EndRequest, 'sideEffect' | 'paths' | 'isError'>>): EndedCall {
  return {
    invocation: call.invocation,
    state: 'ended',
    endedAt: Date.now(),
    sideEffect: end.sideEffect ?? null,
    isError: end.isError ?? false,
    ...(end.paths === undefined ? {} : { paths: end.paths }),
  };
}

/** An end that is recorded. */
interface Ended {
  readonly call: CallRecord;
  readonly observed: Observed;
}

/**
 * Records the end of a call, and asks nothing of what it changed: all that a hook process needs. Where the look fails, the
 * end is kept and recorded by this process's next observation: the turn goes on.
 */
export async function recordEnd(engine: Engine, session: SessionRecord, request: EndRequest): Promise<Ended> {
  const asked = openCall(engine, session, request.callId).then((call) => ({ call, end: endOf(call, request) }));
  // Its fault is told below; nobody waits for it yet.
  asked.catch(() => undefined);
  let told: Promise<void> | undefined;
  const tell = async (): Promise<void> => {
    const found = await asked.catch(() => null);
    // After the look: a call of another root that begins before it shares this window.
    if (found !== null) await engine.openCalls.end(found.call.invocation, engine.layout.root);
  };
  try {
    const observed = await observe(engine, {
      kind: 'end',
      signal: request.signal,
      durable: false,
      askedAt: request.askedAt,
      beside: async () => void (await asked),
      effects: async () => ({ endCalls: [(await asked).end] }),
      recorded: () => {
        told = tell();
        told.catch(() => undefined);
      },
    });
    return { call: (await asked).call, observed };
  } catch (error) {
    const { end } = await asked;
    engine.pendingEnds.set(end.invocation, end);
    throw error;
  } finally {
    await (told ?? tell());
  }
}

async function openCall(
  { timeline, pendingEnds }: Engine,
  session: SessionRecord,
  callId: string,
): Promise<CallRecord> {
  const call = await timeline.call(session.id, callId);
  if (call === null || call.state !== 'open' || pendingEnds.has(call.invocation)) {
    throw new TakebackError(
      'ERR_UNKNOWN_CALL',
      `the session has no open call ${JSON.stringify(callId)}. Begin it first.`,
    );
  }
  return call;
}

/** Ends a call, tells listeners, and answers what it changed. */
export async function endCall(engine: Engine, session: SessionRecord, request: EndRequest): Promise<EndCallResult> {
  const started = performance.now();
  const { call, observed } = await recordEnd(engine, session, request);
  await tellEnd(engine, session, call, observed.seq);
  return {
    callId: request.callId,
    invocation: call.invocation,
    changes: await changesOf(engine, session, call, observed),
    problems: [...observed.scan.problems, ...observed.ingest.problems],
    tookMs: performance.now() - started,
  };
}

async function changesOf(
  engine: Engine,
  session: SessionRecord,
  call: CallRecord,
  observed: Observed,
): Promise<readonly ChangeSummary[]> {
  const { seq: endSeq, changes, moment } = observed;
  // Nothing was looked at in between.
  const isAlone = endSeq === call.beginSeq + 1;
  if (changes.length === 0 && isAlone) return [];
  const input =
    isAlone && moment !== null
      ? rowsOfOne({ session: session.id, seq: endSeq, changes, moment })
      : await attributionInput(engine, session.id, { afterSeq: call.beginSeq, toSeq: endSeq });
  const rows = attribute(input);
  const own = rows.filter((row) => row.candidates.includes(call.invocation));
  return (await foldedChanges(engine, own)).map(publicChange);
}
