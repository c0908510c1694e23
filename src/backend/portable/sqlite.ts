/**
 * The portable SQLite driver: connections in a worker thread, so that neither a synced commit nor a wait for another
 * process holds up the JS thread.
 *
 * Owns: creation of the file (0600 whatever the umask), the worker's life, and the messages. `sqlite-worker.ts` holds
 * the connections. The databases of one workspace share a thread, for a thread costs more to start than all that they
 * do: their requests run in the order in which they were made, and one that waits for another process holds up the
 * others. All blobs of a message travel in one buffer of their own: a small `Buffer` is a view of a shared slab, and
 * cloning it would copy the slab.
 *
 * Does not cover: SQL of any kind, the journal mode, or two SQLite libraries on one file in one process (POSIX locks are
 * dropped when either closes; whoever opens a store must use one driver for it).
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, linkSync, openSync, unlinkSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, TakebackError } from '../../errors.ts';
import type { DatabaseOptions, SqlDriver, SqlRow, SqlStatement, SqlValue } from '../backend.ts';
import { atDatabase } from '../sql-fault.ts';
import { workerFault } from './worker-fault.ts';

/** What the driver asks of its worker, of one of the connections there. */
type SqlWork =
  | { readonly kind: 'open'; readonly file: string; readonly busyTimeoutMs: number }
  | { readonly kind: 'exec'; readonly sql: string }
  | { readonly kind: 'run'; readonly wrap: boolean; readonly statements: readonly SqlStatement[] }
  | { readonly kind: 'close' };

export type SqlRequest = SqlWork & { readonly id: number; readonly connection: number };

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

interface Waiting {
  readonly resolve: (rows: SqlRow[][]) => void;
  readonly reject: (error: TakebackError) => void;
}

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

/** A worker thread with connections in it: started by the first one, ended with the last. */
export class SqlThread {
  #worker: Worker | null = null;
  #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #nextConnection = 1;
  #connections = 0;

  /** @throws {TakebackError} what the worker answers, `ERR_CLOSED` where it ended */
  async open(file: string, busyTimeoutMs: number): Promise<SqlDriver> {
    const connection = this.#nextConnection++;
    this.#connections += 1;
    const worker = this.#worker ?? this.#start();
    const ask = (work: SqlWork): Promise<SqlRow[][]> => atDatabase(file, this.#ask(worker, connection, work));
    try {
      await ask({ kind: 'open', file, busyTimeoutMs });
    } catch (error) {
      await this.#release(worker);
      throw error;
    }
    return new PortableDatabase(ask, () => this.#release(worker));
  }

  #start(): Worker {
    // execArgv: what a test runner or a loader passed to this process is not meant for our worker.
    const worker = new Worker(workerUrl(), { name: 'takeback-sqlite', execArgv: [] });
    worker.on('message', (answer: SqlAnswer) => this.#settle(worker, answer));
    worker.on('error', (error) => this.#end(worker, workerFault(error)));
    worker.on('exit', () => this.#end(worker, new TakebackError('ERR_CLOSED', 'the database was closed')));
    worker.unref();
    this.#worker = worker;
    return worker;
  }

  #ask(worker: Worker, connection: number, work: SqlWork): Promise<SqlRow[][]> {
    if (worker !== this.#worker)
      return Promise.reject(new TakebackError('ERR_CLOSED', 'the database was closed: its thread ended'));
    const id = this.#nextId++;
    const { value, transfer } = packBlobs<SqlRequest>({ id, connection, ...work });
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      worker.ref();
      worker.postMessage(value, transfer);
    });
  }

  #settle(worker: Worker, answer: SqlAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) worker.unref();
    if (answer.ok) waiting?.resolve(answer.rows);
    else waiting?.reject(new TakebackError(answer.code, answer.message, { cause: { errcode: answer.errcode } }));
  }

  /** What waits for this worker fails; the next connection gets a new one. */
  #end(worker: Worker, error: TakebackError): void {
    if (worker !== this.#worker) return;
    this.#worker = null;
    this.#connections = 0;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }

  async #release(worker: Worker): Promise<void> {
    if (worker !== this.#worker) return;
    this.#connections -= 1;
    if (this.#connections > 0) return;
    this.#worker = null;
    await worker.terminate();
  }
}

class PortableDatabase implements SqlDriver {
  readonly #ask: (work: SqlWork) => Promise<SqlRow[][]>;
  readonly #release: () => Promise<void>;
  #closing: Promise<void> | null = null;

  constructor(ask: (work: SqlWork) => Promise<SqlRow[][]>, release: () => Promise<void>) {
    this.#ask = ask;
    this.#release = release;
  }

  async #work(work: SqlWork): Promise<SqlRow[][]> {
    if (this.#closing !== null) throw new TakebackError('ERR_CLOSED', 'the database was closed');
    return this.#ask(work);
  }

  async exec(sql: string): Promise<void> {
    await this.#work({ kind: 'exec', sql });
  }

  async query(sql: string, params: readonly SqlValue[] = []): Promise<SqlRow[]> {
    const [rows] = await this.#work({ kind: 'run', wrap: false, statements: [{ sql, params }] });
    return rows as SqlRow[];
  }

  transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    return this.#work({ kind: 'run', wrap: true, statements });
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    try {
      await this.#ask({ kind: 'close' });
    } finally {
      await this.#release();
    }
  }
}

/**
 * Opens or makes a SQLite file, through `node:sqlite` where it is new enough, else `@photostructure/sqlite`.
 *
 * @param thread where the connection lives; by default one of its own
 * @throws {TakebackError} `ERR_UNSUPPORTED` where neither can be used here, `ERR_IO` where the file can't be opened
 */
export async function openPortableDatabase(
  { file, busyTimeoutMs = 10_000 }: DatabaseOptions,
  thread: SqlThread = new SqlThread(),
): Promise<SqlDriver> {
  try {
    createPrivately(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const kind = code === 'ENOSPC' || code === 'EDQUOT' ? 'ERR_NO_SPACE' : 'ERR_IO';
    throw new TakebackError(kind, `can't make the database ${file}: ${(error as Error).message}`, { cause: error });
  }
  return thread.open(file, busyTimeoutMs);
}
