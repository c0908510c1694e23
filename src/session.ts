/**
 * One conversation: checks arguments, queues the work on the engine, and turns faults into answers. What is done lies in
 * `engine/record.ts` (boundaries, calls), `engine/operate.ts` (plan, restore), `history.ts` (undo, redo, revert) and
 * `engine/query.ts` (timeline, diff).
 */
import type {
  BeginCallResult,
  DiffResult,
  EndCallResult,
  HistoryResult,
  Session,
  SessionInfo,
  Step,
  TimelineItem,
} from './api.ts';
import { answer, UnavailableError, unavailableOf } from './engine/answers.ts';
import { draftRestore, toPlan } from './engine/draft.ts';
import type { Engine } from './engine/engine.ts';
import { forkSession } from './engine/forks.ts';
import { hunkChoices, planHunks } from './engine/hunks.ts';
import { dropSession } from './engine/maintain.ts';
import { endDeadCalls, observe } from './engine/observe.ts';
import { findBoundary, operate, restoring } from './engine/operate.ts';
import { callChanges, diffPositions, timelineItems, turnChanges } from './engine/query.ts';
import { beginCall, capture, endCall } from './engine/record.ts';
import { callOf } from './engine/revert.ts';
import { sessionSteps } from './engine/steps.ts';
import { TakebackError } from './errors.ts';
import { redoNewest, revertOne, revertToMessage, takeRevertBack, undoNewest } from './history.ts';
import { isWithin, toRelPath } from './rel-path.ts';
import {
  type BeginCallOptions,
  beginCallOptionsSchema,
  boundaryIdSchema,
  type CaptureOptions,
  callIdSchema,
  captureOptionsSchema,
  check,
  type EndCallOptions,
  endCallOptionsSchema,
  type ForkOptions,
  forkOptionsSchema,
  type PlanOptions,
  planOptionsSchema,
  type RedoOptions,
  type RestoreOptions,
  type RevertOneOptions,
  type RevertOptions,
  redoOptionsSchema,
  restoreOptionsSchema,
  revertOneOptionsSchema,
  revertOptionsSchema,
  type SessionKeyOptions,
  type StepsOptions,
  sessionKeySchema,
  stepsOptionsSchema,
  type TimelineOptions,
  timelineOptionsSchema,
  type UndoOptions,
  undoOptionsSchema,
} from './schemas.ts';
import type { SessionRecord } from './timeline/timeline.ts';
import type {
  CaptureResult,
  ChangeSummary,
  ConflictPolicy,
  Plan,
  Receipt,
  RelPath,
  Result,
  Unavailable,
} from './types.ts';

export interface SessionKey {
  readonly threadId: string;
  readonly tenantId: string | undefined;
  readonly onConflict: ConflictPolicy;
}

export class SessionHandle implements Session {
  readonly threadId: string;
  readonly tenantId: string | undefined;
  readonly #onConflict: ConflictPolicy;
  readonly #use: () => Engine;
  /** Calls whose begin was not available: their end answers the same. */
  readonly #failedBegins = new Map<string, Unavailable>();

  constructor(use: () => Engine, key: SessionKey) {
    this.#use = use;
    this.threadId = key.threadId;
    this.tenantId = key.tenantId;
    this.#onConflict = key.onConflict;
  }

  get #key(): { threadId: string; tenantId: string | null } {
    return { threadId: this.threadId, tenantId: this.tenantId ?? null };
  }

  get #origin(): { threadId: string; tenantId?: string } {
    return { threadId: this.threadId, ...(this.tenantId === undefined ? {} : { tenantId: this.tenantId }) };
  }

  /** `askedAt`: how many scans had begun when the caller asked, before it waited in the queue. */
  #run<T extends object>(work: (engine: Engine, askedAt: number) => Promise<T>): Promise<Result<T>> {
    return answer(() => {
      const engine = this.#use();
      const askedAt = engine.scansBegun;
      return engine.queue.run(() => {
        this.#use();
        return work(engine, askedAt);
      });
    });
  }

  /** The same, where a fault means that what the agent does next is not recorded: listeners hear of it. */
  async #record<T extends object>(
    work: (engine: Engine, session: SessionRecord, askedAt: number) => Promise<T>,
  ): Promise<Result<T>> {
    const result = await this.#run((engine, at) => this.#onRecord(engine, (session) => work(engine, session, at)));
    if (!result.available) this.#failed(result);
    return result;
  }

  /** Asked for each time: one that was dropped by others may keep its number, without its key. */
  async #onRecord<T>(engine: Engine, work: (session: SessionRecord) => Promise<T>): Promise<T> {
    return work(await engine.timeline.ensureSession(this.#key));
  }

  #failed(unavailable: Unavailable): void {
    try {
      this.#use().events.failed(unavailable, this.#origin);
    } catch (error) {
      if (unavailableOf(error) === null) throw error;
    }
  }

  async capture(boundaryId: string, options: CaptureOptions = {}): Promise<Result<CaptureResult>> {
    const id = check(boundaryIdSchema, boundaryId, 'boundaryId');
    const { label, deadlineMs, signal, onProgress } = check(captureOptionsSchema, options, 'options');
    throwIfAborted(signal);
    return this.#record((engine, session) =>
      capture(engine, session, { boundaryId: id, label, deadlineMs, signal, onProgress }),
    );
  }

  async beginCall(callId: string, options: BeginCallOptions = {}): Promise<Result<BeginCallResult>> {
    const id = check(callIdSchema, callId, 'callId');
    const { tool, stepId, paths, parentCallId, detached, deadlineMs, signal } = check(
      beginCallOptionsSchema,
      options,
      'options',
    );
    throwIfAborted(signal);
    const result = await this.#record((engine, session, askedAt) =>
      beginCall(engine, session, {
        askedAt,
        callId: id,
        tool,
        stepId,
        paths: declaredPaths(engine, paths),
        parentCallId,
        detached: detached ?? false,
        deadlineMs,
        signal,
      }),
    );
    if (result.available) this.#failedBegins.delete(id);
    else this.#failedBegins.set(id, result);
    return result;
  }

  async endCall(callId: string, options: EndCallOptions = {}): Promise<Result<EndCallResult>> {
    const id = check(callIdSchema, callId, 'callId');
    const { sideEffect, paths, isError, signal } = check(endCallOptionsSchema, options, 'options');
    throwIfAborted(signal);
    const failed = this.#failedBegins.get(id);
    if (failed !== undefined) {
      this.#failedBegins.delete(id);
      return failed;
    }
    return this.#record((engine, session, askedAt) =>
      endCall(engine, session, {
        askedAt,
        callId: id,
        sideEffect,
        paths: declaredPaths(engine, paths),
        isError: isError ?? false,
        signal,
      }),
    );
  }

  async call<T>(
    callId: string,
    options: BeginCallOptions & EndCallOptions,
    run: () => Promise<T> | T,
  ): Promise<{ value: T; begin: Result<BeginCallResult>; end: Result<EndCallResult> }> {
    const { sideEffect, isError, ...begins } = options;
    const ends: EndCallOptions = {
      ...(sideEffect === undefined ? {} : { sideEffect }),
      ...(isError === undefined ? {} : { isError }),
    };
    const begin = await this.beginCall(callId, begins);
    let value: T;
    try {
      value = await run();
    } catch (error) {
      await this.endCall(callId, { ...ends, isError: true });
      throw error;
    }
    return { value, begin, end: await this.endCall(callId, ends) };
  }

  endTurn(): Promise<Result<{ tookMs: number }>> {
    return this.#record(async (engine) => {
      const started = performance.now();
      await observe(engine, { kind: 'look', durable: true });
      return { tookMs: performance.now() - started };
    });
  }

  async plan(boundaryId: string, options: PlanOptions = {}): Promise<Result<Plan>> {
    const id = check(boundaryIdSchema, boundaryId, 'boundaryId');
    const { paths, hunks, onConflict, signal, onProgress } = check(planOptionsSchema, options, 'options');
    throwIfAborted(signal);
    return this.#run(async (engine) => {
      const wanted = wantedPaths(engine, paths);
      await engine.checkRoot();
      await engine.catchUp();
      await endDeadCalls(engine, signal);
      const session = await engine.timeline.findSession(this.#key);
      const boundary = await findBoundary(engine, session, id);
      const request = { paths: wanted, onConflict: onConflict ?? this.#onConflict, signal, onProgress };
      const draft = await draftRestore(engine, session as SessionRecord, boundary, request);
      return toPlan(boundary, draft, hunks === true ? await planHunks(engine, draft.plan) : undefined);
    });
  }

  async restore(boundaryId: string, options: RestoreOptions = {}): Promise<Result<Receipt>> {
    const id = check(boundaryIdSchema, boundaryId, 'boundaryId');
    const given = check(restoreOptionsSchema, options, 'options');
    const { paths, hunks, onConflict, planToken, signal, onProgress } = given;
    throwIfAborted(signal);
    return this.#run(async (engine) => {
      const wanted = wantedPaths(engine, paths);
      await engine.checkRoot();
      await endDeadCalls(engine, signal);
      const session = await engine.timeline.findSession(this.#key);
      const boundary = await findBoundary(engine, session, id);
      const request = {
        kind: 'restore',
        paths: wanted,
        hunks: hunks === undefined ? undefined : hunkChoices(engine.layout.root, hunks),
        onConflict: onConflict ?? this.#onConflict,
        planToken,
        signal,
        onProgress,
      } as const;
      return operate(engine, session as SessionRecord, restoring(engine, session as SessionRecord, boundary, request));
    });
  }

  async undo(options: UndoOptions = {}): Promise<Result<HistoryResult>> {
    const { boundaryId, ...rest } = check(undoOptionsSchema, options, 'options');
    const request = { boundaryId, ...this.#operation(rest) };
    return this.#history((engine, session) => undoNewest(engine, session, request));
  }

  async redo(options: RedoOptions = {}): Promise<Result<HistoryResult>> {
    const request = this.#operation(check(redoOptionsSchema, options, 'options'));
    return this.#history((engine, session) => redoNewest(engine, session, request));
  }

  async revert(options: RevertOptions): Promise<Result<HistoryResult>> {
    const { messageId, ...rest } = check(revertOptionsSchema, options, 'options');
    const request = { messageId, ...this.#operation(rest) };
    return this.#history((engine, session) => revertToMessage(engine, session, request));
  }

  async unrevert(options: RedoOptions = {}): Promise<Result<HistoryResult>> {
    const request = this.#operation(check(redoOptionsSchema, options, 'options'));
    return this.#history((engine, session) => takeRevertBack(engine, session, request));
  }

  async revertTurn(boundaryId: string, options: RevertOneOptions = {}): Promise<Result<HistoryResult>> {
    return this.#revertOne({ boundaryId: check(boundaryIdSchema, boundaryId, 'boundaryId') }, options);
  }

  async revertCall(callId: string, options: RevertOneOptions = {}): Promise<Result<HistoryResult>> {
    return this.#revertOne({ callId: check(callIdSchema, callId, 'callId') }, options);
  }

  async #revertOne(
    which: { boundaryId: string } | { callId: string },
    options: RevertOneOptions,
  ): Promise<Result<HistoryResult>> {
    const given = check(revertOneOptionsSchema, options, 'options');
    // Not the session's policy: without one of its own, what came later is merged.
    const request = { ...which, ...this.#operation(given), onConflict: given.onConflict };
    return this.#history((engine, session) => revertOne(engine, session, request));
  }

  /** What undo, redo and the reverts have in common. */
  #operation({ onConflict, dryRun, planToken, signal, onProgress }: RedoOptions) {
    throwIfAborted(signal);
    return { onConflict: onConflict ?? this.#onConflict, dryRun, planToken, signal, onProgress };
  }

  async #history(
    work: (engine: Engine, session: SessionRecord | null) => Promise<HistoryResult>,
  ): Promise<Result<HistoryResult>> {
    return this.#run(async (engine) => work(engine, await engine.timeline.findSession(this.#key)));
  }

  async fork(key: SessionKeyOptions, options: ForkOptions): Promise<Result<{ session: SessionInfo }>> {
    const { threadId, tenantId } = check(sessionKeySchema, key, 'key');
    const { at } = check(forkOptionsSchema, options, 'options');
    return this.#run(async (engine) => {
      const parent = await engine.timeline.findSession(this.#key);
      return { session: await forkSession(engine, parent, { key: { threadId, tenantId: tenantId ?? null }, at }) };
    });
  }

  async timeline(options: TimelineOptions = {}): Promise<Result<{ items: readonly TimelineItem[] }>> {
    const { limit = 50, before, lines = true } = check(timelineOptionsSchema, options, 'options');
    return this.#run(async (engine) => ({
      items: await timelineItems(engine, await engine.timeline.findSession(this.#key), { limit, before, lines }),
    }));
  }

  async steps(options: StepsOptions = {}): Promise<Result<{ steps: readonly Step[] }>> {
    const { limit } = check(stepsOptionsSchema, options, 'options');
    return this.#run(async (engine) => ({
      steps: await sessionSteps(engine, await engine.timeline.findSession(this.#key), limit ?? 500),
    }));
  }

  diff(from: string, to?: string): Promise<Result<DiffResult>> {
    return this.#run((engine) => diffPositions(engine, from, to));
  }

  async turnChanges(boundaryId: string): Promise<Result<{ changes: readonly ChangeSummary[] }>> {
    const id = check(boundaryIdSchema, boundaryId, 'boundaryId');
    return this.#run(async (engine) => {
      const session = await engine.timeline.findSession(this.#key);
      const boundary = await findBoundary(engine, session, id);
      return { changes: await turnChanges(engine, session as SessionRecord, boundary) };
    });
  }

  async callChanges(callId: string): Promise<Result<{ changes: readonly ChangeSummary[] }>> {
    const id = check(callIdSchema, callId, 'callId');
    return this.#run(async (engine) => {
      const session = await engine.timeline.findSession(this.#key);
      const call = session === null ? null : await callOf(engine, session, id);
      if (session === null || call === null)
        throw new UnavailableError('unknown-boundary', `the session has no call of that id: ${JSON.stringify(id)}`);
      return { changes: await callChanges(engine, session, call) };
    });
  }

  drop(): Promise<Result<{ freedBytes: number }>> {
    return this.#run(async (engine) => dropSession(engine, await engine.timeline.findSession(this.#key)));
  }
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted)
    throw new TakebackError('ERR_CANCELLED', 'the caller’s signal was aborted before the work began', {
      cause: signal.reason,
    });
}

function declaredPaths(engine: Engine, paths: readonly string[] | undefined): RelPath[] | undefined {
  return paths?.map((path) => toRelPath(path, [engine.layout.root]));
}

/** Paths that limit a plan: at least one, those inside another left out. */
function wantedPaths(engine: Engine, paths: readonly string[] | undefined): RelPath[] | undefined {
  if (paths === undefined) return undefined;
  if (paths.length === 0) {
    throw new TakebackError(
      'ERR_EMPTY_PATHS',
      'paths is empty: name at least one path, or leave paths out to mean all',
    );
  }
  const wanted = [...new Set(paths.map((path) => toRelPath(path, [engine.layout.root])))];
  return wanted.filter((path) => !wanted.some((other) => other !== path && isWithin(path, other)));
}
