/**
 * Reads the files that a scan left to be read, hashes and stores them, each in one pass (DESIGN §4.1).
 *
 * A file is opened without following or blocking, must be a regular file, and must be the very name that was asked for
 * (on Linux its descriptor is asked where it lies, so that a folder swapped for a link leads nowhere; elsewhere, or where
 * /proc can't tell, that goes unchecked). Its stat key is taken before and after; where it moved the file is read again,
 * three times in all, then it is `unstable`. A path under which no such file lies any more is left to `lost`: the caller
 * looks at it again, once.
 *
 * Node has no read leases: who has a file open for writing goes unseen, and what a lease once saw (flag `writers`) stays
 * as it is.
 */
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync } from 'node:fs';
import { TakebackError } from '../../errors.ts';
import { encodeName, isWithin } from '../../rel-path.ts';
import type { Hash, Problem, RelPath, StatKey, UncoveredReason, Version } from '../../types.ts';
import type { IngestResult } from '../backend.ts';
import type { ChangeSet, Draft } from './change-set.ts';
import { OVER } from './chunks.ts';
import { fsPath, kindOf, sameStat, statKey } from './coverage.ts';
import { checkCancelled, errnoOf, type WorkHooks } from './faults.ts';
import type { RunningHash } from './hash.ts';
import { EntryFlag, type IndexTree } from './index.ts';

const TRIES = 3;
/** Bytes of a large file that are read at once. */
const PIECE = 1024 * 1024;
const SLASH = Buffer.from('/');
const NO_FILE: readonly string[] = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EISDIR'];

/** What is needed of `SegmentStore`. */
export interface BlobSink {
  hash(bytes: Uint8Array): Hash;
  put(bytes: Uint8Array): { readonly isNew: boolean; readonly hash: Hash };
  large(): { push(bytes: Uint8Array): void; finish(): { readonly isNew: boolean; readonly hash: Hash } };
  readonly hasher: { running(): RunningHash };
}

export interface IngestSettings {
  readonly root: string;
  readonly index: IndexTree;
  readonly segments: BlobSink;
  readonly maxFileBytes: number;
  readonly isRacy: (stat: { mtimeNs: bigint; ctimeNs: bigint }) => boolean;
  readonly hooks: WorkHooks;
  /** `Date.now()` at which to stop. */
  readonly deadlineMs?: number | undefined;
  readonly first?: readonly RelPath[] | undefined;
  readonly hashOnly?: boolean | undefined;
  readonly stored?: ReadonlySet<Hash> | undefined;
}

type Read =
  | { readonly kind: 'bytes'; readonly bytes: Buffer; readonly stat: StatKey }
  /** A large file: stored while it was read. */
  | { readonly kind: 'named'; readonly content: Hash; readonly isNew: boolean; readonly stat: StatKey }
  /** The deadline came while it was read. */
  | { readonly kind: 'late' }
  | {
      readonly kind: 'uncovered';
      readonly reason: UncoveredReason;
      readonly stat: StatKey | null;
      readonly detail?: string;
    }
  /** No regular file of that name, or not by way of real folders. */
  | { readonly kind: 'lost' }
  | { readonly kind: 'moved'; readonly stat: StatKey | null };

/** All bytes from a descriptor, `size` of them if nothing moves; one more shows that it grew. */
function readWhole(fd: number, size: number): Buffer {
  const buffer = Buffer.allocUnsafe(size + 1);
  let length = 0;
  while (length < buffer.length) {
    const count = readSync(fd, buffer, length, buffer.length - length, null);
    if (count === 0) break;
    length += count;
  }
  return buffer.subarray(0, length);
}

export class Ingester {
  readonly #settings: IngestSettings;
  readonly #set: ChangeSet;
  readonly #rootBytes: Buffer;
  readonly #tellsPlaces: boolean;
  readonly problems: Problem[] = [];
  readonly lost: RelPath[] = [];
  #hashed = 0;
  #storedFiles = 0;
  #storedBytes = 0;
  #left = 0;

  constructor(set: ChangeSet, settings: IngestSettings) {
    this.#set = set;
    this.#settings = settings;
    this.#rootBytes = encodeName(settings.root === '/' ? '' : settings.root);
    this.#tellsPlaces = tellsPlaces(settings.root);
  }

  /** Adds to what was read before. */
  run(paths: readonly RelPath[]): IngestResult {
    this.#left = 0;
    const { first = [], hooks } = this.#settings;
    const isFirst = (path: RelPath): boolean => first.some((folder) => isWithin(path, folder));
    const ordered = first.length === 0 ? paths : [...paths.filter(isFirst), ...paths.filter((path) => !isFirst(path))];
    ordered.forEach((path, done) => {
      checkCancelled(hooks);
      if (this.#isLate()) {
        this.#left++;
        return;
      }
      this.#one(path);
      hooks.progress({ phase: 'ingest', done: done + 1, total: ordered.length });
    });
    const counts = {
      filesHashed: this.#hashed,
      storedFiles: this.#storedFiles,
      storedBytes: this.#storedBytes,
      borrowedFiles: 0,
    };
    return { ...counts, left: this.#left, problems: this.problems };
  }

  #isLate(): boolean {
    const { deadlineMs } = this.#settings;
    return deadlineMs !== undefined && Date.now() >= deadlineMs;
  }

  #one(path: RelPath): void {
    const draft = this.#set.drafts.get(path);
    if (draft === undefined || draft.version !== null) return;
    let read: Read = { kind: 'moved', stat: draft.stat };
    for (let tries = 0; tries < TRIES && read.kind === 'moved'; tries++) read = this.#read(path);
    switch (read.kind) {
      case 'bytes':
        this.#take(path, draft, read);
        return;
      case 'named':
        this.#hashed++;
        this.#settle(path, draft, read);
        return;
      case 'late':
        this.#left++;
        return;
      case 'lost':
        this.lost.push(path);
        return;
      case 'moved':
        this.#draft(path, draft, { reason: 'unstable', stat: read.stat ?? draft.stat });
        return;
      default:
        if (read.reason === 'unreadable')
          this.problems.push({ path, kind: 'unreadable-file', detail: read.detail ?? 'it can not be read' });
        this.#draft(path, draft, { reason: read.reason, stat: read.stat ?? draft.stat });
    }
  }

  /** Lost a second time: it stays uncovered, and the next look reads it. */
  giveUp(paths: readonly RelPath[]): void {
    for (const path of paths) {
      const draft = this.#set.drafts.get(path);
      if (draft?.version === null) this.#draft(path, draft, { reason: 'unstable', stat: draft.stat });
    }
  }

  #draft(path: RelPath, draft: Draft, { reason, stat }: { reason: UncoveredReason; stat: StatKey }): void {
    this.#set.put(path, {
      ...draft,
      version: { kind: 'uncovered', reason, stat },
      stat,
      flags: this.#flags(draft, stat),
    });
  }

  #flags(draft: Draft, stat: StatKey): number {
    const flags = draft.flags & ~EntryFlag.untrusted;
    return this.#settings.isRacy(stat) ? flags | EntryFlag.untrusted : flags;
  }

  #take(path: RelPath, draft: Draft, { bytes, stat }: { bytes: Buffer; stat: StatKey }): void {
    const { segments, hashOnly, stored, index } = this.#settings;
    this.#hashed++;
    const known = index.versionOf(path);
    let content = segments.hash(bytes);
    let isNew = false;
    const isKept = hashOnly === true || stored?.has(content) || (known.kind === 'file' && known.content === content);
    if (!isKept) {
      try {
        const put = segments.put(bytes);
        content = put.hash;
        isNew = put.isNew;
      } catch (error) {
        if (!(error instanceof Error) || error.name !== 'CollisionError') throw error;
        this.problems.push({ path, kind: 'collision', detail: error.message });
        this.#draft(path, draft, { reason: 'unreadable', stat });
        return;
      }
    }
    this.#settle(path, draft, { content, isNew, stat });
  }

  #settle(path: RelPath, draft: Draft, named: { content: Hash; isNew: boolean; stat: StatKey }): void {
    const { content, isNew, stat } = named;
    if (isNew) {
      this.#storedFiles++;
      this.#storedBytes += stat.size;
    }
    const version: Version = { kind: 'file', mode: stat.mode, size: stat.size, content };
    this.#set.put(path, { ...draft, version, stat, flags: this.#flags(draft, stat) });
  }

  #read(path: RelPath): Read {
    let fd: number;
    try {
      fd = openSync(
        fsPath(this.#settings.root, path),
        constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY,
      );
    } catch (error) {
      return this.#fault(error);
    }
    try {
      return this.#readOpen(fd, path);
    } catch (error) {
      // The store's own faults, or cancelled: no matter of this file.
      if (error instanceof TakebackError) throw error;
      return this.#fault(error);
    } finally {
      closeSync(fd);
    }
  }

  #fault(error: unknown): Read {
    const code = errnoOf(error);
    const detail = (error as Error).message;
    if (code !== undefined && NO_FILE.includes(code)) return { kind: 'lost' };
    if (code === 'EMFILE' || code === 'ENFILE' || code === 'ENOMEM') {
      throw new TakebackError('ERR_IO', `out of descriptors or memory while reading files: ${detail}`, {
        cause: error,
      });
    }
    return { kind: 'uncovered', reason: 'unreadable', stat: null, detail };
  }

  #readOpen(fd: number, path: RelPath): Read {
    const now = fstatSync(fd, { bigint: true });
    const before = statKey(now);
    if (kindOf(now) !== 'file' || !this.#liesAt(fd, path)) return { kind: 'lost' };
    if (before.size > this.#settings.maxFileBytes) return { kind: 'uncovered', reason: 'too-large', stat: before };
    if (before.size > OVER) return this.#readLarge(fd, before);
    const bytes = readWhole(fd, before.size);
    const after = statKey(fstatSync(fd, { bigint: true }));
    if (bytes.length !== before.size || !sameStat(before, after)) return { kind: 'moved', stat: after };
    return { kind: 'bytes', bytes, stat: after };
  }

  /** Of one that moved meanwhile, chunks may stay in the store until gc. */
  #readLarge(fd: number, before: StatKey): Read {
    const { segments, hashOnly, hooks } = this.#settings;
    const name = segments.hasher.running();
    const large = segments.large();
    const piece = Buffer.allocUnsafe(PIECE);
    let length = 0;
    for (let count = -1; count !== 0; length += count) {
      checkCancelled(hooks);
      if (this.#isLate()) return { kind: 'late' };
      count = readSync(fd, piece, 0, PIECE, length);
      if (length + count > before.size) break;
      if (hashOnly === true) name.update(piece.subarray(0, count));
      else large.push(piece.subarray(0, count));
    }
    const stat = statKey(fstatSync(fd, { bigint: true }));
    if (length !== before.size || !sameStat(before, stat)) return { kind: 'moved', stat };
    const { hash, isNew } = hashOnly === true ? { hash: name.digest(), isNew: false } : large.finish();
    return { kind: 'named', content: hash, isNew, stat };
  }

  /** Whether an open file is the name that was asked for, reached through no link. */
  #liesAt(fd: number, path: RelPath): boolean {
    return (
      !this.#tellsPlaces || placeOf(fd)?.equals(Buffer.concat([this.#rootBytes, SLASH, encodeName(path)])) === true
    );
  }
}

/** The path of an open file, by the kernel; null where it doesn't say. */
function placeOf(fd: number): Buffer | null {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`, { encoding: 'buffer' });
  } catch {
    return null;
  }
}

/** Whether the kernel calls the root what we call it: on Linux with /proc, unless the root is seen through a mount. */
function tellsPlaces(root: string): boolean {
  if (process.platform !== 'linux') return false;
  try {
    const fd = openSync(fsPath(root, ''), constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      return placeOf(fd)?.equals(encodeName(root)) === true;
    } finally {
      closeSync(fd);
    }
  } catch {
    return false;
  }
}
