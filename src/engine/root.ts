/**
 * The root and the data directory: what may be opened, where its store lies, and whether the root is still the one that
 * was opened. Reads only, but for making the data directory. Imports `errors`, `types`, `rel-path`.
 */
import { statSync } from 'node:fs';
import { access, constants, realpath, stat, statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';
import { makeFolders, workspaceDir } from '../data-dir.ts';
import { TakebackError } from '../errors.ts';
import { decodeName, encodeName } from '../rel-path.ts';
import type { RootIdentity } from '../timeline/timeline.ts';
import type { RelPath } from '../types.ts';
import { UnavailableError } from './answers.ts';

export interface Layout {
  /** Real path of the root. */
  readonly root: string;
  readonly dataDir: string;
  /** This workspace's own folder in the data directory. */
  readonly home: string;
  readonly segments: string;
  /** Packs that files are borrowed from; may be missing. */
  readonly borrowed: string;
  readonly journal: string;
  readonly trash: string;
  readonly scratch: string;
  readonly indexFile: string;
  /** The data directory as a path in the root, where it lies inside. */
  readonly inside: RelPath | null;
  readonly networkFileSystem: boolean;
}

/**
 * Resolves the root to its real path.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a relative path
 * @throws {UnavailableError} root-missing, not-a-directory, permission-denied, protected-root
 */
export async function resolveRoot(root: string, allowProtected: boolean): Promise<string> {
  if (!isAbsolute(root)) {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `root must be an absolute path, got ${JSON.stringify(root)}. Pass path.resolve(root).`,
    );
  }
  let real: string;
  try {
    real = decodeName(await realpath(encodeName(root), { encoding: 'buffer' }));
    const found = await stat(encodeName(real));
    if (!found.isDirectory()) throw new UnavailableError('not-a-directory', `the root is not a folder: ${root}`);
  } catch (error) {
    throw rootFault(root, error);
  }
  if (!allowProtected) refuseProtected(real);
  return real;
}

function rootFault(root: string, error: unknown): unknown {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
      return new UnavailableError('root-missing', `the root does not exist: ${root}`);
    case 'ENOTDIR':
      return new UnavailableError('not-a-directory', `the root is not a folder: ${root}`);
    case 'EACCES':
    case 'EPERM':
      return new UnavailableError('permission-denied', `the root can't be read: ${root}`);
    default:
      return error;
  }
}

function refuseProtected(real: string): void {
  const home = homedir();
  const folders = [parse(real).root, home, ...['Desktop', 'Documents', 'Downloads'].map((name) => join(home, name))];
  if (folders.includes(real)) {
    throw new UnavailableError(
      'protected-root',
      `${real} is a home folder, a drive or the like; pass allowProtectedRoot: true to guard it all the same`,
    );
  }
}

/** Device, inode and birth time of what is at the root's path now; null where nothing is. */
export function identityOf(root: string): RootIdentity | null {
  try {
    const found = statSync(encodeName(root), { bigint: true });
    if (!found.isDirectory()) return null;
    return { dev: found.dev, ino: found.ino, birthNs: found.birthtimeNs };
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

/**
 * An inode number alone may have been given to a new folder: its birth time tells. Only where that is unknown (0) the device
 * counts, for one disk gets another number at a boot, and btrfs at a mount.
 */
export function sameRoot(a: RootIdentity, b: RootIdentity): boolean {
  const born = a.birthNs !== 0n && b.birthNs !== 0n;
  return a.ino === b.ino && (born ? a.birthNs === b.birthNs : a.dev === b.dev);
}

/** File systems on which other machines may write. From the kernel's magic numbers, statfs(2). */
const NETWORK_TYPES = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x5346414f, 0x00c36400]);

/**
 * Makes the data directory (0700) and names what lies in it.
 *
 * @throws {UnavailableError} data-dir-unwritable
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where it is relative, or the root itself, or its stores hold the root
 */
export async function layOut(root: string, dataDir: string): Promise<Layout> {
  if (!isAbsolute(dataDir)) {
    throw new TakebackError('ERR_INVALID_ARGUMENT', `dataDir must be an absolute path, got ${JSON.stringify(dataDir)}`);
  }
  await refuseHolder(root, dataDir);
  try {
    makeFolders(dataDir);
  } catch (error) {
    throw dataDirFault(dataDir, error);
  }
  const layout = await layoutOf(root, dataDir);
  await makeStore(layout);
  return layout;
}

/**
 * The same of a data directory that is there, and without making anything.
 *
 * @throws as `layOut`
 */
export async function findLayout(root: string, dataDir: string): Promise<Layout> {
  await refuseHolder(root, dataDir);
  return layoutOf(root, dataDir);
}

async function layoutOf(root: string, dataDir: string): Promise<Layout> {
  try {
    const real = await realpath(dataDir);
    const home = workspaceDir(real, root);
    const type = (await statfs(real)).type >>> 0;
    const below = relative(root, real);
    return {
      root,
      dataDir: real,
      home,
      segments: join(home, 'segments'),
      borrowed: join(home, 'borrowed'),
      journal: join(home, 'journal'),
      trash: join(home, 'trash'),
      scratch: join(home, 'scratch'),
      indexFile: join(home, 'index'),
      inside: isOutside(below) ? null : (below.split(sep).join('/') as RelPath),
      networkFileSystem: NETWORK_TYPES.has(type),
    };
  } catch (error) {
    throw dataDirFault(dataDir, error);
  }
}

/**
 * Makes the folders of a workspace's store that are missing.
 *
 * @throws {UnavailableError} no-space, data-dir-unwritable
 */
export async function makeStore({ dataDir, home, segments, journal, trash, scratch }: Layout): Promise<void> {
  try {
    for (const folder of [segments, journal, trash, scratch]) makeFolders(folder);
    await access(home, constants.W_OK);
  } catch (error) {
    throw dataDirFault(dataDir, error);
  }
}

function dataDirFault(dataDir: string, error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new UnavailableError('no-space', `no space left for the data directory: ${dataDir}`);
  if (typeof code !== 'string') return error;
  return new UnavailableError(
    'data-dir-unwritable',
    `the data directory can't be written: ${dataDir} (${code}). Pass another dataDir.`,
  );
}

function isOutside(below: string): boolean {
  return below === '' || below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
}

/** The data directory may lie in the root, but must not be the root, and the root must not lie in a store. Checked before anything is made. */
async function refuseHolder(root: string, dataDir: string): Promise<void> {
  const real = await realAncestor(resolve(dataDir));
  const stores = join(real, 'workspaces');
  if (real === root || root === stores || root.startsWith(stores + sep)) {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `dataDir must not be the root, nor hold it among its stores: ${dataDir}. Give another folder.`,
    );
  }
}

/** Real path of a folder that may not exist yet: of its nearest existing ancestor, with the rest behind it. */
async function realAncestor(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const parent = dirname(path);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) return path;
    return join(await realAncestor(parent), path.slice(parent.length));
  }
}
