/**
 * Random sequences of captures, calls, foreign edits, undo, redo, restore, gc and reopen against a naive model that keeps
 * full copies. Prints the seed of a failure; TAKEBACK_SEED sets it, TAKEBACK_SLOW=1 runs many more.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Actor, type Done } from '../kit/actor.ts';
import { describeBackends } from '../kit/backends.ts';
import { at, type Expectation, NaiveSession, type Operation, type Tree, treeOf } from '../kit/naive.ts';
import { type SessionName, type Step, steps } from '../kit/sequence.ts';
import { got } from '../kit/story.ts';

const SLOW = process.env.TAKEBACK_SLOW === '1';
const RUNS = SLOW ? 5000 : 100;
const LIMIT_MS = SLOW ? 12_000_000 : 300_000;
const seed = Number(process.env.TAKEBACK_SEED ?? 20261130);

describeBackends('sequences', (kind) => {
  const check = async (
    options: { foreign: boolean; max: number },
    run: (actor: Actor, sequence: Step[]) => Promise<void>,
  ): Promise<number> => {
    let ran = 0;
    const actor = await Actor.open({ kinds: [kind] });
    try {
      await fc.assert(
        fc.asyncProperty(steps(options), async (sequence) => {
          await run(actor, sequence);
          ran += 1;
        }),
        { numRuns: RUNS / 2, seed },
      );
      expect(got(await actor.workspace.verify())).toMatchObject({ ok: true, problems: [] });
    } finally {
      await actor.close();
    }
    expect(ran).toBe(RUNS / 2);
    return ran;
  };

  test('alone, a session’s undo and restore give the tree of the boundary, and redo what was there', {
    timeout: LIMIT_MS,
  }, async () => {
    let restores = 0;
    const ran = await check({ foreign: false, max: 12 }, async (actor, sequence) => {
      restores += await alone(actor, sequence);
    });
    expect(restores, 'the sequences restore something').toBeGreaterThan(ran / 2);
  });

  test('among foreign edits, nothing of others is touched, and what is said is what was done', {
    timeout: LIMIT_MS,
  }, async () => {
    let restores = 0;
    const ran = await check({ foreign: true, max: 14 }, async (actor, sequence) => {
      restores += await among(actor, sequence);
    });
    expect(restores, 'the sequences restore something').toBeGreaterThan(ran / 2);
  });
});

/** Full copies at each boundary; answers how many operations wrote. */
async function alone(actor: Actor, sequence: readonly Step[]): Promise<number> {
  await actor.begin();
  let copies = new Map<string, Tree>([['s1-m0', treeOf(actor.look())]]);
  let undone: { tree: Tree; copies: Map<string, Tree> }[] = [];
  let wrote = 0;
  for (const step of sequence) {
    const done = await actor.do(step);
    const [before, after] = [treeOf(done.before), treeOf(done.after)];
    if (step.op === 'capture') {
      copies.set(actor.boundaries('s1').at(-1) as string, before);
      undone = [];
    } else if (step.op === 'call') {
      if (done.said !== null && JSON.stringify(before) !== JSON.stringify(after)) undone = [];
    } else if ((step.op === 'undo' || step.op === 'restore') && done.receipt !== undefined) {
      const { receipt } = done;
      expect([receipt.refused, receipt.failed], 'nobody else was there').toEqual([[], []]);
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
      if (expected === undefined) expect(done.receipt, 'nothing to redo').toBeUndefined();
      else {
        expect(after, 'redo').toEqual(expected.tree);
        copies = expected.copies;
      }
    } else expect(after).toEqual(before);
  }
  return wrote;
}

/** Two sessions and a user; answers how many operations wrote. */
async function among(actor: Actor, sequence: readonly Step[]): Promise<number> {
  await actor.begin();
  const start = treeOf(actor.look());
  const naive = { s1: new NaiveSession(), s2: new NaiveSession() };
  const murky = new Set<string>();
  for (const name of ['s1', 's2'] as const) naive[name].boundary(`${name}-m0`, 0, start);
  let order = 0;
  let wrote = 0;
  /** The newest operation, while nothing happened since. */
  let fresh: { session: SessionName; operation: Operation } | undefined;
  for (const step of sequence) {
    order += 1;
    const done = await actor.do(step);
    const [before, after] = [treeOf(done.before), treeOf(done.after)];
    if (step.op === 'capture')
      naive[step.session].boundary(actor.boundaries(step.session).at(-1) as string, order, before);
    else if (step.op === 'call') naive[step.session].call(order, before, after);
    else if (step.op === 'overlap') for (const path of changed(before, after)) murky.add(path);
    if (step.op === 'reopen' || step.op === 'gc') continue;
    if (step.op === 'redo') {
      if (fresh?.session === step.session) {
        expect(after, 'redo right after gives back every byte').toEqual(fresh.operation.before);
      }
      expect(strays(done, murky), 'redo writes what it says').toEqual([]);
      // What a redo gives back by halves is not foretold any more.
      for (const path of done.receipt?.restored ?? []) if (fresh?.session !== step.session) murky.add(path.path);
      if (fresh?.session === step.session) naive[step.session].redo(fresh.operation, new Set(fresh.operation.standing));
      else if (done.receipt !== undefined) return wrote;
    } else if ((step.op === 'undo' || step.op === 'restore') && done.receipt !== undefined) {
      const expected = naive[step.session].expectations(done.receipt.boundaryId, step.op === 'undo');
      judge(done, { expected, murky, force: step.force, paths: step.op === 'restore' ? step.paths : undefined });
      const model = naive[step.session];
      const count = model.operations.length;
      model.operation(order, done.receipt, { before, after, expected, onlyTurn: step.op === 'undo' });
      const operation = model.operations.length > count ? model.operations.at(-1) : undefined;
      fresh =
        done.receipt.restored.length > 0 && operation !== undefined ? { session: step.session, operation } : undefined;
      if (done.receipt.restored.length > 0) wrote += 1;
      continue;
    }
    fresh = undefined;
  }
  return wrote;
}

function changed(before: Tree, after: Tree): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (path) => at(before, path) !== at(after, path),
  );
}

const isFolder = (content: string): boolean => content === 'absent' || content.startsWith('dir ');

/** Changed paths that the receipt doesn't name: folders may come and go with what they hold. */
function strays(done: Done, murky: ReadonlySet<string>): string[] {
  const [before, after] = [treeOf(done.before), treeOf(done.after)];
  const restored = new Set((done.receipt?.restored ?? []).map((entry) => entry.path as string));
  return changed(before, after).filter(
    (path) => !restored.has(path) && !(isFolder(at(before, path)) && isFolder(at(after, path))) && !murky.has(path),
  );
}

interface Judgement {
  readonly expected: ReadonlyMap<string, Expectation>;
  readonly murky: ReadonlySet<string>;
  readonly force: boolean;
  readonly paths: readonly string[] | undefined;
}

/** A receipt against what the naive model says of each path. */
function judge(done: Done, { expected, murky, force, paths }: Judgement): void {
  const [before, after] = [treeOf(done.before), treeOf(done.after)];
  const receipt = done.receipt as NonNullable<Done['receipt']>;
  expect(strays(done, new Set()), 'only what the receipt names was written').toEqual([]);
  const within = (path: string): boolean =>
    paths === undefined || paths.some((p) => path === p || path.startsWith(`${p}/`) || p.startsWith(`${path}/`));
  for (const { path } of receipt.restored) {
    if (murky.has(path)) continue;
    const want = expected.get(path);
    expect(want, `${path} was the session’s`).toBeDefined();
    expect(within(path), `${path} was asked for`).toBe(true);
    expect(at(after, path), `${path} is the target`).toBe(want?.target);
    if (!force) {
      expect(at(before, path), `${path} was the session’s last result`).toBe(want?.last);
      expect(want?.broken, `${path} was nobody else’s in between`).toBe(false);
    }
  }
  for (const entry of [...receipt.refused, ...receipt.failed]) {
    const { path } = entry;
    expect(at(after, path), `${path} was kept`).toBe(at(before, path));
    const want = expected.get(path);
    const plain = want !== undefined && !want.broken && at(before, path) === want.last && !murky.has(path);
    if (plain && folderIsThere(before, path)) {
      expect(entry.reason, `${path} was refused though only the session changed it`).toBe('not-empty');
    }
  }
  for (const [path, want] of expected) {
    const listed = [receipt.restored, receipt.refused, receipt.skipped, receipt.failed]
      .flat()
      .some((entry) => entry.path === path);
    if (!listed && !murky.has(path) && paths === undefined && !isFolder(want.target)) {
      expect.fail(`${path} is owed and in no list`);
    }
  }
}

function folderIsThere(tree: Tree, path: string): boolean {
  const parts = path.split('/').slice(0, -1);
  return parts.every((_, i) => at(tree, parts.slice(0, i + 1).join('/')).startsWith('dir '));
}
