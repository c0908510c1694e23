/**
 * One look at one name: its version, by reading and hashing, nothing stored. For peek, the guard and recovery.
 *
 * A file is opened without following and without blocking, checked to be a regular file before its first byte is read,
 * and read again where its stat key moved meanwhile. A writer that pauses in between goes unseen (no leases in Node);
 * the guard's second look is for that.
 */
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
} from 'node:fs';
import { decodeName } from '../../rel-path.ts';
import type { FileKind, SpecialType, StatKey, UncoveredReason, Version } from '../../types.ts';
import { errnoOf } from './faults.ts';
import type { Hasher } from './hash.ts';

export interface Seen {
  readonly version: Version;
  readonly dev: bigint;
  /** 0n where absent. */
  readonly ino: bigint;
  readonly nlink: number;
  readonly uid: number;
  readonly gid: number;
}

export interface LookOptions {
  readonly hasher: Hasher;
  readonly maxFileBytes: number;
}

const NOTHING: Seen = { version: { kind: 'absent' }, dev: 0n, ino: 0n, nlink: 0, uid: 0, gid: 0 };

/** Reads of a file that moves under them before it counts as unstable. */
const TRIES = 3;
const CHUNK = 1 << 20;

export function kindOf(stat: BigIntStats): FileKind {
  if (stat.isFile()) return 'file';
  if (stat.isSymbolicLink()) return 'symlink';
  if (stat.isDirectory()) return 'dir';
  if (stat.isFIFO()) return 'fifo';
  if (stat.isSocket()) return 'socket';
  if (stat.isCharacterDevice()) return 'char';
  return stat.isBlockDevice() ? 'block' : 'other';
}

export function statKeyOf(stat: BigIntStats): StatKey {
  return {
    kind: kindOf(stat),
    mode: Number(stat.mode & 0o777n),
    size: Number(stat.size),
    mtimeNs: stat.mtimeNs,
    ctimeNs: stat.ctimeNs,
    ino: stat.ino,
    dev: stat.dev,
  };
}

function uncovered(reason: UncoveredReason, stat: BigIntStats): Version {
  return { kind: 'uncovered', reason, stat: statKeyOf(stat) };
}

/** `size`: what the file has now; it is read to its end whatever that is. */
function* chunksOf(fd: number, size: bigint): Generator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK, Number(size) + 1));
  for (let position = 0; ; ) {
    const count = readSync(fd, buffer, 0, buffer.length, position);
    if (count === 0) return;
    position += count;
    yield buffer.subarray(0, count);
  }
}

function sameMoment(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;
}

/** The version of an open regular file. */
export function lookAtFile(fd: number, { hasher, maxFileBytes }: LookOptions): Version {
  let before = fstatSync(fd, { bigint: true });
  for (let i = 0; i < TRIES; i++) {
    if (before.size > BigInt(maxFileBytes)) return uncovered('too-large', before);
    const content = hasher.hashAll(chunksOf(fd, before.size));
    const after = fstatSync(fd, { bigint: true });
    if (sameMoment(before, after)) {
      return { kind: 'file', mode: Number(after.mode & 0o777n), size: Number(after.size), content };
    }
    before = after;
  }
  return uncovered('unstable', before);
}

/** Opens a regular file for reading; null where another kind of thing has come to stand there. */
export function openFile(name: Buffer): number | null {
  const fd = openSync(name, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  return null;
}

function fileVersion(name: Buffer, stat: BigIntStats, options: LookOptions): Version | null {
  if (stat.size > BigInt(options.maxFileBytes)) return uncovered('too-large', stat);
  let fd: number | null;
  try {
    fd = openFile(name);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ELOOP') return null;
    if (errno === 'EACCES' || errno === 'EPERM') return uncovered('unreadable', stat);
    throw error;
  }
  if (fd === null) return null;
  try {
    if (fstatSync(fd, { bigint: true }).ino !== stat.ino) return null;
    return lookAtFile(fd, options);
  } finally {
    closeSync(fd);
  }
}

/** The version of what `stat` tells of, or null where something else stands there by now. */
function versionOf(name: Buffer, stat: BigIntStats, options: LookOptions): Version | null {
  const kind = kindOf(stat);
  switch (kind) {
    case 'file':
      return fileVersion(name, stat, options);
    case 'dir':
      return { kind: 'dir', mode: Number(stat.mode & 0o777n) };
    case 'symlink':
      try {
        return { kind: 'symlink', target: decodeName(readlinkSync(name, { encoding: 'buffer' })) };
      } catch (error) {
        if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'EINVAL') return null;
        throw error;
      }
    default:
      return { kind: 'special', type: kind satisfies SpecialType, ino: stat.ino };
  }
}

/** What is at a name now. The name's folder must be there. */
export function observe(name: Buffer, options: LookOptions): Seen {
  for (;;) {
    const stat = lstatSync(name, { bigint: true, throwIfNoEntry: false });
    if (stat === undefined) return NOTHING;
    const version = versionOf(name, stat, options);
    if (version === null) continue;
    const { dev, ino } = stat;
    return { version, dev, ino, nlink: Number(stat.nlink), uid: Number(stat.uid), gid: Number(stat.gid) };
  }
}
