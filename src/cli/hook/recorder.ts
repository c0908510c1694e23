/**
 * A session for one hook event, straight on the engine: without the schemas of the public API, whose library costs a third
 * of Node's own start, and without what a hook has no use for (the changes of a call, events). What the event holds was
 * checked by `adapters/claude-code/events.ts`.
 */
import type { OpenCallInfo, Recorder } from '../../adapters/claude-code/perform.ts';
import type { BegunAhead } from '../../engine/ahead.ts';
import { answer } from '../../engine/answers.ts';
import type { Engine } from '../../engine/engine.ts';
import { observe } from '../../engine/observe.ts';
import { openEngine } from '../../engine/open.ts';
import { beginCall, capture, recordEnd } from '../../engine/record.ts';
import { resolveRoot } from '../../engine/root.ts';
import { toRelPath } from '../../rel-path.ts';
import type { BeginCallOptions, EndCallOptions } from '../../schemas.ts';
import type { SessionRecord } from '../../timeline/timeline.ts';
import type { Result } from '../../types.ts';
import { MAX_ENTRIES } from './early.ts';

export interface RecorderOptions {
  readonly root: string;
  readonly dataDir: string;
  readonly backend: 'auto' | 'native' | 'portable';
  readonly threadId: string;
  /** The event is one that asks for a look at the tree first, not for a boundary. */
  readonly lookAhead: boolean;
  readonly begun: BegunAhead | null;
}

/** Files that are not read by then are read by later looks. Milliseconds; a host gives a hook 30 or 60 seconds. */
const CAPTURE_DEADLINE_MS = 15_000;
const BEGIN_DEADLINE_MS = 10_000;
const DAY = 30;
const GIB = 1024 ** 3;

export class EngineRecorder implements Recorder {
  readonly #engine: Engine;
  readonly #threadId: string;
  #captured = false;

  private constructor(engine: Engine, threadId: string) {
    this.#engine = engine;
    this.#threadId = threadId;
  }

  /** @throws what `engine/answers.ts` knows as unavailable, and `TakebackError` */
  static async open({ root, dataDir, backend, threadId, lookAhead, begun }: RecorderOptions): Promise<EngineRecorder> {
    const engine = await openEngine({
      root: begun === null ? await resolveRoot(root, false) : root,
      dataDir,
      backend,
      include: undefined,
      exclude: undefined,
      maxFileBytes: undefined,
      maxEntries: MAX_ENTRIES,
      maxFileEvents: 0,
      lookAhead,
      begun: begun ?? undefined,
      options: {
        captureDeadlineMs: CAPTURE_DEADLINE_MS,
        retention: { maxAgeDays: DAY, maxBytes: 2 * GIB, maxBoundaries: undefined },
        durability: 'full',
        recover: 'rollback',
        adoptRoot: false,
        logger: undefined,
      },
    });
    return new EngineRecorder(engine, threadId);
  }

  get root(): string {
    return this.#engine.layout.root;
  }

  #session(): Promise<SessionRecord> {
    return this.#engine.timeline.ensureSession({ threadId: this.#threadId, tenantId: null });
  }

  capture(boundaryId: string, { label }: { label?: string }): Promise<Result<object>> {
    this.#captured = true;
    return answer(async () =>
      capture(this.#engine, await this.#session(), {
        boundaryId,
        label,
        deadlineMs: undefined,
        signal: undefined,
        onProgress: undefined,
      }),
    );
  }

  beginCall(callId: string, options: BeginCallOptions): Promise<Result<object>> {
    return answer(async () =>
      beginCall(this.#engine, await this.#session(), {
        callId,
        tool: options.tool,
        stepId: undefined,
        paths: options.paths?.map((path) => toRelPath(path, [this.root])),
        parentCallId: options.parentCallId,
        detached: true,
        deadlineMs: BEGIN_DEADLINE_MS,
        signal: undefined,
      }),
    );
  }

  endCall(callId: string, { isError, sideEffect }: EndCallOptions): Promise<Result<object>> {
    return answer(async () =>
      recordEnd(this.#engine, await this.#session(), {
        callId,
        sideEffect,
        paths: undefined,
        isError: isError ?? false,
        signal: undefined,
      }),
    );
  }

  endTurn(): Promise<Result<object>> {
    return answer(() => observe(this.#engine, { kind: 'look', durable: true }));
  }

  async openCalls(): Promise<readonly OpenCallInfo[]> {
    return this.#engine.timeline.openCalls((await this.#session()).id);
  }

  async knowsCall(callId: string): Promise<boolean> {
    return (await this.#engine.timeline.call((await this.#session()).id, callId)) !== null;
  }

  /**
   * Waits for what must not be cut off: retention behind a capture. A process that only began or ended a call hands on its
   * segment, so that the next one goes on in it, and may then exit as if it were killed: all else is recorded.
   */
  async finish(): Promise<void> {
    const { blobs, timeline, openCalls } = this.#engine;
    if (this.#captured) await this.#engine.close();
    else await Promise.all([blobs.close(), timeline.boundLog(), openCalls.boundLog()]);
  }
}
