/**
 * The trash: where every inode goes that leaves its path. Nothing in it is unlinked before its bytes were found stored.
 *
 * One folder in the data directory; where that is on another mount than the root, `.takeback/trash/` in the root (0700,
 * with a `.gitignore` of `*`, made when first needed, removed when empty).
 */
import {
  chmodSync,
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { decodeName, encodeName } from '../../rel-path.ts';
import type { Hash, RelPath } from '../../types.ts';
import { errnoOf } from './faults.ts';
import { nameOf, type Spot } from './guard.ts';
import { openFile } from './observe.ts';
import { type Folder, WalkError, type Walker } from './resolve.ts';
import type { SegmentStore } from './segments.ts';

const HIDDEN = '.takeback' as RelPath;
const INSIDE = '.takeback/trash' as RelPath;
const IGNORE_FILE = Buffer.from('.gitignore');

function makeFolder(name: Buffer): void {
  try {
    mkdirSync(name, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

export class Trash {
  readonly #walker: Walker;
  /** The data directory's. */
  readonly #store: Folder;
  readonly #near: boolean;
  #inside: Folder | null = null;

  constructor(walker: Walker, path: string) {
    const name = encodeName(path);
    if (mkdirSync(path, { recursive: true, mode: 0o700 }) !== undefined) chmodSync(path, 0o700);
    const { folder, near } = walker.openOutside(name);
    this.#walker = walker;
    this.#store = folder;
    this.#near = near;
  }

  /** `.takeback/trash` of the root, where it was made. */
  #insideIfThere(): Folder | null {
    if (this.#inside !== null) return this.#inside;
    try {
      this.#inside = this.#walker.open(INSIDE);
    } catch (error) {
      if (!(error instanceof WalkError) || error.errno !== 'ENOENT') throw error;
    }
    return this.#inside;
  }

  #makeInside(): Folder {
    const there = this.#insideIfThere();
    if (there !== null) return there;
    const root = this.#walker.openRoot();
    try {
      makeFolder(root.at(encodeName(HIDDEN)));
      const hidden = this.#walker.openChild(root, encodeName(HIDDEN), HIDDEN);
      try {
        makeFolder(hidden.at(Buffer.from('trash')));
      } finally {
        hidden.close();
      }
    } finally {
      root.close();
    }
    const inside = this.#walker.open(INSIDE);
    this.#inside = inside;
    // In the trash and not beside it: plan files lie there too, and those are for the user's git to see.
    try {
      writeFileSync(inside.at(IGNORE_FILE), '*\n', { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
    return inside;
  }

  /** A free name for something that leaves its path. */
  free(trashName: string): Spot {
    const folder = this.#near ? this.#store : this.#makeInside();
    for (let attempt = 0; ; attempt++) {
      const leaf = encodeName(attempt === 0 ? trashName : `${trashName}-${attempt}`);
      if (lstatSync(folder.at(leaf), { throwIfNoEntry: false }) === undefined) return { folder, leaf };
    }
  }

  /** Where a thing of that name was kept, or null. */
  find(trashName: string): Spot | null {
    const leaf = encodeName(trashName);
    for (const folder of [this.#store, this.#insideIfThere()]) {
      if (folder !== null && lstatSync(folder.at(leaf), { throwIfNoEntry: false }) !== undefined)
        return { folder, leaf };
    }
    return null;
  }

  /** Makes what was moved here durable. */
  sync(): void {
    this.#store.sync();
    this.#inside?.sync();
  }

  /** Drops what is kept, each file only after its bytes were found in the store; see `Tree.emptyTrash`. */
  empty(
    segments: SegmentStore,
    maxFileBytes: number,
  ): { freedBytes: number; kept: number; lateWrites: { name: string; hash: Hash }[] } {
    const sum = { freedBytes: 0, kept: 0, lateWrites: [] as { name: string; hash: Hash }[] };
    const inside = this.#insideIfThere();
    for (const folder of [this.#store, inside]) {
      if (folder === null) continue;
      for (const leaf of readdirSync(folder.self, { encoding: 'buffer' })) {
        if (isOurs(leaf)) continue;
        const dropped = dropOne({ folder, leaf }, segments, maxFileBytes);
        if (dropped === null) sum.kept += 1;
        else sum.freedBytes += dropped.bytes;
        if (dropped?.late !== undefined) sum.lateWrites.push({ name: decodeName(leaf), hash: dropped.late });
      }
    }
    this.#dropLists(inside);
    if (inside !== null && readdirSync(inside.self).every((name) => name === IGNORE_FILE.toString())) {
      this.#removeInside(inside);
    }
    return sum;
  }

  /** Lists of operations of which nothing is kept any more. */
  #dropLists(inside: Folder | null): void {
    const names = readdirSync(this.#store.self);
    const kept = inside === null ? names : [...names, ...readdirSync(inside.self)];
    for (const list of names.filter((name) => name.endsWith('.kept'))) {
      const prefix = `${list.slice(0, -'.kept'.length)}-`;
      if (!kept.some((name) => name.startsWith(prefix))) unlinkSync(this.#store.at(Buffer.from(list)));
    }
  }

  #removeInside(inside: Folder): void {
    const hidden = this.#walker.open(HIDDEN);
    try {
      unlinkSync(inside.at(IGNORE_FILE));
      rmdirSync(hidden.at(Buffer.from('trash')));
      inside.close();
      this.#inside = null;
      const root = this.#walker.openRoot();
      try {
        rmdirSync(root.at(encodeName(HIDDEN)));
      } finally {
        root.close();
      }
    } catch (error) {
      // Something is kept in it, or somebody else's file lies there: it stays.
      if (errnoOf(error) !== 'ENOTEMPTY') throw error;
    } finally {
      hidden.close();
    }
  }

  close(): void {
    this.#store.close();
    this.#inside?.close();
    this.#inside = null;
  }
}

/** Lists of ours beside what is kept: `.gitignore`, and what the native backend notes of an operation. */
function isOurs(leaf: Buffer): boolean {
  return leaf.equals(IGNORE_FILE) || leaf.toString('latin1').endsWith('.kept');
}

/** Null: it stays. `late`: its bytes were new to the store. */
function dropOne(spot: Spot, segments: SegmentStore, maxFileBytes: number): { bytes: number; late?: Hash } | null {
  const name = nameOf(spot);
  const stat = lstatSync(name);
  if (stat.isDirectory()) {
    try {
      rmdirSync(name);
      return { bytes: 0 };
    } catch (error) {
      if (errnoOf(error) === 'ENOTEMPTY') return null;
      throw error;
    }
  }
  if (!stat.isFile()) {
    unlinkSync(name);
    return { bytes: 0 };
  }
  if (stat.size > maxFileBytes) return null;
  const fd = openFile(name);
  if (fd === null) return null;
  try {
    const before = fstatSync(fd, { bigint: true });
    const put = segments.put(readFileSync(fd));
    // Rows don't name it, but it must outlive its inode.
    if (put.isNew) segments.sync();
    const after = fstatSync(fd, { bigint: true });
    if (after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs || after.size !== before.size) return null;
    unlinkSync(name);
    return put.isNew ? { bytes: stat.size, late: put.hash } : { bytes: stat.size };
  } finally {
    closeSync(fd);
  }
}
