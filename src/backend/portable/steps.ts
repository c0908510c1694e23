/**
 * The single steps that apply and recovery are made of, each on one path: folders made and removed, temp files written,
 * names moved under guard, modes set, touched folders synced. Which step comes when is the callers' business.
 */
import { closeSync, fstatSync, lstatSync } from 'node:fs';
import { TakebackError } from '../../errors.ts';
import { encodeName, parentOf, touchesGit } from '../../rel-path.ts';
import { ABSENT, type RelPath, type Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { errnoOf } from './faults.ts';
import { type Hand, type Move, makeMove, nameOf, type Spot } from './guard.ts';
import { observe, type Seen } from './observe.ts';
import { type Folder, type FolderId, leafOf, WalkError } from './resolve.ts';
import type { SegmentStore } from './segments.ts';
import { refusedFor, Stop } from './stop.ts';
import type { Trash } from './trash.ts';

export type FileVersion = Version & { kind: 'file' };
export type DirVersion = Version & { kind: 'dir' };

/** The mode of a folder of ours until everything in it is done. */
export const MAKING = 0o700;

export interface TempNames {
  readonly tempName: string;
  readonly trashName: string;
}

export class Steps {
  readonly hand: Hand;
  readonly segments: SegmentStore;
  readonly trash: Trash;
  /** The folder of the path before, kept open: neighbours come one after the other. */
  #parent: Folder | null = null;
  readonly #touched = new Set<RelPath>();

  constructor(hand: Hand, segments: SegmentStore, trash: Trash) {
    this.hand = hand;
    this.segments = segments;
    this.trash = trash;
  }

  spot(path: RelPath, name?: string): Spot {
    const parent = parentOf(path);
    if (this.#parent?.path !== parent) {
      this.forgetParent();
      this.#parent = this.hand.walker.open(parent);
    }
    return { folder: this.#parent as Folder, leaf: name === undefined ? leafOf(path) : encodeName(name) };
  }

  forgetParent(): void {
    this.#parent?.close();
    this.#parent = null;
  }

  touch(path: RelPath): void {
    this.#touched.add(parentOf(path));
  }

  look(spot: Spot): Seen {
    return observe(nameOf(spot), this.hand.look);
  }

  /** What is at a path; `absent` where its folder is not there either. */
  lookAt(path: RelPath, name?: string): Seen {
    try {
      return this.look(this.spot(path, name));
    } catch (error) {
      if (!(error instanceof WalkError) || !['ENOENT', 'ENOTDIR', 'ELOOP'].includes(error.errno)) throw error;
      return { version: ABSENT, dev: 0n, ino: 0n, nlink: 0, uid: 0, gid: 0 };
    }
  }

  move(path: RelPath, move: Omit<Move, 'at'>): Seen | null {
    this.touch(path);
    return makeMove(this.hand, { ...move, at: this.spot(path) });
  }

  /** Removes a folder that holds nothing. `notEmpty`: the status where it does. */
  removeDir(path: RelPath, expect: DirVersion, notEmpty: 'skipped' | 'refused'): void {
    const at = this.spot(path);
    const seen = this.look(at);
    if (!sameVersion(seen.version, expect)) throw refusedFor(seen.version);
    this.touch(path);
    try {
      this.hand.sys.rmdir(nameOf(at));
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === 'ENOTEMPTY' || errno === 'EEXIST') throw new Stop(notEmpty, 'not-empty');
      if (errno === 'ENOENT' || errno === 'ENOTDIR') throw refusedFor(this.look(at).version);
      throw error;
    }
  }

  /** Makes a folder, for its owner only until `setDirMode`. Answers its inode. */
  makeDir(path: RelPath): FolderId {
    const at = this.spot(path);
    this.touch(path);
    try {
      this.hand.sys.mkdir(nameOf(at));
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') throw refusedFor(this.look(at).version);
      throw error;
    }
    const folder = this.hand.walker.openChild(at.folder, at.leaf, path);
    try {
      // A umask may have taken bits that we need ourselves.
      if ((lstatSync(nameOf(at)).mode & 0o777) !== MAKING) this.hand.sys.chmod(folder.self, MAKING);
      return folder.id;
    } finally {
      folder.close();
    }
  }

  /** Sets the mode of a folder that is as expected, `made` being the inode where we made it. */
  setDirMode(path: RelPath, expect: DirVersion, mode: number, made?: FolderId): void {
    const at = this.spot(path);
    const seen = this.look(at);
    if (!sameVersion(seen.version, expect) || (made !== undefined && made.ino !== seen.ino))
      throw refusedFor(seen.version);
    const folder = this.hand.walker.openChild(at.folder, at.leaf, path);
    try {
      if (folder.id.ino !== seen.ino) throw refusedFor(this.look(at).version);
      this.touch(path);
      this.hand.sys.chmod(folder.self, mode);
    } finally {
      folder.close();
    }
  }

  /**
   * Writes the bytes of a version under a temp name, durably, with its mode and, where this user may, the owner of the
   * file that it is to replace. On a fault nothing is left. Answers the inode, and false where the owner differs.
   */
  writeTemp(path: RelPath, tempName: string, version: FileVersion): { id: FolderId; ownerKept: boolean } {
    const pieces = this.segments.pieces(version.content);
    const first = pieces.next();
    const replaced = lstatSync(nameOf(this.spot(path)), { throwIfNoEntry: false });
    const name = nameOf(this.spot(path, tempName));
    const fd = this.hand.sys.create(name);
    try {
      for (let piece = first; !piece.done; piece = pieces.next()) this.hand.sys.write(fd, piece.value);
      const ownerKept = !replaced?.isFile() || this.#copyOwner(fd, replaced);
      // After fchown, which may clear bits.
      this.hand.sys.fchmod(fd, version.mode & 0o777);
      this.hand.sys.fdatasync(fd);
      const { dev, ino } = fstatSync(fd, { bigint: true });
      closeSync(fd);
      return { id: { dev, ino }, ownerKept };
    } catch (error) {
      closeSync(fd);
      if (errnoOf(error) !== undefined || error instanceof TakebackError) this.hand.sys.unlink(name);
      throw error;
    }
  }

  #copyOwner(fd: number, like: { uid: number; gid: number }): boolean {
    const own = fstatSync(fd);
    if (own.uid === like.uid && own.gid === like.gid) return true;
    try {
      this.hand.sys.fchown(fd, like.uid, like.gid);
      return true;
    } catch (error) {
      if (errnoOf(error) !== 'EPERM') throw error;
    }
    try {
      this.hand.sys.fchown(fd, own.uid, like.gid);
    } catch (error) {
      if (errnoOf(error) !== 'EPERM') throw error;
    }
    return false;
  }

  /** Clears a path's temp name: the inode (or symlink) of ours goes, anything else that came to stand there is kept. */
  clearTemp(path: RelPath, names: TempNames, ours: FolderId | Version | 'any'): void {
    if (touchesGit(path)) return;
    let spot: Spot;
    try {
      spot = this.spot(path, names.tempName);
    } catch (error) {
      if (error instanceof WalkError) return;
      throw error;
    }
    const stat = lstatSync(nameOf(spot), { bigint: true, throwIfNoEntry: false });
    if (stat === undefined) return;
    const isOurs =
      ours === 'any'
        ? stat.isFile()
        : 'ino' in ours && 'dev' in ours
          ? stat.ino === ours.ino
          : sameVersion(this.look(spot).version, ours);
    if (isOurs) this.hand.sys.unlink(nameOf(spot));
    else this.hand.sys.rename(nameOf(spot), nameOf(this.trash.free(names.trashName)));
  }

  /** Makes names and folder modes durable: the trash first, so that nothing is in neither place. */
  syncTouched(): void {
    this.forgetParent();
    if (this.#touched.size === 0) return;
    this.trash.sync();
    for (const path of this.#touched) {
      let folder: Folder;
      try {
        folder = this.hand.walker.open(path);
      } catch (error) {
        // Removed by a later step, or by somebody else: no names to keep.
        if (error instanceof WalkError) continue;
        throw error;
      }
      try {
        folder.sync();
      } catch (error) {
        // A folder that this user can't open for reading can't be synced by it.
        if (errnoOf(error) !== 'EACCES') throw error;
      } finally {
        folder.close();
      }
    }
  }
}
