/**
 * Calls that run: what a host says of them, the order that `serialize` gives them, and which call runs inside which.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { SideEffect } from '../../types.ts';
import type { CallFacts } from './options.ts';

/** A tool run as a host tells of it. All may be missing. */
export interface HostCall {
  readonly id?: string | undefined;
  readonly tool?: string | undefined;
  /** What the tool gets; for `paths` and `sideEffect` of the table. */
  readonly input?: unknown;
  /** The model step that asked for it. */
  readonly stepId?: string | undefined;
  /** The call that this one runs inside: a subagent's. Default: the `around` that it runs in. */
  readonly parentCallId?: string | undefined;
  /** Ends the waiting of `serialize`. */
  readonly signal?: AbortSignal | undefined;
}

export interface CallEnd {
  readonly isError?: boolean | undefined;
  readonly sideEffect?: SideEffect | undefined;
  readonly paths?: readonly string[] | undefined;
}

/** A call that was begun. */
export interface OpenCall {
  /** Its id in the timeline. */
  readonly callId: string;
  end(end?: CallEnd): Promise<void>;
}

/** A call from its begin to its end. */
export interface Running {
  /** The host's id, or the one that was made. */
  readonly id: string;
  /** In the timeline; null where it isn't recorded. */
  callId: string | null;
  facts: CallFacts;
  /** Settled once the begin is done, however it went. Never rejects. */
  began: Promise<void>;
  /** What runs it will end it. */
  readonly endsItself: boolean;
  /** The begin waits for nothing but the engine any more. */
  entering: boolean;
  ended: boolean;
  /** Nobody will end it: it is not begun where it wasn't yet. */
  dropped: boolean;
  /** Lets the next call of the lane go. */
  release: () => void;
}

/** One call after another. */
export class Lane {
  #last: Promise<void> = Promise.resolve();

  /** Waits for those before; `running.release` lets the next one go. */
  async enter(running: Running, signal: AbortSignal | undefined): Promise<void> {
    const before = this.#last;
    const mine = new Promise<void>((resolve) => {
      running.release = resolve;
    });
    this.#last = before.then(() => mine);
    await (signal === undefined ? before : firstOf(before, signal));
  }
}

function firstOf(work: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const aborted = (): void => resolve();
    signal.addEventListener('abort', aborted, { once: true });
    void work.then(() => {
      signal.removeEventListener('abort', aborted);
      resolve();
    });
  });
}

interface Around {
  readonly owner: object;
  readonly running: Running;
  readonly outer: Around | undefined;
}

/** Which calls the present code runs inside. */
export class Nesting {
  readonly #calls = new AsyncLocalStorage<Around>();

  /** The innermost open call around the present code. */
  get current(): Around | undefined {
    return this.#open()[0];
  }

  /** True inside a call of `owner`, at any depth. */
  isInside(owner: object): boolean {
    return this.#open().some((around) => around.owner === owner);
  }

  /** What outlives its call, such as a timer, is inside it no more. */
  #open(): Around[] {
    const open: Around[] = [];
    for (let at = this.#calls.getStore(); at !== undefined; at = at.outer) if (!at.running.ended) open.push(at);
    return open;
  }

  run<T>(owner: object, running: Running, work: () => T): T {
    return this.#calls.run({ owner, running, outer: this.#calls.getStore() }, work);
  }
}
