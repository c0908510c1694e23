/**
 * Folders that are entered one component at a time without following a link, and files that are written whole in them.
 *
 * On Linux each folder is held by a descriptor and everything happens through `/proc/self/fd/<fd>/<name>`, so that whoever
 * swaps a folder for a link in the meantime leads nothing astray. Elsewhere each component is looked at by name first, which
 * a swap at the right moment can outwit. The folder that one starts at is the caller's, and may be reached through links.
 */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, rename, rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { TakebackError } from '../errors.ts';

/** Same number on every Linux that Node runs on; missing in `constants`. */
const O_PATH = 0o10000000;
const ENTER = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** An open folder. `name` is for messages; `at` names what lies in it, for system calls. */
export class HeldFolder {
  readonly name: string;
  readonly #handle: FileHandle | null;

  constructor(name: string, handle: FileHandle | null) {
    this.name = name;
    this.#handle = handle;
  }

  get byDescriptor(): boolean {
    return this.#handle !== null;
  }

  /** The folder itself, or `leaf` in it: one name, no path. */
  at(leaf = '.'): string {
    return this.#handle === null ? join(this.name, leaf) : `/proc/self/fd/${this.#handle.fd}/${leaf}`;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
  }
}

async function openBase(base: string): Promise<HeldFolder> {
  if (process.platform === 'linux') {
    const handle = await open(base, O_PATH | constants.O_DIRECTORY);
    const [through, self] = await Promise.all([
      stat(`/proc/self/fd/${handle.fd}/.`, { bigint: true }).catch(() => null),
      handle.stat({ bigint: true }),
    ]);
    if (through !== null && through.ino === self.ino && through.dev === self.dev) return new HeldFolder(base, handle);
    await handle.close();
  }
  if (!(await stat(base)).isDirectory()) throw notAFolder(base);
  return new HeldFolder(base, null);
}

/** A folder in an open one. The caller closes it. */
export async function openChild(parent: HeldFolder, leaf: string): Promise<HeldFolder> {
  const name = join(parent.name, leaf);
  if (!parent.byDescriptor) {
    if (!(await lstat(name)).isDirectory()) throw notAFolder(name);
    return new HeldFolder(name, null);
  }
  try {
    return new HeldFolder(name, await open(parent.at(leaf), ENTER));
  } catch (error) {
    const code = errnoOf(error);
    throw code === 'ENOTDIR' || code === 'ELOOP' ? notAFolder(name) : error;
  }
}

function notAFolder(name: string): TakebackError {
  return new TakebackError('ERR_IO', `${name} is not a folder; a link there is not followed. Move it away.`);
}

/**
 * Opens the folder at `parts` below `base`, and makes what is missing of it with `makeMode`, where that is given. The
 * caller closes it.
 */
export async function openContained(
  base: string,
  parts: readonly string[],
  options: { makeMode?: number } = {},
): Promise<HeldFolder> {
  let folder = await openBase(base);
  for (const part of parts) {
    try {
      if (options.makeMode !== undefined) await makeFolder(folder.at(part), options.makeMode);
      const next = await openChild(folder, part);
      await folder.close();
      folder = next;
    } catch (error) {
      await folder.close();
      throw error;
    }
  }
  return folder;
}

async function makeFolder(name: string, mode: number): Promise<void> {
  try {
    await mkdir(name, { mode });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

/** Whether there is anything of that name, be it a link that leads nowhere. */
export async function has(folder: HeldFolder, leaf: string): Promise<boolean> {
  try {
    await lstat(folder.at(leaf));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Writes a file whole under a name that nothing has. False, and nothing written, where something has it. A kill in the middle
 * may leave an empty file of that name.
 */
export async function writeNew(folder: HeldFolder, leaf: string, bytes: Uint8Array): Promise<boolean> {
  try {
    await (await open(folder.at(leaf), 'wx', 0o600)).close();
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  }
  try {
    await writeWhole(folder, leaf, bytes);
    return true;
  } catch (error) {
    await unlink(folder.at(leaf)).catch(() => undefined);
    throw error;
  }
}

/**
 * Writes a file (0600) beside its name and renames it over that: whoever reads finds the old bytes or the new, and a link of
 * that name is replaced, not followed.
 */
export async function writeWhole(folder: HeldFolder, leaf: string, bytes: Uint8Array): Promise<void> {
  const temp = `.${randomBytes(8).toString('hex')}.tmp`;
  try {
    const handle = await open(folder.at(temp), 'wx', 0o600);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(folder.at(temp), folder.at(leaf));
  } catch (error) {
    await unlink(folder.at(temp)).catch(() => undefined);
    throw error;
  }
}

/**
 * Removes what is at `leaf`, with all below it, following no link. True where there was something; somebody else may be
 * removing it, too.
 */
export async function removeContained(folder: HeldFolder, leaf: string): Promise<boolean> {
  try {
    if (!(await lstat(folder.at(leaf))).isDirectory()) {
      await unlink(folder.at(leaf));
      return true;
    }
    const inner = await openChild(folder, leaf);
    try {
      for (const name of await readdir(inner.at())) await removeContained(inner, name);
    } finally {
      await inner.close();
    }
    await rmdir(folder.at(leaf));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** The system's code of an error (`ENOENT` …), where it has one. */
export function errnoOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}
