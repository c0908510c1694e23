/** Which deleted and which created path are one file that went elsewhere. Git is the oracle of the similarity. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  exactMoves,
  foldMoves,
  type Move,
  type MoveEnd,
  readForMoves,
  similarity,
  similarMoves,
} from '../../src/model/moves.ts';
import type { Hash, Version } from '../../src/types.ts';
import { file, link, rel } from './story.ts';

type Sides = Record<string, Version | string>;

const seq = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => `${from + i}\n`).join('');

/** `from → to` of every pair; a string is a file of that text. */
function paired(gone: Sides, made: Sides): string[] {
  const bytes = new Map<Hash, Uint8Array>();
  const ends = (sides: Sides): MoveEnd[] =>
    Object.entries(sides).map(([path, side]) => {
      if (typeof side !== 'string') return { path: rel(path), version: side };
      const content = Buffer.from(side, 'latin1');
      const version = { kind: 'file', mode: 0o644, size: content.length, content: `of ${side}` } as const;
      bytes.set(version.content, content);
      return { path: rel(path), version };
    });
  const both = { gone: ends(gone), made: ends(made) };
  const exact = exactMoves(both);
  const moves: Move[] = [...exact, ...similarMoves(readForMoves(both, exact), bytes)];
  return moves.map(({ from, to }) => `${from} → ${to}`).sort();
}

test('equal content is a move, whatever the mode', () => {
  expect(paired({ a: file('x'), b: file('y') }, { c: file('y', 0o755) })).toEqual(['b → c']);
});

test('links move by equal target, and only to links', () => {
  expect(paired({ a: link('t'), b: link('u') }, { c: link('u'), d: file('t') })).toEqual(['b → c']);
});

test('empty files are never a move', () => {
  expect(paired({ a: '' }, { b: '' })).toEqual([]);
});

test('of equal files the same base name goes first, then the order of paths', () => {
  const x = file('x');
  expect(paired({ 'a/1': x, 'a/2': x, 'a/3': x }, { 'b/0': x, 'b/3': x, 'b/9': x })).toEqual([
    'a/1 → b/0',
    'a/2 → b/9',
    'a/3 → b/3',
  ]);
});

test('of two copies of a file that went, one is the move', () => {
  expect(paired({ a: file('x') }, { b: file('x'), c: file('x') })).toEqual(['a → b']);
});

test('half of the lines in common is a move, less is not', () => {
  expect(paired({ a: seq(10, 19) }, { b: seq(15, 24) })).toEqual(['a → b']);
  expect(paired({ a: seq(10, 19) }, { b: seq(16, 25) })).toEqual([]);
});

test('equal content goes before similar content, and the most similar pair before the others', () => {
  expect(
    paired(
      { exact: seq(1, 40), near: `${seq(1, 39)}x\n`, far: seq(1, 25) },
      { one: seq(1, 40), two: `${seq(1, 39)}y\n` },
    ),
  ).toEqual(['exact → one', 'near → two']);
});

test('as similar pairs: the same base name goes first', () => {
  expect(paired({ 'a/x': `${seq(1, 20)}p\n`, 'a/y': `${seq(1, 20)}q\n` }, { 'b/y': `${seq(1, 20)}r\n` })).toEqual([
    'a/y → b/y',
  ]);
});

test('binary files move by equal content only', () => {
  expect(paired({ a: `\0${seq(1, 50)}` }, { b: `\0${seq(1, 51)}` })).toEqual([]);
  expect(paired({ a: `\0${seq(1, 50)}` }, { b: `\0${seq(1, 50)}` })).toEqual(['a → b']);
});

test('files over 1 MiB and more than 200 a side move by equal content only', () => {
  const large = 'line\n'.repeat(220_000);
  expect(paired({ a: large, b: large }, { c: large, d: `${large}x\n` })).toEqual(['a → c']);
  const many = (tail: string): Sides =>
    Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`${tail}${i}`, `${seq(1, 20)}${tail}${i}\n`]));
  expect(paired(many('a'), many('b'))).toEqual([]);
  expect(paired({ ...many('a'), z: file('x') }, { ...many('b'), y: file('x') })).toEqual(['z → y']);
});

test('what can have no partner by its size is not read', () => {
  const sized = (path: string, size: number): MoveEnd => ({
    path: rel(path),
    version: { kind: 'file', mode: 0o644, size, content: path },
  });
  const candidates = readForMoves(
    { gone: [sized('a', 10), sized('b', 100), sized('c', 1000)], made: [sized('d', 20), sized('e', 40)] },
    [],
  );
  expect(candidates.gone.map(({ path }) => path)).toEqual(['a']);
  expect(candidates.made.map(({ path }) => path)).toEqual(['d']);
});

test('both ends fold into one change at the new path; one end that is incomplete makes it so', () => {
  const fold = foldMoves(
    [
      { path: rel('a'), kind: 'deleted', before: file('x'), after: { kind: 'absent' }, incomplete: true },
      { path: rel('b'), kind: 'modified', before: file('1'), after: file('2') },
      { path: rel('c'), kind: 'created', before: { kind: 'absent' }, after: file('x', 0o755) },
    ],
    [{ from: rel('a'), to: rel('c') }],
  );
  expect(fold).toEqual([
    { path: 'b', kind: 'modified', before: file('1'), after: file('2') },
    { path: 'c', kind: 'moved', from: 'a', before: file('x'), after: file('x', 0o755), incomplete: true },
  ]);
});

test('similarity is git’s own index', () => {
  const dir = mkdtempSync(join(tmpdir(), 'takeback-similar-'));
  try {
    const texts: [string, string][] = [
      [seq(1, 100), seq(1, 90)],
      [seq(1, 100), seq(40, 130)],
      [seq(1, 60), `${seq(1, 60)}${'long '.repeat(20)}\n`],
      [seq(1, 60), seq(1, 60).replaceAll('\n', '\r\n')],
      [`${'x'.repeat(200)}\n${seq(1, 80)}`, `${'x'.repeat(199)}y\n${seq(1, 80)}`],
      [seq(1, 50), seq(1, 50).slice(0, -1)],
      [`${seq(1, 30)}ü\n`, `ü\n${seq(1, 31)}`],
    ];
    for (const [i, [a, b]] of texts.entries()) {
      for (const side of ['a', 'b']) {
        rmSync(join(dir, side), { recursive: true, force: true });
        mkdirSync(join(dir, side));
      }
      writeFileSync(join(dir, 'a', 'old'), a);
      writeFileSync(join(dir, 'b', 'new'), b);
      const run = spawnSync('git', ['diff', '--no-index', '-M', 'a', 'b'], { cwd: dir, encoding: 'utf8' });
      const told = /similarity index (\d+)%/.exec(run.stdout)?.[1];
      expect(`${i}: ${similarity(Buffer.from(a), Buffer.from(b))}`).toBe(`${i}: ${told}`);
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

// The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
test('many alike files are paired in little time, and past the bound not at all', { retry: 3 }, () => {
  const side = (lines: number, tail: string): Sides =>
    Object.fromEntries(Array.from({ length: 190 }, (_, i) => [`${tail}/${i}`, `${seq(1, lines)}${i}\n${tail}\n`]));
  expect(paired(side(1_000, 'a'), side(1_000, 'b'))).toHaveLength(190);
  const started = performance.now();
  expect(paired(side(1_300, 'a'), side(1_300, 'b'))).toEqual([]);
  expect(performance.now() - started).toBeLessThan(5_000);
});
