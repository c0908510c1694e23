import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { copyTree, hashGit, hashTree, listFiles, makeRepository } from '../../src/cli/demo-tree.ts';
import { scriptTurn } from '../../src/cli/demo-turn.ts';

let folder: string;
let root: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'takeback-demo-test-'));
  root = join(folder, 'tree');
  mkdirSync(join(root, 'src'), { recursive: true });
  for (const name of ['a.txt', 'b.txt', 'src/c.ts', 'src/d.ts', 'src/e.ts', 'src/f.ts']) {
    writeFileSync(join(root, name), `some text of ${name}\n`);
  }
  mkdirSync(join(root, 'empty'));
  symlinkSync('a.txt', join(root, 'link'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the hash of a tree', () => {
  test.each<[string, () => void]>([
    ['a byte', () => writeFileSync(join(root, 'a.txt'), 'Some text of a.txt\n')],
    ['a mode', () => chmodSync(join(root, 'a.txt'), 0o755)],
    ['the mode of a folder', () => chmodSync(join(root, 'src'), 0o700)],
    ['a name', () => renameSync(join(root, 'a.txt'), join(root, 'A.txt'))],
    ['an empty folder', () => rmSync(join(root, 'empty'), { recursive: true })],
    ['a new empty folder', () => mkdirSync(join(root, 'empty/er'))],
    [
      'a link target',
      () => {
        unlinkSync(join(root, 'link'));
        symlinkSync('b.txt', join(root, 'link'));
      },
    ],
    [
      'a link that became the file it named',
      () => {
        unlinkSync(join(root, 'link'));
        writeFileSync(join(root, 'link'), 'a.txt');
      },
    ],
    ['a file that moved to another folder', () => renameSync(join(root, 'src/c.ts'), join(root, 'empty/c.ts'))],
  ])('tells %s', (_what, edit) => {
    const before = hashTree(root).hash;
    edit();
    expect(hashTree(root).hash).not.toBe(before);
  });

  test('does not tell times', () => {
    const before = hashTree(root);
    utimesSync(join(root, 'a.txt'), 1, 1);
    expect(hashTree(root)).toEqual(before);
    expect(before.entries).toBe(9);
  });

  test('leaves .git to a hash of its own, which tells a rewrite with equal bytes', () => {
    mkdirSync(join(root, '.git'));
    writeFileSync(join(root, '.git/HEAD'), 'ref: refs/heads/main\n');
    utimesSync(join(root, '.git/HEAD'), 1, 1);
    const tree = hashTree(root);
    const git = hashGit(root);
    expect(tree.entries).toBe(9);
    expect(hashGit(root)).toBe(git);
    writeFileSync(join(root, '.git/HEAD'), 'ref: refs/heads/main\n');
    expect(hashTree(root)).toEqual(tree);
    expect(hashGit(root)).not.toBe(git);
  });

  test('there is no hash of a .git that is missing', () => {
    expect(hashGit(root)).toBe(null);
  });
});

describe('the copy', () => {
  test('holds bytes, modes, links and empty folders, and equals its source by hash', () => {
    chmodSync(join(root, 'b.txt'), 0o755);
    const copy = join(folder, 'copy');
    expect(copyTree(root, copy)).toBe(7);
    expect(readlinkSync(join(copy, 'link'))).toBe('a.txt');
    expect(hashTree(copy)).toEqual(hashTree(root));
  });

  test('leaves out what is built or installed, at any depth', () => {
    for (const name of ['node_modules', 'src/node_modules', 'target', 'dist']) {
      mkdirSync(join(root, name));
      writeFileSync(join(root, name, 'x'), 'x');
    }
    const copy = join(folder, 'copy');
    copyTree(root, copy);
    expect(
      ['node_modules', 'src/node_modules', 'target', 'dist'].filter((name) => existsSync(join(copy, name))),
    ).toEqual([]);
  });

  test("does not take a linked worktree's .git file along, which names the real repository", () => {
    writeFileSync(join(root, '.git'), 'gitdir: /somewhere/else\n');
    const copy = join(folder, 'copy');
    copyTree(root, copy);
    expect(existsSync(join(copy, '.git'))).toBe(false);
  });

  test('becomes a repository of its own', () => {
    expect(makeRepository(root)).toBe(true);
    expect(listFiles(root)).toEqual(['a.txt', 'b.txt', 'src/c.ts', 'src/d.ts', 'src/e.ts', 'src/f.ts']);
  });
});

describe('the scripted turn', () => {
  test('runs in a tree with names that a shell would misread, and changes it', () => {
    for (const name of ['-rf.txt', "it's.txt", '$HOME.txt', 'a b.txt']) writeFileSync(join(root, name), 'text here\n');
    const before = hashTree(root).hash;
    const steps = scriptTurn(root, listFiles(root));
    expect(steps.map(({ what }) => what)).toEqual([
      'edit a file',
      'create files in new folders',
      'delete a file',
      'move a file',
      'change a mode',
      'make a symlink',
      'sed -i over 6 files',
    ]);
    for (const { command, input } of steps) {
      const result = spawnSync('sh', ['-c', command], { cwd: root, input: input ?? '' });
      expect(result.stderr.toString(), command).toBe('');
      expect(result.status, command).toBe(0);
    }
    expect(hashTree(root).hash).not.toBe(before);
    expect(lstatSync(join(root, 'link to the plan')).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(root, 'moved/away'), 'utf8')).toContain('some text');
  });

  test('leaves secrets, binaries and ignore rules alone', () => {
    for (const name of ['.env', '.env.local', '.gitignore']) writeFileSync(join(root, name), 'KEY=1\n');
    writeFileSync(join(root, 'src/binary'), Buffer.from([101, 0, 101]));
    const text = JSON.stringify(scriptTurn(root, listFiles(root)));
    for (const name of ['.env', '.gitignore', 'binary']) expect(text).not.toContain(name);
  });

  test('has steps for an empty tree', () => {
    const steps = scriptTurn(join(root, 'empty'), []);
    expect(steps.map(({ what }) => what)).toEqual(['create files in new folders', 'make a symlink']);
  });
});
