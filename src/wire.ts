/**
 * The one binary form of versions, changes and paths: in rows, manifests, journals and across N-API (docs/formats.md).
 * Little-endian, no padding. A reader never trusts a length: what doesn't fit throws `ERR_STORE_CORRUPT`.
 *
 * Pure. Imports `types`, `errors`, `rel-path` only. `native/src/wire.rs` is its twin; `test/wire.test.ts` holds vectors for both.
 */
import { TakebackError } from './errors.ts';
import { asRelPath, decodeName, encodeName, isPlainName } from './rel-path.ts';
import type { Change, FileKind, Hash, RelPath, SpecialType, StatKey, UncoveredReason, Version } from './types.ts';

export const FILE_KINDS: readonly FileKind[] = ['file', 'symlink', 'dir', 'fifo', 'socket', 'char', 'block', 'other'];
export const SPECIAL_TYPES: readonly SpecialType[] = ['fifo', 'socket', 'char', 'block', 'other'];
export const UNCOVERED_REASONS: readonly UncoveredReason[] = [
  'too-large',
  'unreadable',
  'secret',
  'ignored',
  'unstable',
  'out-of-time',
  'git',
  'mount',
];

/** How the files of the store begin that are told before they are opened. */
export const INDEX_MAGIC = 'TBKIDXF1';
export const SEGMENT_MAGIC = 'TBKSEG1\n';

const TWO_32 = 2 ** 32;
/** High halves within it make numbers that are exact. */
const SAFE_HIGH = 2 ** 21;

/** First byte of an encoded version. */
export const KIND = { absent: 0, file: 1, symlink: 2, dir: 3, special: 4, uncovered: 5 } as const;

export class Writer {
  #buffer = Buffer.allocUnsafe(256);
  #length = 0;

  #room(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.#buffer.length) {
      const bigger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length));
      this.#buffer.copy(bigger, 0, 0, at);
      this.#buffer = bigger;
    }
    return at;
  }
  u8(value: number): this {
    const at = this.#room(1);
    this.#buffer.writeUInt8(value, at);
    return this;
  }
  u32(value: number): this {
    const at = this.#room(4);
    this.#buffer.writeUInt32LE(value, at);
    return this;
  }
  u64(value: bigint | number): this {
    const at = this.#room(8);
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) {
      this.#buffer.writeUInt32LE(value % TWO_32, at);
      this.#buffer.writeUInt32LE(Math.floor(value / TWO_32), at + 4);
    } else this.#buffer.writeBigUInt64LE(BigInt(value), at);
    return this;
  }
  i64(value: bigint): this {
    const at = this.#room(8);
    this.#buffer.writeBigInt64LE(value, at);
    return this;
  }
  /** Bytes without a length. */
  raw(bytes: Uint8Array): this {
    const at = this.#room(bytes.length);
    this.#buffer.set(bytes, at);
    return this;
  }
  /** UTF-8 in the form of `bytes`. */
  text(text: string): this {
    const bytes = Buffer.byteLength(text);
    const at = this.u32(bytes).#room(bytes);
    this.#buffer.write(text, at, 'utf8');
    return this;
  }
  /** u32 length, then the bytes. */
  bytes(bytes: Uint8Array): this {
    return this.u32(bytes.length).raw(bytes);
  }
  name(name: string): this {
    // Straight into the buffer: a plan's entries hold thousands.
    if (!isPlainName(name)) return this.bytes(encodeName(name));
    const most = name.length * 3;
    const at = this.#room(4 + most);
    const length = this.#buffer.write(name, at + 4, most, 'utf8');
    this.#buffer.writeUInt32LE(length, at);
    this.#length = at + 4 + length;
    return this;
  }
  hash(hash: Hash): this {
    if (hash.length !== 32) return this.raw(Buffer.from(hash, 'hex'));
    const at = this.#room(16);
    this.#buffer.write(hash, at, 16, 'hex');
    return this;
  }
  /** A copy of what was written. */
  done(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#length));
  }
}

export class Reader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  get left(): number {
    return this.#buffer.length - this.#at;
  }
  #take(bytes: number): number {
    if (bytes > this.left)
      throw new TakebackError('ERR_STORE_CORRUPT', `a stored record ends ${bytes - this.left} bytes early`);
    const at = this.#at;
    this.#at += bytes;
    return at;
  }
  u8(): number {
    return this.#buffer.readUInt8(this.#take(1));
  }
  u32(): number {
    return this.#buffer.readUInt32LE(this.#take(4));
  }
  u64(): bigint {
    return this.#buffer.readBigUInt64LE(this.#take(8));
  }
  i64(): bigint {
    return this.#buffer.readBigInt64LE(this.#take(8));
  }
  /** An i64, as a number where one holds it. */
  integer(): number | bigint {
    const at = this.#take(8);
    const high = this.#buffer.readInt32LE(at + 4);
    if (high > -SAFE_HIGH && high < SAFE_HIGH) return this.#buffer.readUInt32LE(at) + high * TWO_32;
    const integer = this.#buffer.readBigInt64LE(at);
    return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer;
  }
  /** A u64 as a number: above 2^53 the nearest one. */
  size(): number {
    const at = this.#take(8);
    return this.#buffer.readUInt32LE(at) + this.#buffer.readUInt32LE(at + 4) * TWO_32;
  }
  raw(length: number): Buffer {
    const at = this.#take(length);
    return this.#buffer.subarray(at, at + length);
  }
  bytes(): Buffer {
    return this.raw(this.u32());
  }
  /** UTF-8 in the form of `bytes`. */
  text(): string {
    const length = this.u32();
    const at = this.#take(length);
    return length === 0 ? '' : this.#buffer.toString('utf8', at, at + length);
  }
  name(): string {
    const from = this.#at;
    const text = this.text();
    // What isn't UTF-8 comes out with U+FFFD, and is read the slow way. No view of each: an answer holds thousands.
    if (!text.includes('\ufffd')) return text;
    this.#at = from;
    return decodeName(this.bytes());
  }
  hash(): Hash {
    // Straight from the buffer: a history's rows hold thousands, and a view of each costs more than its text.
    const at = this.#take(16);
    return this.#buffer.toString('hex', at, at + 16);
  }
}

function oneOf<T>(list: readonly T[], index: number, what: string): T {
  const value = list[index];
  if (value === undefined)
    throw new TakebackError('ERR_STORE_CORRUPT', `a stored record holds an unknown ${what}: ${index}`);
  return value;
}

export function writeStat(writer: Writer, stat: StatKey): void {
  writer.u8(FILE_KINDS.indexOf(stat.kind)).u32(stat.mode).u64(stat.size);
  writer.i64(stat.mtimeNs).i64(stat.ctimeNs).u64(stat.ino).u64(stat.dev);
}

export function readStat(reader: Reader): StatKey {
  return {
    kind: oneOf(FILE_KINDS, reader.u8(), 'file kind'),
    mode: reader.u32(),
    size: reader.size(),
    mtimeNs: reader.i64(),
    ctimeNs: reader.i64(),
    ino: reader.u64(),
    dev: reader.u64(),
  };
}

export function writeVersion(writer: Writer, version: Version): void {
  writer.u8(KIND[version.kind]);
  switch (version.kind) {
    case 'absent':
      return;
    case 'file':
      writer.u32(version.mode).u64(version.size).hash(version.content);
      return;
    case 'symlink':
      writer.name(version.target);
      return;
    case 'dir':
      writer.u32(version.mode);
      return;
    case 'special':
      writer.u8(SPECIAL_TYPES.indexOf(version.type)).u64(version.ino);
      return;
    case 'uncovered':
      writer.u8(UNCOVERED_REASONS.indexOf(version.reason));
      writeStat(writer, version.stat);
  }
}

export function readVersion(reader: Reader): Version {
  const kind = reader.u8();
  switch (kind) {
    case KIND.absent:
      return { kind: 'absent' };
    case KIND.file:
      return { kind: 'file', mode: reader.u32(), size: reader.size(), content: reader.hash() };
    case KIND.symlink:
      return { kind: 'symlink', target: reader.name() };
    case KIND.dir:
      return { kind: 'dir', mode: reader.u32() };
    case KIND.special:
      return { kind: 'special', type: oneOf(SPECIAL_TYPES, reader.u8(), 'special type'), ino: reader.u64() };
    case KIND.uncovered:
      return { kind: 'uncovered', reason: oneOf(UNCOVERED_REASONS, reader.u8(), 'reason'), stat: readStat(reader) };
    default:
      throw new TakebackError('ERR_STORE_CORRUPT', `a stored record holds an unknown version kind: ${kind}`);
  }
}

export function encodeVersion(version: Version): Buffer {
  const writer = new Writer();
  writeVersion(writer, version);
  return writer.done();
}

/** The encoding in hex, as JSON carries it. Files and folders are written out: an operation has thousands. */
export function hexOfVersion(version: Version): string {
  switch (version.kind) {
    case 'absent':
      return '00';
    case 'file':
      return `01${hex32(version.mode)}${hex32(version.size % TWO_32)}${hex32(Math.floor(version.size / TWO_32))}${version.content}`;
    case 'dir':
      return `03${hex32(version.mode)}`;
    default:
      return encodeVersion(version).toString('hex');
  }
}

const BYTES: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Four bytes, least first. */
function hex32(value: number): string {
  const low = `${BYTES[value & 0xff]}${BYTES[(value >>> 8) & 0xff]}`;
  const high = value >>> 16;
  return high === 0 ? `${low}0000` : `${low}${BYTES[high & 0xff]}${BYTES[high >>> 8]}`;
}

const FILE_BYTES = 29;

export function decodeVersion(bytes: Uint8Array): Version {
  // Files are written out, as above.
  if (Buffer.isBuffer(bytes) && bytes.length === FILE_BYTES && bytes[0] === KIND.file) {
    const size = bytes.readUInt32LE(5) + bytes.readUInt32LE(9) * TWO_32;
    return { kind: 'file', mode: bytes.readUInt32LE(1), size, content: bytes.toString('hex', 13, FILE_BYTES) };
  }
  return readVersion(new Reader(bytes));
}

/** Two versions are equal where their encodings are; `uncovered` only where the stat keys are equal, never to a file. */
export function sameVersion(a: Version, b: Version): boolean {
  if (a === b) return true;
  if (a.kind !== b.kind) return false;
  switch (a.kind) {
    case 'absent':
      return true;
    case 'file':
      return b.kind === 'file' && a.content === b.content && a.mode === b.mode && a.size === b.size;
    case 'symlink':
      return b.kind === 'symlink' && a.target === b.target;
    case 'dir':
      return b.kind === 'dir' && a.mode === b.mode;
    default:
      return encodeVersion(a).equals(encodeVersion(b));
  }
}

/** Change list: u32 count, then path, before, after, u8 flags. */
export function encodeChanges(changes: readonly Change[]): Buffer {
  const writer = new Writer().u32(changes.length);
  for (const change of changes) {
    writer.name(change.path);
    writeVersion(writer, change.before);
    writeVersion(writer, change.after);
    writer.u8(change.flags);
  }
  return writer.done();
}

export function decodeChanges(bytes: Uint8Array): Change[] {
  const reader = new Reader(bytes);
  const count = reader.u32();
  const out: Change[] = [];
  for (let i = 0; i < count; i++) {
    out.push({
      path: asRelPath(reader.name()),
      before: readVersion(reader),
      after: readVersion(reader),
      flags: reader.u8(),
    });
  }
  return out;
}

/** Version list (manifests, catch-up): u32 count, then path and version. */
export function encodeVersions(entries: readonly { path: RelPath; version: Version }[]): Buffer {
  const writer = new Writer().u32(entries.length);
  for (const entry of entries) {
    writer.name(entry.path);
    writeVersion(writer, entry.version);
  }
  return writer.done();
}

export function decodeVersions(bytes: Uint8Array): { path: RelPath; version: Version }[] {
  const reader = new Reader(bytes);
  const count = reader.u32();
  const out: { path: RelPath; version: Version }[] = [];
  for (let i = 0; i < count; i++) out.push({ path: asRelPath(reader.name()), version: readVersion(reader) });
  return out;
}

/** Path list: u32 count, then names. */
export function encodePaths(paths: readonly string[]): Buffer {
  const writer = new Writer().u32(paths.length);
  for (const path of paths) writer.name(path);
  return writer.done();
}

export function decodePaths(bytes: Uint8Array): RelPath[] {
  const reader = new Reader(bytes);
  const count = reader.u32();
  const out: RelPath[] = [];
  for (let i = 0; i < count; i++) out.push(asRelPath(reader.name()));
  return out;
}
