/**
 * Every call by which apply and recovery change the tree and write their journal, in one place: so that a test can stop the work before and after
 * each of them, make it fail, or let somebody else write in between. No logic.
 */
import * as fs from 'node:fs';
import { syncFolder, writeAll } from './durable.ts';

export interface Syscalls {
  /** Makes a new file (it must not exist), mode 0600 at most, open for writing. */
  create(path: Buffer): number;
  write(fd: number, bytes: Uint8Array): void;
  fdatasync(fd: number): void;
  /** Makes the names in a folder of ours durable. */
  syncFolder(dir: string): void;
  fchown(fd: number, uid: number, gid: number): void;
  fchmod(fd: number, mode: number): void;
  chmod(path: Buffer, mode: number): void;
  link(from: Buffer, to: Buffer): void;
  rename(from: Buffer, to: Buffer): void;
  unlink(path: Buffer): void;
  symlink(target: Buffer, path: Buffer): void;
  mkdir(path: Buffer): void;
  rmdir(path: Buffer): void;
}

export const nodeSyscalls: Syscalls = {
  create: (path) => fs.openSync(path, 'wx', 0o600),
  write: writeAll,
  fdatasync: fs.fdatasyncSync,
  syncFolder,
  fchown: fs.fchownSync,
  fchmod: fs.fchmodSync,
  chmod: fs.chmodSync,
  link: fs.linkSync,
  rename: fs.renameSync,
  unlink: fs.unlinkSync,
  symlink: (target, path) => fs.symlinkSync(target, path),
  mkdir: (path) => {
    fs.mkdirSync(path, 0o700);
  },
  rmdir: fs.rmdirSync,
};
