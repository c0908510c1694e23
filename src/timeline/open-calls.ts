/**
 * Open calls of all roots of one data directory: `open-calls.db`, so that roots that contain each other know when a call
 * of the other could have changed their files.
 *
 * Owns one table of open calls and, per root, when a call of it was last open; of an ended call nothing else matters.
 * Times are milliseconds of the system clock: what they decide is whether a change is called contested, never whether
 * bytes are kept. A detached call outlives the process that began it, so it has no owner and is never pruned.
 *
 * Not covered: roots with different data directories, and a containing root reached by another mount.
 */
import { join, sep } from 'node:path';
import type { SqlDriver, SqlRow, SqlValue } from '../backend/backend.ts';
import { currentOwner, ownerGone } from '../process-owner.ts';
import { comparePaths, decodeName, encodeName } from '../rel-path.ts';
import { bytes, fromString, toInt, toText } from './records.ts';
import { boundLog, type DatabaseOpener, newerStore, setJournalMode } from './store.ts';
import { storedUserVersion } from './store-version.ts';
import type { CallOwner } from './timeline.ts';

const VERSION = 1;

const SCHEMA = `
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS roots (root BLOB PRIMARY KEY, last_open INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS open_calls (
  root BLOB NOT NULL,
  invocation INTEGER NOT NULL,
  session ANY NOT NULL,
  pid INTEGER,
  start_time INTEGER,
  boot_id TEXT,
  host_id TEXT,
  began_at INTEGER NOT NULL,
  PRIMARY KEY (root, invocation)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = ${VERSION};
COMMIT;`;

const OWNED_COLUMNS = 'root, invocation, pid, start_time, boot_id, host_id';

export interface OpenCall {
  /** Real path of the root. */
  readonly root: string;
  /** Names the session among all, for people. */
  readonly sessionKey: string;
  /** The call's invocation in its root's timeline. */
  readonly invocation: number;
  /** Null for a detached call. */
  readonly owner: CallOwner | null;
}

export interface OpenCalls {
  begin(call: OpenCall): Promise<void>;
  /** Nothing where there is no such call. */
  end(invocation: number, root: string): Promise<void>;
  /**
   * Real paths of the other roots, containing or contained, that had a call open at some moment since `sinceMs` (epoch);
   * sorted by bytes. A call whose owner is gone is told once more, and ended.
   */
  overlapping(root: string, sinceMs: number): Promise<string[]>;
  /** Ends the calls whose owner is gone, as of now; answers how many. */
  prune(): Promise<number>;
  /** As of `Timeline`. */
  boundLog(): Promise<void>;
  close(): Promise<void>;
}

class SqliteOpenCalls implements OpenCalls {
  readonly #driver: SqlDriver;
  readonly #file: string;

  constructor(driver: SqlDriver, file: string) {
    this.#driver = driver;
    this.#file = file;
  }

  async begin({ root, sessionKey, invocation, owner }: OpenCall): Promise<void> {
    const who: SqlValue[] =
      owner === null ? [null, null, null, null] : [owner.pid, owner.startTime, owner.bootId, owner.hostId];
    await this.#driver.query(
      `INSERT OR REPLACE INTO open_calls (root, invocation, session, pid, start_time, boot_id, host_id, began_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      [rootKey(root), invocation, fromString(sessionKey), ...who, Date.now()],
    );
  }

  async end(invocation: number, root: string): Promise<void> {
    await this.#endAll([[rootKey(root), invocation]]);
  }

  async #endAll(calls: readonly (readonly SqlValue[])[]): Promise<void> {
    const now = Date.now();
    await this.#driver.transaction([
      {
        sql: `INSERT INTO roots (root, last_open) SELECT root, ? FROM open_calls WHERE root = ? AND invocation = ?
          ON CONFLICT DO UPDATE SET last_open = max(last_open, excluded.last_open)`,
        many: calls.map((call) => [now, ...call]),
      },
      { sql: 'DELETE FROM open_calls WHERE root = ? AND invocation = ?', many: calls },
    ]);
  }

  async overlapping(root: string, sinceMs: number): Promise<string[]> {
    const key = rootKey(root);
    const [low, high] = below(key);
    const above = ancestors(key);
    const related = `((root > ? AND root < ?) OR root IN (${above.map(() => '?').join(', ')}))`;
    const range = [low, high, ...above];
    const [open, ended] = await Promise.all([
      this.#driver.query(`SELECT ${OWNED_COLUMNS} FROM open_calls WHERE ${related}`, range),
      this.#driver.query(`SELECT root FROM roots WHERE ${related} AND last_open >= ?`, [...range, sinceMs]),
    ]);
    if (open.length > 0) await this.#endGone(open);
    const others = [...open, ...ended].map(([other]) => rootName(bytes(other)));
    return [...new Set(others)].sort(comparePaths);
  }

  async prune(): Promise<number> {
    return await this.#endGone(await this.#driver.query(`SELECT ${OWNED_COLUMNS} FROM open_calls`));
  }

  /** Ends those whose owner is gone. When it died nobody saw: they count as open until now. */
  async #endGone(open: readonly SqlRow[]): Promise<number> {
    const here = currentOwner();
    const gone = open.filter(
      ([, , pid, startTime, bootId, hostId]) =>
        pid !== null &&
        ownerGone(
          { pid: toInt(pid), startTime: toInt(startTime), bootId: toText(bootId), hostId: toText(hostId) },
          here,
        ),
    );
    if (gone.length > 0) await this.#endAll(gone.map(([root, invocation]) => [bytes(root), toInt(invocation)]));
    return gone.length;
  }

  boundLog(): Promise<void> {
    return boundLog(this.#driver, this.#file);
  }

  close(): Promise<void> {
    return this.#driver.close();
  }
}

/**
 * Bytes of a root with `/` between its parts and one at its end, so that containment is a matter of prefixes, and no
 * key is empty (node:sqlite binds an empty blob as NULL).
 */
function rootKey(root: string): Buffer {
  const name = sep === '/' ? root : root.replaceAll(sep, '/');
  return encodeName(`${name.replace(/\/+$/, '')}/`);
}

function rootName(key: Buffer): string {
  if (key.length === 1) return '/';
  const name = decodeName(key.subarray(0, -1));
  return sep === '/' ? name : name.replaceAll('/', sep);
}

const SLASH = 0x2f;

/** Bounds, both left out, of the keys below a root: what starts with its key. */
function below(key: Buffer): [Buffer, Buffer] {
  return [key, Buffer.from([...key.subarray(0, -1), SLASH + 1])];
}

/** Keys of the roots that may contain this one. */
function ancestors(key: Buffer): Buffer[] {
  const out: Buffer[] = [];
  for (let at = key.indexOf(SLASH); at >= 0 && at < key.length - 1; at = key.indexOf(SLASH, at + 1))
    out.push(key.subarray(0, at + 1));
  return out;
}

/**
 * Opens the table of a data directory, or makes it. Commits are not synced: a power cut ends all calls anyway.
 *
 * @throws {TakebackError} `ERR_STORE_NEWER`, and what the driver throws
 */
export async function openOpenCalls(
  backend: DatabaseOpener,
  dataDir: string,
  options: { networkFileSystem?: boolean } = {},
): Promise<OpenCalls> {
  const file = join(dataDir, 'open-calls.db');
  const stored = await storedUserVersion(file);
  if (stored > VERSION) throw newerStore(file, stored, VERSION);
  const driver = await backend.openDatabase({ file });
  try {
    const [version] = await driver.query('PRAGMA user_version');
    if (toInt(version?.[0]) > VERSION) throw newerStore(file, toInt(version?.[0]), VERSION);
    if (toInt(version?.[0]) < VERSION) await driver.exec(SCHEMA);
    await setJournalMode(driver, options.networkFileSystem ? 'truncate' : 'wal');
    // With a log, NORMAL syncs at checkpoints only, and never tears.
    await driver.exec(`PRAGMA synchronous = ${options.networkFileSystem ? 'FULL' : 'NORMAL'}`);
    return new SqliteOpenCalls(driver, file);
  } catch (error) {
    await driver.close();
    throw error;
  }
}
