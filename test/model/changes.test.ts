/** What an interval's rows come to, as callers see it. */
import { expect, test } from 'vitest';
import { countChanges, summarize } from '../../src/model/changes.ts';
import { RowFlag } from '../../src/types.ts';
import { absent, dir, file, link, Story, type Tree, uncovered } from './story.ts';

/** `path kind` of what these looks come to. */
function told(start: Tree, ...looks: (Tree | [Tree, number])[]): string[] {
  const story = new Story(start);
  for (const look of looks) {
    if (Array.isArray(look)) story.look(look[0], { flags: look[1] });
    else story.look(look);
  }
  return summarize(story.rows).map(
    (change) => `${change.path} ${change.kind}${change.incomplete ? ' incomplete' : ''}`,
  );
}

test('one line a path, in the order of path bytes', () => {
  expect(told({ b: file('1'), '🚀': file('1') }, { b: file('2'), '🚀': absent, '￮': file('1'), a: link('x') })).toEqual(
    ['a created', 'b modified', '￮ created', '🚀 deleted'],
  );
});

test('rows of one path fold to the first before and the last after', () => {
  const story = new Story({ f: file('1') });
  story.look({ f: file('2') });
  story.look({ f: absent });
  story.look({ f: file('3') });
  expect(summarize(story.rows)).toEqual([{ path: 'f', kind: 'modified', before: file('1'), after: file('3') }]);
});

test('what came back to where it was is no change', () => {
  expect(told({ f: file('1') }, { f: file('2'), g: file('1') }, { f: file('1'), g: absent })).toEqual([]);
});

test('a mode, a type and a link target are changes', () => {
  expect(
    told({ a: file('1'), b: file('1'), c: link('x') }, { a: file('1', 0o755), b: link('1'), c: link('y') }),
  ).toEqual(['a modified', 'b modified', 'c modified']);
});

test('a folder is told only where it is the change itself', () => {
  expect(told({}, { d: dir(), 'd/e': dir(), 'd/e/f': file('1'), q: dir() })).toEqual(['d/e/f created', 'q created']);
  expect(told({ d: dir(), 'd/f': file('1'), q: dir() }, { d: absent, 'd/f': absent, q: absent })).toEqual([
    'd/f deleted',
    'q deleted',
  ]);
  expect(told({ d: dir(), 'd/f': file('1') }, { d: dir(0o700), 'd/f': file('2') })).toEqual([
    'd modified',
    'd/f modified',
  ]);
  expect(told({ d: file('1') }, { d: dir(), 'd/f': file('2') })).toEqual(['d modified', 'd/f created']);
});

test('an uncovered path comes, changes and goes like another', () => {
  expect(
    told(
      { b: uncovered('secret'), c: uncovered('git') },
      { a: uncovered('secret'), b: uncovered('secret', 2), c: absent },
    ),
  ).toEqual(['a created', 'b modified', 'c deleted']);
});

test('coverage rows are no changes, wherever they come', () => {
  expect(told({ f: file('1') }, [{ f: uncovered('ignored') }, RowFlag.coverage])).toEqual([]);
  const story = new Story({ f: uncovered('ignored') });
  story.look({ f: file('1') }, { flags: RowFlag.coverage });
  story.look({ f: file('2') });
  story.look({ f: uncovered('ignored') }, { flags: RowFlag.coverage });
  expect(summarize(story.rows)).toEqual([{ path: 'f', kind: 'modified', before: file('1'), after: file('2') }]);
});

test('a late row gives the bytes of a change a name, and is none itself', () => {
  expect(told({ f: uncovered('out-of-time') }, [{ f: file('1') }, RowFlag.late])).toEqual([]);
  const story = new Story({ f: file('1') });
  story.look({ f: uncovered('out-of-time') });
  story.look({ f: file('2') }, { flags: RowFlag.late });
  expect(summarize(story.rows)).toEqual([{ path: 'f', kind: 'modified', before: file('1'), after: file('2') }]);
});

test('incomplete stays with the path', () => {
  expect(told({}, [{ f: file('1') }, RowFlag.incomplete], { f: file('2') })).toEqual(['f created incomplete']);
});

test('counts by kind', () => {
  const story = new Story({ a: file('1'), b: file('1') });
  story.look({ a: file('2'), b: absent, c: file('1'), d: file('1') });
  expect(countChanges(summarize(story.rows))).toEqual({ created: 2, modified: 1, deleted: 1 });
});
