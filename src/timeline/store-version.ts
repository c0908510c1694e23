/**
 * Which schema version a database file has, told from its bytes, before SQLite opens it.
 *
 * Needed because even a look through SQLite may write: the last connection that closes moves the log into the file.
 * A store of a newer version must stay byte for byte as it is. Reads `user_version` (bytes 60–63 of page 1) from the
 * file and from each committed copy of page 1 in the write-ahead log. Does not check checksums: what SQLite would
 * ignore may be counted here, and then an older store is refused, not changed.
 *
 * @see the SQLite file format, sections 1.3 (header) and 4.1 (WAL)
 */
import { open } from 'node:fs/promises';
import { TakebackError } from '../errors.ts';

const HEADER_BYTES = 100;
const MAGIC = 'SQLite format 3\0';
const USER_VERSION_AT = 60;
const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** 0 where the file is missing, empty, or not a SQLite database. */
export async function storedUserVersion(file: string): Promise<number> {
  const inFile = await headerUserVersion(file);
  return inFile === null ? 0 : Math.max(inFile, walUserVersion(await readStart(`${file}-wal`)));
}

/** What the file itself says, whatever the log has; null where it is missing, empty, or not a SQLite database. */
export async function headerUserVersion(file: string): Promise<number | null> {
  const header = await readStart(file, HEADER_BYTES);
  if (header.length < HEADER_BYTES || header.toString('latin1', 0, MAGIC.length) !== MAGIC) return null;
  return header.readUInt32BE(USER_VERSION_AT);
}

/** The greatest `user_version` among committed frames of page 1; 0 where there is none. */
function walUserVersion(wal: Buffer): number {
  if (wal.length < WAL_HEADER_BYTES) return 0;
  const pageSize = wal.readUInt32BE(8) || 65_536;
  const salt = wal.subarray(16, 24);
  let committed = 0;
  let pending = 0;
  for (
    let at = WAL_HEADER_BYTES;
    at + FRAME_HEADER_BYTES + pageSize <= wal.length;
    at += FRAME_HEADER_BYTES + pageSize
  ) {
    // Another salt: left over from before the log was started anew.
    if (!wal.subarray(at + 8, at + 16).equals(salt)) break;
    if (wal.readUInt32BE(at) === 1)
      pending = Math.max(pending, wal.readUInt32BE(at + FRAME_HEADER_BYTES + USER_VERSION_AT));
    if (wal.readUInt32BE(at + 4) !== 0) committed = Math.max(committed, pending);
  }
  return committed;
}

/**
 * The first `length` bytes, or all; empty where there is no file.
 *
 * @throws {TakebackError} `ERR_IO`, which names the file
 */
async function readStart(file: string, length?: number): Promise<Buffer> {
  try {
    return await readBytes(file, length);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return Buffer.alloc(0);
    throw new TakebackError('ERR_IO', `can't read ${file}: ${message}`, { cause: error });
  }
}

async function readBytes(file: string, length?: number): Promise<Buffer> {
  const handle = await open(file, 'r');
  try {
    if (length === undefined) return await handle.readFile();
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
