/** Which marks come and go, which boundaries a restore ends, and what no restore can take back. */
import { describe, expect, test } from 'vitest';
import {
  discardedAtCapture,
  irreversibleCalls,
  marksClearedByRedo,
  restoreMarks,
  undoMarks,
} from '../../src/model/turns.ts';
import type { CallRecord } from '../../src/timeline/timeline.ts';
import type { SideEffect } from '../../src/types.ts';
import { boundary, operation, Story } from './story.ts';

const ids = (marks: readonly { boundaryId: string }[]): string[] => marks.map((mark) => mark.boundaryId);
const three = [boundary('c', 30), boundary('b', 20), boundary('a', 10)];

test('an undo marks its turn once it settled a path', () => {
  const turn = boundary('b', 20);
  expect(undoMarks(turn, 1)).toEqual([{ session: 1, boundaryId: 'b' }]);
  expect(undoMarks(turn, 0)).toEqual([]);
});

test('a redo clears the marks of what it gave back', () => {
  expect(ids(marksClearedByRedo([boundary('b', 20, 'op1'), boundary('a', 10, 'op0')], 'op1'))).toEqual(['b']);
});

describe('restore', () => {
  const marked = [boundary('c', 30, 'op1'), boundary('b', 20), boundary('a', 10)];

  test('that settled all marks each turn from its boundary on', () => {
    expect(ids(restoreMarks(three, { boundarySeq: 20, settledAll: true, whole: true }))).toEqual(['c', 'b']);
    expect(ids(restoreMarks(marked, { boundarySeq: 10, settledAll: true, whole: true }))).toEqual(['b', 'a']);
  });

  test('that left something, or was limited to some paths, marks none', () => {
    expect(restoreMarks(three, { boundarySeq: 20, settledAll: false, whole: true })).toEqual([]);
    expect(restoreMarks(three, { boundarySeq: 20, settledAll: true, whole: false })).toEqual([]);
  });

  const after = [boundary('c', 30, 'op1'), boundary('b', 20, 'op1'), boundary('a', 10, 'op1')];
  const restore = operation({ id: 'op1', kind: 'restore', boundarySeq: 10, seq: 40 });

  test('makes its later boundaries unknown at the next capture', () => {
    expect(ids(discardedAtCapture(after, [restore]))).toEqual(['c', 'b']);
  });

  test('makes none unknown once it was redone', () => {
    expect(discardedAtCapture(after, [{ ...restore, redoneBy: 'op2' }])).toEqual([]);
  });

  test('leaves a turn that changed something since, and boundaries made since', () => {
    const changed = [boundary('d', 50), boundary('c', 30), ...after.slice(1)];
    expect(ids(discardedAtCapture(changed, [restore]))).toEqual(['b']);
  });

  test('does so only where it was whole; an undo never does', () => {
    expect(discardedAtCapture(three, [restore])).toEqual([]);
    expect(discardedAtCapture(after, [{ ...restore, kind: 'undo' }])).toEqual([]);
  });
});

describe('revert', () => {
  const revert = operation({ id: 'op1', kind: 'revert', boundarySeq: 10, seq: 40 });

  test('makes the turns after its message unknown at the next capture, whoever had marked them', () => {
    const hidden = [boundary('c', 30, 'op0'), boundary('b', 20, 'op1'), boundary('a', 10, 'op1')];
    expect(ids(discardedAtCapture(hidden, [revert]))).toEqual(['c', 'b']);
    expect(ids(discardedAtCapture([boundary('c', 30, 'op0'), boundary('a', 10)], [revert]))).toEqual(['c']);
    expect(discardedAtCapture(hidden, [{ ...revert, redoneBy: 'op2' }])).toEqual([]);
  });

  test('keeps all once an unrevert brought them back in part', () => {
    const hidden = [boundary('c', 30, 'op0'), boundary('b', 20), boundary('a', 10)];
    const unrevert = { ...revert, id: 'op2', kind: 'unrevert' as const, takesBack: revert.id };
    expect(discardedAtCapture(hidden, [revert, unrevert])).toEqual([]);
  });

  test('to a step keeps the turn that the step lies in', () => {
    const hidden = [boundary('c', 30, 'op1'), boundary('b', 20)];
    expect(ids(discardedAtCapture(hidden, [{ ...revert, boundarySeq: 25 }]))).toEqual(['c']);
  });

  test('names irreversible calls that began after the position, inside its turn', () => {
    const story = new Story();
    story.begin(1);
    const made = story.calls[0] as CallRecord;
    const calls = [14, 15].map((beginSeq) => ({ ...made, beginSeq, turnSeq: 10, sideEffect: 'network' as const }));
    expect(irreversibleCalls(calls, 1, { afterSeq: 15, toSeq: null })).toHaveLength(1);
  });
});

test('irreversible are the session’s calls of the window’s turns that reached the network or the desktop', () => {
  const story = new Story();
  const effects: [number, number, SideEffect | null][] = [
    [1, 10, 'network'],
    [1, 20, 'network'],
    [1, 20, 'network_read'],
    [1, 20, null],
    [2, 20, 'network'],
    [1, 30, 'desktop_control'],
  ];
  for (const [session] of effects) story.begin(session);
  const calls = story.calls.map((call, i): CallRecord => {
    const [, turnSeq, sideEffect] = effects[i] as [number, number, SideEffect | null];
    return { ...call, turnSeq, sideEffect };
  });
  expect(irreversibleCalls(calls, 1, { afterSeq: 20, toSeq: null })).toEqual([
    { callId: 'c2', invocation: 2, sideEffect: 'network' },
    { callId: 'c6', invocation: 6, sideEffect: 'desktop_control' },
  ]);
  expect(irreversibleCalls(calls, 1, { afterSeq: 20, toSeq: 30 }).map((call) => call.callId)).toEqual(['c2']);
});
