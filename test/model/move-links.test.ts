/** Following files through rows by what inodes proved. */
import { expect, test } from 'vitest';
import { provenMoves, reversedMoves } from '../../src/model/move-links.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { type Row, RowFlag } from '../../src/types.ts';

const FILE = { kind: 'file', mode: 0o644, size: 1, content: 'ab'.repeat(16) } as const;
const GONE = { kind: 'absent' } as const;

function row(seq: number, path: string, change: '+' | '-' | '~', from?: string): Row {
  return {
    seq,
    path: asRelPath(path),
    before: change === '+' ? GONE : FILE,
    after: change === '-' ? GONE : FILE,
    flags: 0,
    ...(from === undefined ? {} : { movedFrom: asRelPath(from) }),
  };
}

const moves = (...rows: Row[]): string[] => provenMoves(rows).map(({ from, to }) => `${from} → ${to}`);

test('one move is one move, and without any there is none', () => {
  expect(moves(row(1, 'a', '-'), row(1, 'b', '+', 'a'))).toEqual(['a → b']);
  expect(moves(row(1, 'a', '-'), row(1, 'b', '+'))).toEqual([]);
});

test('moves one after the other, with edits between them, are one', () => {
  const first = [row(1, 'a', '-'), row(1, 'b', '+', 'a')];
  expect(moves(...first, row(2, 'b', '~'), row(3, 'b', '-'), row(3, 'c', '+', 'b'))).toEqual(['a → c']);
  expect(moves(...first, row(2, 'a', '+', 'b'), row(2, 'b', '-'))).toEqual([]);
});

test('two files that change places through a third are two moves', () => {
  const rows = [
    ...[row(1, 'a', '-'), row(1, 't', '+', 'a')],
    ...[row(2, 'a', '+', 'b'), row(2, 'b', '-')],
    ...[row(3, 'b', '+', 't'), row(3, 't', '-')],
  ];
  expect(moves(...rows).sort()).toEqual(['a → b', 'b → a']);
});

test('a file that was made in between, and what replaced a moved one, came from nowhere', () => {
  expect(moves(row(1, 'new', '+'), row(2, 'b', '+', 'new'), row(2, 'new', '-'))).toEqual([]);
  expect(moves(row(1, 'a', '-'), row(1, 'b', '+', 'a'), row(2, 'b', '-'), row(3, 'b', '+'))).toEqual([]);
  expect(moves(row(1, 'a', '-'), row(1, 'b', '+', 'a'), row(2, 'a', '+'), row(3, 'a', '-'))).toEqual(['a → b']);
});

test('moves of one look do not follow each other', () => {
  const rows = [row(1, 'a', '-'), row(1, 'b', '+', 'a')];
  expect(moves(...rows, row(2, 'b', '-'), row(2, 'c', '+', 'b'), row(2, 'd', '+', 'x'), row(2, 'x', '-'))).toEqual([
    'a → c',
    'x → d',
  ]);
});

test('a rule that hides or shows a file moves nothing', () => {
  const hidden = { ...row(2, 'b', '-'), flags: RowFlag.coverage };
  expect(moves(row(1, 'a', '-'), row(1, 'b', '+', 'a'), hidden)).toEqual(['a → b']);
});

test('the way back turns each around', () => {
  const [move] = provenMoves([row(1, 'a', '-'), row(1, 'b', '+', 'a')]);
  expect(reversedMoves(move === undefined ? [] : [move])).toEqual([{ from: 'b', to: 'a' }]);
});
