/**
 * Reads blobs out of a git pack by their offset, delta chains included. Synchronous, read only.
 *
 * What does not fit is an error, and what comes out is checked against the object's id by the caller. Does not cover:
 * looking up what is in a pack but for the bases of deltas that name them by id, indexes of version 1, thin packs.
 */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { inflateSync } from 'node:zlib';
import { readAt } from './durable.ts';

const BLOB = 3;
const OFS_DELTA = 6;
const REF_DELTA = 7;
/** Git itself makes no chain longer than 4095. */
const CHAIN = 5000;
const IDX_HEADER = 8 + 256 * 4;
const HEAD_BYTES = 64;
/** Bytes of objects that are kept for the deltas which build on them. */
const CACHE_BYTES = 16 * 1024 * 1024;

interface Head {
  readonly kind: number;
  readonly size: number;
  /** Where the base of a delta lies. */
  readonly base: number | null;
  readonly stream: number;
}

interface PackObject {
  readonly kind: number;
  readonly bytes: Buffer;
}

function damaged(what: string): never {
  throw new Error(`the pack is damaged: ${what}`);
}

function byteAt(bytes: Buffer, at: number): number {
  return bytes[at] ?? damaged('something is cut off');
}

/** Seven bits a byte, the lowest first. */
function varint(bytes: Buffer, start: number): { value: number; next: number } {
  let value = 0;
  let at = start;
  for (let scale = 1; ; scale *= 128) {
    const byte = byteAt(bytes, at++);
    value += (byte & 127) * scale;
    if (value > Number.MAX_SAFE_INTEGER) damaged('a size is out of bounds');
    if ((byte & 128) === 0) return { value, next: at };
  }
}

/** What a delta makes of its base. */
export function applyDelta(base: Buffer, delta: Buffer): Buffer {
  const from = varint(delta, 0);
  const made = varint(delta, from.next);
  if (from.value !== base.length) damaged('a delta is of another base');
  const pieces: Buffer[] = [];
  let length = 0;
  for (let at = made.next; at < delta.length; ) {
    const op = byteAt(delta, at++);
    let [source, start, count] = [delta, at, op];
    if ((op & 128) !== 0) {
      [source, start, count] = [base, 0, 0];
      for (let bit = 0; bit < 4; bit++) if ((op & (1 << bit)) !== 0) start += byteAt(delta, at++) * 2 ** (8 * bit);
      for (let bit = 0; bit < 3; bit++) if ((op & (16 << bit)) !== 0) count += byteAt(delta, at++) * 2 ** (8 * bit);
      if (count === 0) count = 0x10000;
    } else at += op;
    if (count === 0 || start + count > source.length) damaged('a delta reaches beyond its base or its end');
    pieces.push(source.subarray(start, start + count));
    length += count;
    if (length > made.value) damaged('a delta makes more than it says');
  }
  if (length !== made.value) damaged('a delta makes less than it says');
  return Buffer.concat(pieces, length);
}

export class GitPack {
  readonly #pack: number;
  readonly #idx: number;
  readonly #length: number;
  readonly #idBytes: number;
  #cache = new Map<number, PackObject>();
  #cached = 0;

  /** @param stem path without extension */
  constructor(stem: string, idBytes: number) {
    this.#pack = openSync(`${stem}.pack`, 'r');
    try {
      this.#idx = openSync(`${stem}.idx`, 'r');
    } catch (error) {
      closeSync(this.#pack);
      throw error;
    }
    this.#length = fstatSync(this.#pack).size;
    this.#idBytes = idBytes;
  }

  /** The bytes of the blob at an offset. */
  blob(offset: number): Buffer {
    const { kind, bytes } = this.#object(offset);
    return kind === BLOB ? bytes : damaged(`an object of type ${kind} is no file`);
  }

  #object(offset: number): PackObject {
    const chain: { at: number; delta: Buffer }[] = [];
    let at = offset;
    let found = this.#cache.get(at);
    while (found === undefined) {
      const head = this.#head(at);
      const unpacked = this.#unpack(head);
      if (head.base === null) {
        found = this.#keep(at, { kind: head.kind, bytes: unpacked });
        break;
      }
      chain.push({ at, delta: unpacked });
      if (chain.length > CHAIN) damaged('a chain of deltas has no end');
      at = head.base;
      found = this.#cache.get(at);
    }
    for (const step of chain.reverse())
      found = this.#keep(step.at, { kind: found.kind, bytes: applyDelta(found.bytes, step.delta) });
    return found;
  }

  #keep(at: number, object: PackObject): PackObject {
    if (object.bytes.length > CACHE_BYTES / 4) return object;
    if (this.#cached + object.bytes.length > CACHE_BYTES) {
      this.#cache = new Map();
      this.#cached = 0;
    }
    this.#cached += object.bytes.length;
    this.#cache.set(at, object);
    return object;
  }

  #head(offset: number): Head {
    const bytes = readAt(this.#pack, offset, HEAD_BYTES);
    const first = byteAt(bytes, 0);
    const kind = (first >> 4) & 7;
    let size = first & 15;
    let at = 1;
    if ((first & 128) !== 0) {
      const rest = varint(bytes, 1);
      size += rest.value * 16;
      at = rest.next;
    }
    if (kind >= 1 && kind <= 4) return { kind, size, base: null, stream: offset + at };
    if (kind === REF_DELTA) {
      const base = this.#find(bytes.subarray(at, at + this.#idBytes));
      return { kind, size, base, stream: offset + at + this.#idBytes };
    }
    if (kind !== OFS_DELTA) return damaged(`an object of the unknown type ${kind}`);
    let byte = byteAt(bytes, at++);
    let back = byte & 127;
    while ((byte & 128) !== 0) {
      byte = byteAt(bytes, at++);
      back = (back + 1) * 128 + (byte & 127);
    }
    if (back === 0 || back > offset - 12) damaged("a delta's base is out of bounds");
    return { kind, size, base: offset - back, stream: offset + at };
  }

  #unpack({ size, stream }: Head): Buffer {
    // What deflate may need at worst for so many bytes, and a little more.
    const most = Math.min(size + (size >> 9) + 1024, this.#length - stream);
    const bytes = inflateSync(readAt(this.#pack, stream, most), { maxOutputLength: size + 1 });
    return bytes.length === size ? bytes : damaged('an object is not as long as it says');
  }

  /** Where the object of an id lies. */
  #find(id: Buffer): number {
    const fan = readAt(this.#idx, 8, 256 * 4);
    const first = byteAt(id, 0);
    const count = fan.readUInt32BE(255 * 4);
    let low = first === 0 ? 0 : fan.readUInt32BE((first - 1) * 4);
    let high = fan.readUInt32BE(first * 4);
    while (low < high) {
      const middle = (low + high) >>> 1;
      const order = readAt(this.#idx, IDX_HEADER + middle * this.#idBytes, this.#idBytes).compare(id);
      if (order === 0) return this.#offset(middle, count);
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return damaged("a delta's base is not in the pack");
  }

  #offset(number: number, count: number): number {
    const small = IDX_HEADER + count * (this.#idBytes + 4);
    const offset = readAt(this.#idx, small + number * 4, 4).readUInt32BE(0);
    if (offset < 0x8000_0000) return offset;
    return Number(readAt(this.#idx, small + count * 4 + (offset - 0x8000_0000) * 8, 8).readBigUInt64BE(0));
  }

  close(): void {
    closeSync(this.#pack);
    closeSync(this.#idx);
  }
}
