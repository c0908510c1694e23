/**
 * The demo's own copy and its own eyes: copies a tree to a temp folder, and hashes a tree by a walk that shares no code
 * with the engine, so that a fault of the engine can't hide itself.
 *
 * Names are bytes throughout. Devices, sockets and FIFOs are not copied.
 */
import { spawnSync } from 'node:child_process';
import { createHash, type Hash } from 'node:crypto';
import {
  type BigIntStats,
  chmodSync,
  constants,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';

const SLASH = Buffer.from('/');
/** Built or installed, and large: left out of the copy. */
const LEFT_OUT: ReadonlySet<string> = new Set(['node_modules', 'target', 'dist', 'coverage']);

const below = (folder: Buffer, name: Buffer): Buffer => Buffer.concat([folder, SLASH, name]);

function namesOf(folder: Buffer): Buffer[] {
  return readdirSync(folder, { encoding: 'buffer' }).sort(Buffer.compare);
}

/** Copies a tree with modes and times. Answers how many files and links it holds. */
export function copyTree(from: string, to: string): number {
  return copyFolder(Buffer.from(from), Buffer.from(to), true);
}

function copyFolder(from: Buffer, to: Buffer, top: boolean): number {
  const stat = lstatSync(from);
  mkdirSync(to, { recursive: true, mode: 0o700 });
  let copied = 0;
  for (const name of namesOf(from)) {
    const source = below(from, name);
    const target = below(to, name);
    const text = name.toString();
    if (LEFT_OUT.has(text)) continue;
    const entry = lstatSync(source);
    // A linked worktree's `.git` file names the repository that it came from: the copy must not reach back there.
    if (top && text === '.git' && !entry.isDirectory()) continue;
    if (entry.isDirectory()) copied += copyFolder(source, target, false);
    else if (entry.isSymbolicLink()) {
      symlinkSync(readlinkSync(source, { encoding: 'buffer' }), target);
      copied += 1;
    } else if (entry.isFile()) {
      copyFileSync(source, target, constants.COPYFILE_FICLONE);
      chmodSync(target, entry.mode & 0o777);
      utimesSync(target, entry.atime, entry.mtime);
      copied += 1;
    }
  }
  chmodSync(to, (stat.mode & 0o777) | 0o700);
  utimesSync(to, stat.atime, stat.mtime);
  return copied;
}

interface Eye {
  /** Names of the top that are left out. */
  readonly skip: ReadonlySet<string>;
  /** For what nobody may touch, times and inodes: a rewrite with equal bytes shows too. */
  readonly times: boolean;
}

function kindOf(stat: BigIntStats): string {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'dir';
  return stat.isSymbolicLink() ? 'symlink' : 'special';
}

function walk(hash: Hash, folder: Buffer, { skip, times }: Eye): number {
  let entries = 0;
  for (const name of namesOf(folder)) {
    if (skip.has(name.toString())) continue;
    const path = below(folder, name);
    const stat = lstatSync(path, { bigint: true });
    const kind = kindOf(stat);
    entries += 1;
    hash.update(`${name.length}:`).update(name);
    hash.update(
      `${kind} ${kind === 'symlink' ? 0 : stat.mode & 0o777n}${times ? ` ${stat.mtimeNs} ${stat.ino}` : ''};`,
    );
    if (kind === 'file') hash.update(createHash('sha256').update(readFileSync(path)).digest());
    else if (kind === 'symlink') {
      const target = readlinkSync(path, { encoding: 'buffer' });
      hash.update(`${target.length}:`).update(target);
    } else if (kind === 'dir') {
      hash.update('(');
      entries += walk(hash, path, { skip: new Set(), times });
      hash.update(')');
    }
  }
  return entries;
}

/** SHA-256 over every name, type, mode, byte and link target of a tree, the top's `.git` left out. */
export function hashTree(root: string): { hash: string; entries: number } {
  const hash = createHash('sha256');
  const entries = walk(hash, Buffer.from(root), { skip: new Set(['.git']), times: false });
  return { hash: hash.digest('hex'), entries };
}

/** The same over a `.git` folder, with times and inodes. `null` where there is none. */
export function hashGit(root: string): string | null {
  const git = `${root}/.git`;
  if (lstatSync(git, { throwIfNoEntry: false })?.isDirectory() !== true) return null;
  const hash = createHash('sha256');
  walk(hash, Buffer.from(git), { skip: new Set(), times: true });
  return hash.digest('hex');
}

/** Runs git in the copy, without the user's configuration. Undefined where git is missing or fails. */
function git(root: string, args: readonly string[]): Buffer | undefined {
  const env = { PATH: process.env.PATH, HOME: root, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' };
  const result = spawnSync('git', args, { cwd: root, env, maxBuffer: 256 * 1024 * 1024 });
  return result.error === undefined && result.status === 0 ? result.stdout : undefined;
}

/** Makes the copy a git repository with one commit. False where that can't be done here. */
export function makeRepository(root: string): boolean {
  const identity = ['-c', 'user.name=demo', '-c', 'user.email=demo@example.invalid', '-c', 'commit.gpgsign=false'];
  return (
    git(root, ['init', '--quiet']) !== undefined &&
    git(root, ['add', '--all']) !== undefined &&
    git(root, [...identity, 'commit', '--quiet', '--allow-empty', '--message', 'demo']) !== undefined
  );
}

/** Files that git tracks, or, without git, all that a walk finds. Only names that a shell command can carry. */
export function listFiles(root: string): string[] {
  const listed = git(root, ['-c', 'core.fsmonitor=false', '--no-optional-locks', 'ls-files', '-z']);
  const names = listed === undefined ? walkNames(root) : listed.toString('utf8').split('\0').filter(Boolean);
  return names.filter((name) => !name.includes('\ufffd') && isPlainFile(`${root}/${name}`)).sort();
}

function isPlainFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function walkNames(root: string, prefix = ''): string[] {
  return readdirSync(`${root}/${prefix}`, { withFileTypes: true }).flatMap((entry) => {
    const name = `${prefix}${entry.name}`;
    if (entry.isDirectory()) return entry.name === '.git' ? [] : walkNames(root, `${name}/`);
    return entry.isFile() ? [name] : [];
  });
}
