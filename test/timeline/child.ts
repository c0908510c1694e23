/**
 * Another process for the tests. `append <dir> <thread> <count>` opens the timeline, appends that many observations under
 * the lock and prints the store's id; `hold <dir>` takes the lock, prints `held` and waits to be killed; `durable <dir>`
 * prints the seq of each durable append until it is killed.
 *
 * Its driver is a small one on this thread, over @photostructure/sqlite: a second implementation of the contract.
 */
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from '../../src/backend/backend.ts';
import { TakebackError } from '../../src/errors.ts';
import { openTimeline } from '../../src/timeline/sqlite.ts';
import type { Timeline } from '../../src/timeline/timeline.ts';

interface Statement {
  all(...params: SqlValue[]): unknown[];
  setReturnArrays(on: boolean): void;
  setReadBigInts(on: boolean): void;
}

interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

const { DatabaseSync } = createRequire(import.meta.url)('@photostructure/sqlite') as {
  DatabaseSync: new (file: string, options: { timeout: number }) => Database;
};

function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    const busy = /locked|busy/.test((error as Error).message);
    throw new TakebackError(busy ? 'ERR_BUSY' : 'ERR_IO', (error as Error).message, { cause: error });
  }
}

function openDriver(file: string, timeout: number): SqlDriver {
  const database = new DatabaseSync(file, { timeout });
  const run = (sql: string, params: readonly SqlValue[]): SqlRow[] => {
    const statement = database.prepare(sql);
    statement.setReturnArrays(true);
    statement.setReadBigInts(true);
    const safe = (value: SqlValue) =>
      typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
    const exact = (value: SqlValue) => (typeof value === 'number' ? BigInt(value) : value);
    return statement.all(...params.map(exact)).map((row) => (row as SqlValue[]).map(safe));
  };
  const all = ({ sql, params, many }: SqlStatement): SqlRow[] =>
    (many ?? [params ?? []]).flatMap((list) => run(sql, list));
  return {
    exec: async (sql) => attempt(() => database.exec(sql)),
    query: async (sql, params = []) => attempt(() => run(sql, params)),
    transaction: async (statements) =>
      attempt(() => {
        database.exec('BEGIN IMMEDIATE');
        try {
          const rows = statements.map(all);
          database.exec('COMMIT');
          return rows;
        } catch (error) {
          database.exec('ROLLBACK');
          throw error;
        }
      }),
    close: async () => database.close(),
  };
}

async function appendOne(timeline: Timeline, durable: boolean): Promise<number> {
  const lock = await timeline.lock();
  const { seq } = await timeline.head();
  const kind = seq === 0 ? 'first' : 'capture';
  const observation = { id: randomBytes(16).toString('hex'), kind, createdAt: 0 } as const;
  const head = await timeline.append({ expectSeq: seq, observation, durable });
  await lock.release();
  return head.seq;
}

const [command, dir = '', thread = '', count = '0'] = process.argv.slice(2);
const opener = {
  openDatabase: async ({ file, busyTimeoutMs = 10_000 }: { file: string; busyTimeoutMs?: number }) =>
    openDriver(file, busyTimeoutMs),
};
const timeline = await openTimeline(opener, { dir, root: '/project', networkFileSystem: false });
if (command === 'append') {
  await timeline.ensureSession({ threadId: thread, tenantId: null });
  for (let i = 0; i < Number(count); i++) await appendOne(timeline, false);
  await timeline.close();
  console.log(timeline.storeId);
} else if (command === 'hold') {
  await timeline.lock();
  console.log('held');
  setInterval(() => undefined, 1000);
} else {
  for (;;) console.log(await appendOne(timeline, true));
}
