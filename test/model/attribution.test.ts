/** DESIGN §5, sentence by sentence. */
import { describe, expect, test } from 'vitest';
import { attribute } from '../../src/model/attribution.ts';
import type { AttributedRow } from '../../src/model/types.ts';
import { RowFlag } from '../../src/types.ts';
import { absent, dir, file, Story, uncovered } from './story.ts';

/** `owner/owed[candidates]` of the only row, for a session. */
function verdict(story: Story, session: number): string {
  const rows = story.attributed(session);
  expect(rows, 'the story has one row').toHaveLength(1);
  const row = rows[0] as AttributedRow;
  return `${row.owner}${row.owed ? ' owed' : ''} [${row.candidates}]`;
}

describe('candidates are the calls open at any moment between the last two looks', () => {
  test('a row that no call was open for is external', () => {
    const story = new Story();
    story.look({ f: file('1') });
    expect(verdict(story, 1)).toBe('external []');
  });

  test('what the look at a begin finds is not of that call', () => {
    const story = new Story();
    story.begin(1, { found: { f: file('1') } });
    expect(verdict(story, 1)).toBe('external []');
  });

  test('what the look at an end finds is of that call', () => {
    const story = new Story();
    story.call(1, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [1]');
    expect(verdict(story, 2)).toBe('other [1]');
  });

  test('what a look finds after the end is external', () => {
    const story = new Story();
    story.call(1, {});
    story.look({ f: file('1') });
    expect(verdict(story, 1)).toBe('external []');
  });

  test('what a look finds while the call is open is of that call', () => {
    const story = new Story();
    story.begin(1);
    story.look({ f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [1]');
  });

  test('a call that ended between the looks before is none', () => {
    const story = new Story();
    const first = story.begin(1);
    const second = story.begin(2);
    story.end(first);
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('other [2]');
    expect(verdict(story, 2)).toBe('own owed [2]');
  });
});

describe('several candidates', () => {
  test('of one session: the row is that session’s, and all are listed', () => {
    const story = new Story();
    story.begin(1);
    const second = story.begin(1);
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [1,2]');
  });

  test('of two sessions: contested for both, the third’s other', () => {
    const story = new Story();
    story.begin(1);
    const second = story.begin(2);
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('contested owed [1,2]');
    expect(verdict(story, 2)).toBe('contested owed [1,2]');
    expect(verdict(story, 3)).toBe('other [1,2]');
  });
});

describe('declared paths', () => {
  test('a declared path belongs to its declarer alone, with the note of a shared window', () => {
    const story = new Story();
    story.begin(2);
    const declarer = story.begin(1, { paths: ['f'] });
    story.end(declarer, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [2]');
    expect(verdict(story, 2)).toBe('other [2]');
    expect(story.attributed(1)[0]?.sharedWindow).toBe(true);
  });

  test('there is no such note where the other call is of the same session, or declared something', () => {
    const story = new Story();
    story.begin(1);
    story.begin(2, { paths: ['g'] });
    const declarer = story.begin(1, { paths: ['f'] });
    story.end(declarer, { f: file('1') });
    expect(story.attributed(1)[0]).toMatchObject({ owner: 'own', candidates: [3], sharedWindow: false });
  });

  test('a declared folder is all below it, and not its namesakes', () => {
    const story = new Story();
    const call = story.begin(1, { paths: ['d'] });
    story.end(call, { 'd/e/f': file('1'), 'd.txt': file('2') });
    expect(story.attributed(1).map((row) => [row.path, row.owner])).toEqual([
      ['d.txt', 'external'],
      ['d/e/f', 'own'],
    ]);
  });

  test('a folder on the way to a declared path that is made or removed is the declarer’s; its mode, and its neighbours, are not', () => {
    const story = new Story();
    story.look({ e: dir() });
    const call = story.begin(1, { paths: ['d/sub/f', 'e/f'] });
    story.end(call, { d: dir(), 'd/sub': dir(), 'd/other': dir(), e: dir(0o700) });
    expect(story.attributed(1).map((row) => [row.path, row.owner])).toEqual([
      ['e', 'external'],
      ['d', 'own'],
      ['d/other', 'external'],
      ['d/sub', 'own'],
      ['e', 'external'],
    ]);
  });

  test('a folder on the way that calls of two sessions can have made is nobody’s, not contested', () => {
    const story = new Story();
    story.begin(1, { paths: ['d/f'] });
    const second = story.begin(2, { paths: ['d/g'] });
    story.end(second, { d: dir(), 'd/f': file('1'), 'd/g': file('2') });
    const owners = (session: number): string[] => story.attributed(session).map((row) => `${row.path} ${row.owner}`);
    expect(owners(1)).toEqual(['d external', 'd/f own', 'd/g other']);
    expect(owners(2)).toEqual(['d external', 'd/f other', 'd/g own']);
  });

  test('two declarers of two sessions: contested', () => {
    const story = new Story();
    story.begin(1, { paths: ['d/f'] });
    const second = story.begin(2, { paths: ['d'] });
    story.end(second, { 'd/f': file('1') });
    expect(verdict(story, 1)).toBe('contested owed [1,2]');
    expect(story.attributed(1)[0]?.sharedWindow).toBe(false);
  });

  test('a call with declared paths owns nothing else; one that declares none of it owns nothing', () => {
    const story = new Story();
    story.begin(1, { paths: ['g'] });
    const second = story.begin(1, { paths: [] });
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('external []');
  });

  test('what nobody declared is of the calls that declared nothing', () => {
    const story = new Story();
    story.begin(1, { paths: ['g'] });
    const second = story.begin(2);
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('other [2]');
    expect(verdict(story, 2)).toBe('own owed [2]');
  });
});

describe('nested calls', () => {
  test('the innermost open call owns, and both sessions own the row', () => {
    const story = new Story();
    const parent = story.begin(1);
    const child = story.begin(2, { parent });
    story.end(child, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [2]');
    expect(verdict(story, 2)).toBe('own owed [2]');
    expect(verdict(story, 3)).toBe('other [2]');
  });

  test('a row of the parent before the child began is the parent’s alone', () => {
    const story = new Story();
    const parent = story.begin(1);
    story.begin(2, { parent, found: { f: file('1') } });
    expect(verdict(story, 1)).toBe('own owed [1]');
    expect(verdict(story, 2)).toBe('other [1]');
  });

  test('two children of one parent contest each other, and the parent’s session owns all the same', () => {
    const story = new Story();
    const parent = story.begin(1);
    story.begin(2, { parent });
    const second = story.begin(3, { parent });
    story.end(second, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [2,3]');
    expect(verdict(story, 2)).toBe('contested owed [2,3]');
    expect(verdict(story, 3)).toBe('contested owed [2,3]');
  });

  test('a grandchild counts through a parent that has ended', () => {
    const story = new Story();
    const top = story.begin(1);
    const middle = story.begin(2, { parent: top });
    const bottom = story.begin(3, { parent: middle });
    story.end(middle);
    story.end(bottom, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [3]');
    expect(verdict(story, 2)).toBe('other [3]');
    expect(verdict(story, 3)).toBe('own owed [3]');
  });

  test('a stranger’s call contests the child and the parent alike', () => {
    const story = new Story();
    const parent = story.begin(1);
    story.begin(2, { parent });
    const stranger = story.begin(3);
    story.end(stranger, { f: file('1') });
    expect([1, 2, 3].map((session) => verdict(story, session))).toEqual([
      'contested owed [2,3]',
      'contested owed [2,3]',
      'contested owed [2,3]',
    ]);
  });

  test('what the parent declared, its child may do', () => {
    const story = new Story();
    const parent = story.begin(1, { paths: ['f'] });
    const child = story.begin(2, { parent });
    story.end(child, { f: file('1') });
    expect(verdict(story, 1)).toBe('own owed [2]');
    expect(verdict(story, 2)).toBe('own owed [2]');
    expect(story.attributed(1)[0]?.sharedWindow).toBe(false);
  });
});

describe('incomplete', () => {
  test('what finds the owner of a call gone is the call’s, and incomplete; later changes are nobody’s', () => {
    const story = new Story();
    const call = story.begin(1);
    story.look({ e: file('1') });
    story.end(call, { f: file('1') }, 'interrupted');
    story.look({ g: file('1') });
    expect(story.attributed(1).map((row) => [row.path, row.owner, row.incomplete])).toEqual([
      ['e', 'own', false],
      ['f', 'own', true],
      ['g', 'external', false],
    ]);
  });

  test('a row flagged so is', () => {
    const story = new Story();
    story.begin(1);
    story.look({ f: file('1') }, { flags: RowFlag.incomplete });
    expect(story.attributed(1)[0]).toMatchObject({ owner: 'own', owed: true, incomplete: true });
  });
});

test.each(['late', 'coverage'] as const)('a row flagged %s is nobody’s', (flag) => {
  const story = new Story({ f: uncovered('out-of-time') });
  story.begin(1);
  story.look({ f: file('1') }, { flags: RowFlag[flag] });
  expect(verdict(story, 1)).toBe('external []');
});

describe('roots that contain each other', () => {
  test('what changes while the other root has a call open is contested', () => {
    const story = new Story();
    story.begin(1);
    story.look({ 'd/f': file('1'), g: file('1') }, { overlap: ['d'] });
    expect(story.attributed(1).map((row) => [row.path, row.owner, row.owed])).toEqual([
      ['d/f', 'contested', true],
      ['g', 'own', true],
    ]);
  });

  test('what no call of ours can have made stays external', () => {
    const story = new Story();
    story.look({ 'd/f': file('1') }, { overlap: ['d'] });
    expect(verdict(story, 1)).toBe('external []');
  });
});

describe('operations', () => {
  const undone = (): Story => {
    const story = new Story({ f: file('1') });
    const seq = story.call(1, { f: file('2') });
    story.begin(2);
    story.operate(1, 'undo', { f: file('1') }, { f: [seq, seq] });
    return story;
  };

  test('rows of an operation are its session’s alone, whoever has a call open', () => {
    const story = undone();
    const row = (session: number): unknown => story.attributed(session).at(-1);
    expect(row(1)).toMatchObject({ owner: 'own', operation: 'op1', standing: true, owed: false, candidates: [] });
    expect(row(2)).toMatchObject({ owner: 'other', operation: 'op1', standing: false, owed: false, candidates: [] });
  });

  test('what it took back is owed no more', () => {
    expect(undone().attributed(1)[0]).toMatchObject({ owner: 'own', owed: false });
  });

  test('what a redo gave back is owed again, and neither operation’s rows stand', () => {
    const story = undone();
    story.redo(1, 'op1', { f: file('2') }, ['f']);
    expect(story.attributed(1).map((row) => [row.owner, row.owed, row.standing])).toEqual([
      ['own', true, false],
      ['own', false, false],
      ['own', false, false],
    ]);
  });

  test('an operation that is redone in part stands for the paths that it still holds', () => {
    const story = new Story({ f: file('1'), g: file('1') });
    const seq = story.call(1, { f: file('2'), g: file('2') });
    story.operate(1, 'undo', { f: file('1'), g: file('1') }, { f: [seq, seq], g: [seq, seq] });
    story.redo(1, 'op1', { f: file('2') }, ['f']);
    const rows = story.attributed(1).filter((row) => row.operation === 'op1');
    expect(rows.map((row) => [row.path, row.standing])).toEqual([
      ['f', false],
      ['g', true],
    ]);
  });

  test('a new row of the path, after what was taken back, is owed', () => {
    const story = undone();
    story.end(2);
    story.call(1, { f: absent });
    expect(story.attributed(1).at(-1)).toMatchObject({ owner: 'own', owed: true });
  });

  test('rows of an operation that the timeline forgot are external', () => {
    const story = undone();
    story.operations.length = 0;
    expect(story.attributed(1).at(-1)).toMatchObject({ owner: 'external', standing: false });
  });
});

test('rows keep their order, and calls that overlap nothing change nothing', () => {
  const story = new Story();
  story.call(1, { b: file('1'), a: file('1') });
  story.call(2, { b: file('2') });
  const input = { session: 1, calls: story.calls, observations: story.observations, operations: [], taken: [] };
  const rows = [...story.rows].reverse();
  expect(attribute({ ...input, rows }).map((row) => [row.seq, row.path, row.owner])).toEqual([
    [5, 'b', 'other'],
    [3, 'b', 'own'],
    [3, 'a', 'own'],
  ]);
});
