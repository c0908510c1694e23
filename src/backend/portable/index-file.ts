/**
 * The index file: loads it, appends an observation, rewrites it (docs/formats.md).
 *
 * A cache: whatever is wrong with it, `load` answers what stands before the damage, or null, and never a wrong index.
 * Nothing is synced, and a file that can't be written is no fault, for that reason. An append needs the file to be what this process last wrote or read (inode and
 * length); anything else makes it a rewrite, by temp file and rename.
 */
import { closeSync, fstatSync, openSync, readFileSync, renameSync, statSync, unlinkSync, writeSync } from 'node:fs';
import type { RandomId } from '../../types.ts';
import { INDEX_MAGIC, Reader, Writer } from '../../wire.ts';
import type { Position } from '../backend.ts';
import { writeAll } from './durable.ts';
import { encodeFrame, readFrames } from './frames.ts';
import type { Hasher } from './hash.ts';
import { IndexTree } from './index.ts';
import { type DeltaOp, decodeBase, decodeDelta, encodeBase, encodeDelta } from './index-codec.ts';

const MAGIC = Buffer.from(INDEX_MAGIC);
const HEADER = 64;
const VERSION = 1;
const FRAME = { base: 1, delta: 2, rules: 3 } as const;
/** Deltas beyond this and beyond half of the base are worth a rewrite. */
const MIN_DELTAS = 1 << 20;

export interface Loaded {
  readonly tree: IndexTree;
  readonly at: Position;
  readonly scannedAtNs: bigint;
  /** Empty: none. */
  readonly rules: Buffer;
}

export interface Observation {
  readonly tree: IndexTree;
  readonly at: Position;
  readonly scannedAtNs: bigint;
  readonly rules: Buffer;
  /** The frozen rules are others than those in the file. */
  readonly rulesChanged: boolean;
  /** What changed since the file was written; null: not known. */
  readonly ops: readonly DeltaOp[] | null;
}

/** What the file was when we last had it in hand. */
interface Known {
  readonly ino: bigint;
  readonly length: number;
  readonly at: Position;
  readonly baseEnd: number;
}

function samePosition(a: Position, b: Position): boolean {
  return a.seq === b.seq && a.observationId === b.observationId;
}

export class IndexFile {
  readonly #path: string;
  readonly #storeId: RandomId;
  readonly #hasher: Hasher;
  #known: Known | null = null;

  constructor(path: string, storeId: RandomId, hasher: Hasher) {
    this.#path = path;
    this.#storeId = storeId;
    this.#hasher = hasher;
  }

  /** Null: missing, of another store, or damaged from the start. */
  load(): Loaded | null {
    this.#known = null;
    let bytes: Buffer;
    let ino: bigint;
    try {
      const fd = openSync(this.#path, 'r');
      try {
        ino = fstatSync(fd, { bigint: true }).ino;
        bytes = readFileSync(fd);
      } finally {
        closeSync(fd);
      }
    } catch {
      return null;
    }
    return this.#parse(bytes, ino);
  }

  #header(): Buffer {
    const header = Buffer.alloc(HEADER);
    MAGIC.copy(header);
    header.writeUInt32LE(VERSION, 8);
    header.write(this.#storeId, 16, 'hex');
    this.#hasher.check64(header.subarray(0, HEADER - 8)).copy(header, HEADER - 8);
    return header;
  }

  #parse(bytes: Buffer, ino: bigint): Loaded | null {
    if (!bytes.subarray(0, HEADER).equals(this.#header())) return null;
    const tree = new IndexTree();
    let loaded = null as Omit<Loaded, 'tree'> | null;
    let baseEnd = 0;
    let end = HEADER;
    try {
      for (const frame of readFrames(this.#hasher, bytes, HEADER)) {
        if (loaded === null) {
          if (frame.kind !== FRAME.base) break;
          const base = decodeBase(frame.payload);
          tree.root = base.root;
          loaded = base;
          baseEnd = frame.end;
        } else if (frame.kind === FRAME.delta) {
          const delta = decodeDelta(frame.payload);
          if (!samePosition(delta.from, loaded.at)) break;
          for (const op of delta.ops) {
            if (op.op === 'remove') tree.remove(op.path);
            else tree.put(op.path, op.entry);
          }
          loaded = { at: delta.at, scannedAtNs: delta.scannedAtNs, rules: loaded.rules };
        } else if (frame.kind === FRAME.rules) {
          loaded = { ...loaded, rules: Buffer.from(new Reader(frame.payload).bytes()) };
        } else break;
        end = frame.end;
      }
    } catch {
      // a frame that passed its check and still makes no sense: what stands before it counts
    }
    if (loaded === null) return null;
    if (end === bytes.length) this.#known = { ino, length: end, at: loaded.at, baseEnd };
    return { tree, at: loaded.at, scannedAtNs: loaded.scannedAtNs, rules: loaded.rules };
  }

  /** Moves the file to a new position. Call under the workspace's lock. False: it could not be written. */
  save(observation: Observation): boolean {
    try {
      if (!this.#append(observation)) this.#rewrite(observation);
      return true;
    } catch {
      this.#known = null; // whatever stands there now is older, or torn: the next save rewrites it
      return false;
    }
  }

  #append({ at, scannedAtNs, rules, rulesChanged, ops }: Observation): boolean {
    const known = this.#known;
    if (known === null || ops === null) return false;
    const stat = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    if (stat === undefined || stat.ino !== known.ino || Number(stat.size) !== known.length) return false;
    const delta = encodeFrame(this.#hasher, FRAME.delta, encodeDelta({ from: known.at, at, scannedAtNs, ops }));
    // Rules first: torn between the two, the file stands at the old position, from which its reader catches up.
    const newRules = rulesChanged
      ? encodeFrame(this.#hasher, FRAME.rules, new Writer().bytes(rules).done())
      : Buffer.alloc(0);
    const bytes = Buffer.concat([newRules, delta]);
    const deltas = known.length - known.baseEnd + bytes.length;
    if (deltas > MIN_DELTAS && deltas > known.baseEnd / 2) return false;
    const fd = openSync(this.#path, 'a');
    try {
      if (fstatSync(fd, { bigint: true }).ino !== known.ino) return false;
      writeAll(fd, bytes);
    } finally {
      closeSync(fd);
    }
    this.#known = { ...known, length: known.length + bytes.length, at };
    return true;
  }

  #rewrite({ tree, at, scannedAtNs, rules }: Observation): void {
    const base = encodeFrame(this.#hasher, FRAME.base, encodeBase({ at, scannedAtNs, rules, root: tree.root }));
    const temp = `${this.#path}.${process.pid}.tmp`;
    const fd = openSync(temp, 'w', 0o600);
    let ino: bigint;
    try {
      writeSync(fd, this.#header());
      writeAll(fd, base);
      ino = fstatSync(fd, { bigint: true }).ino;
    } catch (error) {
      unlinkSync(temp);
      throw error;
    } finally {
      closeSync(fd);
    }
    renameSync(temp, this.#path);
    const length = HEADER + base.length;
    this.#known = { ino, length, at, baseEnd: length };
  }

  /** Nothing that is known of the file holds any more: the next save rewrites it. */
  forget(): void {
    this.#known = null;
  }
}
