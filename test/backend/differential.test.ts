/**
 * The same random sequence on each backend, and on stores that the backends continue by turns: equal trees, answers,
 * receipts and timelines after every step. Prints the seed of a failure.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Actor } from '../kit/actor.ts';
import { availableBackends } from '../kit/backends.ts';
import { SESSIONS, type Step, steps } from '../kit/sequence.ts';
import { got } from '../kit/story.ts';

const SLOW = process.env.TAKEBACK_SLOW === '1';
const RUNS = SLOW ? 2000 : 60;
const STEPS = 5;
const seed = Number(process.env.TAKEBACK_SEED ?? 0x7ab);

describe.skipIf(availableBackends.length < 2)('native and portable', () => {
  test(`${RUNS} sequences give equal trees, receipts and timelines on both, and on a store that both write by turns`, {
    timeout: SLOW ? 3_600_000 : 300_000,
  }, async () => {
    const actors = await Promise.all([
      Actor.open({ kinds: ['native'] }),
      Actor.open({ kinds: ['portable'] }),
      Actor.open({ kinds: ['native', 'portable'] }),
      Actor.open({ kinds: ['portable', 'native'], dropIndex: true }),
    ]);
    try {
      await fc.assert(
        fc.asyncProperty(steps({ foreign: true, max: STEPS }), (sequence) => compare(actors, sequence)),
        { numRuns: RUNS, seed },
      );
      for (const actor of actors) expect(got(await actor.workspace.verify())).toMatchObject({ ok: true, problems: [] });
    } finally {
      for (const actor of actors) await actor.close();
    }
  });
});

async function compare(actors: readonly Actor[], sequence: readonly Step[]): Promise<void> {
  await Promise.all(actors.map((actor) => actor.begin()));
  for (const step of sequence) {
    const done = await Promise.all(actors.map((actor) => actor.do(step)));
    const [first, ...others] = done.map(({ said, after }) => ({
      said,
      tree: [...after].map(([path, { version }]) => [path, version]),
    }));
    for (const other of others) expect(other).toEqual(first);
  }
  for (const name of SESSIONS) {
    const [first, ...others] = await Promise.all(actors.map((actor) => actor.timeline(name)));
    for (const other of others) expect(other).toEqual(first);
  }
}
