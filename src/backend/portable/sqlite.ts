/**
 * The portable SQLite driver: one connection in a worker thread of its own, so that neither a synced commit nor a wait
 * for another process holds up the JS thread.
 *
 * Owns: creation of the file (0600 whatever the umask), the worker's life, and the messages. `sqlite-worker.ts` holds
 * the connection. Requests run in the order in which they were made. All blobs of a message travel in one buffer of
 * their own: a small `Buffer` is a view of a shared slab, and cloning it would copy the slab.
 *
 * Does not cover: SQL of any kind, the journal mode, or two SQLite libraries on one file in one process (POSIX locks are
 * dropped when either closes; whoever opens a store must use one driver for it).
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, linkSync, openSync, unlinkSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, TakebackError } from '../../errors.ts';
import type { DatabaseOptions, SqlDriver, SqlRow, SqlStatement, SqlValue } from '../backend.ts';
import { workerFault } from './worker-fault.ts';

/** What the driver asks of its worker. `slab` holds the bytes of every blob in the request. */
export type SqlRequest =
  | { readonly id: number; readonly kind: 'exec'; readonly sql: string }
  | { readonly id: number; readonly kind: 'run'; readonly wrap: boolean; readonly statements: readonly SqlStatement[] }
  | { readonly id: number; readonly kind: 'close' };

/** What the worker answers. A fault crosses as plain data: structured clone drops the properties of an `Error`. */
export type SqlAnswer =
  | { readonly id: number; readonly ok: true; readonly rows: SqlRow[][] }
  | {
      readonly id: number;
      readonly ok: false;
      readonly code: ErrorCode;
      readonly message: string;
      readonly errcode?: number;
    };

export interface SqlWorkerData {
  readonly file: string;
  readonly busyTimeoutMs: number;
}

interface Waiting {
  readonly resolve: (rows: SqlRow[][]) => void;
  readonly reject: (error: TakebackError) => void;
}

/** The id of the answer that the worker gives once the database is open. */
export const OPENED = 0;

/** The built worker: the sibling file, or its build where this file runs from the sources (tests). */
function workerUrl(): URL {
  return import.meta.url.endsWith('.ts')
    ? new URL('../../../dist/backend/portable/sqlite-worker.js', import.meta.url)
    : new URL('./sqlite-worker.js', import.meta.url);
}

/**
 * Makes an empty database file with mode 0600 where there is none. By a link from a temp name: no descriptor on the
 * file itself is ever closed, which would drop the locks of a connection that this process has on it.
 */
function createPrivately(file: string): void {
  const temp = `${file}.${randomBytes(8).toString('hex')}.new`;
  closeSync(openSync(temp, 'wx', 0o600));
  try {
    chmodSync(temp, 0o600);
    linkSync(temp, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    unlinkSync(temp);
  }
}

/** Moves the bytes of every blob below `value` into one buffer, and puts views of it in their place. */
export function packBlobs<T>(value: T): { value: T; transfer: ArrayBuffer[] } {
  let total = 0;
  const measure = (item: unknown): void => {
    if (item instanceof Uint8Array) total += item.length;
    else if (Array.isArray(item)) item.forEach(measure);
    else if (typeof item === 'object' && item !== null) Object.values(item).forEach(measure);
  };
  measure(value);
  if (total === 0) return { value, transfer: [] };
  const slab = new Uint8Array(total);
  let at = 0;
  const place = (item: unknown): unknown => {
    if (item instanceof Uint8Array) {
      slab.set(item, at);
      at += item.length;
      return slab.subarray(at - item.length, at);
    }
    if (Array.isArray(item)) return item.map(place);
    if (typeof item !== 'object' || item === null) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [key, place(inner)]));
  };
  return { value: place(value) as T, transfer: [slab.buffer] };
}

class PortableDatabase implements SqlDriver {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = OPENED;
  #closed: TakebackError | null = null;
  #closing: Promise<void> | null = null;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', (answer: SqlAnswer) => this.#settle(answer));
    worker.on('error', (error) => this.#fail(workerFault(error)));
    worker.on('exit', () => this.#fail(new TakebackError('ERR_CLOSED', 'the database was closed')));
    worker.unref();
  }

  /** Resolves once the worker has the database open. */
  opened(): Promise<unknown> {
    return this.#await();
  }

  #await(): Promise<SqlRow[][]> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.ref();
    });
  }

  #ask(request: Record<string, unknown> & { kind: SqlRequest['kind'] }): Promise<SqlRow[][]> {
    if (this.#closed !== null) return Promise.reject(this.#closed);
    const { value, transfer } = packBlobs({ id: this.#nextId, ...request });
    const answer = this.#await();
    this.#worker.postMessage(value, transfer);
    return answer;
  }

  #settle(answer: SqlAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (answer.ok) waiting?.resolve(answer.rows);
    else waiting?.reject(new TakebackError(answer.code, answer.message, { cause: { errcode: answer.errcode } }));
  }

  #fail(error: TakebackError): void {
    this.#closed ??= error;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }

  async exec(sql: string): Promise<void> {
    await this.#ask({ kind: 'exec', sql });
  }

  async query(sql: string, params: readonly SqlValue[] = []): Promise<SqlRow[]> {
    const [rows] = await this.#ask({ kind: 'run', wrap: false, statements: [{ sql, params }] });
    return rows as SqlRow[];
  }

  transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    return this.#ask({ kind: 'run', wrap: true, statements });
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    if (this.#closed === null) {
      const last = this.#ask({ kind: 'close' });
      this.#closed = new TakebackError('ERR_CLOSED', 'the database was closed');
      await last;
    }
    await this.#worker.terminate();
  }
}

/**
 * Opens or makes a SQLite file, through `node:sqlite` where it is new enough, else `@photostructure/sqlite`.
 *
 * @throws {TakebackError} `ERR_UNSUPPORTED` where neither can be used here, `ERR_IO` where the file can't be opened
 */
export async function openPortableDatabase(options: DatabaseOptions): Promise<SqlDriver> {
  try {
    createPrivately(options.file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const kind = code === 'ENOSPC' || code === 'EDQUOT' ? 'ERR_NO_SPACE' : 'ERR_IO';
    throw new TakebackError(kind, `can't make the database ${options.file}: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const workerData: SqlWorkerData = { file: options.file, busyTimeoutMs: options.busyTimeoutMs ?? 10_000 };
  // execArgv: what a test runner or a loader passed to this process is not meant for our worker.
  const database = new PortableDatabase(new Worker(workerUrl(), { workerData, execArgv: [] }));
  await database.opened();
  return database;
}
