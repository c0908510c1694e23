/** Rule sources and HEAD, read from config and refs; git itself is the oracle where it can say. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { asBoolean, lastValue, parseConfig } from '../../src/git/config.ts';
import { headState, ruleSources } from '../../src/git/context.ts';
import { git } from '../backend/tree-kit.ts';

let base: string;
let home: string;
let root: string;
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'tb-git-')));
  home = join(base, 'home');
  root = join(base, 'repo');
  for (const path of [home, root]) mkdirSync(path);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const sources = (at = root) => ruleSources(at, { home, xdg: '', system: join(base, 'system') });
function put(path: string, text: string): void {
  mkdirSync(dirname(join(base, path)), { recursive: true });
  writeFileSync(join(base, path), text);
}

describe('the repository of a root', () => {
  test('is found from below, through a .git folder', async () => {
    git(root, home, 'init', '-q');
    mkdirSync(join(root, 'a/b'), { recursive: true });
    const { repo } = await sources(join(root, 'a/b'));
    expect(repo).toEqual({ top: root, gitDir: join(root, '.git'), commonDir: join(root, '.git') });
  });

  test('of a linked worktree has its own git folder and the common one, of a bare repository too', async () => {
    git(root, home, 'init', '-q');
    git(root, home, 'commit', '-q', '--allow-empty', '-m', 'c');
    git(root, home, 'worktree', 'add', '-q', join(base, 'linked'));
    expect((await sources(join(base, 'linked'))).repo).toEqual({
      top: join(base, 'linked'),
      gitDir: join(root, '.git/worktrees/linked'),
      commonDir: join(root, '.git'),
    });
    git(base, home, 'clone', '-q', '--bare', root, 'bare.git');
    git(join(base, 'bare.git'), home, 'worktree', 'add', '-q', join(base, 'of-bare'));
    expect((await sources(join(base, 'of-bare'))).repo?.commonDir).toBe(join(base, 'bare.git'));
    expect((await sources(join(base, 'bare.git'))).repo).toBeNull();
  });

  test('is none where .git is broken, bare or no repository', async () => {
    put('repo/.git', 'gitdir: nowhere\n');
    expect((await sources()).repo).toBeNull();
    rmSync(join(root, '.git'));
    mkdirSync(join(root, '.git'));
    expect((await sources()).repo).toBeNull();
    rmSync(join(root, '.git'), { recursive: true });
    git(root, home, 'init', '-q');
    git(root, home, 'config', 'core.bare', 'true');
    expect((await sources()).repo).toBeNull();
  });

  test('a .git folder that is no repository does not hide one above', async () => {
    git(root, home, 'init', '-q');
    mkdirSync(join(root, 'a/.git'), { recursive: true });
    expect((await sources(join(root, 'a'))).repo?.top).toBe(root);
  });

  test('no GIT_* variable is heeded', async () => {
    git(root, home, 'init', '-q');
    process.env.GIT_DIR = join(base, 'elsewhere');
    try {
      expect((await sources()).repo?.gitDir).toBe(join(root, '.git'));
    } finally {
      delete process.env.GIT_DIR;
    }
  });
});

describe('config', () => {
  test('global excludes: the default, XDG, and core.excludesFile from each file, the last one counting', async () => {
    expect((await sources()).globalExcludes).toBe(join(home, '.config/git/ignore'));
    const xdg = await ruleSources(root, { home, xdg: join(base, 'xdg'), system: '' });
    expect(xdg.globalExcludes).toBe(join(base, 'xdg/git/ignore'));
    put('system', '[core]\n\texcludesFile = /sys\n');
    expect((await sources()).globalExcludes).toBe('/sys');
    put('home/.config/git/config', '[core]\n\texcludesfile = ~/xdg-ignore\n');
    expect((await sources()).globalExcludes).toBe(join(home, 'xdg-ignore'));
    put('home/.gitconfig', '[core] excludesFile = "~/with space" ; note\n');
    expect((await sources()).globalExcludes).toBe(join(home, 'with space'));
    git(root, home, 'init', '-q');
    git(root, home, 'config', 'core.excludesFile', 'in-repo');
    expect((await sources()).globalExcludes).toBe(join(root, 'in-repo'));
    git(root, home, 'config', 'core.excludesFile', '');
    expect((await sources()).globalExcludes).toBeNull();
  });

  test('includes, plain and conditional', async () => {
    git(root, home, 'init', '-q', '-b', 'topic/x');
    const rows: [string, boolean][] = [
      ['[include]\n\tpath = more', true],
      [`[includeIf "gitdir:${root}/"]\n\tpath = more`, true],
      ['[includeIf "gitdir:repo/"]\n\tpath = ~/more', true],
      ['[includeIf "gitdir:other/"]\n\tpath = more', false],
      ['[includeIf "gitdir:REPO/"]\n\tpath = more', false],
      ['[includeIf "gitdir/i:REPO/"]\n\tpath = more', true],
      ['[includeIf "gitdir:~/"]\n\tpath = more', false],
      ['[includeIf "onbranch:topic/"]\n\tpath = more', true],
      ['[includeIf "onbranch:topic"]\n\tpath = more', false],
      ['[includeIf "hasconfig:remote.*.url:**"]\n\tpath = more', false],
    ];
    put('home/more', '[core]\n\tignorecase = yes\n');
    for (const [text, taken] of rows) {
      put('home/.gitconfig', `${text}\n`);
      expect((await sources()).ignoreCase, text).toBe(taken);
      const theirs = git(root, home, 'config', '--type=bool', '--default', 'false', 'core.ignorecase').trim();
      expect(theirs, text).toBe(String(taken));
    }
  });

  test('a file that includes itself ends', async () => {
    put('home/.gitconfig', '[include]\n\tpath = .gitconfig\n[core]\n\tignorecase\n');
    expect((await sources()).ignoreCase).toBe(true);
  });

  test('values are read as git reads them', () => {
    const text = '[a "b.C"]\n\tk = one  two \\\n  three # note\n\tQ = "a;b" c\n\tflag\n\te = x\\ty\\"\n[A.Sub]k=1\n';
    const entries = parseConfig(text);
    put('values', text);
    const theirs = git(base, home, 'config', '--file', join(base, 'values'), '--list', '-z').split('\0');
    const ours = entries.map(([key, value]) => (value === null ? key : `${key}\n${value}`));
    expect(ours).toEqual(theirs.filter((one) => one !== ''));
    expect(lastValue(entries, 'a.b.C.q')).toBe('a;b c');
    expect(['', 'no', 'YES', '0', '7', null, 'x'].map((value) => asBoolean(value))).toEqual([
      false,
      false,
      true,
      false,
      true,
      true,
      undefined,
    ]);
    expect(parseConfig('[a]\nk = "open\n')).toEqual([]);
  });
});

describe('HEAD', () => {
  test('is its contents and the commit, loose or packed, detached or unborn', async () => {
    git(root, home, 'init', '-q', '-b', 'main');
    expect(await headState(await sources())).toBe('ref: refs/heads/main unborn');
    git(root, home, 'commit', '-q', '--allow-empty', '-m', 'c');
    const commit = git(root, home, 'rev-parse', 'HEAD').trim();
    expect(await headState(await sources())).toBe(`ref: refs/heads/main ${commit}`);
    git(root, home, 'pack-refs', '--all');
    expect(await headState(await sources())).toBe(`ref: refs/heads/main ${commit}`);
    git(root, home, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main');
    git(root, home, 'symbolic-ref', 'HEAD', 'refs/heads/alias');
    expect(await headState(await sources())).toBe(`ref: refs/heads/alias ${commit}`);
    git(root, home, 'checkout', '-q', '--detach');
    expect(await headState(await sources())).toBe(commit);
    expect(await headState({ ...(await sources()), repo: null })).toBeNull();
  });

  test('of a linked worktree is its own, with the common refs', async () => {
    git(root, home, 'init', '-q', '-b', 'main');
    git(root, home, 'commit', '-q', '--allow-empty', '-m', 'c');
    git(root, home, 'worktree', 'add', '-q', '-b', 'side', join(base, 'linked'));
    const commit = git(root, home, 'rev-parse', 'side').trim();
    symlinkSync(join(base, 'linked'), join(base, 'alias'));
    expect(await headState(await sources(join(base, 'linked')))).toBe(`ref: refs/heads/side ${commit}`);
  });
});
