/**
 * Stands for `node:fs/promises` in the built hook file: the same answers by synchronous calls. A hook process has nothing
 * else to do meanwhile, and Node's pool of threads takes longer to start than all of these calls together.
 */
import * as fs from 'node:fs';

export const { constants } = fs;

function later<A extends unknown[], T>(call: (...args: A) => T): (...args: A) => Promise<T> {
  return async (...args) => call(...args);
}

export const access = later(fs.accessSync);
export const lstat = later(fs.lstatSync as (path: fs.PathLike, options?: fs.StatOptions) => fs.Stats | fs.BigIntStats);
export const mkdir = later(fs.mkdirSync as (path: fs.PathLike, options?: fs.MakeDirectoryOptions) => unknown);
export const readdir = later(fs.readdirSync as (path: fs.PathLike) => string[]);
export const realpath = later(
  fs.realpathSync.native as (path: fs.PathLike, options?: { encoding?: BufferEncoding | 'buffer' }) => string | Buffer,
);
export const stat = later(fs.statSync as (path: fs.PathLike, options?: fs.StatOptions) => fs.Stats | fs.BigIntStats);
export const statfs = later(fs.statfsSync as (path: fs.PathLike) => fs.StatsFs);

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

export async function open(path: fs.PathLike, flags: string, mode?: fs.Mode): Promise<Handle | fs.promises.FileHandle> {
  if (flags !== 'r') return fs.promises.open(path, flags, mode);
  const fd = fs.openSync(path, flags);
  const handle: Handle = {
    readFile: async () => fs.readFileSync(fd),
    read: async (buffer, offset, length, position) => ({
      buffer,
      bytesRead: fs.readSync(fd, buffer, offset, length, position),
    }),
    close: async () => fs.closeSync(fd),
  };
  return handle;
}

/** Work that few hooks come to: Node's own, loaded by the first call. */
export const chmod: typeof fs.promises.chmod = (...args) => fs.promises.chmod(...args);
export const readFile = ((...args: Parameters<typeof fs.promises.readFile>) =>
  fs.promises.readFile(...args)) as typeof fs.promises.readFile;
export const rm: typeof fs.promises.rm = (...args) => fs.promises.rm(...args);
export const symlink: typeof fs.promises.symlink = (...args) => fs.promises.symlink(...args);
export const utimes: typeof fs.promises.utimes = (...args) => fs.promises.utimes(...args);
export const writeFile: typeof fs.promises.writeFile = (...args) => fs.promises.writeFile(...args);
