/**
 * The session manager's database: sessions, their messages, their task lists. Owns the file, the schema and every statement.
 *
 * One connection, through the driver of a backend. A rollback journal, not a log: few and small writes, one file, any file
 * system. Each change is one transaction; whatever belongs to a session goes with its row.
 *
 * Not covered: two SQLite libraries on one file in one process (both backends at once): their locks undo each other.
 */
import { dirname } from 'node:path';
import type { BackendKind, SqlDriver, SqlRow } from '../backend/backend.ts';
import { openBackend } from '../backend/open.ts';
import { makeFolders } from '../data-dir.ts';
import { TakebackError } from '../errors.ts';
import { newerStore, setJournalMode } from '../timeline/store.ts';
import { storedUserVersion } from '../timeline/store-version.ts';
import type { TodoItem } from './todos.ts';

const VERSION = 1;
const TABLES = ['messages', 'sessions', 'todos'];

/** Text of callers is stored as JSON: a string of JavaScript can hold what UTF-8 can't. */
const SCHEMA = `
CREATE TABLE sessions (
  id TEXT PRIMARY KEY NOT NULL,
  title TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_update ON sessions (updated_at);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_by_session ON messages (session, id);
CREATE TABLE todos (
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  content TEXT NOT NULL,
  status TEXT NOT NULL,
  PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = ${VERSION};`;

export interface StoredSession {
  readonly id: string;
  readonly title: string | null;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface StoredMessage {
  /** Grows with each message of the database. */
  readonly id: number;
  readonly role: string;
  /** JSON. */
  readonly content: unknown;
  readonly createdAt: number;
}

export class SessionStore {
  readonly #driver: SqlDriver;
  readonly #closeBackend: () => Promise<void>;

  private constructor(driver: SqlDriver, closeBackend: () => Promise<void>) {
    this.#driver = driver;
    this.#closeBackend = closeBackend;
  }

  /**
   * Opens the database, or makes it (0600) with the folders that it lies in (0700).
   *
   * @throws {TakebackError} `ERR_STORE_NEWER` and `ERR_STORE_CORRUPT` for a file that isn't ours to write; what the driver throws
   */
  static async open(file: string, choice: 'auto' | BackendKind): Promise<SessionStore> {
    const stored = await reach(file);
    if (stored > VERSION) throw newerStore(file, stored, VERSION);
    const { backend } = await openBackend(choice);
    let driver: SqlDriver | undefined;
    try {
      driver = await backend.openDatabase({ file });
      await prepare(driver, file);
      return new SessionStore(driver, () => backend.close());
    } catch (error) {
      await driver?.close();
      await backend.close();
      throw error;
    }
  }

  async create(id: string, title: string | null, at: number): Promise<boolean> {
    const sql = 'INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id';
    return (await this.#driver.query(sql, [id, jsonOrNull(title), at, at])).length > 0;
  }

  async find(id: string): Promise<StoredSession | null> {
    const [row] = await this.#driver.query('SELECT * FROM sessions WHERE id = ?', [id]);
    return row === undefined ? null : toSession(row);
  }

  async list(limit: number): Promise<StoredSession[]> {
    const sql = 'SELECT * FROM sessions ORDER BY updated_at DESC, rowid DESC LIMIT ?';
    return (await this.#driver.query(sql, [limit])).map(toSession);
  }

  async ids(): Promise<string[]> {
    return (await this.#driver.query('SELECT id FROM sessions')).map(([id]) => id as string);
  }

  /** Null where there is no such session. */
  async append(session: string, message: Omit<StoredMessage, 'id'>): Promise<number | null> {
    const { role, content, createdAt } = message;
    const [, rows] = await this.#driver.transaction([
      { sql: 'UPDATE sessions SET updated_at = ? WHERE id = ?', params: [createdAt, session] },
      {
        sql: `INSERT INTO messages (session, role, content, created_at)
              SELECT id, ?, ?, ? FROM sessions WHERE id = ? RETURNING id`,
        params: [role, JSON.stringify(content), createdAt, session],
      },
    ]);
    return (rows?.[0]?.[0] as number | undefined) ?? null;
  }

  async messages(session: string): Promise<StoredMessage[]> {
    const sql = 'SELECT id, role, content, created_at FROM messages WHERE session = ? ORDER BY id';
    return (await this.#driver.query(sql, [session])).map(([id, role, content, createdAt]) => ({
      id: id as number,
      role: role as string,
      content: JSON.parse(content as string),
      createdAt: createdAt as number,
    }));
  }

  async todos(session: string): Promise<TodoItem[]> {
    const sql = 'SELECT content, status FROM todos WHERE session = ? ORDER BY place';
    return (await this.#driver.query(sql, [session])).map(([content, status]) => ({
      content: JSON.parse(content as string),
      status: status as TodoItem['status'],
    }));
  }

  /** False where there is no such session. */
  async writeTodos(session: string, todos: readonly TodoItem[], at: number): Promise<boolean> {
    const [touched] = await this.#driver.transaction([
      { sql: 'UPDATE sessions SET updated_at = ? WHERE id = ? RETURNING id', params: [at, session] },
      { sql: 'DELETE FROM todos WHERE session = ?', params: [session] },
      {
        sql: 'INSERT INTO todos SELECT id, ?, ?, ? FROM sessions WHERE id = ?',
        many: todos.map(({ content, status }, place) => [place, JSON.stringify(content), status, session]),
      },
    ]);
    return (touched ?? []).length > 0;
  }

  /** False where there was no such session. */
  async remove(id: string): Promise<boolean> {
    return (await this.#driver.query('DELETE FROM sessions WHERE id = ? RETURNING id', [id])).length > 0;
  }

  async close(): Promise<void> {
    await this.#driver.close();
    await this.#closeBackend();
  }
}

/** Makes the folders, and tells the version of the file in them; 0 where there is none. */
async function reach(file: string): Promise<number> {
  try {
    makeFolders(dirname(file));
    return await storedUserVersion(file);
  } catch (error) {
    throw new TakebackError('ERR_IO', `can't open ${file}: ${(error as Error).message}`, { cause: error });
  }
}

async function prepare(driver: SqlDriver, file: string): Promise<void> {
  // Before anything is set: a file that isn't ours stays as it is.
  await checkTables(driver, file);
  await driver.exec('PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL');
  await setJournalMode(driver, 'truncate');
  await driver.exec('BEGIN IMMEDIATE');
  try {
    // Looked at again: another process may have been first.
    if ((await checkTables(driver, file)) === 'empty') await driver.exec(SCHEMA);
    await driver.exec('COMMIT');
  } catch (error) {
    await driver.exec('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

async function checkTables(driver: SqlDriver, file: string): Promise<'empty' | 'ours'> {
  const sql = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`;
  const tables = (await driver.query(sql)).map(([name]) => name);
  if (tables.length === 0) return 'empty';
  if (TABLES.every((table) => tables.includes(table))) return 'ours';
  throw new TakebackError(
    'ERR_STORE_CORRUPT',
    `${file} is a database, but not one of this session manager. Choose another file; nothing was changed.`,
  );
}

function toSession([id, title, createdAt, updatedAt]: SqlRow): StoredSession {
  return {
    id: id as string,
    title: title === null ? null : JSON.parse(title as string),
    createdAt: createdAt as number,
    updatedAt: updatedAt as number,
  };
}

function jsonOrNull(text: string | null): string | null {
  return text === null ? null : JSON.stringify(text);
}
