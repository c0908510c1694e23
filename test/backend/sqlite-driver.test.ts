import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SqlDriver } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { openPortableDatabase } from '../../src/backend/portable/sqlite.ts';
import { describeBackends } from '../kit/backends.ts';

let dir: string;
let open: SqlDriver[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'takeback-sql-'));
  open = [];
});

afterEach(async () => {
  await Promise.all(open.map((driver) => driver.close()));
  rmSync(dir, { recursive: true });
});

async function openDriver(name = 'a.db', busyTimeoutMs?: number): Promise<SqlDriver> {
  const driver = await openPortableDatabase({
    file: join(dir, name),
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
  });
  open.push(driver);
  return driver;
}

describe('portable SQLite driver: values', () => {
  test('every kind of value comes back as it went in, whatever the column', async () => {
    const db = await openDriver();
    await db.exec('CREATE TABLE t (a, b INTEGER, c TEXT, d BLOB)');
    const values = [null, 7, -1, 2.5, Number.MAX_SAFE_INTEGER, 9007199254740993n, 'text', 'é😀'];
    await db.transaction([{ sql: 'INSERT INTO t (a) VALUES (?)', many: values.map((value) => [value]) }]);
    expect(await db.query('SELECT a FROM t ORDER BY rowid')).toEqual(values.map((value) => [value]));
  });

  test('an integer is stored as INTEGER and a bigint that is safe is read as a number', async () => {
    const db = await openDriver();
    expect(await db.query('SELECT typeof(?), typeof(?), ?', [1, 1.5, 12n])).toEqual([['integer', 'real', 12]]);
  });

  test('blobs keep their bytes, empty ones and views of a larger buffer too', async () => {
    const db = await openDriver();
    await db.exec('CREATE TABLE t (a BLOB)');
    const view = Buffer.from('0123456789').subarray(3, 6);
    await db.transaction([
      { sql: 'INSERT INTO t VALUES (?)', many: [[view], [new Uint8Array(0)], [new Uint8Array([0, 255])]] },
    ]);
    const rows = await db.query('SELECT a FROM t ORDER BY rowid');
    expect(rows.map(([blob]) => Buffer.from(blob as Uint8Array).toString('hex'))).toEqual(['333435', '', '00ff']);
    expect(view.toString(), 'the caller still has its bytes').toBe('345');
  });

  test('columns of one name are all answered, in order', async () => {
    const db = await openDriver();
    expect(await db.query('SELECT 1 AS a, 2 AS a')).toEqual([[1, 2]]);
  });
});

describe('portable SQLite driver: transactions', () => {
  test('a fault in the third statement takes back the first two', async () => {
    const db = await openDriver();
    await db.exec('CREATE TABLE t (a INTEGER PRIMARY KEY)');
    const insert = { sql: 'INSERT INTO t VALUES (?)', params: [1] };
    const failed = db.transaction([insert, { ...insert, params: [2] }, insert]);
    await expect(failed).rejects.toMatchObject({ code: 'ERR_IO', message: expect.stringContaining('UNIQUE') });
    expect(await db.query('SELECT count(*) FROM t')).toEqual([[0]]);
    expect(await db.transaction([{ ...insert, sql: 'INSERT INTO t VALUES (?) RETURNING a' }])).toEqual([[[1]]]);
  });

  test('each statement answers its own rows', async () => {
    const db = await openDriver();
    await db.exec('CREATE TABLE t (a)');
    const answer = await db.transaction([
      { sql: 'INSERT INTO t VALUES (?) RETURNING a', many: [['x'], ['y']] },
      { sql: 'DELETE FROM t WHERE a = ?', params: ['x'] },
      { sql: 'SELECT a FROM t' },
    ]);
    expect(answer).toEqual([[['x'], ['y']], [], [['y']]]);
  });

  test('a transaction that exec opened is left to its owner', async () => {
    const db = await openDriver();
    await db.exec('CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)');
    await expect(db.transaction([{ sql: 'SELECT 1' }])).rejects.toMatchObject({ code: 'ERR_IO' });
    await db.exec('COMMIT');
    expect(await db.query('SELECT a FROM t')).toEqual([[1]]);
  });

  // The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
  test('10,000 inserts by `many` take well under a second', { retry: 3 }, async () => {
    const db = await openDriver();
    await db.exec('PRAGMA journal_mode=WAL; CREATE TABLE t (seq INTEGER, path BLOB, before BLOB, after BLOB)');
    const many = Array.from({ length: 10_000 }, (_, i) => [
      i,
      Buffer.from(`src/file-${i}.ts`),
      Buffer.alloc(29),
      Buffer.alloc(29),
    ]);
    const start = performance.now();
    await db.transaction([{ sql: 'INSERT INTO t VALUES (?, ?, ?, ?)', many }]);
    expect(performance.now() - start).toBeLessThan(1000);
    expect(await db.query('SELECT count(*), max(path) FROM t')).toEqual([[10_000, expect.anything()]]);
  });

  test('requests that are not awaited run in the order in which they were made', async () => {
    const db = await openDriver();
    const work = [db.exec('CREATE TABLE t (a)'), db.exec('INSERT INTO t VALUES (1)'), db.exec('DELETE FROM t')];
    expect(await db.query('SELECT count(*) FROM t')).toEqual([[0]]);
    await Promise.all(work);
  });
});

describe('portable SQLite driver: faults', () => {
  test('the writer that comes second is told ERR_BUSY, and gets in once the first is done', async () => {
    const first = await openDriver('a.db', 20);
    const second = await openDriver('a.db', 20);
    await first.exec('CREATE TABLE t (a); BEGIN IMMEDIATE');
    await expect(second.exec('BEGIN IMMEDIATE')).rejects.toMatchObject({ code: 'ERR_BUSY' });
    await first.exec('ROLLBACK');
    await second.transaction([{ sql: 'INSERT INTO t VALUES (1)' }]);
    expect(await first.query('SELECT a FROM t')).toEqual([[1]]);
  });

  test('closing one driver does not drop the lock that another of this process holds', async () => {
    const holder = await openDriver('a.db', 20);
    await holder.exec('CREATE TABLE t (a); BEGIN IMMEDIATE');
    const passing = await openDriver('a.db', 20);
    await passing.close();
    const child = spawn(process.execPath, ['-e', lockScript(join(dir, 'a.db'))], { cwd: process.cwd() });
    expect(await exitCode(child), 'another process still finds it locked').toBe(5);
    await holder.exec('ROLLBACK');
  });

  test('a file that is no database is ERR_STORE_CORRUPT', async () => {
    writeFileSync(join(dir, 'a.db'), 'x'.repeat(5000));
    const db = await openDriver();
    await expect(db.query('SELECT * FROM sqlite_schema')).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT' });
  });

  test('a full database is ERR_NO_SPACE', async () => {
    const db = await openDriver();
    await db.exec('PRAGMA page_size=4096; CREATE TABLE t (a); PRAGMA max_page_count=3');
    const full = db.transaction([{ sql: 'INSERT INTO t VALUES (zeroblob(100000))' }]);
    await expect(full).rejects.toMatchObject({ code: 'ERR_NO_SPACE' });
    expect(await db.query('SELECT count(*) FROM t')).toEqual([[0]]);
  });

  test('a folder that is missing is ERR_IO, and names the file', async () => {
    const missing = openPortableDatabase({ file: join(dir, 'no', 'a.db') });
    await expect(missing).rejects.toMatchObject({ code: 'ERR_IO', message: expect.stringContaining('a.db') });
  });

  test('a closed driver answers ERR_CLOSED, and closing twice is once', async () => {
    const db = await openDriver();
    const last = db.query('SELECT 1');
    await Promise.all([db.close(), db.close()]);
    expect(await last, 'what was asked before is answered').toEqual([[1]]);
    await expect(db.query('SELECT 1')).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });
});

describe('portable SQLite driver: files and processes', () => {
  test('the files are for their owner only from creation, whatever the umask', async () => {
    const umask = process.umask(0);
    try {
      const db = await openDriver();
      await db.exec('PRAGMA journal_mode=WAL; CREATE TABLE t (a)');
      for (const suffix of ['', '-wal', '-shm']) {
        expect(statSync(join(dir, `a.db${suffix}`)).mode & 0o777, `a.db${suffix}`).toBe(0o600);
      }
    } finally {
      process.umask(umask);
    }
  });

  test('an idle driver does not keep its process alive', async () => {
    const url = new URL('../../dist/backend/portable/sqlite.js', import.meta.url).href;
    const script = `const { openPortableDatabase } = await import(${JSON.stringify(url)});
      const db = await openPortableDatabase({ file: ${JSON.stringify(join(dir, 'a.db'))} });
      process.stdout.write(JSON.stringify(await db.query('SELECT 41 + 1')));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { timeout: 20_000 });
    let out = '';
    child.stdout.on('data', (chunk) => {
      out += chunk;
    });
    expect(await exitCode(child)).toBe(0);
    expect(out).toBe('[[42]]');
  });

  test('a writer killed in the middle of its work leaves a database that opens, with whole transactions', async () => {
    const url = new URL('../../dist/backend/portable/sqlite.js', import.meta.url).href;
    const script = `const { openPortableDatabase } = await import(${JSON.stringify(url)});
      const db = await openPortableDatabase({ file: ${JSON.stringify(join(dir, 'a.db'))} });
      await db.exec('PRAGMA journal_mode=WAL; CREATE TABLE t (a)');
      for (let i = 0; ; i++) {
        await db.transaction([{ sql: 'INSERT INTO t VALUES (?)', many: [[i], [i], [i]] }]);
        if (i === 50) process.stdout.write('go');
      }`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill('SIGKILL');
    await exitCode(child);
    const db = await openDriver();
    expect(await db.query('PRAGMA integrity_check')).toEqual([['ok']]);
    const [[count]] = (await db.query('SELECT count(*) FROM t')) as [[number]];
    expect(count % 3, 'only whole transactions').toBe(0);
    expect(count).toBeGreaterThanOrEqual(153);
  });
});

/** Tries to lock the database from another process; its exit code is SQLite's result code. */
function lockScript(file: string): string {
  return `const { DatabaseSync } = require('@photostructure/sqlite');
    const db = new DatabaseSync(${JSON.stringify(file)}, { timeout: 10 });
    try { db.exec('BEGIN IMMEDIATE'); } catch (error) { process.exit(error.errcode & 0xff); }`;
}

function exitCode(child: ReturnType<typeof spawn>): Promise<number | null> {
  return new Promise((resolve) => child.once('exit', resolve));
}

describeBackends('SQLite drivers: faults', (kind) => {
  test('a fault of SQLite names the file', async () => {
    const file = join(dir, 'none.db');
    writeFileSync(file, 'no database at all, and longer than the header of one '.repeat(20));
    const { backend } = await openBackend(kind);
    try {
      const db = await backend.openDatabase({ file });
      open.push(db);
      await expect(db.query('SELECT * FROM t')).rejects.toMatchObject({
        code: 'ERR_STORE_CORRUPT',
        message: expect.stringContaining(`${file}: SQLite: `),
      });
    } finally {
      await Promise.all(open.splice(0).map((driver) => driver.close()));
      await backend.close();
    }
  });
});
