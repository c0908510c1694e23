/**
 * Stands for the global `performance` in the built hook file: the first look at Node's own loads its observers, which takes
 * longer than all that a hook measures.
 */
export const performance: { now(): number } = {
  /** Milliseconds of a clock that never goes back. */
  now: () => {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1e3 + nanoseconds / 1e6;
  },
};
