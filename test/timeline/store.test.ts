import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { asRelPath } from '../../src/rel-path.ts';
import { MIGRATIONS, SCHEMA_VERSION, TABLES } from '../../src/timeline/schema.sql.ts';
import { storedUserVersion } from '../../src/timeline/store-version.ts';
import { buildChild } from './child-build.ts';
import { absent, boundary, change, file, id, look, overDrivers } from './kit.ts';

async function bytesOf(dir: string): Promise<Record<string, string>> {
  const out: Record<string, string> = {};
  for (const name of (await readdir(dir)).sort()) out[name] = (await readFile(join(dir, name))).toString('hex');
  return out;
}

const script = await buildChild();

await overDrivers('timeline store', (world) => {
  test('a new store has an id and a seed of its own, which stay', async () => {
    const t = await world.open();
    expect(t.storeId).toMatch(/^[0-9a-f]{32}$/);
    expect(t.seed).toBeTypeOf('bigint');
    await t.close();
    const again = await world.open();
    expect([again.storeId, again.seed]).toEqual([t.storeId, t.seed]);
    const other = await world.open({ dir: join(world.dir, 'other') });
    expect(other.storeId).not.toBe(t.storeId);
    expect(other.seed >= 0n && other.seed < 2n ** 64n).toBe(true);
  });

  test('what was appended is there after a reopen', async () => {
    const t = await world.open();
    const session = (await t.ensureSession({ threadId: 't', tenantId: null })).id;
    await t.append(
      look(0, { boundary: boundary(session, 'b'), changes: [change('a', absent, file(1))], durable: true }),
    );
    await t.close();
    const again = await world.open();
    expect(await again.rows(0)).toEqual([{ seq: 1, ...change('a', absent, file(1)) }]);
    expect((await again.boundary(session, 'b'))?.seq).toBe(1);
  });

  test('the files are for their owner only, and nothing else is left in the folder', async () => {
    const t = await world.open();
    await t.append(look(0));
    await t.close();
    expect((await readdir(world.dir)).sort()).toEqual(['lock.db', 'timeline.db']);
    const mode = async (name: string) => ((await stat(join(world.dir, name))).mode & 0o777).toString(8);
    expect(await Promise.all(['lock.db', 'timeline.db'].map(mode))).toEqual(['600', '600']);
  });

  test('a local store has a write-ahead log, one on a network file system a rollback journal', async () => {
    const local = await world.open();
    await local.append(look(0));
    expect(existsSync(join(world.dir, 'timeline.db-wal'))).toBe(true);
    const dir = join(world.dir, 'network');
    const remote = await world.open({ dir, networkFileSystem: true });
    await remote.append(look(0, { durable: false }));
    expect((await readdir(dir)).filter((name) => /-(wal|shm)$/.test(name))).toEqual([]);
    expect((await remote.head()).seq).toBe(1);
    const lock = await remote.lock();
    await lock.release();
  });

  test('a local store that moves to a network file system loses its log', async () => {
    const t = await world.open();
    await t.append(look(0));
    await t.close();
    const remote = await world.open({ networkFileSystem: true });
    await remote.append(look(1));
    expect((await readdir(world.dir)).filter((name) => /-(wal|shm)$/.test(name))).toEqual([]);
  });

  test('the schema makes every table that is checked for, and no other', async () => {
    const t = await world.open();
    await t.close();
    const driver = await world.driver();
    const sql = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`;
    expect((await driver.query(sql)).map(([name]) => name)).toEqual(TABLES);
    expect(await driver.query('PRAGMA user_version')).toEqual([[MIGRATIONS.length]]);
  });

  test('a store of the first version is brought up to date, and keeps what it holds', async () => {
    const first = await world.open();
    const session = (await first.ensureSession({ threadId: 't', tenantId: null })).id;
    await first.append(look(0, { boundary: boundary(session, 'b1'), changes: [change('a', absent, file(1))] }));
    await first.close();
    const driver = await world.driver();
    await driver.exec('DROP TABLE forks; DROP INDEX calls_by_step; ALTER TABLE rows DROP COLUMN moved_from');
    await driver.exec('PRAGMA user_version = 1');
    await driver.query(`UPDATE meta SET value = 1 WHERE key = 'schema_version'`);
    await driver.close();
    const again = await world.open();
    expect((await again.boundaries(session)).map((b) => b.boundaryId)).toEqual(['b1']);
    expect(await again.lineage(session)).toEqual([]);
    const moved = { ...change('b', absent, file(1)), movedFrom: asRelPath('a') };
    await again.append(look(1, { changes: [change('a', file(1), absent), moved] }));
    expect(await again.rows(0)).toEqual([
      { ...change('a', absent, file(1)), seq: 1 },
      { ...change('a', file(1), absent), seq: 2 },
      { ...moved, seq: 2 },
    ]);
    expect(await again.firstRowsAfter(1)).toMatchObject([{ path: 'a' }, { path: 'b', movedFrom: 'a' }]);
    expect((await again.verify()).problems).toEqual([]);
  });

  test('a store of a newer version is refused, and no byte of its folder changes', async () => {
    const t = await world.open();
    await t.append(look(0));
    await t.close();
    const driver = await world.driver();
    const newer = SCHEMA_VERSION + 1;
    await driver.query(`UPDATE meta SET value = ? WHERE key = 'schema_version'`, [newer]);
    await driver.exec(`PRAGMA user_version = ${newer}`);
    await driver.close();
    const before = await bytesOf(world.dir);
    await expect(world.open()).rejects.toMatchObject({ code: 'ERR_STORE_NEWER' });
    expect(await bytesOf(world.dir)).toEqual(before);
  });

  test('a newer version that is only in the write-ahead log is seen, and the log stays', async () => {
    const t = await world.open();
    await t.append(look(0));
    const driver = await world.driver();
    await driver.exec(`BEGIN; PRAGMA user_version = ${SCHEMA_VERSION + 3}; COMMIT`);
    // As after a crash: file and log are there, nobody has them open.
    const crashed = join(world.dir, 'crashed');
    await mkdir(crashed);
    for (const name of ['timeline.db', 'timeline.db-wal']) await copyFile(join(world.dir, name), join(crashed, name));
    expect(await storedUserVersion(join(crashed, 'timeline.db'))).toBe(SCHEMA_VERSION + 3);
    const before = await bytesOf(crashed);
    await expect(world.open({ dir: crashed })).rejects.toMatchObject({ code: 'ERR_STORE_NEWER' });
    expect(await bytesOf(crashed)).toEqual(before);
  });

  test('a newer version that only the table tells is refused before anything is written', async () => {
    const t = await world.open();
    await t.append(look(0));
    await t.close();
    const driver = await world.driver();
    await driver.query(`UPDATE meta SET value = ? WHERE key = 'schema_version'`, [SCHEMA_VERSION + 1]);
    await driver.close();
    const before = await bytesOf(world.dir);
    await expect(world.open()).rejects.toMatchObject({ code: 'ERR_STORE_NEWER' });
    expect(await bytesOf(world.dir)).toEqual(before);
  });

  test('the stored version of a missing, an empty and a foreign file is 0', async () => {
    const name = join(world.dir, 'x');
    expect(await storedUserVersion(name)).toBe(0);
    await writeFile(name, '');
    expect(await storedUserVersion(name)).toBe(0);
    await writeFile(name, 'x'.repeat(5000));
    expect(await storedUserVersion(name)).toBe(0);
  });

  test('a database whose start can’t be read is named', async () => {
    const name = join(world.dir, 'folder');
    await mkdir(name);
    await expect(storedUserVersion(name)).rejects.toMatchObject({
      code: 'ERR_IO',
      message: expect.stringContaining(`can't read ${name}: `),
    });
  });

  const damages: [string, (whole: Buffer) => Buffer][] = [
    ['is no database', () => Buffer.from('not a database, whatever its name says. '.repeat(200))],
    ['is cut in the middle of its first page', (whole) => whole.subarray(0, 1000)],
    [
      'has a first page of noise',
      (whole) => Buffer.concat([whole.subarray(0, 100), Buffer.alloc(3996, 0xa5), whole.subarray(4096)]),
    ],
  ];
  for (const [what, damage] of damages) {
    test(`a file that ${what} is ERR_STORE_CORRUPT and is left as it is`, async () => {
      const t = await world.open();
      await t.append(look(0));
      await t.close();
      const name = join(world.dir, 'timeline.db');
      const damaged = damage(await readFile(name));
      await writeFile(name, damaged);
      await expect(world.open()).rejects.toMatchObject({
        code: 'ERR_STORE_CORRUPT',
        message: expect.stringContaining(name),
      });
      expect((await readFile(name)).equals(damaged)).toBe(true);
    });
  }

  const losses: [string, string, RegExp][] = [
    ['a table', 'DROP TABLE taken', /tables taken are missing/],
    ['its head', 'DELETE FROM state', /no head/],
    ['its id', `DELETE FROM meta WHERE key = 'store_id'`, /id or its seed/],
    ['its version', `DELETE FROM meta WHERE key = 'schema_version'`, /does not say its version/],
  ];
  for (const [what, sql, said] of losses) {
    test(`a store that lost ${what} is ERR_STORE_CORRUPT`, async () => {
      await (await world.open()).close();
      const driver = await world.driver();
      await driver.exec(sql);
      await driver.close();
      await expect(world.open()).rejects.toMatchObject({
        code: 'ERR_STORE_CORRUPT',
        message: expect.stringMatching(said),
      });
    });
  }

  test('another program’s database is not made into a timeline', async () => {
    const driver = await world.driver();
    await driver.exec('CREATE TABLE theirs (a)');
    await driver.close();
    const before = await bytesOf(world.dir);
    await expect(world.open()).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT', message: /not a timeline/ });
    expect(await bytesOf(world.dir)).toEqual(before);
  });

  test('a creation that died half-way is made again', async () => {
    await writeFile(join(world.dir, 'timeline.db'), '');
    const t = await world.open();
    expect((await t.append(look(0))).observationId).toBe(id(1));
  });

  test('opens at once in one process end up with one store', async () => {
    const opened = await Promise.all([1, 2, 3, 4].map(() => world.open()));
    expect(new Set(opened.map((t) => t.storeId)).size).toBe(1);
    expect(new Set(opened.map((t) => t.seed)).size).toBe(1);
  });

  test('processes that create at once end up with one store, and all their appends are in it', async () => {
    const children = [1, 2, 3].map(
      (n) =>
        new Promise<string>((resolve, reject) => {
          const child = spawn(process.execPath, [script, 'append', world.dir, `thread-${n}`, '5'], {
            stdio: ['ignore', 'pipe', 'inherit'],
          });
          let out = '';
          child.stdout.on('data', (data) => {
            out += data;
          });
          child.on('close', (code) => (code === 0 ? resolve(out.trim()) : reject(new Error(`exit ${code}: ${out}`))));
        }),
    );
    const ids = await Promise.all(children);
    expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set(ids).size).toBe(1);
    const t = await world.open();
    expect(t.storeId).toBe(ids[0]);
    expect((await t.head()).seq).toBe(15);
    expect((await t.sessions()).map((s) => s.threadId).sort()).toEqual(['thread-1', 'thread-2', 'thread-3']);
    expect((await t.verify()).problems).toEqual([]);
  });
});
