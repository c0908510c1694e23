/**
 * Names that mean something to coverage whatever the rules say (DESIGN §4.2), and how paths reach the file system. Pure
 * but for {@link foldsToGit}, which asks the file system.
 */
import { type BigIntStats, constants, lstatSync } from 'node:fs';
import { encodeName } from '../../rel-path.ts';
import type { FileKind, RelPath, SpecialType, StatKey } from '../../types.ts';

/** `.env` and `.env.*`, but not the samples that are made to be shared. For files only. */
export function isSecretName(name: string): boolean {
  return name === '.env' || (name.startsWith('.env.') && !/\.(example|sample|template)$/.test(name));
}

/** Temp files of a running or dead operation of ours. */
export function isTempName(name: string): boolean {
  return name.startsWith('.takeback-') && /^\.takeback-[0-9a-fA-F]{32}-\d+\.tmp$/.test(name);
}

/** A name that some file system folds to `.git`: another case, invisible letters, an 8.3 name. */
function mayFoldToGit(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  if (/^[\x00-\x7f]*$/.test(name)) return /^(\.git|git~1)$/i.test(name);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^\.git$/i.test(name.replace(/[^\x00-\x7f]/g, ''));
}

/** Whether a name is `.git` to the file system: so spelt, or the same inode as `.git` in its folder. */
export function foldsToGit(
  name: string,
  stat: () => { ino: bigint; dev: bigint } | undefined,
  dotGit: () => string | Buffer,
): boolean {
  if (name === '.git') return true;
  if (name.length < 4 || !mayFoldToGit(name)) return false;
  const own = stat();
  if (own === undefined) return false;
  const git = lstatSync(dotGit(), { bigint: true, throwIfNoEntry: false });
  return git !== undefined && git.ino === own.ino && git.dev === own.dev;
}

/** An absolute path for `node:fs`: a Buffer where a name isn't UTF-8. */
export function fsPath(root: string, path: string): string | Buffer {
  const whole = path === '' ? root : root.endsWith('/') ? `${root}${path}` : `${root}/${path}`;
  return whole.isWellFormed() ? whole : encodeName(whole);
}

export function joinPath(folder: RelPath, name: string): RelPath {
  return (folder === '' ? name : `${folder}/${name}`) as RelPath;
}

const KINDS: ReadonlyMap<number, FileKind> = new Map([
  [constants.S_IFREG, 'file'],
  [constants.S_IFLNK, 'symlink'],
  [constants.S_IFDIR, 'dir'],
  [constants.S_IFIFO, 'fifo'],
  [constants.S_IFSOCK, 'socket'],
  [constants.S_IFCHR, 'char'],
  [constants.S_IFBLK, 'block'],
]);

export function kindOf(stat: BigIntStats): FileKind {
  return KINDS.get(Number(stat.mode) & constants.S_IFMT) ?? 'other';
}

export function statKey(stat: BigIntStats): StatKey {
  return {
    kind: kindOf(stat),
    mode: Number(stat.mode) & 0o777,
    size: Number(stat.size),
    mtimeNs: stat.mtimeNs,
    ctimeNs: stat.ctimeNs,
    ino: stat.ino,
    dev: stat.dev,
  };
}

/** Identity alone: what is kept of `git` and `mount`, and of what could not be looked at. */
export function identityKey(of: { kind: FileKind; ino: bigint; dev: bigint }): StatKey {
  return { kind: of.kind, mode: 0, size: 0, mtimeNs: 0n, ctimeNs: 0n, ino: of.ino, dev: of.dev };
}

export function sameStat(a: StatKey, b: StatKey): boolean {
  return (
    a.ctimeNs === b.ctimeNs &&
    a.mtimeNs === b.mtimeNs &&
    a.ino === b.ino &&
    a.size === b.size &&
    a.dev === b.dev &&
    a.mode === b.mode &&
    a.kind === b.kind
  );
}

/** `sameStat(key, statKey(stat))`, without making a key. */
export function isKeyOf(key: StatKey, stat: BigIntStats): boolean {
  return (
    key.ctimeNs === stat.ctimeNs &&
    key.mtimeNs === stat.mtimeNs &&
    key.ino === stat.ino &&
    BigInt(key.size) === stat.size &&
    key.dev === stat.dev &&
    key.mode === (Number(stat.mode) & 0o777) &&
    key.kind === kindOf(stat)
  );
}

export function specialType(kind: FileKind): SpecialType | null {
  return kind === 'file' || kind === 'symlink' || kind === 'dir' ? null : kind;
}
