/**
 * What the native backend borrowed from git's packs at a first capture (docs/formats.md, "Borrowed"): this one takes the
 * bytes into the store, and from then on a borrowed name leads to the blob that has them.
 *
 * Taking in needs no lock: whoever does it comes to the same table. An object that can't be read stays borrowed, and its
 * name can't be read; `verify` tells. Gc, under the lock, lets go of packs and of loans that nothing names.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { Hash } from '../../types.ts';
import { Reader, Writer } from '../../wire.ts';
import { syncFolder } from './durable.ts';
import { errnoOf } from './faults.ts';
import { GitPack } from './git-pack.ts';
import type { Hasher } from './hash.ts';
import type { Problem } from './segment-care.ts';
import { isAlive, startTimeOf, writerOf } from './segment-name.ts';

const MAGIC = Buffer.from('TBKLOAN1');
const TABLE = 'loan';
const UNKNOWN = '0'.repeat(32);

interface Lent {
  readonly name: Hash;
  /** The blob that has its bytes; null while they are in the pack only. */
  real: Hash | null;
  readonly pack: number;
  readonly offset: number;
  readonly size: number;
  readonly id: Buffer;
}

interface Loan {
  readonly dir: string;
  readonly idBytes: number;
  readonly packs: readonly string[];
  readonly entries: readonly Lent[];
}

/** What is needed of `SegmentStore`. */
interface Store {
  readonly hasher: Hasher;
  put(bytes: Uint8Array): { readonly hash: Hash };
  sync(): void;
}

function decode(dir: string, bytes: Buffer, hasher: Hasher): Loan {
  const fail = (): never => {
    throw new Error('the table of borrowed names is damaged');
  };
  const body = bytes.subarray(0, Math.max(0, bytes.length - 8));
  if (!hasher.check64(body).equals(bytes.subarray(body.length))) fail();
  const reader = new Reader(body);
  if (!reader.raw(8).equals(MAGIC)) fail();
  const idBytes = reader.u32();
  if (idBytes !== 20 && idBytes !== 32) fail();
  const packs = Array.from({ length: reader.u32() }, () => reader.bytes().toString());
  if (packs.some((name) => name.includes('/') || name.startsWith('.'))) fail();
  const count = Number(reader.u64());
  if (reader.left !== count * (52 + idBytes)) fail();
  const entries = Array.from({ length: count }, (): Lent => {
    const [name, real] = [reader.hash(), reader.hash()];
    const [pack, offset, size] = [reader.u32(), Number(reader.u64()), Number(reader.u64())];
    return { name, real: real === UNKNOWN ? null : real, pack, offset, size, id: Buffer.from(reader.raw(idBytes)) };
  });
  return { dir, idBytes, packs, entries };
}

function encode({ idBytes, packs, entries }: Loan, hasher: Hasher): Buffer {
  const writer = new Writer().raw(MAGIC).u32(idBytes).u32(packs.length);
  for (const pack of packs) writer.bytes(Buffer.from(pack));
  writer.u64(entries.length);
  for (const { name, real, pack, offset, size, id } of entries) {
    writer.hash(name).hash(real ?? UNKNOWN);
    writer.u32(pack).u64(offset).u64(size).raw(id);
  }
  const body = writer.done();
  return Buffer.concat([body, hasher.check64(body)]);
}

export class Loans {
  readonly #dir: string;
  readonly #hasher: Hasher;
  /** By borrowed name; null for one whose bytes are in no blob. */
  readonly #real = new Map<Hash, Hash | null>();

  constructor(dir: string, hasher: Hasher) {
    this.#dir = dir;
    this.#hasher = hasher;
  }

  /** The blob that has a borrowed name's bytes; null where they can't be had, undefined for a name that isn't borrowed. */
  real(name: Hash): Hash | null | undefined {
    return this.#real.get(name);
  }

  #folders(): string[] {
    try {
      return readdirSync(this.#dir).map((name) => join(this.#dir, name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw error;
    }
  }

  /** Null where a folder has no table, a fault where it is damaged. */
  #load(dir: string): Loan | Error | null {
    try {
      return decode(dir, readFileSync(join(dir, TABLE)), this.#hasher);
    } catch (error) {
      return errnoOf(error) === 'ENOENT' ? null : (error as Error);
    }
  }

  #loans(): Loan[] {
    const found = this.#folders().map((dir) => this.#load(dir));
    return found.filter((loan) => loan !== null && !(loan instanceof Error)) as Loan[];
  }

  /** Takes in what is borrowed; answers whether anything is, or was. Reads the tables anew: other processes may have borrowed since. */
  settle(store: Store): boolean {
    for (const loan of this.#loans()) {
      const owed = loan.entries.filter((lent) => lent.real === null);
      if (owed.length > 0 && takeIn(loan, owed, store)) {
        store.sync();
        this.#write(loan);
      }
      for (const { name, real } of loan.entries) if (real !== null || !this.#real.get(name)) this.#real.set(name, real);
    }
    return this.#real.size > 0;
  }

  #write(loan: Loan): void {
    const temp = join(loan.dir, `${TABLE}.${process.pid}`);
    writeFileSync(temp, encode(loan, this.#hasher), { mode: 0o600 });
    const fd = openSync(temp, 'r+');
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temp, join(loan.dir, TABLE));
    syncFolder(loan.dir);
  }

  /** Adds the blobs that stand for borrowed names in `keep`. */
  addReal(keep: Set<Hash>): void {
    for (const loan of this.#loans())
      for (const { name, real } of loan.entries) if (real !== null && keep.has(name)) keep.add(real);
  }

  /** Under the workspace's lock. Answers the bytes that this returned. */
  collect(keep: ReadonlySet<Hash>): number {
    let freed = 0;
    for (const dir of this.#folders()) {
      const loan = this.#load(dir);
      // What is damaged may be of use to somebody.
      if (loan instanceof Error) continue;
      const live = loan?.entries.filter((lent) => keep.has(lent.name)) ?? [];
      if (loan === null || live.length === 0) freed += isFree(dir) ? removeAll(dir, readdirSync(dir)) : 0;
      else if (live.every((lent) => lent.real !== null)) freed += removePacks(dir);
    }
    return freed;
  }

  problems(): Problem[] {
    return this.#folders().flatMap((dir) => {
      const loan = this.#load(dir);
      const segment = `borrowed/${basename(dir)}`;
      if (loan instanceof Error) return [{ segment, detail: loan.message }];
      const lost = loan?.entries.filter((lent) => lent.real === null) ?? [];
      return lost.map(({ name, id }) => {
        return { hash: name, segment, detail: `the git object ${id.toString('hex')} can't be read` };
      });
    });
  }
}

/** Puts what can be read into the store; answers whether that was anything. */
function takeIn(loan: Loan, owed: readonly Lent[], store: Store): boolean {
  const packs = new Map<number, GitPack | null>();
  let taken = false;
  for (const lent of [...owed].sort((a, b) => a.pack - b.pack || a.offset - b.offset)) {
    if (!packs.has(lent.pack)) packs.set(lent.pack, openPack(loan, lent.pack));
    const bytes = read(packs.get(lent.pack) ?? null, lent, loan.idBytes);
    if (bytes === null) continue;
    lent.real = store.put(bytes).hash;
    taken = true;
  }
  for (const pack of packs.values()) pack?.close();
  return taken;
}

/** A pack that is gone or damaged is told of by what can't be read. */
function openPack({ dir, packs, idBytes }: Loan, number: number): GitPack | null {
  try {
    return new GitPack(join(dir, packs[number] ?? ''), idBytes);
  } catch {
    return null;
  }
}

function read(pack: GitPack | null, { offset, id }: Lent, idBytes: number): Buffer | null {
  try {
    const bytes = pack?.blob(offset);
    if (bytes === undefined) return null;
    const hash = createHash(idBytes === 20 ? 'sha1' : 'sha256')
      .update(`blob ${bytes.length}\0`)
      .update(bytes);
    return hash.digest().equals(id) ? bytes : null;
  } catch {
    return null;
  }
}

/** Whether whoever made a loan is gone, or is this process. */
function isFree(dir: string): boolean {
  const owner = writerOf(`${basename(dir)}.seg`);
  if (owner === null) return false;
  return !isAlive(owner) || (owner.pid === process.pid && owner.startTime === (startTimeOf(process.pid) ?? 0n));
}

function removePacks(dir: string): number {
  return removeAll(
    dir,
    readdirSync(dir).filter((name) => name.endsWith('.pack') || name.endsWith('.idx')),
  );
}

/** Answers the bytes that nothing else names. An empty folder goes, too. */
function removeAll(dir: string, names: readonly string[]): number {
  let freed = 0;
  for (const name of [...names].sort((a, b) => Number(b === TABLE) - Number(a === TABLE))) {
    const { nlink, size } = statSync(join(dir, name));
    freed += nlink === 1 ? size : 0;
    rmSync(join(dir, name));
  }
  if (readdirSync(dir).length === 0) rmSync(dir, { recursive: true });
  return freed;
}
