/** One thing at a time, in the order asked: the workspace's queue in this process. Imports nothing. */
export class Queue {
  #tail: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all that was asked before has ended, whatever became of it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#tail.then(work, work);
    this.#tail = next.catch(() => undefined);
    return next;
  }

  /** Resolves when all that has been asked so far has ended. */
  async idle(): Promise<void> {
    await this.#tail;
  }
}
