/**
 * Large contents: cut at places that their own bytes name, each chunk a blob of its own, and a list of them that has the
 * name of the whole (docs/formats.md). The addon cuts at the same places. One chunk is in memory at a time.
 */
import type { Hash } from '../../types.ts';
import type { RunningHash } from './hash.ts';

/** Longer contents are stored in chunks; no chunk is longer. */
export const OVER = 4 * 1024 * 1024;
const LEAST = 256 * 1024;
/** Bytes that the rolling hash remembers. */
const WINDOW = 32;
/** A cut lies where the hash is below this: once in a mebibyte. */
const CUT_BELOW = 1 << 12;
const ENTRY = 20;

export interface Chunk {
  readonly hash: Hash;
  readonly length: number;
}

function gearTable(): Int32Array {
  const table = new Int32Array(256);
  let state = 0x9e3779b9;
  for (let at = 0; at < table.length; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    table[at] = state;
  }
  return table;
}

const GEAR = gearTable();

/** Finds the ends of chunks in bytes that come in pieces. */
export class Cutter {
  #length = 0;
  #rolling = 0;

  /** How many of `bytes` belong to the chunk, and whether it ends there. */
  take(bytes: Uint8Array): { readonly taken: number; readonly ends: boolean } {
    // What the hash will have forgotten by the first place where a cut may lie.
    const skipped = Math.min(Math.max(LEAST - WINDOW - this.#length, 0), bytes.length);
    let length = this.#length + skipped;
    let rolling = this.#rolling;
    for (let at = skipped; at < bytes.length; at++) {
      rolling = ((rolling << 1) + (GEAR[bytes[at] as number] as number)) | 0;
      length++;
      if ((length >= LEAST && rolling >>> 0 < CUT_BELOW) || length === OVER) {
        this.#length = 0;
        this.#rolling = 0;
        return { taken: at + 1, ends: true };
      }
    }
    this.#length = length;
    this.#rolling = rolling;
    return { taken: bytes.length, ends: false };
  }
}

/** Where chunks and their list go. */
export interface ChunkSink {
  put(bytes: Uint8Array): { readonly hash: Hash };
  putList(hash: Hash, rawLength: number, list: Buffer): { readonly isNew: boolean; readonly stored: number };
}

/** A large content on its way into the store. */
export class Large {
  readonly #sink: ChunkSink;
  readonly #name: RunningHash;
  readonly #cutter = new Cutter();
  readonly #list: Chunk[] = [];
  #parts: Uint8Array[] = [];
  #length = 0;

  constructor(sink: ChunkSink, name: RunningHash) {
    this.#sink = sink;
    this.#name = name;
  }

  /** Takes the next bytes, and stores the chunks that they end. Their memory may be used again. */
  push(bytes: Uint8Array): void {
    this.#name.update(bytes);
    this.#length += bytes.length;
    for (let rest = bytes; rest.length > 0; ) {
      const { taken, ends } = this.#cutter.take(rest);
      this.#parts.push(Uint8Array.from(rest.subarray(0, taken)));
      rest = rest.subarray(taken);
      if (ends) this.#endChunk();
    }
  }

  #endChunk(): void {
    const chunk = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#list.push({ hash: this.#sink.put(chunk).hash, length: chunk.length });
  }

  /** Stores the list. More than `OVER` bytes must have come. */
  finish(): { readonly hash: Hash; readonly isNew: boolean; readonly stored: number } {
    if (this.#parts.length > 0) this.#endChunk();
    const hash = this.#name.digest();
    return { hash, ...this.#sink.putList(hash, this.#length, encodeList(this.#list)) };
  }
}

export function encodeList(chunks: readonly Chunk[]): Buffer {
  const list = Buffer.alloc(chunks.length * ENTRY);
  for (const [at, { hash, length }] of chunks.entries()) {
    list.write(hash, at * ENTRY, 'hex');
    list.writeUInt32LE(length, at * ENTRY + 16);
  }
  return list;
}

/** The chunks of a list, in order; null where it can't be one of a content of that length. */
export function decodeList(list: Buffer, rawLength: number): Chunk[] | null {
  if (rawLength <= OVER || list.length % ENTRY !== 0) return null;
  const chunks: Chunk[] = [];
  let sum = 0;
  for (let at = 0; at < list.length; at += ENTRY) {
    const length = list.readUInt32LE(at + 16);
    if (length === 0 || length > OVER) return null;
    sum += length;
    chunks.push({ hash: list.toString('hex', at, at + 16), length });
  }
  return sum === rawLength ? chunks : null;
}
