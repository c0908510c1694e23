/**
 * The journal of one running operation (docs/formats.md): what it will do, durable before it does anything, and the
 * inodes of its temp files, durable before the first swap. Both backends recover each other's.
 *
 * A journal whose first frame is torn says that nothing was done. `apply` writes it, `finish` and recovery remove it.
 */
import { chmodSync, closeSync, mkdirSync, openSync, readFileSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { TakebackError } from '../../errors.ts';
import { asRelPath, decodeName, isBadPath } from '../../rel-path.ts';
import type { RandomId, RelPath, Version } from '../../types.ts';
import { Reader, readVersion, Writer, writeVersion } from '../../wire.ts';
import { doing, errnoOf } from './faults.ts';
import { encodeFrame, readFrames } from './frames.ts';
import type { Hasher } from './hash.ts';
import type { FolderId } from './resolve.ts';
import { startTimeOf } from './segment-name.ts';
import type { Syscalls } from './syscalls.ts';

const BEGIN = 1;
const PREPARED = 2;
const SETTLED = 3;

export interface JournalEntry {
  readonly path: RelPath;
  readonly expect: Version;
  readonly target: Version;
  readonly tempName: string;
  readonly trashName: string;
}

export interface Journal {
  readonly operationId: RandomId;
  readonly root: FolderId;
  readonly trash: string;
  readonly durability: 'full' | 'fast';
  readonly entries: readonly JournalEntry[];
}

export interface StoredJournal extends Journal {
  /** Inode of each temp file by index, or null where the frame was never written: then no swap began. */
  readonly prepared: ReadonlyMap<number, FolderId> | null;
}

export function tempNameOf(operationId: RandomId, index: number): string {
  return `.takeback-${operationId}-${index}.tmp`;
}

export function trashNameOf(operationId: RandomId, index: number): string {
  return `${operationId}-${index}`;
}

function bootId(): Buffer {
  try {
    return Buffer.from(readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim());
  } catch {
    // Not on Linux: recovery asks the workspace's lock, not this, whether the owner is gone.
    return Buffer.alloc(0);
  }
}

function encodeBegin(journal: Journal): Buffer {
  const writer = new Writer().raw(Buffer.from(journal.operationId, 'hex'));
  writer
    .u64(process.pid)
    .u64(startTimeOf(process.pid) ?? 0n)
    .bytes(bootId());
  writer.u64(journal.root.dev).u64(journal.root.ino).name(journal.trash);
  writer.u8(journal.durability === 'full' ? 0 : 1).u32(journal.entries.length);
  for (const entry of journal.entries) {
    writer.name(entry.path);
    writeVersion(writer, entry.expect);
    writeVersion(writer, entry.target);
    writer.name(entry.tempName).name(entry.trashName);
  }
  return writer.done();
}

function decodeBegin(payload: Buffer): Journal {
  const reader = new Reader(payload);
  const operationId = reader.raw(16).toString('hex');
  reader.u64();
  reader.u64();
  reader.bytes();
  const root = { dev: reader.u64(), ino: reader.u64() };
  const trash = decodeName(reader.bytes());
  const durability = reader.u8() === 0 ? 'full' : 'fast';
  const count = reader.u32();
  const entries: JournalEntry[] = [];
  for (let i = 0; i < count; i++) {
    const path = asRelPath(reader.name());
    const expect = readVersion(reader);
    const entry = { path, expect, target: readVersion(reader), tempName: reader.name(), trashName: reader.name() };
    checkNames(entry);
    entries.push(entry);
  }
  return { operationId, root, trash, durability, entries };
}

/** @throws {TakebackError} `ERR_STORE_CORRUPT`: recovery writes to these names, whoever wrote the journal */
function checkNames({ path, tempName, trashName }: JournalEntry): void {
  if ([tempName, trashName].some((name) => isBadPath(name) || name.includes('/')))
    throw new TakebackError('ERR_STORE_CORRUPT', 'a journal holds a temp or trash name that is a path', { path });
}

function decodePrepared(payload: Buffer, into: Map<number, FolderId>): void {
  const reader = new Reader(payload);
  const count = reader.u32();
  for (let i = 0; i < count; i++) into.set(reader.u32(), { dev: reader.u64(), ino: reader.u64() });
}

export interface JournalMeans {
  readonly hasher: Hasher;
  readonly sys: Syscalls;
}

/** An open journal that is being written. */
export class JournalFile {
  readonly #fd: number;
  readonly #hasher: Hasher;
  readonly #sys: Syscalls;

  private constructor(fd: number, { hasher, sys }: JournalMeans) {
    this.#fd = fd;
    this.#hasher = hasher;
    this.#sys = sys;
  }

  /**
   * Writes the begin frame; file and name are durable when it returns.
   *
   * @throws {TakebackError} `ERR_BUSY` where the file exists: an operation runs, or waits for recovery
   */
  static begin(file: string, journal: Journal, means: JournalMeans): JournalFile {
    return doing(`can't write the journal ${file}`, () => {
      const dir = dirname(file);
      if (mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined) chmodSync(dir, 0o700);
      let fd: number;
      try {
        fd = openSync(file, 'wx', 0o600);
      } catch (error) {
        if (errnoOf(error) !== 'EEXIST') throw error;
        throw new TakebackError('ERR_BUSY', `${file} exists: its operation runs, or was not recovered yet`);
      }
      const started = new JournalFile(fd, means);
      try {
        chmodSync(file, 0o600);
        started.#append(BEGIN, encodeBegin(journal));
        means.sys.fdatasync(fd);
        means.sys.syncFolder(dir);
        return started;
      } catch (error) {
        closeSync(fd);
        // Nothing was done yet, so a journal that can't be kept must not stay.
        if (errnoOf(error) !== undefined) unlinkSync(file);
        throw error;
      }
    });
  }

  #append(kind: number, payload: Buffer): void {
    this.#sys.write(this.#fd, encodeFrame(this.#hasher, kind, payload));
  }

  /** Names the inodes of the temp files, durably. */
  prepared(temps: readonly { readonly index: number; readonly id: FolderId }[]): void {
    const writer = new Writer().u32(temps.length);
    for (const { index, id } of temps) writer.u32(index).u64(id.dev).u64(id.ino);
    this.#append(PREPARED, writer.done());
    this.#sys.fdatasync(this.#fd);
  }

  /** Advisory: for people who read a journal. */
  settled(entries: readonly { readonly index: number; readonly done: boolean }[]): void {
    const writer = new Writer().u32(entries.length);
    for (const { index, done } of entries) writer.u32(index).u8(done ? 0 : 1);
    this.#append(SETTLED, writer.done());
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** Null: there is no journal, or its first frame is torn, so that nothing was done. */
export function readJournal(file: string, hasher: Hasher): StoredJournal | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  }
  let journal: Journal | null = null;
  let prepared: Map<number, FolderId> | null = null;
  for (const { kind, payload } of readFrames(hasher, bytes)) {
    if (journal === null) {
      if (kind !== BEGIN) return null;
      journal = decodeBegin(payload);
    } else if (kind === PREPARED) {
      prepared ??= new Map();
      decodePrepared(payload, prepared);
    }
  }
  return journal === null ? null : { ...journal, prepared };
}

/** Removes a journal; one that is gone is fine. */
export function removeJournal(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}
