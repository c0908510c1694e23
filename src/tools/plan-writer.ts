/**
 * The plan file: the task list as Markdown, where people read it.
 *
 * `{workDir}/.takeback/plans/{timestamp}-{sessionId, its first 8}.md` where the working directory has a `.git`, else the same
 * below the home folder. The folder is made, and tried, when the writer is made, so that a lack of rights is found at the
 * start. The file comes with the first list; another session that has its name already keeps it, and ours gets a number.
 *
 * Does not cover old plan files: they are history, and stay.
 */
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { TakebackError } from '../errors.ts';
import { errnoOf, openContained, removeContained, writeNew, writeWhole } from '../hooks/contained.ts';
import { DEFAULT_DIR_NAME, dirNameSchema, PLANS } from '../hooks/layout.ts';
import { check } from '../schemas.ts';
import { fileStamp, planText } from './plan-text.ts';
import { type PlanWriter, type TodoItem, todoListSchema } from './todos.ts';

const absolute = z.string().refine(isAbsolute, 'must be an absolute path');

/** Options of {@link filePlanWriter}. */
export const planWriterOptionsSchema = z.strictObject({
  workDir: absolute,
  sessionId: z.string().min(1, 'must not be empty'),
  /** Default: the user's. */
  home: absolute.optional(),
  /** In place of `.takeback`. The engine covers such a folder, unless `exclude` of `openWorkspace` names it. */
  dirName: dirNameSchema.optional(),
  /** The clock; a test's seam. */
  now: z.custom<() => Date>((v) => typeof v === 'function', 'must be a function').optional(),
});
export type PlanWriterOptions = z.input<typeof planWriterOptionsSchema>;

const FOLDER_MODE = 0o700;
/** Sessions that begin in one second with one beginning of their ids. */
const MAX_TAKES = 1000;

/** A plan writer, and the file that it writes. */
export interface FilePlanWriter extends PlanWriter {
  /** Absolute. Set when the writer is made; another number is in it only where another session had the name first. */
  readonly path: string;
}

/**
 * Makes the writer of a session's plan file, and its folder (0700; the file 0600).
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT`, or `ERR_IO` where the folder can't be made or written
 */
export async function filePlanWriter(options: PlanWriterOptions): Promise<FilePlanWriter> {
  const given = check(planWriterOptionsSchema, options, 'options');
  const now = given.now ?? (() => new Date());
  const base = (await hasGit(given.workDir)) ? given.workDir : (given.home ?? homedir());
  const dirName = given.dirName ?? DEFAULT_DIR_NAME;
  const slug = given.sessionId.slice(0, 8).replace(/[^A-Za-z0-9_-]/g, '_');
  const file = new PlanFile({
    base,
    parts: [dirName, PLANS],
    stem: `${fileStamp(now())}-${slug}`,
    text: (todos) => planText(todos, { sessionId: given.sessionId, at: now() }),
  });
  await file.probe();
  return file;
}

async function hasGit(workDir: string): Promise<boolean> {
  try {
    await stat(join(workDir, '.git'));
    return true;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return false;
    throw fault(`can't tell whether ${workDir} is a git project`, error);
  }
}

interface PlanPlace {
  readonly base: string;
  readonly parts: readonly string[];
  readonly stem: string;
  text(todos: readonly TodoItem[]): string;
}

class PlanFile implements FilePlanWriter {
  readonly #place: PlanPlace;
  #name: string;
  #made = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(place: PlanPlace) {
    this.#place = place;
    this.#name = `${place.stem}.md`;
  }

  get path(): string {
    return join(this.#place.base, ...this.#place.parts, this.#name);
  }

  /** Makes the folder, and a file in it that goes at once. */
  async probe(): Promise<void> {
    const name = `.${randomUUID()}.probe`;
    await this.#inFolder(async (folder) => {
      await writeWhole(folder, name, Buffer.alloc(0));
      await removeContained(folder, name);
    });
  }

  /** Writes the list, in the order of the calls. */
  async write(todos: readonly TodoItem[]): Promise<void> {
    const list = check(todoListSchema, todos, 'todos');
    const done = this.#last.then(() => this.#write(Buffer.from(this.#place.text(list))));
    this.#last = done.catch(() => undefined);
    await done;
  }

  #write(bytes: Buffer): Promise<void> {
    return this.#inFolder(async (folder) => {
      if (this.#made) return writeWhole(folder, this.#name, bytes);
      for (let take = 1; take <= MAX_TAKES; take++) {
        const name = take === 1 ? `${this.#place.stem}.md` : `${this.#place.stem}-${take}.md`;
        if (!(await writeNew(folder, name, bytes))) continue;
        this.#name = name;
        this.#made = true;
        return;
      }
      throw new Error(`${MAX_TAKES} plans of this second are there already`);
    });
  }

  async #inFolder(work: (folder: Awaited<ReturnType<typeof openContained>>) => Promise<void>): Promise<void> {
    const { base, parts } = this.#place;
    try {
      const folder = await openContained(base, parts, { makeMode: FOLDER_MODE });
      try {
        await work(folder);
      } finally {
        await folder.close();
      }
    } catch (error) {
      throw fault(`plan files can't be written to ${join(base, ...parts)}`, error);
    }
  }
}

function fault(what: string, error: unknown): TakebackError {
  const message = `${what}: ${error instanceof Error ? error.message : String(error)}`;
  return new TakebackError('ERR_IO', message, { cause: error });
}
