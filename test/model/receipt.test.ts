/** Receipts from plans and outcomes, and the texts of undo and redo. */
import { describe, expect, test } from 'vitest';
import type { ApplyOutcome } from '../../src/backend/backend.ts';
import { applyEntries, peekPaths, planRestore } from '../../src/model/plan.ts';
import { buildReceipt, keptPaths, redoText, undoText } from '../../src/model/receipt.ts';
import type { ModelPlan, SettledReceipt } from '../../src/model/types.ts';
import type { Receipt } from '../../src/types.ts';
import { absent, dir, emptyReceipt, file, peeks, rel, Story, type Tree, uncovered } from './story.ts';

function planOf(story: Story, disk: Tree = {}, paths?: string[]): ModelPlan {
  const scope = { rows: story.attributed(1), ...(paths === undefined ? {} : { paths: paths.map(rel) }) };
  return planRestore({
    ...scope,
    disk: peeks({ ...story.now, ...disk }, peekPaths(scope)),
    onConflict: 'refuse',
    uncoveredInodes: new Set(),
  });
}

/** All writes done, but for what `outcomes` says otherwise. */
function settle(plan: ModelPlan, outcomes: Record<string, Partial<ApplyOutcome> | null> = {}): SettledReceipt {
  const all = applyEntries(plan).flatMap(({ path }): ApplyOutcome[] => {
    const outcome = outcomes[path];
    return outcome === null ? [] : [{ path, status: 'done', ...outcome }];
  });
  return buildReceipt({ operationId: 'op', boundaryId: 'a', plan, outcomes: all, irreversible: [], notes: ['note'] });
}

/** `place: path [reason]`. */
function places({ receipt }: SettledReceipt): string[] {
  return (['restored', 'refused', 'skipped', 'failed'] as const).flatMap((place) =>
    receipt[place].map((entry) => `${place}: ${entry.path}${entry.reason ? ` ${entry.reason}` : ''}`),
  );
}

const turn = (): Story => {
  const story = new Story({ a: file('1'), b: file('1'), c: file('1') });
  story.call(1, { a: file('2'), b: file('2'), c: absent, B: dir(), 'B/new': file('n') });
  return story;
};

describe('outcome', () => {
  test('done: every owed path was settled', () => {
    const settled = settle(planOf(turn()));
    expect(places(settled)).toEqual(['restored: B/new', 'restored: a', 'restored: b', 'restored: c']);
    expect(settled).toMatchObject({ settledAll: true, wrote: true, receipt: { outcome: 'done', notes: ['note'] } });
  });

  test('a folder that goes along isn’t listed, but its rows are taken back', () => {
    expect(settle(planOf(turn())).settled.map((taken) => taken.path)).toEqual(['B', 'B/new', 'a', 'b', 'c']);
  });

  test('partial: some were, some weren’t', () => {
    const settled = settle(planOf(turn(), { b: file('user') }));
    expect(places(settled)).toEqual([
      'restored: B/new',
      'restored: a',
      'restored: c',
      'refused: b changed-outside-session',
    ]);
    expect(settled).toMatchObject({ settledAll: false, wrote: true, receipt: { outcome: 'partial' } });
    expect(settled.settled.map((taken) => taken.path)).not.toContain('b');
  });

  test('nothing: none was', () => {
    const story = new Story({ f: file('1') });
    story.call(1, { f: file('2') });
    expect(settle(planOf(story, { f: file('user') }))).toMatchObject({
      settled: [],
      wrote: false,
      receipt: { outcome: 'nothing' },
    });
    expect(settle({ entries: [] })).toMatchObject({ settledAll: true, wrote: false, receipt: { outcome: 'nothing' } });
  });

  test('already-matches is settled without a write', () => {
    const story = new Story({ f: file('1') });
    const seq = story.call(1, { f: file('2') });
    const settled = settle(planOf(story, { f: file('1') }));
    expect(places(settled)).toEqual(['skipped: f already-matches']);
    expect(settled).toMatchObject({
      settled: [{ path: 'f', fromSeq: seq, toSeq: seq }],
      wrote: false,
      receipt: { outcome: 'done' },
    });
  });

  test('a name that nothing is owed for neither settles nor hinders', () => {
    const settled = settle(planOf(turn(), {}, ['a', 'q']));
    expect(places(settled)).toEqual(['restored: a', 'skipped: q not-attributed']);
    expect(settled).toMatchObject({ settledAll: true, receipt: { outcome: 'done' } });
    expect(settled.settled.map((taken) => taken.path)).toEqual(['a']);
  });
});

describe('every write that was planned ends in restored, refused or failed', () => {
  test('a guard that fired at the write: refused, with what it found', () => {
    const settled = settle(planOf(turn()), {
      a: { status: 'refused', reason: 'changed-outside-session', found: file('user') },
    });
    expect(settled.receipt.refused).toEqual([
      {
        path: 'a',
        action: 'restore',
        reason: 'changed-outside-session',
        expectedHash: `xxh3:32${'0'.repeat(30)}`,
        foundHash: `xxh3:75736572${'0'.repeat(24)}`,
      },
    ]);
    expect(settled.receipt.outcome).toBe('partial');
  });

  test('a fault: failed, with its reason', () => {
    expect(
      places(settle(planOf(turn()), { a: { status: 'failed', reason: 'permission-denied', detail: 'EACCES' } })),
    ).toContain('failed: a permission-denied');
  });

  test('a reason that nobody knows is an io-error, told in full', () => {
    const { receipt } = settle(planOf(turn()), { a: { status: 'failed', reason: 'moon-phase', detail: 'full' } });
    expect(receipt.failed).toMatchObject([{ path: 'a', reason: 'io-error', detail: 'moon-phase: full' }]);
  });

  test('no outcome at all: failed', () => {
    const settled = settle(planOf(turn()), { a: null });
    expect(settled.receipt.failed).toMatchObject([{ path: 'a', reason: 'io-error', detail: 'no outcome' }]);
    expect(settled.settled.map((taken) => taken.path)).not.toContain('a');
  });

  test('a folder that filled up before it could go is shown, and refused', () => {
    const settled = settle(planOf(turn()), { B: { status: 'skipped', reason: 'not-empty' } });
    expect(places(settled)).toContain('refused: B not-empty');
    expect(settled.receipt.outcome).toBe('partial');
  });

  test('a path that became as wanted by another’s hand is settled, and not called written', () => {
    const story = new Story({ f: file('1') });
    story.call(1, { f: file('2') });
    const settled = settle(planOf(story), { f: { status: 'skipped', reason: 'already-matches' } });
    expect(settled.receipt.restored).toMatchObject([{ path: 'f', note: 'already-matches' }]);
    expect(settled).toMatchObject({ settledAll: true, wrote: false });
  });

  test('remarks come through', () => {
    const { receipt } = settle(planOf(turn()), { a: { note: 'hardlink-broken' } });
    expect(receipt.restored.find((entry) => entry.path === 'a')?.note).toBe('hardlink-broken');
  });
});

test('uncovered names once more those refused as uncovered, by the plan or at the write', () => {
  const story = new Story({ a: file('1') });
  story.call(1, { '.env': uncovered('secret'), a: file('2') });
  const settled = settle(planOf(story), {
    a: { status: 'refused', reason: 'uncovered', found: uncovered('too-large') },
  });
  expect(places(settled)).toEqual(['refused: .env uncovered', 'refused: a uncovered']);
  expect(settled.receipt.uncovered).toEqual([
    { path: '.env', reason: 'secret' },
    { path: 'a', reason: 'too-large' },
  ]);
});

describe('texts', () => {
  const receipt = (
    outcome: Receipt['outcome'],
    lists: Partial<Record<'restored' | 'refused' | 'skipped' | 'failed', string[]>>,
  ): Receipt => {
    const entries = Object.entries(lists).map(([place, paths]) => [
      place,
      paths.map((path) => ({ path: rel(path), action: 'restore' })),
    ]);
    return { ...emptyReceipt, outcome, ...Object.fromEntries(entries) };
  };

  test('all restored', () => {
    const done = receipt('done', { restored: ['a', 'b', 'c'] });
    expect(undoText(done)).toBe('Undid the last turn. Files restored: 3.');
    expect(redoText(done)).toBe('Redid the last turn.');
  });

  test('some kept', () => {
    const partial = receipt('partial', { restored: ['a'], refused: ['b'], failed: ['c'] });
    expect(undoText(partial)).toBe('Undid the last turn. Files restored: 1. Kept 2 that changed since: b, c');
    expect(redoText(partial)).toBe('Redid the last turn. Kept 2 that changed since: b, c');
  });

  test('none restored', () => {
    const nothing = receipt('nothing', { refused: ['a', 'b', 'c', 'd', 'e', 'f'] });
    expect(undoText(nothing)).toBe('Nothing was restored. Kept 6 that changed since: a, b, c, d, e, …');
    expect(redoText(nothing)).toBe('Nothing was restored. Kept 6 that changed since: a, b, c, d, e, …');
  });

  test('a folder that had to stay is kept, a path that matched is not', () => {
    const skipped = [
      { path: rel('B'), action: 'skip', reason: 'not-empty' },
      { path: rel('f'), action: 'skip', reason: 'already-matches' },
    ] as const;
    expect(keptPaths({ ...emptyReceipt, skipped })).toEqual(['B']);
  });
});
