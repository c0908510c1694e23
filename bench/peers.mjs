/**
 * What other tools do for the same end, each a process of its own, as they run it: `git status`, a shadow repository
 * (own git folder and index over the same files: `add -A`, then `write-tree`), `git checkout -- .`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';

const ENV = {
  ...process.env,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_AUTHOR_NAME: 'bench',
  GIT_AUTHOR_EMAIL: 'bench@invalid',
  GIT_COMMITTER_NAME: 'bench',
  GIT_COMMITTER_EMAIL: 'bench@invalid',
};

function git(cwd, ...args) {
  return execFileSync('git', args, {
    cwd,
    env: ENV,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

function timed(work) {
  const started = performance.now();
  work();
  return performance.now() - started;
}

/** `git status` alone, on a tree so large that a shadow repository of it would take minutes. Null where git is missing. */
export function gitStatus(root) {
  try {
    git(root, 'init', '--quiet');
  } catch (fault) {
    if (fault.code === 'ENOENT') return null;
    throw fault;
  }
  // Into one pack at once: a million loose objects are a million files.
  git(root, '-c', 'core.bigFileThreshold=1', 'add', '-A');
  git(root, 'commit', '--quiet', '-m', 'start');
  return { status: () => timed(() => git(root, 'status', '--porcelain')) };
}

/** Null where git is missing. */
export function gitPeers(root, scratch) {
  try {
    git(root, 'init', '--quiet');
  } catch (fault) {
    if (fault.code === 'ENOENT') return null;
    throw fault;
  }
  git(root, 'config', 'gc.auto', '0');
  git(root, 'add', '-A');
  git(root, 'commit', '--quiet', '-m', 'start');
  git(root, 'repack', '-adq');
  const stores = join(scratch, 'shadow');
  mkdirSync(stores);
  const shadow = (dir, ...args) => git(root, `--git-dir=${dir}`, `--work-tree=${root}`, ...args);
  const kept = join(stores, 'kept');
  const take = (dir) => {
    shadow(dir, 'add', '-A');
    return shadow(dir, 'write-tree');
  };
  git(root, 'init', '--quiet', '--bare', kept);
  take(kept);
  let made = 0;
  return {
    version: git(root, '--version').trim(),
    status: () => timed(() => git(root, 'status', '--porcelain')),
    shadowCapture: () => timed(() => take(kept)),
    shadowFirst: () => {
      const dir = join(stores, `first-${made}`);
      made += 1;
      return timed(() => {
        git(root, 'init', '--quiet', '--bare', dir);
        take(dir);
      });
    },
    /** All of the tree is in one pack, and the index, younger than every file, proves it. */
    commitPacked: () => {
      git(root, 'add', '-A');
      git(root, 'commit', '--quiet', '--allow-empty', '-m', 'all');
      git(root, 'repack', '-adq');
      const now = Date.now() / 1000;
      utimesSync(join(root, '.git', 'index'), now, now);
    },
    checkout: () => timed(() => git(root, 'checkout', '--quiet', '--', '.')),
    /** Removed last: a file system searches past inodes that were just freed. */
    close: () => rmSync(stores, { recursive: true, force: true }),
  };
}
