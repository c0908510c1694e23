import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SqlDriver, SqlValue } from '../../src/backend/backend.ts';
import { loadAddon } from '../../src/backend/load-addon.ts';
import { NativeBackend } from '../../src/backend/native.ts';

const loaded = loadAddon();

if ('missing' in loaded) test.skip('native SQL driver: skipped, the addon is not built here', () => undefined);
else {
  describe('native SQL driver', () => {
    const backend = new NativeBackend(loaded.addon);
    let dir: string;
    let file: string;
    let db: SqlDriver;

    beforeEach(async () => {
      dir = mkdtempSync(join(tmpdir(), 'takeback-native-sql-'));
      file = join(dir, 'timeline.db');
      db = await backend.openDatabase({ file, busyTimeoutMs: 100 });
    });
    afterEach(async () => {
      await db.close();
      rmSync(dir, { recursive: true });
    });

    test('every kind of value comes back as it went in', async () => {
      const values: SqlValue[] = [
        null,
        0,
        -1,
        Number.MAX_SAFE_INTEGER,
        2n ** 63n - 1n,
        -(2n ** 63n),
        0.5,
        -1e300,
        '',
        'é 😀',
        new Uint8Array(0),
        new Uint8Array([0, 255, 1]),
      ];
      const marks = values.map(() => '?').join(', ');
      const [row] = await db.query(`SELECT ${marks}`, values);
      // One driver answers Buffers, which are Uint8Arrays.
      expect(row?.map((value) => (value instanceof Uint8Array ? new Uint8Array(value) : value))).toEqual(values);
      const types = await db.query('SELECT typeof(?), typeof(?), typeof(?)', [1, 1.5, 2 ** 60]);
      expect(types).toEqual([['integer', 'real', 'real']]);
      expect(await db.query('SELECT ?', [5n])).toEqual([[5]]);
    });

    test('a value that SQLite can’t hold is refused before anything runs', async () => {
      for (const value of [2n ** 63n, undefined, true]) {
        await expect(db.query('SELECT ?', [value as SqlValue])).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
      }
    });

    test('the file is private from the start, and so are its companions', async () => {
      await db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t(a)');
      for (const name of ['timeline.db', 'timeline.db-wal', 'timeline.db-shm']) {
        expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
      }
    });

    test('a transaction answers the rows of each statement', async () => {
      await db.exec('CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)');
      const two = [
        [1, 'x'],
        [2, 'y'],
      ];
      const rows = await db.transaction([
        { sql: 'INSERT INTO t VALUES (?, ?) RETURNING a', many: two },
        { sql: 'SELECT b FROM t WHERE a = ?', params: [2] },
        { sql: 'DELETE FROM t WHERE a > 5' },
        { sql: 'INSERT INTO t VALUES (?, ?)', many: [] },
      ]);
      expect(rows).toEqual([[[1], [2]], [['y']], [], []]);
    });

    test('a fault rolls everything back, and the driver goes on', async () => {
      await db.exec('CREATE TABLE t(a INTEGER PRIMARY KEY)');
      const twice = { sql: 'INSERT INTO t VALUES (?)', many: [[1], [1]] };
      await expect(db.transaction([twice])).rejects.toMatchObject({ name: 'TakebackError', code: 'ERR_IO' });
      await db.transaction([{ sql: 'INSERT INTO t VALUES (7)' }]);
      expect(await db.query('SELECT a FROM t')).toEqual([[7]]);
    });

    test('busy, no database and a wrong statement have codes of their own', async () => {
      await db.exec('CREATE TABLE t(a); BEGIN IMMEDIATE');
      const other = await backend.openDatabase({ file, busyTimeoutMs: 1 });
      const busy = other.transaction([{ sql: 'INSERT INTO t VALUES (1)' }]);
      await expect(busy).rejects.toMatchObject({ code: 'ERR_BUSY' });
      await other.close();
      await db.exec('ROLLBACK');
      await expect(db.exec('NO SUCH THING')).rejects.toMatchObject({ code: 'ERR_IO' });
      writeFileSync(join(dir, 'not.db'), 'not a database at all, really not. '.repeat(40));
      const foreign = await backend.openDatabase({ file: join(dir, 'not.db') });
      await expect(foreign.query('SELECT * FROM t')).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT' });
      await foreign.close();
      const nowhere = backend.openDatabase({ file: join(dir, 'no', 'such', 'folder.db') });
      await expect(nowhere).rejects.toMatchObject({ code: 'ERR_IO' });
    });

    test('a full database is ERR_NO_SPACE and rolled back', async () => {
      await db.exec('CREATE TABLE t(a); PRAGMA max_page_count = 4');
      const fill = db.transaction([{ sql: 'INSERT INTO t VALUES (zeroblob(100000))' }]);
      await expect(fill).rejects.toMatchObject({ code: 'ERR_NO_SPACE' });
      expect(await db.query('SELECT count(*) FROM t')).toEqual([[0]]);
    });

    test('requests run in the order in which they were made', async () => {
      await db.exec('CREATE TABLE t(a)');
      const all = Array.from({ length: 50 }, (_, i) =>
        db.transaction([{ sql: 'INSERT INTO t VALUES (?)', params: [i] }]),
      );
      await Promise.all(all);
      const rows = await db.query('SELECT a FROM t ORDER BY rowid');
      expect(rows.map(([a]) => a)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    });

    test('ten thousand rows go in with one call and come back with one', async () => {
      await db.exec(
        'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE t(a INTEGER, b BLOB, c TEXT)',
      );
      const many = Array.from({ length: 10_000 }, (_, i) => [i, Buffer.alloc(40, i), `src/some/path/file-${i}.ts`]);
      await db.transaction([{ sql: 'INSERT INTO t VALUES (?, ?, ?)', many }]);
      const rows = await db.query('SELECT a, c FROM t WHERE a >= ?', [9_998]);
      expect(rows).toEqual([
        [9_998, 'src/some/path/file-9998.ts'],
        [9_999, 'src/some/path/file-9999.ts'],
      ]);
      expect((await db.query('SELECT * FROM t')).length).toBe(10_000);
    });

    test('a closed driver says so, a second close is fine, and what was queued before is done', async () => {
      await db.exec('CREATE TABLE t(a)');
      const insert = db.transaction([{ sql: 'INSERT INTO t VALUES (1)' }]);
      await Promise.all([insert, db.close(), db.close()]);
      await expect(db.query('SELECT 1')).rejects.toMatchObject({ code: 'ERR_CLOSED' });
      db = await backend.openDatabase({ file });
      expect(await db.query('SELECT a FROM t')).toEqual([[1]]);
    });

    test('a process with an open driver ends by itself', async () => {
      const script = `
        const { openDatabase } = require(${JSON.stringify(join(import.meta.dirname, '../../native/index.cjs'))});
        openDatabase(Buffer.from(${JSON.stringify(file)}), 10).then(async ({ value }) => {
          globalThis.kept = value;
          console.log((await value.exec('CREATE TABLE ended(a)')).ok);
        });`;
      const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { timeout: 20_000 });
      expect(stdout.trim()).toBe('true');
    });
  });
}
