/**
 * One segment file: which blobs it holds and where, reading a record, and, for the one that this process appends to,
 * appending. `segments.ts` holds many of them.
 *
 * A foreign segment may grow while we look: `refresh` goes on where the last whole record ended. Of a segment with a
 * valid idx only what lies beyond the idx is scanned. Descriptors of foreign segments are opened for one read and
 * closed, save where `pin` asks to keep one: then the bytes can be had even after another process unlinked the file.
 */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fchmodSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import type { Hash } from '../../types.ts';
import { readAt, writeAll } from './durable.ts';
import { asStoreError, errnoOf } from './faults.ts';
import type { Hasher } from './hash.ts';
import * as records from './records.ts';

export class SegmentFile {
  /** Absolute path. */
  path: string;
  readonly #hasher: Hasher;
  readonly #seed: bigint;
  #table: records.IdxTable | null = null;
  readonly #scanned = new Map<Hash, records.Place>();
  /** Bytes up to the end of the last whole record that we know; 0 before the header was read. */
  #end = 0;
  #pinned: number | null = null;

  constructor(path: string, hasher: Hasher, seed: bigint) {
    this.path = path;
    this.#hasher = hasher;
    this.#seed = seed;
  }

  get idxPath(): string {
    return this.path.replace(/\.seg$/, '.idx');
  }

  /** Bytes of the header and the whole records. */
  get end(): number {
    return this.#end;
  }

  /** True where an idx spares the next reader the scan. */
  get hasIdx(): boolean {
    return this.#table !== null;
  }

  find(hash: Hash, key: Buffer): records.Place | undefined {
    return this.#scanned.get(hash) ?? this.#table?.find(key);
  }

  *entries(): Generator<[Hash, records.Place]> {
    if (this.#table !== null) {
      for (const entry of this.#table) if (!this.#scanned.has(entry[0])) yield entry;
    }
    yield* this.#scanned;
  }

  #withFile<T>(act: (fd: number) => T): T {
    if (this.#pinned !== null) return act(this.#pinned);
    const fd = openSync(this.path, 'r');
    try {
      return act(fd);
    } finally {
      closeSync(fd);
    }
  }

  /** Keeps a descriptor open until `unpin`. */
  pin(): void {
    this.#pinned ??= openSync(this.path, 'r');
  }

  unpin(): void {
    if (this.#pinned !== null) closeSync(this.#pinned);
    this.#pinned = null;
  }

  /** Makes what a pinned segment holds durable: its writer may not have done so yet. */
  syncPinned(): void {
    if (this.#pinned !== null) fdatasyncSync(this.#pinned);
  }

  /** True where a pinned segment has lost its name: another process collected it. */
  get unlinked(): boolean {
    return this.#pinned !== null && fstatSync(this.#pinned).nlink === 0;
  }

  /** Takes in what was appended since the last look. Throws ENOENT where the file is gone. */
  refresh(): void {
    if (this.#end === 0 && this.#table === null) this.#loadIdx();
    const size = statSync(this.path).size;
    if (size > this.#end) this.#withFile((fd) => this.#scan(fd, size));
  }

  #loadIdx(): void {
    let file: Buffer;
    try {
      file = readFileSync(this.idxPath);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return;
      throw error;
    }
    const table = records.decodeIdx(this.#hasher, file, statSync(this.path).size);
    if (table === null) return;
    this.#withFile((fd) => {
      if (records.readSegmentHeader(readAt(fd, 0, records.SEGMENT_HEADER)) !== this.#seed) return;
      this.#table = table;
      this.#end = table.covers;
    });
  }

  #scan(fd: number, size: number): void {
    if (this.#end === 0) {
      if (records.readSegmentHeader(readAt(fd, 0, records.SEGMENT_HEADER)) !== this.#seed) return;
      this.#end = records.SEGMENT_HEADER;
    }
    while (this.#end + records.RECORD_HEADER <= size) {
      const header = records.readRecordHeader(this.#hasher, readAt(fd, this.#end, records.RECORD_HEADER));
      if (header === null || this.#end + records.recordSize(header) > size) return;
      this.#scanned.set(header.hash, {
        offset: this.#end,
        rawLength: header.rawLength,
        storedLength: header.storedLength,
      });
      this.#end += records.recordSize(header);
    }
  }

  /** The idx only spares a scan: where it can't be written, the next reader scans. */
  writeIdx(): void {
    const temp = `${this.idxPath}.${randomBytes(4).toString('hex')}.new`;
    try {
      writeFileSync(temp, records.encodeIdx(this.#hasher, this.entries(), this.end), { mode: 0o600, flag: 'wx' });
      chmodSync(temp, 0o600);
      renameSync(temp, this.idxPath);
    } catch {
      try {
        unlinkSync(temp);
      } catch {
        // It was never made.
      }
    }
  }

  /** A whole record as it stands in the file, unchecked. Throws ENOENT where the file is gone. */
  readRecord(place: records.Place): Buffer {
    return this.#withFile((fd) => readAt(fd, place.offset, records.recordSize(place)));
  }

  read(hash: Hash, place: records.Place): records.Decoded {
    return records.decodeRecord(this.#hasher, this.readRecord(place), hash);
  }

  /**
   * Where a valid record header stands behind the last whole record, or null: in a segment that nobody writes to, this
   * tells damage in the middle from a torn tail.
   */
  beyondDamage(): number | null {
    return this.#withFile((fd) => {
      const rest = readAt(fd, this.#end, fstatSync(fd).size - this.#end);
      const magic = Buffer.alloc(4);
      magic.writeUInt32LE(records.RECORD_MAGIC);
      for (let at = rest.indexOf(magic, 1); at > 0; at = rest.indexOf(magic, at + 1)) {
        const header = rest.subarray(at, at + records.RECORD_HEADER);
        if (records.readRecordHeader(this.#hasher, header) !== null) return this.#end + at;
      }
      return null;
    });
  }

  get count(): number {
    return (this.#table?.count ?? 0) + this.#scanned.size;
  }

  /** Knows what `other` knows: the same file, under another name. */
  protected takeKnowledge(other: SegmentFile): void {
    this.#table = other.#table;
    for (const [hash, place] of other.#scanned) this.#scanned.set(hash, place);
    this.#end = other.#end;
  }

  /** Notes a record that was just appended at `offset`. */
  protected noteRecord(hash: Hash, place: records.Place): void {
    this.#scanned.set(hash, place);
    this.#end = place.offset + records.recordSize(place);
  }

  protected noteHeader(): void {
    this.#end = records.SEGMENT_HEADER;
  }
}

/** The segment that this store appends to. */
export class OwnSegment extends SegmentFile {
  readonly #fd: number;
  #unsynced = true;
  /** A failed append could not be cut off: what is appended now would stand behind damage. */
  broken = false;

  /** @param adopted the closed segment that was renamed to `path`, to go on behind its records; undefined: a new one */
  constructor(path: string, { hasher, seed, adopted }: { hasher: Hasher; seed: bigint; adopted?: SegmentFile }) {
    super(path, hasher, seed);
    this.#fd = openSync(path, adopted === undefined ? 'ax+' : 'a+', 0o600);
    try {
      if (adopted === undefined) {
        fchmodSync(this.#fd, 0o600);
        writeAll(this.#fd, records.segmentHeader(seed));
        this.noteHeader();
      } else {
        this.takeKnowledge(adopted);
        if (fstatSync(this.#fd).size !== this.end) throw new Error('the segment is not as long as it was');
      }
    } catch (error) {
      closeSync(this.#fd);
      throw error;
    }
  }

  /**
   * Takes over a closed segment, or answers null where another process was first. Renaming it is what takes it; its idx
   * goes, for it covers less than the segment will soon hold.
   */
  static adopt(closed: SegmentFile, path: string, of: { hasher: Hasher; seed: bigint }): OwnSegment | null {
    try {
      if (closed.end !== statSync(closed.path).size) return null;
      renameSync(closed.path, path);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      throw error;
    }
    let own: OwnSegment | null = null;
    try {
      own = new OwnSegment(path, { ...of, adopted: closed });
      unlinkSync(closed.idxPath);
    } catch {
      // An idx that isn't there, or stays, is a cache either way. A segment that can't be had goes back.
      if (own === null) renameSync(path, closed.path);
    }
    return own;
  }

  append(hash: Hash, rawLength: number, record: Buffer): void {
    const offset = this.end;
    this.#unsynced = true;
    try {
      writeAll(this.#fd, record);
    } catch (error) {
      this.#cutBack(offset);
      throw error;
    }
    const storedLength = record.length - records.RECORD_HEADER - records.RECORD_TAIL;
    this.noteRecord(hash, { offset, rawLength, storedLength });
  }

  /** Leaves no half record behind a failed append. */
  #cutBack(offset: number): void {
    try {
      ftruncateSync(this.#fd, offset);
    } catch {
      // The append's own fault is what the caller hears; this segment gets no further record.
      this.broken = true;
    }
  }

  /** Our own descriptor stays open: nothing to pin. */
  override pin(): void {}

  override readRecord(place: records.Place): Buffer {
    return readAt(this.#fd, place.offset, records.recordSize(place));
  }

  /** True where another process took the file for a dead writer's and unlinked it. */
  override get unlinked(): boolean {
    return fstatSync(this.#fd).nlink === 0;
  }

  sync(): void {
    if (!this.#unsynced) return;
    fdatasyncSync(this.#fd);
    this.#unsynced = false;
  }

  /** Closes the file and gives it the name of a segment that nobody writes to. */
  seal(sealedPath: string): void {
    closeSync(this.#fd);
    try {
      renameSync(this.path, sealedPath);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return;
      throw asStoreError(error, `can't seal the segment ${this.path}`);
    }
    this.path = sealedPath;
  }
}
