/** Git's index, read by us and listed by git: versions 2–4, split, sparse, SHA-256, submodules, damage. */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readTrackedPaths } from '../../src/backend/portable/git-index.ts';
import { git } from '../backend/tree-kit.ts';

let base: string;
let root: string;
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'tb-index-')));
  root = join(base, 'repo');
  mkdirSync(root);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function put(path: string, text = path): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function make(...init: string[]): string[] {
  git(root, base, 'init', '-q', ...init);
  const paths = ['a', 'dir/b', 'dir/deep/c', 'dir/deep/cc', 'é/ü', 'x y', `${'long/'.repeat(40)}name`, 'z'];
  for (const path of paths) put(path);
  git(root, base, 'add', '.');
  return paths;
}

/** Every path that git lists is tracked by our reading, and some that it does not list aren't. */
function check(): void {
  const index = readTrackedPaths(join(root, '.git'));
  const theirs = git(root, base, 'ls-files', '-z')
    .split('\0')
    .filter((path) => path !== '');
  expect(theirs.filter((path) => !index.tracks(path, false))).toEqual([]);
  expect(['b', 'dir', 'dir/deep', 'none'].filter((path) => index.tracks(path, false))).toEqual([]);
  expect(['dir', 'dir/deep', 'long', 'a', 'di'].filter((path) => index.tracks(path, true))).toEqual([
    'dir',
    'dir/deep',
    'long',
  ]);
}

test.each(['2', '3', '4'])('version %s', (version) => {
  make();
  put('later');
  git(root, base, 'add', '-N', 'later');
  git(root, base, 'update-index', '--index-version', version);
  check();
});

test('SHA-256', () => {
  make('--object-format=sha256');
  check();
});

test('a checksum that git left out', () => {
  make();
  git(root, base, '-c', 'index.skipHash=true', 'update-index', '--force-write-index');
  check();
});

test('a split index with names replaced, added and deleted', () => {
  make();
  git(root, base, 'update-index', '--split-index');
  put('a', 'changed');
  put('dir/new');
  git(root, base, 'add', '.');
  git(root, base, 'rm', '-q', '--cached', 'z', 'dir/deep/cc');
  expect(readFileSync(join(root, '.git/index')).includes('link')).toBe(true);
  check();
  const index = readTrackedPaths(join(root, '.git'));
  expect([index.tracks('z', false), index.tracks('dir/new', false), index.tracks('dir/deep/cc', false)]).toEqual([
    false,
    true,
    false,
  ]);
});

test('a sparse index: what is below a folded folder is tracked', () => {
  make();
  git(root, base, 'commit', '-q', '-m', 'c');
  git(root, base, 'sparse-checkout', 'set', '--cone', '--sparse-index', 'é');
  const index = readTrackedPaths(join(root, '.git'));
  expect([index.tracks('dir/b', false), index.tracks('dir', true), index.tracks('dir/deep', true)]).toEqual([
    true,
    true,
    true,
  ]);
  expect(index.tracks('none/b', false)).toBe(false);
});

test('a submodule is tracked as a folder', () => {
  make();
  const sub = join(root, 'sub');
  mkdirSync(sub);
  git(sub, base, 'init', '-q');
  git(sub, base, 'commit', '-q', '--allow-empty', '-m', 'c');
  git(root, base, '-c', 'advice.addEmbeddedRepo=false', 'add', '-f', 'sub');
  const index = readTrackedPaths(join(root, '.git'));
  expect([index.isSubmodule('sub'), index.tracks('sub', true), index.isSubmodule('dir')]).toEqual([true, true, false]);
});

test('no index tracks nothing', () => {
  git(root, base, 'init', '-q');
  expect(readTrackedPaths(join(root, '.git')).tracks('a', false)).toBe(false);
});

test('damage at any byte, and a cut anywhere, is an error', () => {
  make();
  const file = join(root, '.git/index');
  const whole = readFileSync(file);
  for (let at = 0; at < whole.length; at += 3) {
    const broken = Buffer.from(whole);
    broken[at] = (broken[at] as number) ^ 0x21;
    writeFileSync(file, broken);
    expect(() => readTrackedPaths(join(root, '.git')), `byte ${at}`).toThrow();
    writeFileSync(file, whole.subarray(0, at));
    expect(() => readTrackedPaths(join(root, '.git')), `cut at ${at}`).toThrow();
  }
});
