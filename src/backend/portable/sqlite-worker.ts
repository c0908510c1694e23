/**
 * Worker thread that holds SQLite connections, by number, and runs the requests of `sqlite.ts`, in order.
 *
 * Owns: the choice of the library (`node:sqlite` and `@photostructure/sqlite` have one API), prepared statements, the
 * bracket of a transaction, and the translation of SQLite's result codes. Integers are bound and read as bigints inside,
 * so that no library's own idea of a number decides between INTEGER and REAL.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import { type ErrorCode, TakebackError } from '../../errors.ts';
import type { SqlRow, SqlStatement, SqlValue } from '../backend.ts';
import { packBlobs, type SqlAnswer, type SqlRequest } from './sqlite.ts';

interface Statement {
  all(...params: SqlValue[]): unknown[];
  run(...params: SqlValue[]): unknown;
  columns(): unknown[];
  setReadBigInts(on: boolean): void;
  setReturnArrays(on: boolean): void;
}

interface Database {
  readonly isTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

interface SqliteModule {
  readonly DatabaseSync: new (file: string, options: { timeout: number }) => Database;
}

interface Prepared {
  readonly statement: Statement;
  readonly hasRows: boolean;
}

/** Statements kept prepared; the engine has some dozens. */
const MAX_PREPARED = 200;

/** The first SQLite without the bug that corrupts a WAL when two connections write and checkpoint at once. */
const SAFE_SQLITE = [3, 51, 3] as const;

function isSafe(version: string | undefined): boolean {
  const parts = (version ?? '').split('.').map(Number);
  for (const [i, least] of SAFE_SQLITE.entries()) {
    const part = parts[i] ?? 0;
    if (part !== least) return part > least;
  }
  return true;
}

/** Imports a module that this Node, or this installation, may not have. */
async function importOptional(name: string): Promise<SqliteModule | Error> {
  try {
    return (await import(name)) as SqliteModule;
  } catch (error) {
    return error as Error;
  }
}

async function loadSqlite(): Promise<SqliteModule> {
  if (isSafe(process.versions.sqlite)) {
    const emitWarning = process.emitWarning;
    // This thread's own `process`: node:sqlite warns that it is experimental, which is no news to the user of ours.
    process.emitWarning = () => {};
    const builtin = await importOptional('node:sqlite');
    process.emitWarning = emitWarning;
    if (!(builtin instanceof Error)) return builtin;
  }
  const installed = await importOptional('@photostructure/sqlite');
  if (!(installed instanceof Error)) return installed;
  throw new TakebackError(
    'ERR_UNSUPPORTED',
    `no usable SQLite here (Node ${process.versions.node}): install the package @photostructure/sqlite, or use Node 22.22.3 or newer`,
    { cause: installed },
  );
}

function errorCode(errcode: number): ErrorCode {
  // The low byte is the primary result code; node:sqlite reports the extended one.
  switch (errcode & 0xff) {
    case 5: // SQLITE_BUSY
      return 'ERR_BUSY';
    case 13: // SQLITE_FULL
      return 'ERR_NO_SPACE';
    case 11: // SQLITE_CORRUPT
    case 26: // SQLITE_NOTADB
      return 'ERR_STORE_CORRUPT';
    default:
      return 'ERR_IO';
  }
}

/** `all` of @photostructure/sqlite 1.2.1 throws SQLite's text without its code. */
const CODE_OF_TEXT: Readonly<Record<string, number>> = {
  'database is locked': 5,
  'database disk image is malformed': 11,
  'database or disk is full': 13,
  'file is not a database': 26,
};

function failure(id: number, error: unknown): SqlAnswer {
  if (error instanceof TakebackError) return { id, ok: false, code: error.code, message: error.message };
  const { message, errcode = CODE_OF_TEXT[message] } = error as { errcode?: number; message: string };
  if (errcode === undefined) return { id, ok: false, code: 'ERR_IO', message };
  return { id, ok: false, code: errorCode(errcode), message: `SQLite: ${message}`, errcode };
}

function bindable(value: SqlValue): SqlValue {
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
}

function readable(value: SqlValue): SqlValue {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

class Connection {
  readonly #database: Database;
  readonly #prepared = new Map<string, Prepared>();

  constructor(database: Database) {
    this.#database = database;
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    const prepared = { statement, hasRows: statement.columns().length > 0 };
    if (this.#prepared.size >= MAX_PREPARED) this.#prepared.clear();
    this.#prepared.set(sql, prepared);
    return prepared;
  }

  #run({ sql, params, many }: SqlStatement): SqlRow[] {
    const { statement, hasRows } = this.#prepare(sql);
    const out: SqlRow[] = [];
    for (const list of many ?? [params ?? []]) {
      const bound = list.map(bindable);
      if (!hasRows) statement.run(...bound);
      else for (const row of statement.all(...bound)) out.push((row as SqlValue[]).map(readable));
    }
    return out;
  }

  exec(sql: string): void {
    this.#database.exec(sql);
  }

  run(statements: readonly SqlStatement[], wrap: boolean): SqlRow[][] {
    if (!wrap) return statements.map((statement) => this.#run(statement));
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const rows = statements.map((statement) => this.#run(statement));
      this.#database.exec('COMMIT');
      return rows;
    } catch (error) {
      // SQLite itself may have rolled back (a full disk, say).
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  close(): void {
    this.#prepared.clear();
    this.#database.close();
  }
}

class Connections {
  readonly #open = new Map<number, Connection>();
  readonly #sqlite: SqliteModule | TakebackError;

  constructor(sqlite: SqliteModule | TakebackError) {
    this.#sqlite = sqlite;
  }

  #of(number: number): Connection {
    const connection = this.#open.get(number);
    if (connection === undefined) throw new TakebackError('ERR_CLOSED', 'the database was closed');
    return connection;
  }

  answer(request: SqlRequest): SqlRow[][] {
    const { connection } = request;
    switch (request.kind) {
      case 'open': {
        if (this.#sqlite instanceof TakebackError) throw this.#sqlite;
        const database = new this.#sqlite.DatabaseSync(request.file, { timeout: request.busyTimeoutMs });
        this.#open.set(connection, new Connection(database));
        return [];
      }
      case 'exec':
        this.#of(connection).exec(request.sql);
        return [];
      case 'run':
        return this.#of(connection).run(request.statements, request.wrap);
      case 'close':
        this.#of(connection).close();
        this.#open.delete(connection);
        return [];
    }
  }
}

function serve(port: MessagePort, connections: Connections): void {
  port.on('message', (request: SqlRequest) => {
    try {
      const rows = connections.answer(request);
      const { value, transfer } = packBlobs<SqlAnswer>({ id: request.id, ok: true, rows });
      port.postMessage(value, transfer);
    } catch (error) {
      port.postMessage(failure(request.id, error));
    }
  });
}

const sqlite = await loadSqlite().catch((error: TakebackError) => error);
serve(parentPort as MessagePort, new Connections(sqlite));
