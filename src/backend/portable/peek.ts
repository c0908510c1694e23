/**
 * What is on disk at a path now, whatever the index and the rules say: by reading and hashing, nothing stored. Secrets are
 * stat-ed only; FIFOs, sockets and devices are never opened. Whether somebody has a file open can't be told in Node.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { decodeName, isBadPath, touchesGit } from '../../rel-path.ts';
import { ABSENT, type RelPath, type StatKey, type Version } from '../../types.ts';
import type { Peek } from '../backend.ts';
import { asStoreError, checkCancelled, errnoOf, type WorkHooks } from './faults.ts';
import type { Hand } from './guard.ts';
import { observe, statKeyOf } from './observe.ts';
import { type Folder, leafOf, WalkError } from './resolve.ts';

export interface PeekOptions {
  readonly hooks: WorkHooks;
  readonly isSecret: (path: RelPath) => boolean;
}

const NO_STAT: StatKey = { kind: 'other', mode: 0, size: 0, mtimeNs: 0n, ctimeNs: 0n, ino: 0n, dev: 0n };

/** `.env` and `.env.*`, but not their examples. */
export function isSecretName(path: RelPath): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return (name === '.env' || name.startsWith('.env.')) && !/\.(example|sample|template)$/.test(name);
}

function identityOf(stat: StatKey): StatKey {
  return { ...NO_STAT, kind: stat.kind, ino: stat.ino, dev: stat.dev };
}

/** What a look at the stat alone decides, or null where the bytes are to be read. */
function byStat(hand: Hand, path: RelPath, { stat, isSecret }: { stat: StatKey; isSecret: boolean }): Version | null {
  if (touchesGit(path)) return { kind: 'uncovered', reason: 'git', stat: identityOf(stat) };
  if (stat.kind === 'dir' && stat.dev !== hand.walker.root.dev)
    return { kind: 'uncovered', reason: 'mount', stat: identityOf(stat) };
  if (stat.kind === 'file' && isSecret) return { kind: 'uncovered', reason: 'secret', stat };
  return null;
}

/** Null: not readable, or gone by now; then its names are not known. */
function namesIn(folder: Folder): string[] | null {
  try {
    return readdirSync(folder.self, { encoding: 'buffer' })
      .sort(Buffer.compare)
      .map((leaf) => decodeName(leaf));
  } catch (error) {
    if (['EACCES', 'EPERM', 'ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return null;
    throw error;
  }
}

/** A folder and its names; a mount where the walk says so. */
function peekFolder(hand: Hand, seen: Peek, parent: Folder): Peek {
  let folder: Folder;
  try {
    folder = hand.walker.openChild(parent, leafOf(seen.path), seen.path);
  } catch (error) {
    if (!(error instanceof WalkError)) throw error;
    if (error.errno !== 'EXDEV') return seen;
    const stat = { ...NO_STAT, kind: 'dir', ino: seen.ino, dev: hand.walker.root.dev } as const;
    return { ...seen, version: { kind: 'uncovered', reason: 'mount', stat } };
  }
  try {
    const names = namesIn(folder);
    return names === null ? seen : { ...seen, names };
  } finally {
    folder.close();
  }
}

function peekRoot(path: RelPath, root: Folder): Peek {
  const stat = lstatSync(root.at(Buffer.from('.')), { bigint: true });
  const version: Version = { kind: 'dir', mode: Number(stat.mode & 0o777n) };
  const names = namesIn(root);
  return {
    path,
    version,
    ino: stat.ino,
    nlink: Number(stat.nlink),
    openForWrite: null,
    ...(names === null ? {} : { names }),
  };
}

function peekLeaf(hand: Hand, path: RelPath, { folder, isSecret }: { folder: Folder; isSecret: boolean }): Peek {
  const name = folder.at(leafOf(path));
  const stat = lstatSync(name, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined) return { path, version: { kind: 'absent' }, ino: 0n, nlink: 0, openForWrite: null };
  const decided = byStat(hand, path, { stat: statKeyOf(stat), isSecret });
  if (decided !== null) return { path, version: decided, ino: stat.ino, nlink: Number(stat.nlink), openForWrite: null };
  const { version, ino, nlink } = observe(name, hand.look);
  const seen: Peek = { path, version, ino, nlink, openForWrite: null };
  return version.kind === 'dir' ? peekFolder(hand, seen, folder) : seen;
}

/** A path that can't be looked at: absent where its folder is not there, else uncovered. Throws what is no such fault. */
function unseen(path: RelPath, error: unknown): Peek {
  const errno = error instanceof WalkError ? error.errno : errnoOf(error);
  const denied = errno === 'EACCES' || errno === 'EPERM';
  if (!denied && !(error instanceof WalkError)) throw asStoreError(error, `can't look at ./${path}`, path);
  const gone = errno === 'ENOENT' || errno === 'ENOTDIR' || errno === 'ELOOP';
  const reason = errno === 'EXDEV' ? 'mount' : 'unreadable';
  const version: Version = gone ? { kind: 'absent' } : { kind: 'uncovered', reason, stat: NO_STAT };
  return { path, version, ino: 0n, nlink: 0, openForWrite: null };
}

export function peekAt(hand: Hand, paths: readonly RelPath[], { hooks, isSecret }: PeekOptions): Peek[] {
  return paths.map((path) => {
    checkCancelled(hooks);
    // A damaged store may name what no file can be: it is nowhere, and nothing is looked at.
    if (path !== '' && isBadPath(path)) return { path, version: ABSENT, ino: 0n, nlink: 0, openForWrite: null };
    let folder: Folder | undefined;
    try {
      folder = path === '' ? hand.walker.openRoot() : hand.walker.openParent(path);
      return path === '' ? peekRoot(path, folder) : peekLeaf(hand, path, { folder, isSecret: isSecret(path) });
    } catch (error) {
      return unseen(path, error);
    } finally {
      folder?.close();
    }
  });
}
