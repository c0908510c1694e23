/**
 * `read_file`: a page of a text file below a root. Made for reading offloaded outputs, good for any file.
 *
 * Owns the page: offsets are bytes, both ends of a page move back to where a character begins, so that pages by the notices,
 * and pages by one's own arithmetic, give the whole file without a gap. Owns the confinement: `..` and links are resolved, what
 * lies outside the root is refused, and the way to the file is then walked without following a link (`hooks/contained.ts`).
 *
 * Does not cover names that aren't UTF-8, and files in other encodings: their bytes show as U+FFFD, with a notice.
 */
import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, sep } from 'node:path';
import { z } from 'zod';
import { TakebackError } from '../errors.ts';
import { errnoOf, type HeldFolder, openContained } from '../hooks/contained.ts';
import { characterAt, floorCharacter } from '../hooks/utf8.ts';
import { toRelPath } from '../rel-path.ts';
import { check } from '../schemas.ts';
import type { RelPath } from '../types.ts';
import type { Tool } from './tool.ts';

const DEFAULT_LIMIT = 4096;
/** A character of UTF-8 has at most four bytes: what is needed beside a page to know where it may end. */
const MARGIN = 4;
/** How much of a file tells whether it is text. */
const SAMPLE = 8000;

/** Input of `read_file`. */
export const readFileInputSchema = z.strictObject({
  path: z.string().min(1, 'must not be empty').describe('Path of the file, relative to the root or absolute inside it'),
  offset: z.number().int().min(0).optional().describe('Byte to start at. Default 0'),
  limit: z.number().int().min(1).optional().describe(`Bytes to read. Default ${DEFAULT_LIMIT}`),
});

/** Options of {@link readFileTool}. */
export const readFileOptionsSchema = z.strictObject({
  root: z.string().refine(isAbsolute, 'must be an absolute path'),
  /** The greatest page in bytes; a greater `limit` is read as this. Default 65,536. */
  maxLimit: z.number().int().min(1).max(16_777_216).optional(),
});
export type ReadFileOptions = z.input<typeof readFileOptionsSchema>;

/**
 * The tool `read_file`.
 *
 * A page that isn't the last ends with a notice that names the next `offset`. An offset at or past the end is answered, not
 * refused. At least one character is read, whatever the limit.
 *
 * `execute` throws `ERR_OUTSIDE_ROOT`, `ERR_IO` for what can't be opened, `ERR_UNSUPPORTED` for folders, special files and
 * binary files.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function readFileTool(options: ReadFileOptions): Tool<typeof readFileInputSchema> {
  const { root, maxLimit = 65_536 } = check(readFileOptionsSchema, options, 'options');
  return {
    name: 'read_file',
    description: `Reads a text file, a page of bytes at a time. Give offset and limit (default ${DEFAULT_LIMIT} bytes) to page through a long one.`,
    schema: readFileInputSchema,
    jsonSchema: z.toJSONSchema(readFileInputSchema),
    async execute(input) {
      const { path, offset = 0, limit = DEFAULT_LIMIT } = check(readFileInputSchema, input, 'input');
      const file = await openInside(root, path);
      try {
        await refuseBinary(file, path);
        return await readPage(file, offset, Math.min(limit, maxLimit));
      } finally {
        await file.close();
      }
    },
  };
}

/** Opens a file for reading, and nothing outside the root, nor a special file, however the tree moves meanwhile. */
async function openInside(root: string, path: string): Promise<FileHandle> {
  const realRoot = await realpath(root).catch((error) => {
    throw fault(`the root ${root} can't be read`, error);
  });
  const wanted = toRelPath(path, [root, realRoot]);
  const target = await realpath(join(realRoot, wanted)).catch((error) => {
    throw errnoOf(error) === 'ENOENT' ? new TakebackError('ERR_IO', `no such file: ${path}`) : fault(path, error);
  });
  const inside = relative(realRoot, target);
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) {
    throw new TakebackError('ERR_OUTSIDE_ROOT', `${path} leads outside the root. Give a path inside it.`, {
      path: wanted as RelPath,
    });
  }
  if (inside === '') throw notAFile(path, 'a folder');
  const parts = inside.split(sep);
  const leaf = parts.pop() as string;
  let folder: HeldFolder | undefined;
  try {
    folder = await openContained(realRoot, parts);
    return await openRegular(folder, leaf, path);
  } catch (error) {
    throw error instanceof TakebackError ? error : fault(`${path} can't be read`, error);
  } finally {
    await folder?.close();
  }
}

async function openRegular(folder: HeldFolder, leaf: string, path: string): Promise<FileHandle> {
  // Looked at before it is opened: to open a device or a pipe can be an act in itself.
  const seen = await lstat(folder.at(leaf));
  if (!seen.isFile()) throw notAFile(path, seen.isDirectory() ? 'a folder' : 'no regular file');
  // Not blocking: a pipe that took its place meanwhile would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(folder.at(leaf), flags);
  try {
    const opened = await file.stat();
    if (!opened.isFile()) throw notAFile(path, 'no regular file');
    if (!folder.byDescriptor) await checkPlace(file, join(folder.name, leaf), path);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Without descriptors: the name must still lead, without a link, to what was opened. */
async function checkPlace(file: FileHandle, name: string, path: string): Promise<void> {
  const [opened, there] = await Promise.all([file.stat({ bigint: true }), stat(name, { bigint: true })]);
  const same = opened.ino === there.ino && opened.dev === there.dev;
  if (same && (await realpath(dirname(name))) === dirname(name)) return;
  throw new TakebackError('ERR_IO', `${path} moved while it was opened. Try again.`);
}

function notAFile(path: string, what: string): TakebackError {
  return new TakebackError('ERR_UNSUPPORTED', `${path} is ${what}: read_file reads text files only`);
}

function fault(what: string, error: unknown): TakebackError {
  return new TakebackError('ERR_IO', `${what}: ${error instanceof Error ? error.message : String(error)}`, {
    cause: error,
  });
}

/** A NUL alone makes no binary file: output of programs can hold one. */
async function refuseBinary(file: FileHandle, path: string): Promise<void> {
  const bytes = await readAt(file, 0, SAMPLE + MARGIN);
  const sample = bytes.subarray(0, bytes.length > SAMPLE ? floorCharacter(bytes, SAMPLE) : bytes.length);
  if (!sample.includes(0) || isUtf8(sample)) return;
  const { size } = await file.stat();
  throw new TakebackError(
    'ERR_UNSUPPORTED',
    `${path} is a binary file (${size} bytes): read_file reads text files only`,
  );
}

async function readPage(file: FileHandle, offset: number, limit: number): Promise<string> {
  const { size } = await file.stat();
  if (offset >= size) return `[offset=${offset} exceeds file size (${size} bytes), nothing to read.]`;
  const from = Math.max(0, offset - MARGIN);
  // One byte more than the page tells whether the file goes on; the rest of the margin, where its last character ends.
  const bytes = await readAt(file, from, offset - from + limit + MARGIN);
  const start = floorCharacter(bytes, offset - from);
  const wanted = offset - from + limit;
  let end = wanted >= bytes.length ? bytes.length : floorCharacter(bytes, wanted);
  if (end <= start) end = Math.min(characterAt(bytes, start)[1], bytes.length);
  const page = bytes.subarray(start, end);
  const notices: string[] = [];
  if (!isUtf8(page)) notices.push('[Some bytes of this page are not UTF-8; they are shown as U+FFFD.]');
  if (end < bytes.length) {
    const next = from + end;
    notices.push(`[Bytes ${from + start} to ${next} of ${size}; to continue reading use offset=${next}]`);
  }
  return notices.length === 0 ? page.toString() : `${page.toString()}\n\n${notices.join('\n')}`;
}

/** Up to `length` bytes; fewer only at the end of the file. */
async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
