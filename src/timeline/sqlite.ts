/**
 * The timeline over SQLite: one connection on timeline.db, one on lock.db, any `SqlDriver`.
 *
 * Each change is one transaction. Whether a commit is synced is a setting of the connection (`synchronous`), so changes
 * go through a queue of their own that sets it first. With FULL a commit also makes durable what came before it without;
 * with NORMAL (and a log) a power cut may lose the newest commits, never their order. Everything that lets bytes be
 * dropped (cut, clear, drop, expire) is FULL. Reads are in queries.ts, statements in append.ts and maintenance.ts.
 *
 * Not covered: two connections of different SQLite libraries on one file in one process.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { SqlDriver, SqlRow, SqlStatement } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { Hash, RandomId, RelPath } from '../types.ts';
import { appendFault, appendStatements } from './append.ts';
import { LOCK_TRY_MS, WorkspaceLock } from './lock.ts';
import {
  clearStatements,
  cutFault,
  cutStatements,
  dropStatements,
  expireStatements,
  foldStatements,
  forkStatements,
  liveHashes,
} from './maintenance.ts';
import { TimelineQueries, toHead } from './queries.ts';
import { fromOptional, fromString, SESSION_COLUMNS, toInt, toSession } from './records.ts';
import { boundLog, type DatabaseOpener, type OpenedStore, openStore } from './store.ts';
import type {
  Append,
  Fold,
  Head,
  Lock,
  OpenTimelineOptions,
  SessionRecord,
  Timeline,
  TimelineStats,
} from './timeline.ts';
import { verifyTimeline } from './verify.ts';

type Synchronous = 'FULL' | 'NORMAL';

class SqliteTimeline extends TimelineQueries implements Timeline {
  readonly storeId: RandomId;
  readonly seed: bigint;
  readonly #options: OpenTimelineOptions;
  readonly #lockDriver: SqlDriver;
  readonly #lock: WorkspaceLock;
  #synchronous: Synchronous | null = null;
  /** The change that runs last; the next one waits for it. */
  #tail: Promise<unknown> = Promise.resolve();
  #closed: Promise<void> | null = null;

  constructor(store: OpenedStore, lockDriver: SqlDriver, options: OpenTimelineOptions) {
    super(store.driver);
    this.storeId = store.storeId;
    this.seed = store.seed;
    this.#options = options;
    this.#lockDriver = lockDriver;
    this.#lock = new WorkspaceLock(lockDriver);
  }

  async lock(options?: { timeoutMs?: number; signal?: AbortSignal | undefined }): Promise<Lock> {
    try {
      return await this.#lock.acquire(options);
    } catch (error) {
      if (!(error instanceof TakebackError) || error.code !== 'ERR_STORE_CORRUPT') throw error;
      const file = join(this.#options.dir, 'lock.db');
      throw new TakebackError(
        'ERR_STORE_CORRUPT',
        `${file} is damaged (${error.message}). It holds nothing: close every process that uses the workspace, and delete it.`,
        { cause: error },
      );
    }
  }

  #change(wanted: Synchronous, statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    // Without a log, NORMAL can leave a torn database after a power cut.
    const synchronous = this.#options.networkFileSystem ? 'FULL' : wanted;
    const run = this.#tail.then(async () => {
      if (this.#synchronous !== synchronous) {
        await this.driver.exec(`PRAGMA synchronous = ${synchronous}`);
        this.#synchronous = synchronous;
      }
      return await this.driver.transaction(statements);
    });
    this.#tail = run.catch(() => undefined);
    return run;
  }

  async setSettings(json: string): Promise<void> {
    const sql = `INSERT OR REPLACE INTO meta (key, value) VALUES ('settings', ?)`;
    await this.#change('FULL', [{ sql, params: [json] }]);
  }

  async append(batch: Append): Promise<Head> {
    try {
      const answers = await this.#change(batch.durable ? 'FULL' : 'NORMAL', appendStatements(batch));
      return toHead(answers.at(-1)?.[0]);
    } catch (error) {
      throw appendFault(batch, error);
    }
  }

  async ensureSession(key: { threadId: string; tenantId: string | null }): Promise<SessionRecord> {
    const known = await this.findSession(key);
    if (known !== null) return known;
    const [thread, tenant] = [fromString(key.threadId), fromOptional(key.tenantId)];
    const [, found] = await this.#change('NORMAL', [
      {
        sql: 'INSERT INTO sessions (thread, tenant, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
        params: [thread, tenant, Date.now()],
      },
      {
        sql: `SELECT ${SESSION_COLUMNS} FROM sessions WHERE thread = ? AND ifnull(tenant, x'') = ifnull(?, x'')`,
        params: [thread, tenant],
      },
    ]);
    return toSession(found?.[0] ?? []);
  }

  async fork(record: { session: number; parent: number; atSeq: number; forkSeq: number }): Promise<void> {
    await this.#change('FULL', forkStatements(record));
  }

  liveHashes(): Promise<Hash[]> {
    return liveHashes(this.driver);
  }

  async cut(seq: number, manifest: { hash: Hash; entries: number }): Promise<void> {
    try {
      await this.#change('FULL', cutStatements(seq, manifest));
    } catch (error) {
      throw cutFault(seq, error);
    }
  }

  async fold(folds: readonly Fold[]): Promise<void> {
    if (folds.length > 0) await this.#change('FULL', foldStatements(folds));
  }

  async clear(): Promise<void> {
    await this.#change('FULL', clearStatements());
  }

  async expire(boundaries: readonly { session: number; boundaryId: string }[]): Promise<void> {
    if (boundaries.length > 0) await this.#change('FULL', expireStatements(boundaries));
  }

  async dropSession(session: number): Promise<void> {
    await this.#change('FULL', dropStatements(session));
  }

  async bumpGcGeneration(): Promise<void> {
    await this.#change('FULL', [{ sql: 'UPDATE state SET gc_generation = gc_generation + 1' }]);
  }

  verify(): Promise<{ checked: number; problems: { kind: string; path?: RelPath; detail: string }[] }> {
    return verifyTimeline(this.driver);
  }

  async stats(): Promise<TimelineStats> {
    const tables = ['observations', 'rows', 'sessions', 'boundaries', 'calls', 'operations'] as const;
    const counted = tables.map((t) =>
      t === 'sessions'
        ? `SELECT count(*) FROM sessions WHERE typeof(thread) <> 'integer'`
        : `SELECT count(*) FROM ${t}`,
    );
    const counts = await this.driver.query(counted.join(' UNION ALL '));
    const [observations, rows, sessions, boundaries, calls, operations] = counts.map(([count]) => toInt(count)) as [
      ...[number, number, number, number, number, number],
    ];
    const sizes = ['timeline.db', 'timeline.db-wal', 'timeline.db-shm', 'timeline.db-journal', 'lock.db'].map((name) =>
      sizeOf(join(this.#options.dir, name)),
    );
    const bytes = (await Promise.all(sizes)).reduce((a, b) => a + b);
    return { observations, rows, sessions, boundaries, calls, operations, bytes };
  }

  async boundLog(): Promise<void> {
    await this.#tail;
    await boundLog(this.driver, join(this.#options.dir, 'timeline.db'));
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    await this.#tail;
    const ends = await Promise.allSettled([this.#lockDriver.close(), this.driver.close()]);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

/**
 * Opens the timeline in `options.dir`, or makes it.
 *
 * @throws {TakebackError} `ERR_STORE_NEWER` (no file is touched), `ERR_STORE_CORRUPT`, `ERR_UNSUPPORTED` where the network
 *   file system of the folder knows no locks, and what the driver throws
 */
export async function openTimeline(backend: DatabaseOpener, options: OpenTimelineOptions): Promise<Timeline> {
  const store = await openStore(backend, join(options.dir, 'timeline.db'), options);
  let lockDriver: SqlDriver | undefined;
  try {
    lockDriver = await backend.openDatabase({ file: join(options.dir, 'lock.db'), busyTimeoutMs: LOCK_TRY_MS });
    if (options.networkFileSystem) await checkLocks(lockDriver);
    return new SqliteTimeline(store, lockDriver, options);
  } catch (error) {
    await Promise.allSettled([lockDriver?.close(), store.driver.close()]);
    throw error;
  }
}

/** Locks may be missing on a network file system: better said at once than found by two writers. */
async function checkLocks(driver: SqlDriver): Promise<void> {
  try {
    await driver.exec('BEGIN IMMEDIATE; ROLLBACK');
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_BUSY') return;
    throw new TakebackError(
      'ERR_UNSUPPORTED',
      'file locks do not work where the data directory lies (a network file system). Choose a dataDir on a local disk.',
      { cause: error },
    );
  }
}
