/**
 * Random sequences of all that a history knows (captures, calls, foreign edits, undo, redo, restore, revert and unrevert,
 * of a turn or a call too, fork, drop, gc, reopen) against a naive model that keeps full copies. A suite for one backend:
 * each has a test file, so that they run at once. Prints the seed of a failure; TAKEBACK_SEED sets it, TAKEBACK_SEQUENCES
 * says how many.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { Actor } from '../kit/actor.ts';
import { describeBackends } from '../kit/backends.ts';
import { at, type Tree } from '../kit/naive-plan.ts';
import { NaiveWorld, treeOf } from '../kit/naive-world.ts';
import { type Step, steps } from '../kit/sequence.ts';

const RUNS = Number(process.env.TAKEBACK_SEQUENCES ?? 200);
const LIMIT_MS = 60_000 + RUNS * 500;
const seed = Number(process.env.TAKEBACK_SEED ?? 20261130);

/** Workspaces that run at once: a sequence waits for threads more than it works. */
const LANES = 4;

export function sequences(backend: BackendKind): void {
  describeBackends('sequences', suite, [backend]);
}

function suite(kind: BackendKind): void {
  const check = async (
    options: { foreign: boolean; max: number; runs: number },
    run: (actor: Actor, sequence: Step[]) => Promise<void>,
  ): Promise<void> => {
    let ran = 0;
    const lane = async (n: number): Promise<void> => {
      const actor = await Actor.open({ kinds: [kind] });
      try {
        const property = fc.asyncProperty(steps(options), async (sequence) => {
          await run(actor, sequence);
          ran += 1;
        });
        await fc.assert(property, { numRuns: options.runs / LANES, seed: seed + n });
        await actor.verify();
      } finally {
        await actor.close();
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, n) => lane(n)));
    expect(ran).toBe(options.runs);
  };

  test('alone, a session’s undo and restore give the tree of the boundary, and redo what was there', {
    timeout: LIMIT_MS,
  }, async () => {
    const runs = Math.ceil(Math.max(40, RUNS / 10) / LANES) * LANES;
    let restores = 0;
    await check({ foreign: false, max: 8, runs }, async (actor, sequence) => {
      const wrote = await alone(actor, sequence);
      restores += wrote;
    });
    expect(restores, 'the sequences restore something').toBeGreaterThan(runs / 2);
  });

  test('a history does and says what the naive model foretells, step by step', { timeout: LIMIT_MS }, async () => {
    const runs = Math.ceil(RUNS / LANES) * LANES;
    const wrote = new Map<string, number>();
    await check({ foreign: true, max: 12, runs }, async (actor, sequence) => {
      const world = await foretold(actor, sequence);
      for (const [op, count] of world.wrote) wrote.set(op, (wrote.get(op) ?? 0) + count);
    });
    console.info(JSON.stringify({ kind, runs, wrote: Object.fromEntries(wrote) }));
    for (const op of ['undo', 'redo', 'restore', 'revert', 'unrevert', 'revertTurn', 'revertCall'])
      expect(wrote.get(op) ?? 0, `${op} writes something`).toBeGreaterThan(runs / 40);
  });
}

async function foretold(actor: Actor, sequence: readonly Step[]): Promise<NaiveWorld> {
  await actor.begin();
  const boundaries = new Map((['s1', 's2'] as const).map((name) => [name, actor.boundaries(name)[0] as string]));
  const world = new NaiveWorld(boundaries, actor.look());
  for (const step of sequence) world.check(await actor.do(step));
  world.check(await actor.do({ op: 'ask', session: 's1', back: 0, policy: 'refuse' }));
  return world;
}

/** Full copies at each boundary; answers how many operations wrote. */
async function alone(actor: Actor, sequence: readonly Step[]): Promise<number> {
  await actor.begin();
  let copies = new Map<string, Tree>([[actor.boundaries('s1')[0] as string, treeOf(actor.look())]]);
  let undone: { tree: Tree; copies: Map<string, Tree> }[] = [];
  let wrote = 0;
  for (const step of sequence) {
    const { id, answer, ...done } = await actor.do(step);
    const [before, after] = [treeOf(done.before), treeOf(done.after)];
    const receipt = answer !== undefined && 'receipt' in answer ? answer.receipt : undefined;
    if (step.op === 'capture') {
      copies.set(id, before);
      undone = [];
    } else if (step.op === 'call') {
      if (differ(before, after)) undone = [];
    } else if ((step.op === 'undo' || step.op === 'restore') && receipt !== undefined) {
      // Moved, edited and replaced in one call: by its age it may have come from anywhere. The model judges these.
      if (receipt.refused.some(([, , reason]) => reason === 'moved-uncovered')) return wrote;
      expect(receipt.refused, 'nobody else was there').toEqual([]);
      expect(after, `${step.op} to ${receipt.boundaryId}`).toEqual(copies.get(receipt.boundaryId));
      if (receipt.restored.length === 0) expect(after).toEqual(before);
      else {
        undone.push({ tree: before, copies });
        // The turns after that boundary are taken back: to go back to one of them now changes nothing.
        const ids = actor.boundaries('s1');
        const later = ids.slice(ids.indexOf(receipt.boundaryId) + 1);
        copies = new Map([...copies, ...later.map((id) => [id, after] as const)]);
        wrote += 1;
      }
    } else if (step.op === 'redo') {
      const expected = undone.pop();
      if (expected === undefined) expect(receipt, 'nothing to redo').toBeUndefined();
      else {
        expect(after, 'redo').toEqual(expected.tree);
        copies = expected.copies;
      }
    } else expect(after).toEqual(before);
  }
  return wrote;
}

function differ(before: Tree, after: Tree): boolean {
  return [...before.keys(), ...after.keys()].some((path) => at(before, path) !== at(after, path));
}
