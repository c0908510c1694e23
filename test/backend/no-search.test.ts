/**
 * Folders whose names this user may list but not look at (no x bit). Portable backend; runs as uid 65534, in a file of its
 * own, so that the process that drops its rights is this file's only.
 */
import { chmodSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { got, Story } from '../kit/story.ts';
import { Bench, quiet } from './hands-kit.ts';

const NOBODY = 65534;
if (process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.(NOBODY);
  process.setuid?.(NOBODY);
}

const undo: (() => void)[] = [];
afterEach(() => {
  for (const act of undo.splice(0)) act();
});

async function benchOf(layout: Parameters<typeof Bench.make>[0]): Promise<Bench> {
  const bench = await Bench.make(layout);
  undo.push(() => {
    chmodSync(bench.path('b'), 0o755);
    rmSync(bench.dir, { recursive: true });
  });
  return bench;
}

const UNREADABLE = {
  kind: 'uncovered',
  reason: 'unreadable',
  stat: { kind: 'other', mode: 0, size: 0, mtimeNs: 0n, ctimeNs: 0n, ino: 0n, dev: 0n },
};

for (const mode of [0o600, 0o444, 0o000]) {
  const octal = mode.toString(8).padStart(3, '0');

  test(`peek says unreadable of what is in a folder with mode ${octal}, and goes on`, async () => {
    const bench = await benchOf({ 'b/x': '1', 'b/c/y': '2', f: '3' });
    chmodSync(bench.path('b'), mode);
    const seen = bench.hands.peek(['b', 'b/x', 'b/none', 'b/c/y', 'f'] as never[], quiet);
    expect(seen.map(({ version }) => version)).toEqual([
      { kind: 'dir', mode },
      UNREADABLE,
      UNREADABLE,
      UNREADABLE,
      expect.objectContaining({ kind: 'file', size: 1 }),
    ]);
  });

  test(`apply fails what is in a folder with mode ${octal}, and does the others`, async () => {
    const bench = await benchOf({ 'b/x': '1', 'b/c/y': '2', 'b/same': '5', f: '3' });
    const entries = [
      bench.entry('b/x', bench.file('11')),
      bench.entry('b/c/y', { kind: 'absent' }),
      bench.entry('b/new', { kind: 'symlink', target: 'x' }),
      bench.entry('b/same', bench.now('b/same')),
      bench.entry('f', bench.file('33')),
    ];
    chmodSync(bench.path('b'), mode);
    const outcomes = bench.apply(entries);
    expect(outcomes.map(({ path, status, reason }) => [path, status, reason])).toEqual([
      ['b/c/y', 'failed', 'permission-denied'],
      ['b/new', 'failed', 'permission-denied'],
      ['b/same', 'failed', 'permission-denied'],
      ['b/x', 'failed', 'permission-denied'],
      ['f', 'done', undefined],
    ]);
    bench.hands.finish(bench.journal);
    chmodSync(bench.path('b'), 0o755);
    expect(bench.snapshot()).toEqual(
      expect.objectContaining({ 'b/x': expect.stringContaining('1'), f: expect.stringContaining('33') }),
    );
    expect(bench.read('b/x') + bench.read('b/c/y')).toBe('12');
  });

  test(`an operation that itself closes a folder to mode ${octal} ends`, async () => {
    const bench = await benchOf({ 'b/x': '1' });
    const outcomes = bench.apply([bench.entry('b', { kind: 'dir', mode }), bench.entry('b/x', bench.file('11'))]);
    expect(outcomes.map(({ path, status }) => [path, status])).toEqual([
      ['b', 'done'],
      ['b/x', 'done'],
    ]);
    bench.hands.finish(bench.journal);
    chmodSync(bench.path('b'), 0o755);
    expect(bench.read('b/x')).toBe('11');
  });
}

test('in a folder without its x bit a call’s scan keeps known versions, names new paths unreadable, and the rest can be undone', async () => {
  await using story = await Story.begin('portable', 'mkdir b; echo 1 >b/known; echo 1 >f');
  const session = story.session();
  got(await session.capture('a'));
  got(await session.beginCall('c', { tool: 'bash' }));
  story.u('echo n >b/new; echo n >b/.GIT; echo 2 >f; chmod 600 b');
  const ended = got(await session.endCall('c'));
  expect(ended.changes.map(({ path, kind }) => `${kind} ${path}`).sort()).toEqual([
    'created b/.GIT',
    'created b/new',
    'modified b',
    'modified f',
  ]);
  const capture = got(await session.capture('m'));
  expect(capture.uncovered).toEqual([
    { path: 'b/.GIT', reason: 'unreadable' },
    { path: 'b/new', reason: 'unreadable' },
  ]);
  expect(capture.problems.map(({ path, kind }) => `${kind} ${path}`)).toContain('unreadable-dir b');
  const receipt = got(await session.restore('a'));
  expect(receipt.restored.map(({ path }) => path)).toEqual(['b', 'f']);
  story.u('chmod 755 b');
  expect(readFileSync(join(story.space.root, 'b/known'), 'utf8')).toBe('1\n');
  expect(readFileSync(join(story.space.root, 'b/new'), 'utf8')).toBe('n\n');
  expect(readFileSync(join(story.space.root, 'f'), 'utf8')).toBe('1\n');
});

test('a boundary keeps the rules of a folder that it can’t look at', async () => {
  await using story = await Story.begin('portable', "git init -q; mkdir -p a/b; echo '*.log' >a/b/.gitignore");
  const session = story.session();
  got(await session.capture('m0'));
  story.u('chmod 600 a');
  got(await session.capture('m1'));
  story.u('chmod 755 a');
  got(await session.beginCall('c', { tool: 'bash' }));
  story.u('rm a/b/.gitignore; echo l >a/b/x.log');
  const ended = got(await session.endCall('c'));
  expect(ended.changes.map(({ path, kind }) => `${kind} ${path}`)).toEqual(['deleted a/b/.gitignore']);
});
