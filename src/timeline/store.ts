/**
 * Opens timeline.db: version check, creation, migration, journal mode. Owns everything about the file but its contents.
 *
 * A store of a newer version is refused before SQLite opens it, so that its files stay as they are; what the bytes did
 * not tell is looked at again by query, before anything is written. Of two processes that create at once one wins, and
 * the other finds the store made: all of a creation is one transaction, begun IMMEDIATE.
 */
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, SqlDriver } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { RandomId } from '../types.ts';
import { fromString, fromUnsigned, toInt, toText, toUnsigned } from './records.ts';
import { MIGRATIONS, SCHEMA_VERSION, TABLES } from './schema.sql.ts';
import { storedUserVersion } from './store-version.ts';

/** What opens databases: a backend, or a part of one. */
export type DatabaseOpener = Pick<Backend, 'openDatabase'>;

export interface OpenedStore {
  readonly driver: SqlDriver;
  readonly storeId: RandomId;
  readonly seed: bigint;
}

/** A log of this size at most stays on disk after a large append. */
const LOG_LIMIT_BYTES = 4 << 20;
/** How long the switch of the journal mode waits for other connections; SQLite does not wait there. */
const MODE_SWITCH_MS = 10_000;

export function newerStore(file: string, version: number, ours: number): TakebackError {
  return new TakebackError(
    'ERR_STORE_NEWER',
    `${file} was made by a newer version of takeback (schema ${version}, this one knows ${ours}). Update takeback; the store was left untouched.`,
  );
}

function corruptStore(file: string, detail: string, cause?: unknown): TakebackError {
  return new TakebackError(
    'ERR_STORE_CORRUPT',
    `${file} can't be read: ${detail}. Move its folder away to start anew; nothing was changed.`,
    { cause },
  );
}

export async function openStore(
  opener: DatabaseOpener,
  file: string,
  options: { root: string; networkFileSystem: boolean },
): Promise<OpenedStore> {
  const stored = await storedUserVersion(file);
  if (stored > SCHEMA_VERSION) throw newerStore(file, stored, SCHEMA_VERSION);
  const driver = await openDriver(opener, file);
  try {
    const version = await schemaVersion(driver, file);
    if (version < SCHEMA_VERSION) await migrate(driver, file, options.root);
    // Asked together: each answer that is waited for by itself costs a change of threads.
    const [identity] = await Promise.all([readIdentity(driver, file), checkTables(driver, file)]);
    await setPragmas(driver, options.networkFileSystem);
    return { driver, ...identity };
  } catch (error) {
    await driver.close();
    if (!(error instanceof TakebackError) || error.code !== 'ERR_STORE_CORRUPT' || error.message.startsWith(file))
      throw error;
    throw corruptStore(file, error.message, error);
  }
}

async function openDriver(opener: DatabaseOpener, file: string): Promise<SqlDriver> {
  try {
    return await opener.openDatabase({ file });
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_STORE_CORRUPT')
      throw corruptStore(file, error.message, error);
    throw error;
  }
}

/** 0 for a file without tables. Reads only. */
async function schemaVersion(driver: SqlDriver, file: string): Promise<number> {
  const tables = await driver.query(`SELECT name FROM sqlite_schema WHERE type = 'table'`);
  if (tables.length === 0) return 0;
  if (!tables.some(([name]) => name === 'meta')) throw corruptStore(file, 'it is a database, but not a timeline');
  const [row] = await driver.query(`SELECT value FROM meta WHERE key = 'schema_version'`);
  if (row === undefined) throw corruptStore(file, 'it does not say its version');
  const version = toInt(row[0]);
  if (version > SCHEMA_VERSION) throw newerStore(file, version, SCHEMA_VERSION);
  return version;
}

async function migrate(driver: SqlDriver, file: string, root: string): Promise<void> {
  for (const [index, sql] of MIGRATIONS.entries()) {
    const version = index + 1;
    await driver.exec('BEGIN IMMEDIATE');
    try {
      // Looked at again inside: another process may have been first.
      if ((await schemaVersion(driver, file)) < version) {
        await driver.exec(sql);
        if (version === 1) await writeIdentity(driver, root);
        await driver.query(`INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', ?)`, [version]);
        await driver.exec(`PRAGMA user_version = ${version}`);
      }
      await driver.exec('COMMIT');
    } catch (error) {
      // SQLite may have rolled back by itself; the first fault is the one that tells.
      await driver.exec('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }
}

async function writeIdentity(driver: SqlDriver, root: string): Promise<void> {
  const seed = randomBytes(8).readBigUInt64LE();
  await driver.query(
    `INSERT INTO meta (key, value) VALUES ('store_id', ?), ('seed', ?), ('root', ?), ('created_at', ?)`,
    [randomBytes(16).toString('hex'), fromUnsigned(seed), fromString(root), Date.now()],
  );
}

async function readIdentity(driver: SqlDriver, file: string): Promise<{ storeId: RandomId; seed: bigint }> {
  const rows = await driver.query(`SELECT key, value FROM meta WHERE key IN ('seed', 'store_id') ORDER BY key`);
  const [seed, storeId] = rows;
  if (seed === undefined || storeId === undefined) throw corruptStore(file, 'its id or its seed is missing');
  return { storeId: toText(storeId[1]), seed: toUnsigned(seed[1]) };
}

async function checkTables(driver: SqlDriver, file: string): Promise<void> {
  const tables = await driver.query(`SELECT name FROM sqlite_schema WHERE type = 'table'`);
  const found = new Set(tables.map(([name]) => name));
  const missing = TABLES.filter((table) => !found.has(table));
  if (missing.length > 0) throw corruptStore(file, `the tables ${missing.join(', ')} are missing`);
  const [row] = await driver.query('SELECT count(*) FROM state');
  if (row?.[0] !== 1) throw corruptStore(file, 'it has no head');
}

/** A write-ahead log needs shared memory, which a network file system does not give. */
async function setPragmas(driver: SqlDriver, networkFileSystem: boolean): Promise<void> {
  await Promise.all([
    setJournalMode(driver, networkFileSystem ? 'truncate' : 'wal'),
    driver.exec(`PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = ${LOG_LIMIT_BYTES}`),
  ]);
}

export async function setJournalMode(driver: SqlDriver, wanted: 'wal' | 'truncate'): Promise<void> {
  const [now] = await driver.query('PRAGMA journal_mode');
  if (now?.[0] === wanted) return;
  // `delete` is what every connection starts with where the file does not say `wal`: no lock is needed to leave it.
  const started = performance.now();
  for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
    try {
      await driver.query(`PRAGMA journal_mode = ${wanted}`);
      return;
    } catch (error) {
      const busy = error instanceof TakebackError && error.code === 'ERR_BUSY';
      if (!busy || performance.now() - started > MODE_SWITCH_MS) throw error;
      await sleep(pause);
    }
  }
}

/** A log of this many bytes is moved into its database by {@link boundLog}: two syncs every dozen hooks. */
const LONG_LOG_BYTES = 512 << 10;

/**
 * Moves a log that has grown long into its database, and empties it. For a process that ends without closing: the next
 * one to open alone reads the whole log again, and it would grow without end, since what was moved of it is forgotten with
 * its last connection. Where another connection reads it, it stays for a later one. The connection doesn't wait for locks
 * afterwards.
 */
export async function boundLog(driver: SqlDriver, file: string): Promise<void> {
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  if (log === undefined || log.size < LONG_LOG_BYTES) return;
  await driver.exec('PRAGMA busy_timeout = 0');
  await driver.query('PRAGMA wal_checkpoint(TRUNCATE)');
}
