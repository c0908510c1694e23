/**
 * Sessions of an agent, kept in SQLite, and what else is kept for a session: a deletion takes all of it.
 *
 * Owns the order of a deletion: rows first, then the offloaded files, then the checkpoints. What could not be removed of the
 * last two never undoes the first, and is in the answer; deleting the same id again tries again. The database is opened with
 * the first method that needs it.
 *
 * Does not cover plan files (they are history), and sessions of the engine that have another name than the manager's.
 */
import { randomUUID } from 'node:crypto';
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import type { Workspace } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { check } from '../schemas.ts';
import type { Result } from '../types.ts';
import { backendFromEnvironment } from '../workspace.ts';
import { type RemovedFiles, removeSessionFiles, removeUnowned } from './session-files.ts';
import { SessionStore, type StoredMessage, type StoredSession } from './session-store.ts';
import { type TodoStore, todoListSchema } from './todos.ts';

const DAY_MS = 86_400_000;

const sessionIdSchema = z
  .string()
  .min(1, 'must not be empty')
  .max(1024, 'must have at most 1,024 characters')
  .refine((id) => id.isWellFormed() && !id.includes('\0'), 'must hold neither a lone surrogate nor a NUL character');

/** Options of {@link SessionManager}. */
export const sessionManagerOptionsSchema = z.strictObject({
  /** The SQLite file: absolute. Made, with its folders, where missing. */
  database: z.string().refine(isAbsolute, 'must be an absolute path'),
  /** The folder of offloaded outputs (`toolResultsDir(workDir)`): absolute. Without it, or with `''`, no file is removed. */
  toolResultsDir: z
    .string()
    .refine((path) => path === '' || isAbsolute(path), 'must be an absolute path, or empty')
    .optional(),
  /** Whose checkpoints go with a session: its `threadId` is the session's id. */
  workspace: z
    .custom<Pick<Workspace, 'session'>>(
      (v) => typeof (v as Workspace | null)?.session === 'function',
      'must be a workspace',
    )
    .optional(),
  /** The tenant of the sessions in that workspace. */
  tenantId: z.string().min(1).optional(),
  /** Whose SQLite. Default: `TAKEBACK_BACKEND`, else `auto`. One process must not open one file through both. */
  backend: z.enum(['auto', 'native', 'portable']).optional(),
});
export type SessionManagerOptions = z.input<typeof sessionManagerOptionsSchema>;

/** Argument of `createSession`. */
export const newSessionSchema = z.strictObject({
  id: sessionIdSchema.optional(),
  title: z.string().max(1024).optional(),
});
/** Argument of `appendMessage`. `content` is kept as JSON. */
export const newMessageSchema = z.strictObject({
  role: z.string().min(1, 'must not be empty').max(64),
  content: z.json(),
});

/** Options of `collect`. */
export const collectOptionsSchema = z.strictObject({ olderThanDays: z.number().min(0).optional() });

export interface DeletedSession {
  /** False where there was no row of that id. Files and checkpoints are looked for all the same. */
  readonly deleted: boolean;
  /** Folders of offloaded outputs that went, and what could not go. */
  readonly files: RemovedFiles;
  /** What dropping the checkpoints answered; null where no workspace was given. */
  readonly checkpoints: Result<{ freedBytes: number }> | null;
}

export class SessionManager {
  readonly #options: z.output<typeof sessionManagerOptionsSchema>;
  #store: Promise<SessionStore> | null = null;
  #closed = false;

  /** @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form. Opens nothing yet. */
  constructor(options: SessionManagerOptions) {
    this.#options = check(sessionManagerOptionsSchema, options, 'options');
  }

  /** The open database. A failure to open it is tried again by the next method. */
  async #use(): Promise<SessionStore> {
    if (this.#closed) throw new TakebackError('ERR_CLOSED', 'the session manager was closed');
    const { database, backend } = this.#options;
    this.#store ??= SessionStore.open(database, backend ?? backendFromEnvironment());
    try {
      return await this.#store;
    } catch (error) {
      this.#store = null;
      throw error;
    }
  }

  /**
   * Makes a session; without an id, with a random one.
   *
   * @throws {TakebackError} `ERR_DUPLICATE_SESSION`
   */
  async createSession(session: z.input<typeof newSessionSchema> = {}): Promise<StoredSession> {
    const { id = randomUUID(), title } = check(newSessionSchema, session, 'session');
    const at = Date.now();
    if (!(await (await this.#use()).create(id, title ?? null, at))) {
      throw new TakebackError('ERR_DUPLICATE_SESSION', `there is a session ${JSON.stringify(id)} already`);
    }
    return { id, title: title ?? null, createdAt: at, updatedAt: at };
  }

  /** Null where there is none of that id. */
  async session(id: string): Promise<StoredSession | null> {
    return (await this.#use()).find(checkId(id));
  }

  /** The newest `limit` (1,000) sessions, the one that changed last first. */
  async sessions({ limit = 1000 }: { limit?: number } = {}): Promise<StoredSession[]> {
    return (await this.#use()).list(check(z.number().int().positive(), limit, 'limit'));
  }

  /** @throws {TakebackError} `ERR_UNKNOWN_SESSION` */
  async appendMessage(sessionId: string, message: z.input<typeof newMessageSchema>): Promise<StoredMessage> {
    const session = checkId(sessionId);
    const stored = { ...check(newMessageSchema, message, 'message'), createdAt: Date.now() };
    const id = await (await this.#use()).append(session, stored);
    if (id === null) throw unknownSession(session);
    return { id, ...stored };
  }

  /** In the order in which they were appended; none for an unknown session. */
  async messages(sessionId: string): Promise<StoredMessage[]> {
    return (await this.#use()).messages(checkId(sessionId));
  }

  /** The task list of a session, for `todoWriteTool`. Its `write` throws `ERR_UNKNOWN_SESSION` for a session that isn't there. */
  todos(sessionId: string): TodoStore {
    const session = checkId(sessionId);
    return {
      read: async () => (await this.#use()).todos(session),
      write: async (todos) => {
        const list = check(todoListSchema, todos, 'todos');
        if (!(await (await this.#use()).writeTodos(session, list, Date.now()))) throw unknownSession(session);
      },
    };
  }

  /**
   * Forgets a session: its rows with messages and todos, its offloaded outputs, its checkpoints. Resolves also where files or
   * checkpoints could not go, and says so; only a fault of the database rejects.
   */
  async deleteSession(sessionId: string): Promise<DeletedSession> {
    const id = checkId(sessionId);
    const deleted = await (await this.#use()).remove(id);
    const { toolResultsDir = '' } = this.#options;
    const files = toolResultsDir === '' ? NO_FILES : await removeSessionFiles(toolResultsDir, id);
    return { deleted, files, checkpoints: await this.#dropCheckpoints(id) };
  }

  async #dropCheckpoints(threadId: string): Promise<DeletedSession['checkpoints']> {
    const { workspace, tenantId } = this.#options;
    if (workspace === undefined) return null;
    try {
      return await workspace.session({ threadId, ...(tenantId === undefined ? {} : { tenantId }) }).drop();
    } catch (error) {
      return {
        available: false,
        reason: 'unsupported',
        detail: error instanceof Error ? error.message : String(error),
      };
    }
  }

  /**
   * Removes folders of offloaded outputs that no session of this database owns and in which nothing changed for
   * `olderThanDays` (30). Folders that hold anything else stay, and are in `problems`; what isn't named as
   * `offloadHook` names things is passed over.
   */
  async collect(options: z.input<typeof collectOptionsSchema> = {}): Promise<RemovedFiles> {
    const { olderThanDays = 30 } = check(collectOptionsSchema, options, 'options');
    const { toolResultsDir = '' } = this.#options;
    const sessionIds = await (await this.#use()).ids();
    if (toolResultsDir === '') return NO_FILES;
    return removeUnowned(toolResultsDir, { sessionIds, before: Date.now() - olderThanDays * DAY_MS });
  }

  /** Closes the database. Every method then rejects with `ERR_CLOSED`. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const NO_FILES: RemovedFiles = { removed: [], problems: [] };

function checkId(id: string): string {
  return check(sessionIdSchema, id, 'sessionId');
}

function unknownSession(id: string): TakebackError {
  return new TakebackError('ERR_UNKNOWN_SESSION', `there is no session ${JSON.stringify(id)}: create it first`);
}
