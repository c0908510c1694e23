/**
 * The offload hook: an output that is too long for a context goes to a file, and a summary that names the file takes its place.
 *
 * Files are `{workDir}/.takeback/tool_results/{sessionId}/{toolCallId}.txt`, folders 0700, files 0600, ids made safe as names
 * (`safe-name.ts`). A file is never written over: an id that comes again with another output gets `….2.txt`. A
 * `.gitignore` in `tool_results` keeps them out of the user's git status. What can't be written is told, and the output goes
 * on as it was.
 *
 * Does not cover: when files go (`SessionManager` does that), and outputs that aren't text.
 */

import { lstat, readFile } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { check } from '../schemas.ts';
import { type HeldFolder, has, openContained, writeNew, writeWhole } from './contained.ts';
import { DEFAULT_DIR_NAME, dirNameSchema, TOOL_RESULTS } from './layout.ts';
import { isSummary, MAX_PREVIEW_BYTES, summary } from './offload-text.ts';
import { reporter, warnLoggerSchema } from './report.ts';
import { safeName } from './safe-name.ts';
import type { ToolHook } from './tool.ts';

/** Options of {@link offloadHook}. */
export const offloadOptionsSchema = z.strictObject({
  /** The workspace's root: absolute. */
  workDir: z.string().refine(isAbsolute, 'must be an absolute path'),
  sessionId: z.string().min(1, 'must not be empty'),
  /** An output is offloaded where it is longer, in UTF-16 units (JavaScript's string length). Default 10,000. */
  threshold: z.number().int().min(0).optional(),
  /** Lines of the preview. Default 20. */
  previewLines: z.number().int().min(0).max(10_000).optional(),
  /** Bytes of the preview at most. Default 4,096. */
  previewBytes: z.number().int().min(0).max(MAX_PREVIEW_BYTES).optional(),
  /** Tools whose output stays as it is. Default: read_file, write_file, edit_file. */
  exclude: z.array(z.string()).optional(),
  /** In place of `.takeback`. The engine covers such a folder, unless `exclude` of `openWorkspace` names it. */
  dirName: dirNameSchema.optional(),
  /** Told of what can't be written. Default: a warning of the process. */
  logger: warnLoggerSchema.optional(),
});
export type OffloadOptions = z.input<typeof offloadOptionsSchema>;

const DEFAULT_EXCLUDE = ['read_file', 'write_file', 'edit_file'];
const FOLDER_MODE = 0o700;
/** Outputs of one id; more are a fault of the host. */
const MAX_TAKES = 1000;

interface Place {
  readonly workDir: string;
  readonly dirName: string;
  /** The session's folder below `tool_results`. */
  readonly session: string;
}

/**
 * Puts long outputs into files. The model finds the path in the summary and reads the file with `read_file`, in pages; tell
 * it so with `offloadGuidance`. One hook serves one session, also where calls overlap.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form; afterwards it never fails a call
 */
export function offloadHook(options: OffloadOptions): ToolHook {
  const given = check(offloadOptionsSchema, options, 'options');
  const { threshold = 10_000, previewLines = 20, previewBytes = 4096 } = given;
  const exclude = new Set(given.exclude ?? DEFAULT_EXCLUDE);
  const report = reporter('offload', given.logger);
  const place = {
    workDir: given.workDir,
    dirName: given.dirName ?? DEFAULT_DIR_NAME,
    session: safeName(given.sessionId),
  };
  return {
    async afterExecute(call, result) {
      const { output } = result;
      if (typeof output !== 'string' || output.length <= threshold) return result;
      if (exclude.has(call.name) || isSummary(output)) return result;
      try {
        const path = await save(place, call.id, output);
        return { ...result, output: summary(output, { path, previewLines, previewBytes }) };
      } catch (error) {
        report(`the output of ${call.name} stays in context, its file can't be written`, error);
        return result;
      }
    },
  };
}

/** Writes an output, and answers its path relative to the working directory, with `/` between. */
async function save({ workDir, dirName, session }: Place, callId: string, output: string): Promise<string> {
  const bytes = Buffer.from(output);
  const results = await openContained(workDir, [dirName, TOOL_RESULTS], { makeMode: FOLDER_MODE });
  try {
    if (!(await has(results, '.gitignore'))) await writeWhole(results, '.gitignore', Buffer.from('*\n'));
  } finally {
    await results.close();
  }
  const folder = await openContained(workDir, [dirName, TOOL_RESULTS, session], { makeMode: FOLDER_MODE });
  try {
    const name = await place(folder, safeName(callId), bytes);
    return [dirName, TOOL_RESULTS, session, name].join('/');
  } finally {
    await folder.close();
  }
}

/** The first name that is free, or that has these very bytes already. */
async function place(folder: HeldFolder, stem: string, bytes: Buffer): Promise<string> {
  for (let take = 1; take <= MAX_TAKES; take++) {
    const name = take === 1 ? `${stem}.txt` : `${stem}.${take}.txt`;
    if (await writeNew(folder, name, bytes)) return name;
    if (await holds(folder.at(name), bytes)) return name;
  }
  throw new Error(`${MAX_TAKES} outputs of one call id are there already`);
}

async function holds(file: string, bytes: Buffer): Promise<boolean> {
  const found = await lstat(file);
  return found.isFile() && found.size === bytes.length && (await readFile(file)).equals(bytes);
}
