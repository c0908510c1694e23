/** What a fork inherits: its ancestors' calls and operations up to the fork are its own. */
import { expect, test } from 'vitest';
import { adopt, adoptCalls } from '../../src/model/lineage.ts';
import type { CallRecord } from '../../src/timeline/timeline.ts';
import { operation, Story } from './story.ts';

const PARENT = 1;
const FORK = 2;
const lineage = [{ session: PARENT, forkSeq: 20 }];

function call(session: number, beginSeq: number, endSeq: number | null): CallRecord {
  const story = new Story();
  story.begin(session);
  const made = story.calls[0] as CallRecord;
  return { ...made, beginSeq, endSeq, state: endSeq === null ? 'open' : 'ended' };
}

const spans = (calls: readonly CallRecord[]): (number | null)[][] =>
  calls.map(({ session, beginSeq, endSeq }) => [session, beginSeq, endSeq]);

test('a call that ended before the fork is the fork’s own, one that began after it is not', () => {
  const calls = [call(PARENT, 10, 12), call(PARENT, 15, 20), call(PARENT, 20, 22), call(FORK, 25, 26), call(3, 1, 2)];
  expect(spans(adoptCalls(calls, FORK, lineage))).toEqual([
    [FORK, 10, 12],
    [FORK, 15, 20],
    [PARENT, 20, 22],
    [FORK, 25, 26],
    [3, 1, 2],
  ]);
});

test('a call that was open at the fork is cut there', () => {
  for (const endSeq of [null, 30])
    expect(spans(adoptCalls([call(PARENT, 10, endSeq)], FORK, lineage))).toEqual([
      [PARENT, 20, endSeq],
      [FORK, 10, 20],
    ]);
});

test('operations up to the fork are the fork’s own', () => {
  const operations = [10, 20, 21].map((seq) => operation({ id: `op${seq}`, kind: 'undo', boundarySeq: 5, seq }));
  const input = { session: FORK, rows: [], calls: [], observations: [], operations, taken: [] };
  expect(adopt(input, lineage).operations.map((o) => o.session)).toEqual([FORK, FORK, PARENT]);
});

test('for a session that is no fork nothing changes', () => {
  const calls = [call(PARENT, 10, 12)];
  expect(adoptCalls(calls, PARENT, [])).toBe(calls);
  const input = { session: PARENT, rows: [], calls, observations: [], operations: [], taken: [] };
  expect(adopt(input, [])).toBe(input);
});
