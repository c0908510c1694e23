/**
 * Contained paths: opens the folder that holds a path without ever following a symlink or leaving the root's mount.
 *
 * On Linux each component is opened relative to the one before it through `/proc/self/fd/<fd>/<name>`, one component a
 * step (a longer tail would follow symlinks in its middle), with O_PATH, O_DIRECTORY and O_NOFOLLOW; device and mount id
 * are compared with the root's. Every act on the leaf then goes through the folder's descriptor. Elsewhere, or without
 * /proc, each ancestor is lstat-ed by name, which a rename at the right moment can outwit; `walk` says which one it is.
 *
 * A folder that is moved out of the root while it is open can't be told from one that wasn't; `isStillThere` walks again
 * so that the caller can take back what it did.
 */
import { closeSync, constants, fstatSync, fsyncSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { TakebackError } from '../../errors.ts';
import { encodeName, isBadPath, parentOf } from '../../rel-path.ts';
import type { RelPath } from '../../types.ts';
import { errnoOf } from './faults.ts';

/** Same number on every Linux that Node runs on; missing in `constants`. */
const O_PATH = 0o10000000;

/** The walk met a symlink, a mount, something that isn't a folder, or nothing. */
export class WalkError extends Error {
  readonly path: RelPath;
  /** `ENOENT`, `ENOTDIR`, `ELOOP`, `EXDEV`, `EACCES`, … */
  readonly errno: string;

  constructor(path: RelPath, errno: string, message: string) {
    super(message);
    this.path = path;
    this.errno = errno;
  }
}

export interface FolderId {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** An open folder. */
export class Folder {
  readonly path: RelPath;
  readonly id: FolderId;
  /** A name for the folder itself that leads nowhere else. */
  readonly self: Buffer;
  readonly #fd: number | null;

  constructor(path: RelPath, id: FolderId, place: { fd: number } | { name: Buffer }) {
    this.path = path;
    this.id = id;
    this.#fd = 'fd' in place ? place.fd : null;
    this.self = 'fd' in place ? Buffer.from(`/proc/self/fd/${place.fd}`) : place.name;
  }

  /** A name for system calls: the leaf in this folder, whatever became of the folder's own name. */
  at(leaf: Buffer): Buffer {
    return Buffer.concat([this.self, Buffer.from('/'), leaf]);
  }

  /** Makes the folder's names and mode durable. */
  sync(): void {
    const fd = openSync(this.at(Buffer.from('.')), constants.O_RDONLY);
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }
}

function mountIdOf(fd: number): string {
  return /mnt_id:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
}

export class Walker {
  readonly walk: 'component' | 'by-name';
  readonly root: FolderId;
  readonly #rootName: Buffer;
  #mountId = '';

  /** @throws {TakebackError} `ERR_ROOT_CHANGED` where the root is no folder */
  constructor(root: string) {
    this.#rootName = encodeName(root);
    const stat = lstatSync(this.#rootName, { bigint: true, throwIfNoEntry: false });
    if (!stat?.isDirectory()) throw new TakebackError('ERR_ROOT_CHANGED', `the root is gone, or is no folder: ${root}`);
    this.root = { dev: stat.dev, ino: stat.ino };
    this.walk = process.platform === 'linux' && this.#probeProc() ? 'component' : 'by-name';
  }

  /** Whether a folder can be reached through its descriptor here. */
  #probeProc(): boolean {
    const fd = openSync(this.#rootName, O_PATH | constants.O_DIRECTORY);
    try {
      const through = lstatSync(`/proc/self/fd/${fd}/.`, { bigint: true, throwIfNoEntry: false });
      this.#mountId = mountIdOf(fd);
      return through?.ino === this.root.ino && through.dev === this.root.dev;
    } catch {
      return false;
    } finally {
      closeSync(fd);
    }
  }

  /** @throws {TakebackError} `ERR_ROOT_CHANGED` where another inode stands at the root's path */
  openRoot(): Folder {
    const path = '' as RelPath;
    let folder: Folder;
    try {
      folder = this.#openFolder(this.#rootName, path);
    } catch (error) {
      const { message } = error as Error;
      throw new TakebackError('ERR_ROOT_CHANGED', `the root ${this.#rootName} can't be opened: ${message}`, {
        cause: error,
      });
    }
    if (folder.id.ino === this.root.ino && folder.id.dev === this.root.dev) return folder;
    folder.close();
    throw new TakebackError('ERR_ROOT_CHANGED', 'another folder stands at the path of the root');
  }

  #openFolder(name: Buffer, path: RelPath): Folder {
    try {
      if (this.walk === 'by-name') {
        const stat = lstatSync(name, { bigint: true });
        if (!stat.isDirectory()) throw new WalkError(path, 'ENOTDIR', `no folder: ${path}`);
        return new Folder(path, stat, { name });
      }
      const fd = openSync(name, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      const { dev, ino } = fstatSync(fd, { bigint: true });
      return new Folder(path, { dev, ino }, { fd });
    } catch (error) {
      if (error instanceof WalkError) throw error;
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      throw new WalkError(path, errno, `can't enter ${path === '' ? 'the root' : path}: ${(error as Error).message}`);
    }
  }

  /** The folder `leaf` of an open folder. @throws {WalkError} for a symlink, a mount, or what is no folder */
  openChild(parent: Folder, leaf: Buffer, path: RelPath): Folder {
    const folder = this.#openFolder(parent.at(leaf), path);
    if (folder.id.dev === this.root.dev && this.#onSameMount(folder)) return folder;
    folder.close();
    throw new WalkError(path, 'EXDEV', `another file system is mounted at ${path}`);
  }

  #onSameMount(folder: Folder): boolean {
    if (this.walk === 'by-name' || this.#mountId === '') return true;
    return mountIdOf(Number(folder.self.toString('latin1').slice('/proc/self/fd/'.length))) === this.#mountId;
  }

  /** The folder at a path, `''` for the root. The caller closes it. */
  open(path: RelPath): Folder {
    if (path !== '' && isBadPath(path))
      throw new WalkError(path, 'EINVAL', `the path has a part that no file can have: ${path}`);
    let folder = this.openRoot();
    if (path === '') return folder;
    const parts = path.split('/');
    for (const [i, part] of parts.entries()) {
      try {
        const next = this.openChild(folder, encodeName(part), parts.slice(0, i + 1).join('/') as RelPath);
        folder.close();
        folder = next;
      } catch (error) {
        folder.close();
        throw error;
      }
    }
    return folder;
  }

  /** The folder that holds a path. */
  openParent(path: RelPath): Folder {
    return this.open(parentOf(path));
  }

  /** Whether the walk to the folder's path still leads to this folder. */
  isStillThere(folder: Folder): boolean {
    try {
      const again = this.open(folder.path);
      again.close();
      return again.id.ino === folder.id.ino && again.id.dev === folder.id.dev;
    } catch (error) {
      if (error instanceof WalkError) return false;
      throw error;
    }
  }

  /** A folder of ours outside the root (the trash), and whether a rename from the tree into it can work. */
  openOutside(name: Buffer): { folder: Folder; near: boolean } {
    const folder = this.#openFolder(name, '' as RelPath);
    return { folder, near: folder.id.dev === this.root.dev && this.#onSameMount(folder) };
  }
}

/** The last component of a path, as bytes. */
export function leafOf(path: RelPath): Buffer {
  return encodeName(path.slice(path.lastIndexOf('/') + 1));
}
