import { chmodSync, existsSync, mkdirSync, readdirSync, unlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { TakebackError } from '../../errors.ts';
import type { Hash } from '../../types.ts';
import { Large, OVER } from './chunks.ts';
import { syncFolder } from './durable.ts';
import { asStoreError, doing, errnoOf, type WorkHooks } from './faults.ts';
import { Hasher } from './hash.ts';
import { type Found, holdsAll, piecesOf, wholeOf } from './large.ts';
import { Loans } from './loans.ts';
import { type Decoded, encodeListRecord, encodeRecord, type Place, SEGMENT_HEADER } from './records.ts';
import { collectSegments, type Problem, verifySegments } from './segment-care.ts';
import { OwnSegment, SegmentFile } from './segment-file.ts';
import { isAlive, isSealed, newSegmentName, sealedName, writerOf } from './segment-name.ts';

export interface Put {
  readonly hash: Hash;
  /** False where the same bytes were stored already. */
  readonly isNew: boolean;
  /** Bytes that the record takes in the segment; 0 where it is not new. */
  readonly stored: number;
}

/** Two contents of one name. Neither is lost: the second is not stored, and the caller says so. */
export class CollisionError extends TakebackError {
  constructor(hash: Hash) {
    super('ERR_INTERNAL', `two different contents have the name ${hash}`);
  }
}

/** Larger closed segments are not taken over: each close writes the idx of all that a segment holds. */
const LARGEST_ADOPTED_BYTES = 16 * 1024 * 1024;
const MOST_ADOPTED_RECORDS = 8192;
/** How often a read looks for a blob whose segment went away under it. */
const LOOKS = 8;

export class SegmentStore {
  readonly #dir: string;
  readonly #seed: bigint;
  readonly #hasher: Hasher;
  /** By file name, our own among them. */
  readonly #segments = new Map<string, SegmentFile>();
  #own: OwnSegment | null = null;
  /** Blobs put since the last sync, and the segment that each was found in or written to. */
  readonly #unsettled = new Map<Hash, SegmentFile>();
  /** Being collected: none of them is taken over. */
  readonly doomed = new Set<SegmentFile>();
  #folderUnsynced = false;
  readonly #loans: Loans;

  /** Use `open`; tests hand in a hasher of theirs. */
  constructor(dir: string, seed: bigint, hasher: Hasher) {
    this.#dir = dir;
    this.#seed = seed;
    this.#hasher = hasher;
    this.#loans = new Loans(join(dirname(dir), 'borrowed'), hasher);
    doing(`can't open the segments in ${dir}`, () => {
      if (mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined) chmodSync(dir, 0o700);
    });
    this.refresh();
  }

  static async open(dir: string, seed: bigint): Promise<SegmentStore> {
    return new SegmentStore(dir, seed, await Hasher.create(seed));
  }

  get hasher(): Hasher {
    return this.#hasher;
  }

  hash(bytes: Uint8Array): Hash {
    return this.#hasher.hash(bytes);
  }

  *#locations(hash: Hash): Generator<{ segment: SegmentFile; place: Place }> {
    const key = Buffer.from(hash, 'hex');
    for (const segment of [...this.#segments.values()]) {
      const place = segment.find(hash, key);
      if (place !== undefined) yield { segment, place };
    }
  }

  /** Stores bytes, or finds them stored. @throws {CollisionError} where other bytes have that name */
  put(bytes: Uint8Array): Put {
    if (bytes.length > OVER) {
      const large = this.large();
      large.push(bytes);
      return large.finish();
    }
    const hash = this.hash(bytes);
    const isSame = (found: Decoded) => 'bytes' in found && found.bytes.equals(bytes);
    if (this.#findSame(hash, isSame)) return { hash, isNew: false, stored: 0 };
    const record = encodeRecord(this.#hasher, hash, bytes);
    this.appendRecord(hash, bytes.length, record);
    return { hash, isNew: true, stored: record.length };
  }

  /** Takes a content of more than `OVER` bytes piece by piece. */
  large(): Large {
    return new Large(this, this.#hasher.running());
  }

  /** Stores the list of chunks of a content, or finds it stored; its chunks have been put. */
  putList(hash: Hash, rawLength: number, list: Buffer): Omit<Put, 'hash'> {
    // One that is stored whole is no list: both stand for the same bytes.
    const isSame = (found: Decoded) => ('chunks' in found ? found.list.equals(list) : null);
    if (this.#findSame(hash, isSame)) return { isNew: false, stored: 0 };
    const record = encodeListRecord(this.#hasher, hash, rawLength, list);
    this.appendRecord(hash, rawLength, record);
    return { isNew: true, stored: record.length };
  }

  /** `isSame` says null of a record that doesn't count. */
  #findSame(hash: Hash, isSame: (found: Decoded) => boolean | null): boolean {
    for (const { segment, place } of this.#locations(hash)) {
      try {
        segment.pin();
        const found = segment.read(hash, place);
        // A damaged copy is no copy: it is stored anew, and `read` finds the good one.
        if ('damage' in found) continue;
        const same = isSame(found);
        if (same === null) continue;
        if (!same) throw new CollisionError(hash);
        this.#unsettled.set(hash, segment);
        return true;
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT') throw asStoreError(error, `can't read the segment ${segment.path}`);
        this.forget(segment);
      }
    }
    return false;
  }

  /** Appends a whole record to our own segment. */
  appendRecord(hash: Hash, rawLength: number, record: Buffer): void {
    doing(`can't write to the segments in ${this.#dir}`, () => {
      if (this.#own?.broken) this.sealOwn();
      const own = this.#own ?? this.#newSegment();
      own.append(hash, rawLength, record);
      this.#unsettled.set(hash, own);
    });
  }

  #newSegment(): OwnSegment {
    const name = newSegmentName();
    const path = join(this.#dir, name);
    const own = this.#adopt(path) ?? new OwnSegment(path, { hasher: this.#hasher, seed: this.#seed });
    this.#own = own;
    this.#segments.set(name, own);
    this.#folderUnsynced = true;
    return own;
  }

  /** A closed segment that is ours now; null where there is none to be had. The fullest first: each is filled once. */
  #adopt(path: string): OwnSegment | null {
    const small = this.files().filter(
      (file) =>
        isSealed(basename(file.path)) &&
        !this.doomed.has(file) &&
        file.end >= SEGMENT_HEADER &&
        file.end < LARGEST_ADOPTED_BYTES &&
        file.count < MOST_ADOPTED_RECORDS,
    );
    for (const closed of small.sort((a, b) => b.end - a.end)) {
      const own = OwnSegment.adopt(closed, path, { hasher: this.#hasher, seed: this.#seed });
      if (own === null) continue;
      this.#segments.delete(basename(closed.path));
      for (const [hash, segment] of this.#unsettled) if (segment === closed) this.#unsettled.set(hash, own);
      closed.unpin();
      return own;
    }
    return null;
  }

  /**
   * The bytes of a blob, checked against its name.
   *
   * @throws {TakebackError} `ERR_BLOB_MISSING`; `ERR_BLOB_CORRUPT` where every copy is damaged
   */
  read(hash: Hash): Buffer {
    return wholeOf(this, hash);
  }

  /** The same, at most a chunk at once. What came before an error is not to be used. */
  pieces(hash: Hash): Generator<Buffer> {
    return piecesOf(this, hash);
  }

  /** What stands under that name: bytes, or where they lie. @throws as `read` */
  find(hash: Hash): Found {
    let damage: string | null = null;
    let moved = false;
    for (let look = 1; look <= LOOKS; look += 1) {
      for (const { segment, place } of this.#locations(hash)) {
        try {
          const found = segment.read(hash, place);
          if (!('damage' in found)) return found;
          damage = `${basename(segment.path)}: ${found.damage}`;
        } catch (error) {
          if (errnoOf(error) !== 'ENOENT') throw asStoreError(error, `can't read the segment ${segment.path}`);
          this.forget(segment);
          moved = true;
        }
      }
      // Another process may have made it; or moved it, as it collected, closed or took over the segment.
      if (look > 1 && !moved) break;
      this.refresh();
    }
    if (damage !== null) throw new TakebackError('ERR_BLOB_CORRUPT', `blob ${hash} is damaged: ${damage}`);
    const real = this.#loans.real(hash);
    if (real === null) throw new TakebackError('ERR_BLOB_CORRUPT', `the git object of ${hash} can't be read`);
    if (real !== undefined) return this.find(real);
    throw new TakebackError('ERR_BLOB_MISSING', `no blob ${hash} in ${this.#dir}`);
  }

  /**
   * Whether segments that we know have a record of that name, and those of its chunks. Call `refresh` first for those of
   * other processes.
   */
  has(hash: Hash): boolean {
    return holdsAll(this, this.#loans.real(hash) ?? hash);
  }

  /** Of the first record of that name; undefined where we know none. */
  rawLength(hash: Hash): number | undefined {
    const first = this.#locations(hash).next();
    return first.done ? undefined : first.value.place.rawLength;
  }

  /** Takes in what other processes appended, made or collected. */
  refresh(): void {
    doing(`can't read the segments in ${this.#dir}`, () => {
      const names = new Set(readdirSync(this.#dir).filter((name) => writerOf(name) !== null));
      for (const [name, segment] of this.#segments) {
        if (!names.has(name) && segment !== this.#own) this.forget(segment);
      }
      for (const name of names) this.#refreshOne(name);
    });
  }

  #refreshOne(name: string): void {
    const known = this.#segments.get(name);
    if (known !== undefined && (known === this.#own || name.startsWith('0-0-'))) return;
    const segment = known ?? new SegmentFile(join(this.#dir, name), this.#hasher, this.#seed);
    try {
      segment.refresh();
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
      this.forget(segment);
      return;
    }
    this.#segments.set(name, segment);
    if (!segment.hasIdx && segment.end > SEGMENT_HEADER && !this.isForeign(segment)) segment.writeIdx();
  }

  /**
   * Makes all that was put durable. Afterwards rows may name it.
   *
   * @throws {TakebackError} `ERR_NO_SPACE` or `ERR_IO`; then nothing that was put since the last sync may be named
   */
  sync(): void {
    doing(`can't sync the segments in ${this.#dir}`, () => {
      this.#rescue();
      const found = new Set(this.#unsettled.values());
      this.#own?.sync();
      for (const segment of found) segment.syncPinned();
      if (this.#folderUnsynced || found.size > 0) syncFolder(this.#dir);
      this.#folderUnsynced = false;
      for (const segment of found) segment.unpin();
      this.#unsettled.clear();
    });
  }

  /** Copies what we rely on out of segments that lost their names meanwhile. */
  #rescue(): void {
    const own = this.#own;
    if (own?.unlinked) {
      this.#own = null;
      this.#segments.delete(basename(own.path));
      for (const [hash, place] of own.entries()) this.appendRecord(hash, place.rawLength, own.readRecord(place));
      own.seal(own.path);
    }
    for (const [hash, segment] of [...this.#unsettled]) {
      const place = segment.find(hash, Buffer.from(hash, 'hex'));
      if (segment === this.#own || place === undefined || !segment.unlinked) continue;
      this.appendRecord(hash, place.rawLength, segment.readRecord(place));
    }
  }

  stats(): { segments: number; blobs: number; bytes: number } {
    const blobs = new Set<Hash>();
    let bytes = 0;
    for (const segment of this.#segments.values()) {
      bytes += segment.end;
      for (const [hash] of segment.entries()) blobs.add(hash);
    }
    return { segments: this.#segments.size, blobs: blobs.size, bytes };
  }

  /** Reads and checks every record of every segment. */
  verify(hooks: WorkHooks): { checked: number; problems: Problem[] } {
    this.refresh();
    const { checked, problems } = verifySegments(this, this.files(), hooks);
    return { checked, problems: [...problems, ...this.#loans.problems()] };
  }

  /**
   * Drops every blob that isn't in `live` and wasn't put since the last sync. Call under the workspace's lock.
   *
   * @throws {TakebackError} `ERR_CANCELLED` between two segments; what was done so far stands
   */
  collect(live: Iterable<Hash>, hooks: WorkHooks): { freedBytes: number; keptBytes: number } {
    this.refresh();
    const keep = new Set(live);
    for (const hash of this.#unsettled.keys()) keep.add(hash);
    const returned = doing("can't let go of git's packs", () => this.#loans.collect(keep));
    this.#loans.addReal(keep);
    this.sealOwn();
    return doing(`can't collect the segments in ${this.#dir}`, () => {
      // What a process left that was killed while it wrote an idx.
      for (const name of readdirSync(this.#dir)) if (name.endsWith('.new')) unlinkSync(join(this.#dir, name));
      const { freedBytes, keptBytes } = collectSegments(this, keep, hooks);
      return { freedBytes: freedBytes + returned, keptBytes };
    });
  }

  /** Takes what is borrowed into the store; looks for loans of other processes. Answers whether there are, or were, any. */
  settle(): boolean {
    return this.#loans.settle(this);
  }

  /** See `Loans.real`. */
  real(name: Hash): Hash | null | undefined {
    return this.#loans.real(name);
  }

  // ---- for segment-care.ts ----

  files(): SegmentFile[] {
    return [...this.#segments.values()];
  }

  get own(): SegmentFile | null {
    return this.#own;
  }

  /** True where another live writer appends to it. */
  isForeign(segment: SegmentFile): boolean {
    const writer = writerOf(basename(segment.path));
    return segment !== this.#own && writer !== null && isAlive(writer);
  }

  forget(segment: SegmentFile): void {
    this.#segments.delete(basename(segment.path));
    if (![...this.#unsettled.values()].includes(segment)) segment.unpin();
  }

  /** Makes our own segment nobody's, and readable at once by its idx. The next `put` makes a new one. */
  sealOwn(): void {
    const own = this.#own;
    if (own === null) return;
    own.sync();
    this.#own = null;
    this.#segments.delete(basename(own.path));
    let name = sealedName();
    while (existsSync(join(this.#dir, name))) name = sealedName();
    own.seal(join(this.#dir, name));
    this.#folderUnsynced = true;
    const sealed = new SegmentFile(join(this.#dir, name), this.#hasher, this.#seed);
    own.writeIdx();
    sealed.refresh();
    this.#segments.set(name, sealed);
    for (const [hash, segment] of this.#unsettled) if (segment === own) this.#unsettled.set(hash, sealed);
  }

  close(): void {
    doing(`can't close the segments in ${this.#dir}`, () => this.sealOwn());
    for (const segment of this.#segments.values()) segment.unpin();
    this.#segments.clear();
    this.#unsettled.clear();
  }
}
