/**
 * The workspace's lock across processes: a write transaction on lock.db, which holds nothing and is never written.
 *
 * The operating system drops it with its process, whatever killed that. SQLite's locks have no queue, so the wait is
 * ours: short tries with pauses that grow, which a signal can end. Not re-entrant: within a process the workspace's
 * queue comes first, and a second `acquire` on one connection is a bug and says so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SqlDriver } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { Lock } from './timeline.ts';

/** SQLite's own wait per try. Short, for it can't be cancelled. */
export const LOCK_TRY_MS = 2;
const DEFAULT_TIMEOUT_MS = 30_000;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;
/** With its journal in memory: SQLite makes a header for an empty file, and would make and remove a journal for that each time. */
const TAKE = 'PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE';

export class WorkspaceLock {
  readonly #driver: SqlDriver;
  #held = false;

  /** @param driver over lock.db, opened with a busy timeout of {@link LOCK_TRY_MS} */
  constructor(driver: SqlDriver) {
    this.#driver = driver;
  }

  async acquire(options: { timeoutMs?: number; signal?: AbortSignal | undefined } = {}): Promise<Lock> {
    if (this.#held)
      throw new TakebackError('ERR_INTERNAL', 'the workspace lock is held or waited for in this process already');
    this.#held = true;
    try {
      await this.#wait(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal);
    } catch (error) {
      this.#held = false;
      throw error;
    }
    let released: Promise<void> | undefined;
    return {
      release: () => {
        released ??= this.#release();
        return released;
      },
    };
  }

  async #wait(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    const started = performance.now();
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      throwIfAborted(signal);
      if (await this.#try()) {
        if (!signal?.aborted) return;
        await this.#driver.exec('ROLLBACK');
        throwIfAborted(signal);
      }
      const waited = performance.now() - started;
      if (waited >= timeoutMs) {
        const seconds = (waited / 1000).toFixed(1);
        throw new TakebackError(
          'ERR_BUSY',
          `another process holds the workspace's lock; waited ${seconds} s. Try again when it is done.`,
        );
      }
      // Jitter, so that two who wait don't meet at every try.
      const jittered = pause * (0.5 + Math.random() / 2);
      await sleep(Math.min(jittered, timeoutMs - waited), undefined, signal === undefined ? {} : { signal }).catch(() =>
        throwIfAborted(signal),
      );
    }
  }

  async #try(): Promise<boolean> {
    try {
      await this.#driver.exec(TAKE);
      return true;
    } catch (error) {
      if (error instanceof TakebackError && error.code === 'ERR_BUSY') return false;
      throw error;
    }
  }

  async #release(): Promise<void> {
    try {
      await this.#driver.exec('ROLLBACK');
    } finally {
      this.#held = false;
    }
  }
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted)
    throw new TakebackError('ERR_CANCELLED', 'the wait for the workspace lock was cancelled', { cause: signal.reason });
}
