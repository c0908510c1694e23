/** Stands for `node:timers/promises` in the built hook file: hooks that wait for nobody's lock never load it. */
type Timers = typeof import('node:timers/promises');

export const setTimeout: Timers['setTimeout'] = (...args) =>
  (require('node:timers/promises') as Timers).setTimeout(...args);
