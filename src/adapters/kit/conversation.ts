/**
 * One thread of a host, told by its events: boundaries at user messages, calls around tool runs, and the commands of its
 * user. Nothing that a host tells fails for the host: it is reported, and the turn goes on.
 *
 * Order: what a host tells of a turn is done before the calls that it tells of later, also where it does not wait. A new
 * message, an abort and the end of a turn end the calls that nobody ended.
 */
import type { DiffResult, HistoryResult, Session, SessionInfo } from '../../api.ts';
import type { EndCallOptions, RedoOptions, SessionKeyOptions, UndoOptions } from '../../schemas.ts';
import type { Result } from '../../types.ts';
import { begunCall, captured, endedCall, newestTurn } from './attempts.ts';
import { boundaryIdOf, callIdOf, goesOn, isDerived, type Message, numbered, safeId } from './ids.ts';
import { factsOf, type ToolFacts } from './options.ts';
import { type CallEnd, type HostCall, Lane, type Nesting, type OpenCall, type Running } from './running.ts';

/** What a command of the user answers. `message` is for people. */
export interface HistoryAnswer {
  readonly message: string;
  readonly result: Result<HistoryResult>;
}

export interface ConversationSettings {
  readonly key: SessionKeyOptions;
  readonly tools: ReadonlyMap<string, ToolFacts>;
  readonly nesting: Nesting;
  readonly serialize: boolean;
  /** Opens the workspace, where it isn't, and gives the session. */
  enter(): Promise<Session>;
  report(during: string, cause: unknown, callId?: string): void;
}

/** Longest label, and name of a tool, that the engine takes. */
const MAX_NAME = 1024;

/** The name of the turn of calls that come before any message. */
const START = 'start';

export class Conversation {
  readonly threadId: string;
  readonly tenantId: string | undefined;
  readonly #settings: ConversationSettings;
  readonly #lane = new Lane();
  #session: Session | undefined;
  /** All that was told of turns, in order. Never rejects. */
  #turns: Promise<void> = Promise.resolve();
  /** The message that was told last. */
  #asked: string | undefined;
  /** The same, of the turn that was looked at last. */
  #last: string | undefined;
  /** The message whose turn is recorded, while that is known to stand. */
  #current: string | undefined;
  #running: Running[] = [];

  constructor(settings: ConversationSettings) {
    this.#settings = settings;
    this.threadId = settings.key.threadId;
    this.tenantId = settings.key.tenantId;
  }

  /** The session in the engine: timeline, steps, plan, restore and all else. Opens the workspace. */
  async session(): Promise<Session> {
    this.#session ??= await this.#settings.enter();
    return this.#session;
  }

  /**
   * A user message: a boundary. Told again for the same message (a retry, an approval, each step) the turn goes on; told
   * again after an undo of that turn it is a new one. Inside a call of this thread it is part of the turn.
   */
  message(message: Message = {}): Promise<void> {
    const asked = boundaryIdOf(message);
    if (this.#settings.nesting.isInside(this)) return this.#turns;
    const current = this.#current;
    if (current !== undefined && current === this.#asked && goesOn(current, asked)) return this.#turns;
    this.#asked = asked;
    const leftovers = [...this.#running];
    return this.#turn('capture', async () => {
      // What could not be opened is tried again, once a message.
      if (this.#session === undefined || this.#current === undefined) this.#session = await this.#settings.enter();
      await this.#beginTurn(this.#session, asked, { leftovers, label: message.label });
    });
  }

  /** A tool is about to run. Wait for it before the tool runs. */
  async begin(call: HostCall = {}): Promise<OpenCall> {
    const running = this.#start(call, false);
    await running.began;
    return {
      callId: running.callId ?? running.id,
      end: (end) => this.#end(running, end ?? {}),
    };
  }

  /** A tool run is over, told by its id. Of runs with the same id the oldest ends. */
  async end(id: string, end: CallEnd = {}): Promise<void> {
    const running = this.#running.find((one) => one.id === id && !one.ended);
    if (running !== undefined) return this.#end(running, end);
    const detail = `a tool run ${JSON.stringify(id)} ended, but none is open: what it changed since is not recorded`;
    this.#settings.report('endCall', { reason: 'end-without-begin', detail }, id);
  }

  /** True while a run of this id is open. */
  isOpen(id: string): boolean {
    return this.#running.some((one) => one.id === id && !one.ended);
  }

  /** Begin, run, end. Throws what `run` throws, and nothing of its own. `isError` judges a value that stands for a failure. */
  async around<T>(
    call: HostCall,
    run: () => T | PromiseLike<T>,
    isError: (value: T) => boolean = () => false,
  ): Promise<T> {
    const running = this.#start(call, true);
    await running.began;
    let failed = true;
    try {
      const value = await this.#settings.nesting.run(this, running, run);
      failed = isError(value);
      return value;
    } finally {
      await this.#end(running, { isError: failed });
    }
  }

  /** The same for a tool that gives its output bit by bit. The call ends with the last bit, or when nobody wants more. */
  async *aroundEach<T>(call: HostCall, run: () => AsyncIterable<T>): AsyncGenerator<T> {
    const running = this.#start(call, true);
    await running.began;
    const inside = <R>(work: () => R): R => this.#settings.nesting.run(this, running, work);
    let failed = true;
    let iterator: AsyncIterator<T> | undefined;
    try {
      iterator = inside(() => run()[Symbol.asyncIterator]());
      for (let next = await inside(iterator.next.bind(iterator)); !next.done; ) {
        yield next.value;
        next = await inside(iterator.next.bind(iterator));
      }
      iterator = undefined;
      failed = false;
    } finally {
      const left = iterator;
      try {
        if (left !== undefined) await inside(() => left.return?.());
      } finally {
        await this.#end(running, { isError: failed });
      }
    }
  }

  /** The host says that the turn is over. Calls end that were told by `begin`; those of `around` end by themselves. */
  turnEnded(): Promise<void> {
    const told = this.#running.filter((running) => !running.endsItself);
    return this.#close('endTurn', told, async () => {
      const result = await this.#session?.endTurn();
      if (result?.available === false) throw result;
    });
  }

  /** The run was aborted, or failed: calls that are open end as failed. */
  aborted(): Promise<void> {
    return this.#close('abort', [...this.#running], async () => undefined);
  }

  /** Takes back the newest turn; `options` as of the session. */
  undo(options?: UndoOptions): Promise<HistoryAnswer> {
    return this.#history((session) => session.undo(options));
  }

  redo(options?: RedoOptions): Promise<HistoryAnswer> {
    return this.#history((session) => session.redo(options));
  }

  /** What changed since the newest turn began, whoever did it. */
  async diff(): Promise<Result<DiffResult>> {
    await this.#turns;
    const session = await this.session();
    const timeline = await session.timeline({ limit: 1, lines: false });
    if (!timeline.available) return timeline;
    const turn = timeline.items.find((item) => item.type === 'boundary');
    if (turn !== undefined) return session.diff(turn.position);
    return { available: false, reason: 'no-checkpoint', detail: 'the thread has no turn yet' };
  }

  /** The host made a new thread of this one, up to the message `at`. */
  async fork(key: SessionKeyOptions, at: Message): Promise<Result<{ session: SessionInfo }>> {
    await this.#turns;
    return (await this.session()).fork(key, { at: boundaryIdOf(at) });
  }

  /** The host forgot the thread. */
  async drop(): Promise<Result<{ freedBytes: number }>> {
    await this.aborted();
    return (await this.session()).drop();
  }

  /** Does what was told of turns one after another, and reports what fails. */
  #turn(during: string, work: () => Promise<void>): Promise<void> {
    this.#turns = this.#turns.then(() => this.#guard(during, work));
    return this.#turns;
  }

  async #guard(during: string, work: () => Promise<void>, callId?: string): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#settings.report(during, error, callId);
    }
  }

  async #beginTurn(
    session: Session,
    asked: string,
    { leftovers, label }: { leftovers: readonly Running[]; label?: string | undefined },
  ): Promise<void> {
    if (this.#current !== undefined && goesOn(this.#current, asked)) return;
    const last = this.#last;
    this.#last = asked;
    this.#current = undefined;
    // A message with an id of its own that this process has not told is new, as a rule: nothing is looked up for it.
    const known = last === undefined ? isDerived(asked) : goesOn(last, asked);
    if (known && (await this.#standsAt(session, asked))) return;
    await this.#sweep(leftovers);
    const options = label === undefined ? {} : { label: label.slice(0, MAX_NAME) };
    for (let n = 1; this.#current === undefined; n += 1) {
      if (await captured(session, numbered(asked, n), options)) this.#current = asked;
      else if (n === 1 && !known && (await this.#standsAt(session, asked))) return;
    }
  }

  /** The newest turn is that of the message, and was not undone: it goes on. */
  async #standsAt(session: Session, asked: string): Promise<boolean> {
    const turn = await newestTurn(session);
    if (turn === undefined || turn.undone || !goesOn(turn.boundaryId, asked)) return false;
    this.#current = asked;
    return true;
  }

  /** A boundary that failed is tried again before a call: late is better than none. Calls before any message have one too. */
  async #ensureTurn(running: Running): Promise<void> {
    await this.#turns;
    if (this.#current !== undefined || running.dropped) return;
    await this.#turn('capture', async () => {
      const session = await this.session();
      this.#asked ??= (await newestTurn(session))?.boundaryId ?? START;
      await this.#beginTurn(session, this.#asked, { leftovers: [] });
    });
  }

  #start(call: HostCall, endsItself: boolean): Running {
    const running: Running = {
      id: call.id ?? callIdOf(call.tool),
      callId: null,
      facts: {},
      began: Promise.resolve(),
      endsItself,
      entering: false,
      ended: false,
      dropped: false,
      release: () => undefined,
    };
    this.#running.push(running);
    running.began = this.#guard('beginCall', () => this.#enter(running, call), running.id);
    return running;
  }

  async #enter(running: Running, call: HostCall): Promise<void> {
    const own = this.#running.find((one) => one.id === call.parentCallId && !one.ended);
    const parent = this.#parentOf(call, own);
    // A call inside another one of this thread would wait for it forever.
    const waits = this.#settings.serialize && own === undefined && !this.#settings.nesting.isInside(this);
    await this.#ensureTurn(running);
    if (waits && !running.dropped) await this.#lane.enter(running, call.signal);
    if (running.dropped || this.#current === undefined) return;
    running.entering = true;
    await this.#guard('tools', async () => {
      running.facts = factsOf(this.#settings.tools, call.tool, call.input);
    });
    const { paths } = running.facts;
    running.callId = await begunCall(await this.session(), safeId(running.id), {
      ...(call.tool === undefined ? {} : { tool: call.tool.slice(0, MAX_NAME) }),
      ...(call.stepId === undefined ? {} : { stepId: safeId(call.stepId) }),
      ...(paths === undefined ? {} : { paths: [...paths] }),
      ...(parent === undefined ? {} : { parentCallId: parent }),
    });
  }

  #parentOf({ parentCallId }: HostCall, own: Running | undefined): string | undefined {
    if (parentCallId === undefined) return this.#settings.nesting.current?.running.callId ?? undefined;
    return own?.callId ?? safeId(parentCallId);
  }

  async #end(
    running: Running,
    { isError = false, sideEffect = running.facts.sideEffect, paths }: CallEnd,
  ): Promise<void> {
    if (running.ended) return;
    running.ended = true;
    await running.began;
    const { callId } = running;
    if (callId !== null) {
      const known: EndCallOptions = {
        ...(sideEffect === undefined ? {} : { sideEffect }),
        ...(paths === undefined ? {} : { paths: [...paths] }),
      };
      const work = async (): Promise<void> => endedCall(await this.session(), callId, { isError, known });
      await this.#guard('endCall', work, running.id);
    }
    this.#leave(running);
  }

  /** Ends what nobody ended. A call that still waits for its begin is never begun. */
  async #sweep(leftovers: readonly Running[]): Promise<void> {
    for (const running of leftovers) {
      if (running.entering) await this.#end(running, { isError: true });
      else this.#drop(running);
    }
  }

  #drop(running: Running): void {
    running.dropped = true;
    running.ended = true;
    this.#leave(running);
  }

  #leave(running: Running): void {
    running.release();
    this.#running = this.#running.filter((one) => one !== running);
  }

  /** The turn is over: what is open ends, and the next message is looked at anew. */
  #close(during: string, leftovers: readonly Running[], after: () => Promise<void>): Promise<void> {
    if (this.#settings.nesting.isInside(this)) return this.#turns;
    return this.#turn(during, async () => {
      await this.#sweep(leftovers);
      this.#current = undefined;
      await after();
    });
  }

  async #history(work: (session: Session) => Promise<Result<HistoryResult>>): Promise<HistoryAnswer> {
    await this.#turns;
    const session = await this.session();
    const result = await work(session);
    // The same message may come again: whether its turn goes on is to be looked up.
    if (result.available && result.outcome !== 'nothing') this.#current = undefined;
    return { message: result.available ? result.message : result.detail, result };
  }
}
