/**
 * Stands for `node:fs/promises` in the built hook file: the same answers by synchronous calls. A hook process has nothing
 * else to do meanwhile, and Node's pool of threads takes longer to start than all of these calls together.
 */
import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  lstatSync,
  type MakeDirectoryOptions,
  type Mode,
  mkdirSync,
  openSync,
  type PathLike,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  type StatOptions,
  type Stats,
  type StatsFs,
  statfsSync,
  statSync,
} from 'node:fs';
import type * as promises from 'node:fs/promises';

export { constants };

/** Node's own: loaded by the first call that needs it. */
function ordinary(): typeof promises {
  return require('node:fs/promises');
}

function later<A extends unknown[], T>(call: (...args: A) => T): (...args: A) => Promise<T> {
  return async (...args) => call(...args);
}

export const access = later(accessSync);
export const lstat = later(lstatSync as (path: PathLike, options?: StatOptions) => Stats | BigIntStats);
export const mkdir = later(mkdirSync as (path: PathLike, options?: MakeDirectoryOptions) => unknown);
export const readdir = later(readdirSync as (path: PathLike) => string[]);
export const realpath = later(
  realpathSync.native as (path: PathLike, options?: { encoding?: BufferEncoding | 'buffer' }) => string | Buffer,
);
export const stat = later(statSync as (path: PathLike, options?: StatOptions) => Stats | BigIntStats);
export const statfs = later(statfsSync as (path: PathLike) => StatsFs);

interface Handle {
  readFile(): Promise<Buffer>;
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ buffer: Buffer; bytesRead: number }>;
  close(): Promise<void>;
}

export async function open(path: PathLike, flags: string, mode?: Mode): Promise<Handle | promises.FileHandle> {
  if (flags !== 'r') return ordinary().open(path, flags, mode);
  const fd = openSync(path, flags);
  const handle: Handle = {
    readFile: async () => readFileSync(fd),
    read: async (buffer, offset, length, position) => ({
      buffer,
      bytesRead: readSync(fd, buffer, offset, length, position),
    }),
    close: async () => closeSync(fd),
  };
  return handle;
}

/** Work that few hooks come to: Node's own, loaded by the first call. */
export const chmod: typeof promises.chmod = (...args) => ordinary().chmod(...args);
export const readFile = ((...args: Parameters<typeof promises.readFile>) =>
  ordinary().readFile(...args)) as typeof promises.readFile;
export const rm: typeof promises.rm = (...args) => ordinary().rm(...args);
export const symlink: typeof promises.symlink = (...args) => ordinary().symlink(...args);
export const utimes: typeof promises.utimes = (...args) => ordinary().utimes(...args);
export const writeFile: typeof promises.writeFile = (...args) => ordinary().writeFile(...args);
