/**
 * Git's index file, read only: which paths are tracked. Versions 2–4, SHA-1 and SHA-256, split and sparse indexes.
 *
 * Only paths are taken. Whether object names have 20 or 32 bytes is told by the checksum at the end (or, where git left
 * it out, by which length makes the file come out even). Any damage throws an `Error`; the caller makes a problem of it.
 * Format: git's own description, gitformat-index.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const HEADER = 12;
const EXTENDED = 0x4000;
const MODE_DIR = 0o040000;
const MODE_SUBMODULE = 0o160000;
/** Bytes of an entry before the object name: ten stat fields. */
const STAT_BYTES = 40;

interface Parsed {
  /** As byte strings, in the order of the file. A split index has '' where it replaces an entry of the shared one. */
  readonly paths: string[];
  /** Folders that stand for all below them (a sparse index). */
  readonly folders: string[];
  readonly submodules: string[];
  readonly link: { readonly shared: string; readonly deleted: number[] } | null;
}

class Cursor {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
  #take(length: number): number {
    const at = this.at;
    if (length > this.bytes.length - at) throw new Error('the index ends early');
    this.at += length;
    return at;
  }
  u16(): number {
    return this.bytes.readUInt16BE(this.#take(2));
  }
  u32(): number {
    return this.bytes.readUInt32BE(this.#take(4));
  }
  skip(length: number): void {
    this.#take(length);
  }
  raw(length: number): Buffer {
    const at = this.#take(length);
    return this.bytes.subarray(at, at + length);
  }
  /** Bytes up to a NUL, which is taken too. */
  untilNul(): string {
    const end = this.bytes.indexOf(0, this.at);
    if (end < 0) throw new Error('the index holds a path without an end');
    const text = this.bytes.toString('latin1', this.at, end);
    this.at = end + 1;
    return text;
  }
  /** Git's offset encoding: seven bits a byte, most significant first, each continuation counting one more. */
  varint(): number {
    let byte = this.bytes.readUInt8(this.#take(1));
    let value = byte & 0x7f;
    while ((byte & 0x80) !== 0) {
      byte = this.bytes.readUInt8(this.#take(1));
      value = (value + 1) * 128 + (byte & 0x7f);
    }
    return value;
  }
}

/** Set bits of an EWAH bitmap: runs of equal words between literal ones. */
function readBitmap(cursor: Cursor): number[] {
  cursor.u32();
  const words = cursor.u32();
  const data = cursor.raw(words * 8);
  cursor.u32();
  const bits: number[] = [];
  let bit = 0;
  for (let i = 0; i < words; ) {
    const marker = data.readBigUInt64BE(i * 8);
    i++;
    const runBits = Number((marker >> 1n) & 0xffff_ffffn) * 64;
    if ((marker & 1n) === 1n) for (let b = 0; b < runBits; b++) bits.push(bit + b);
    bit += runBits;
    const literals = Number(marker >> 33n);
    if (literals > words - i) throw new Error('the index holds a damaged bitmap');
    for (let w = 0; w < literals; w++, i++, bit += 64) {
      const word = data.readBigUInt64BE(i * 8);
      for (let b = 0; b < 64; b++) if (((word >> BigInt(b)) & 1n) === 1n) bits.push(bit + b);
    }
  }
  return bits;
}

function readEntry(
  cursor: Cursor,
  shape: { version: number; hashBytes: number; previous: string },
): { path: string; mode: number } {
  const start = cursor.at;
  cursor.skip(24);
  const mode = cursor.u32();
  cursor.skip(STAT_BYTES - 28 + shape.hashBytes);
  const flags = cursor.u16();
  if ((flags & EXTENDED) !== 0) {
    if (shape.version < 3) throw new Error('the index holds flags of a later version');
    cursor.skip(2);
  }
  if (shape.version === 4) {
    const strip = cursor.varint();
    if (strip > shape.previous.length) throw new Error('the index holds a damaged path');
    return { path: shape.previous.slice(0, shape.previous.length - strip) + cursor.untilNul(), mode };
  }
  const path = cursor.untilNul();
  const length = cursor.at - 1 - start;
  cursor.at = start + length + 8 - (length % 8);
  return { path, mode };
}

function parseWith(bytes: Buffer, hashBytes: number): Parsed {
  const cursor = new Cursor(bytes.subarray(0, bytes.length - hashBytes));
  if (cursor.raw(4).toString('latin1') !== 'DIRC') throw new Error('not an index file');
  const version = cursor.u32();
  if (version < 2 || version > 4) throw new Error(`the index has version ${version}`);
  const count = cursor.u32();
  const paths: string[] = [];
  const folders: string[] = [];
  const submodules: string[] = [];
  let previous = '';
  for (let i = 0; i < count; i++) {
    const { path, mode } = readEntry(cursor, { version, hashBytes, previous });
    previous = path;
    paths.push(path);
    if (mode === MODE_SUBMODULE) submodules.push(path);
    if (mode === MODE_DIR) folders.push(path.replace(/\/$/, ''));
  }
  let link: Parsed['link'] = null;
  while (cursor.at < cursor.bytes.length) {
    const name = cursor.raw(4).toString('latin1');
    const body = new Cursor(cursor.raw(cursor.u32()));
    if (name === 'link') {
      const shared = body.raw(hashBytes).toString('hex');
      link = { shared, deleted: body.at < body.bytes.length ? readBitmap(body) : [] };
    } else if (!/^[A-Z]/.test(name) && name !== 'sdir')
      throw new Error(`the index needs an extension that we don't know: ${name}`);
  }
  return { paths, folders, submodules, link };
}

function parse(bytes: Buffer): Parsed {
  if (bytes.length < HEADER + 20) throw new Error('the index is too short');
  for (const [algorithm, hashBytes] of [
    ['sha1', 20],
    ['sha256', 32],
  ] as const) {
    if (bytes.length < HEADER + hashBytes) continue;
    const end = bytes.length - hashBytes;
    if (createHash(algorithm).update(bytes.subarray(0, end)).digest().equals(bytes.subarray(end)))
      return parseWith(bytes, hashBytes);
  }
  if (bytes.subarray(bytes.length - 20).some((byte) => byte !== 0))
    throw new Error('the index is damaged: its checksum differs');
  try {
    return parseWith(bytes, 20);
  } catch {
    return parseWith(bytes, 32);
  }
}

/** Tracked paths of one repository, from its top, as byte strings. */
export class TrackedPaths {
  readonly #paths: ReadonlySet<string>;
  readonly #submodules: ReadonlySet<string>;
  readonly #folders = new Set<string>();
  readonly #whole: readonly string[];

  constructor(of: {
    readonly paths: readonly string[];
    readonly folders?: readonly string[];
    readonly submodules?: readonly string[];
  }) {
    this.#paths = new Set(of.paths);
    this.#submodules = new Set(of.submodules);
    this.#whole = of.folders ?? [];
    for (const path of of.paths) {
      for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
        const folder = path.slice(0, at);
        if (this.#folders.has(folder)) break;
        this.#folders.add(folder);
      }
    }
  }

  /** A name that is tracked; for a folder: a submodule, or something below it is tracked. */
  tracks(path: string, isDir: boolean): boolean {
    if (this.#whole.some((folder) => path.startsWith(`${folder}/`))) return true;
    if (!isDir) return this.#paths.has(path);
    return (
      this.#submodules.has(path) ||
      this.#folders.has(path) ||
      this.#whole.some((folder) => folder === path || folder.startsWith(`${path}/`))
    );
  }

  isSubmodule(path: string): boolean {
    return this.#submodules.has(path);
  }
}

/**
 * Reads `<gitDir>/index`, and the shared index that it names. No index: nothing is tracked.
 *
 * @throws an `Error` that says what is wrong where it can't be read
 */
export function readTrackedPaths(gitDir: string): TrackedPaths {
  let bytes: Buffer;
  try {
    bytes = readFileSync(`${gitDir}/index`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new TrackedPaths({ paths: [] });
    throw error;
  }
  const own = parse(bytes);
  if (own.link === null) return new TrackedPaths(own);
  const shared = /^0+$/.test(own.link.shared) ? null : parse(readFileSync(`${gitDir}/sharedindex.${own.link.shared}`));
  const deleted = new Set(own.link.deleted);
  return new TrackedPaths({
    paths: [...(shared?.paths ?? []).filter((_, i) => !deleted.has(i)), ...own.paths.filter((path) => path !== '')],
    folders: [...(shared?.folders ?? []), ...own.folders],
    submodules: [...(shared?.submodules ?? []), ...own.submodules],
  });
}
