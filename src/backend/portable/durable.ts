/** Whole reads, whole writes, and names that survive a power cut. For every file of this folder that does I/O by descriptor. */
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';

/** Reads up to `length` bytes at `position`; fewer only where the file ends. */
export function readAt(fd: number, position: number, length: number): Buffer {
  const buffer = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const count = readSync(fd, buffer, done, length - done, position + done);
    if (count === 0) break;
    done += count;
  }
  return buffer.subarray(0, done);
}

/** Writes all bytes where the descriptor stands, or throws; how much of them is written then is not known. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done);
}

/** Makes the names in a folder durable. Where a folder can't be opened (Windows) its names are durable without. */
export function syncFolder(dir: string | Buffer): void {
  let fd: number;
  try {
    fd = openSync(dir, 'r');
  } catch (error) {
    if (process.platform === 'win32') return;
    throw error;
  }
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
