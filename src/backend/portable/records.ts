/**
 * Codec of segment files (docs/formats.md): the file header, records, and the sorted idx beside a segment. No I/O.
 *
 * Writing: zstd level 1 where this Node has it, else raw deflate, else raw, whichever makes the record smaller by an
 * eighth. Reading: all of them, whatever wrote the segment. A length is used only after the check that covers it.
 */
import { constants } from 'node:buffer';
import * as zlib from 'node:zlib';
import { decompress as fzstdDecompress } from 'fzstd';
import type { Hash } from '../../types.ts';
import { SEGMENT_MAGIC } from '../../wire.ts';
import { type Chunk, decodeList } from './chunks.ts';
import type { Hasher } from './hash.ts';

export const SEGMENT_HEADER = 32;
export const RECORD_HEADER = 48;
/** The check64 behind a payload. */
export const RECORD_TAIL = 8;

const SEGMENT_START = Buffer.from(SEGMENT_MAGIC);
const IDX_MAGIC = Buffer.from('TBKIDX1\n');
const IDX_HEADER = 24;
const IDX_ENTRY = 40;
export const RECORD_MAGIC = 0x31524254;

const RAW = 0;
const ZSTD = 1;
const DEFLATE = 2;
/** No bytes, but a list of the blobs that hold them. */
const CHUNKS = 3;

/** Below this many bytes no codec gains an eighth often enough to be worth the call (a guess). */
const MIN_COMPRESSED = 96;
/** A larger blob is compressed whole only if this much of its start gains. */
const SAMPLE = 64 * 1024;

/** In @types/node of the oldest Node that we support they are missing, as they are there. */
const zstd = zlib as unknown as {
  readonly zstdCompressSync?: (bytes: Uint8Array, options: object) => Buffer;
  readonly zstdDecompressSync?: (bytes: Uint8Array, options: object) => Buffer;
  readonly constants: { readonly ZSTD_c_compressionLevel?: number };
};

export interface RecordHeader {
  readonly codec: number;
  readonly rawLength: number;
  readonly storedLength: number;
  readonly hash: Hash;
}

/** Where a record stands in its segment. */
export interface Place {
  readonly offset: number;
  readonly rawLength: number;
  readonly storedLength: number;
}

/** Bytes that a record takes in its segment. */
export function recordSize(place: { readonly storedLength: number }): number {
  return RECORD_HEADER + place.storedLength + RECORD_TAIL;
}

export function segmentHeader(seed: bigint): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER);
  SEGMENT_START.copy(header);
  header.writeBigUInt64LE(seed, 8);
  return header;
}

/** The seed of a segment, or null where the bytes are no segment header. */
export function readSegmentHeader(header: Buffer): bigint | null {
  if (header.length < SEGMENT_HEADER || !header.subarray(0, 8).equals(SEGMENT_START)) return null;
  return header.readBigUInt64LE(8);
}

function compressOnce(bytes: Uint8Array): { codec: number; payload: Uint8Array } {
  const level = zstd.constants.ZSTD_c_compressionLevel;
  const packed =
    zstd.zstdCompressSync !== undefined && level !== undefined
      ? { codec: ZSTD, payload: zstd.zstdCompressSync(bytes, { params: { [level]: 1 } }) }
      : { codec: DEFLATE, payload: zlib.deflateRawSync(bytes, { level: 1 }) };
  return packed.payload.length <= bytes.length - bytes.length / 8 ? packed : { codec: RAW, payload: bytes };
}

function compress(bytes: Uint8Array): { codec: number; payload: Uint8Array } {
  const raw = { codec: RAW, payload: bytes };
  if (bytes.length < MIN_COMPRESSED) return raw;
  if (bytes.length > 4 * SAMPLE && compressOnce(bytes.subarray(0, SAMPLE)).codec === RAW) return raw;
  return compressOnce(bytes);
}

/** A whole record: header, payload, check. */
export function encodeRecord(hasher: Hasher, hash: Hash, bytes: Uint8Array): Buffer {
  return recordOf(hasher, { hash, rawLength: bytes.length, ...compress(bytes) });
}

/** The record of a large content: a list of its chunks. */
export function encodeListRecord(hasher: Hasher, hash: Hash, rawLength: number, list: Buffer): Buffer {
  return recordOf(hasher, { hash, rawLength, codec: CHUNKS, payload: list });
}

interface RecordParts {
  readonly hash: Hash;
  readonly rawLength: number;
  readonly codec: number;
  readonly payload: Uint8Array;
}

function recordOf(hasher: Hasher, { hash, rawLength, codec, payload }: RecordParts): Buffer {
  const record = Buffer.alloc(recordSize({ storedLength: payload.length }));
  record.writeUInt32LE(RECORD_MAGIC, 0);
  record.writeUInt8(codec, 4);
  record.writeBigUInt64LE(BigInt(rawLength), 8);
  record.writeBigUInt64LE(BigInt(payload.length), 16);
  record.write(hash, 24, 'hex');
  hasher.check64(record.subarray(0, 40)).copy(record, 40);
  record.set(payload, RECORD_HEADER);
  hasher.check64(payload).copy(record, RECORD_HEADER + payload.length);
  return record;
}

/** Reads a record's header; null where it is damaged. */
export function readRecordHeader(hasher: Hasher, header: Buffer): RecordHeader | null {
  if (header.length < RECORD_HEADER || header.readUInt32LE(0) !== RECORD_MAGIC) return null;
  if (!hasher.check64(header.subarray(0, 40)).equals(header.subarray(40, RECORD_HEADER))) return null;
  const rawLength = Number(header.readBigUInt64LE(8));
  const storedLength = Number(header.readBigUInt64LE(16));
  // A list's content is never in memory as a whole, unless somebody asks for it.
  const most = header.readUInt8(4) === CHUNKS ? Number.MAX_SAFE_INTEGER : constants.MAX_LENGTH;
  if (rawLength > most || storedLength > constants.MAX_LENGTH) return null;
  return { codec: header.readUInt8(4), rawLength, storedLength, hash: header.toString('hex', 24, 40) };
}

/** Throws where the payload does not decompress to at most `rawLength` bytes. */
function decompress(codec: number, payload: Buffer, rawLength: number): Buffer {
  const limit = { maxOutputLength: Math.max(rawLength, 1) };
  switch (codec) {
    case RAW:
      return payload;
    case DEFLATE:
      return zlib.inflateRawSync(payload, limit);
    case ZSTD: {
      if (zstd.zstdDecompressSync !== undefined) return zstd.zstdDecompressSync(payload, limit);
      const raw = fzstdDecompress(payload, new Uint8Array(rawLength));
      return Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
    }
    default:
      throw new Error(`unknown codec ${codec}`);
  }
}

/** `chunks`: where the bytes of a large content lie; they are the caller's to read and check. */
export type Decoded =
  | { readonly bytes: Buffer }
  | { readonly name: Hash; readonly chunks: readonly Chunk[]; readonly list: Buffer }
  | { readonly damage: string };

/** The bytes of a whole record that should be the blob `hash`, every check made. */
export function decodeRecord(hasher: Hasher, record: Buffer, hash: Hash): Decoded {
  const header = readRecordHeader(hasher, record.subarray(0, RECORD_HEADER));
  if (header === null) return { damage: 'the header of the record is damaged' };
  if (header.hash !== hash) return { damage: `another blob's record stands there: ${header.hash}` };
  if (record.length !== recordSize(header)) return { damage: 'the record ends early' };
  const payload = record.subarray(RECORD_HEADER, RECORD_HEADER + header.storedLength);
  if (!hasher.check64(payload).equals(record.subarray(record.length - RECORD_TAIL))) {
    return { damage: 'the stored bytes are damaged' };
  }
  if (header.codec === CHUNKS) {
    const chunks = decodeList(payload, header.rawLength);
    return chunks === null
      ? { damage: 'the list of its chunks makes no sense' }
      : { name: hash, chunks, list: payload };
  }
  try {
    const bytes = decompress(header.codec, payload, header.rawLength);
    if (bytes.length === header.rawLength && hasher.hash(bytes) === hash) return { bytes };
    return { damage: "the bytes don't hash to the blob's name" };
  } catch (error) {
    return { damage: `the stored bytes don't decompress: ${(error as Error).message}` };
  }
}

/** Sorted entries of an idx, searched in place: no object per blob. */
export class IdxTable {
  readonly #entries: Buffer;
  /** Bytes of the segment that the table covers. */
  readonly covers: number;

  constructor(entries: Buffer, covers: number) {
    this.#entries = entries;
    this.covers = covers;
  }

  get count(): number {
    return this.#entries.length / IDX_ENTRY;
  }

  #place(i: number): Place {
    const at = i * IDX_ENTRY + 16;
    return {
      offset: Number(this.#entries.readBigUInt64LE(at)),
      rawLength: Number(this.#entries.readBigUInt64LE(at + 8)),
      storedLength: Number(this.#entries.readBigUInt64LE(at + 16)),
    };
  }

  find(hash: Buffer): Place | undefined {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const order = this.#entries.compare(hash, 0, 16, middle * IDX_ENTRY, middle * IDX_ENTRY + 16);
      if (order === 0) return this.#place(middle);
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return undefined;
  }

  *[Symbol.iterator](): Generator<[Hash, Place]> {
    for (let i = 0; i < this.count; i++) {
      yield [this.#entries.toString('hex', i * IDX_ENTRY, i * IDX_ENTRY + 16), this.#place(i)];
    }
  }
}

/** An idx file for these records. */
export function encodeIdx(hasher: Hasher, places: Iterable<readonly [Hash, Place]>, covers: number): Buffer {
  const sorted = [...places].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const file = Buffer.alloc(IDX_HEADER + sorted.length * IDX_ENTRY + 8);
  IDX_MAGIC.copy(file);
  file.writeBigUInt64LE(BigInt(covers), 8);
  file.writeBigUInt64LE(BigInt(sorted.length), 16);
  let at = IDX_HEADER;
  for (const [hash, place] of sorted) {
    file.write(hash, at, 'hex');
    file.writeBigUInt64LE(BigInt(place.offset), at + 16);
    file.writeBigUInt64LE(BigInt(place.rawLength), at + 24);
    file.writeBigUInt64LE(BigInt(place.storedLength), at + 32);
    at += IDX_ENTRY;
  }
  hasher.check64(file.subarray(0, at)).copy(file, at);
  return file;
}

/** Null where the idx is damaged, or covers more than the segment has. */
export function decodeIdx(hasher: Hasher, file: Buffer, segmentSize: number): IdxTable | null {
  const end = file.length - 8;
  if (end < IDX_HEADER || !file.subarray(0, 8).equals(IDX_MAGIC)) return null;
  if (Number(file.readBigUInt64LE(16)) * IDX_ENTRY !== end - IDX_HEADER) return null;
  if (!hasher.check64(file.subarray(0, end)).equals(file.subarray(end))) return null;
  const covers = Number(file.readBigUInt64LE(8));
  if (covers > segmentSize || covers < SEGMENT_HEADER) return null;
  return new IdxTable(file.subarray(IDX_HEADER, end), covers);
}
