import { expect, test } from 'vitest';
import type { SqlDriver, SqlStatement } from '../../src/backend/backend.ts';
import type { Timeline } from '../../src/timeline/timeline.ts';
import { absent, boundary, call, change, end, file, id, look, operation, overDrivers, recording, rel } from './kit.ts';

/** Tables that grow with the turns, and their aliases. (A newest manifest is one row at the end of its table.) */
const GROWING = /SCAN (rows|calls|boundaries|operations|taken|observations|forks|t|o|c|f|r)\b/;

async function askEverything(t: Timeline, session: number): Promise<void> {
  await t.head();
  await t.settings();
  await t.newestManifest();
  await t.rules(1);
  await t.observation(3);
  await t.observations(3, 9);
  await t.rows(3);
  await t.rows(3, 9, [rel('a'), rel('b')]);
  await t.firstRows(3, 9, 5);
  await t.firstRowsAfter(3);
  await t.findSession({ threadId: 't', tenantId: null });
  await t.boundary(session, 'b1');
  await t.boundaries(session, { limit: 5, beforeSeq: 9 });
  await t.boundaries(session, { all: true });
  await t.liveBoundaries();
  await t.openCalls();
  await t.openCalls(session);
  await t.call(session, 'c');
  await t.callsBetween(3, 9);
  await t.nextInvocation();
  await t.operation(id(70));
  await t.operations(session, { limit: 2, afterSeq: 3 });
  await t.operationsAfter(3);
  await t.taken(session, 3);
  await t.taken(session, 3, 9);
  await t.lineage(session);
  await t.callsOfStep(session, 's');
  await t.takenBy(id(70));
}

async function plan(driver: SqlDriver, { sql, params, many }: SqlStatement): Promise<string> {
  const rows = await driver.query(`EXPLAIN QUERY PLAN ${sql}`, params ?? many?.[0] ?? []);
  return rows.map((row) => String(row[3])).join('; ');
}

await overDrivers('timeline queries', (world) => {
  async function sample(): Promise<{ t: Timeline; session: number; other: number }> {
    const t = await world.open();
    const session = (await t.ensureSession({ threadId: 't', tenantId: null })).id;
    const other = (await t.ensureSession({ threadId: 't', tenantId: 'tenant' })).id;
    await t.append(look(0, { boundary: boundary(session, 'b1') }));
    await t.append(look(1, { beginCall: call(session, 'c', 1) }));
    await t.append(
      look(2, { endCalls: [end(1)], changes: [change('a', absent, file(1)), change('b', absent, file(2))] }),
    );
    await t.append(look(3, { boundary: boundary(other, 'o1') }));
    await t.append(look(4, { beginCall: call(other, 'c', 2), changes: [change('b', file(2), file(3))] }));
    await t.append(look(5, { boundary: boundary(session, 'b2') }));
    return { t, session, other };
  }

  test('sessions are known by thread and tenant, made once', async () => {
    const { t, session, other } = await sample();
    expect((await t.ensureSession({ threadId: 't', tenantId: null })).id).toBe(session);
    expect(await t.findSession({ threadId: 't', tenantId: 'tenant' })).toMatchObject({ id: other, tenantId: 'tenant' });
    expect(await t.findSession({ threadId: 'none', tenantId: null })).toBeNull();
    expect((await t.sessions()).map((s) => [s.threadId, s.tenantId])).toEqual([
      ['t', null],
      ['t', 'tenant'],
    ]);
  });

  test('boundaries come newest first, by session, up to a limit and before a seq', async () => {
    const { t, session } = await sample();
    expect((await t.boundaries(session)).map((b) => b.boundaryId)).toEqual(['b2', 'b1']);
    expect((await t.boundaries(session, { limit: 1 })).map((b) => b.boundaryId)).toEqual(['b2']);
    expect((await t.boundaries(session, { beforeSeq: 6 })).map((b) => b.boundaryId)).toEqual(['b1']);
    expect((await t.liveBoundaries()).map((b) => b.boundaryId)).toEqual(['b1', 'o1', 'b2']);
    await t.append(look(6, { discard: [{ session, boundaryId: 'b2' }] }));
    expect((await t.boundaries(session)).map((b) => b.boundaryId)).toEqual(['b1']);
    expect((await t.boundaries(session, { all: true })).map((b) => b.state)).toEqual(['discarded', 'live']);
  });

  test('rows lie between two positions, the first excluded and the last included', async () => {
    const { t } = await sample();
    const named = (rows: { seq: number; path: string }[]) => rows.map((row) => `${row.seq}${row.path}`);
    expect(named(await t.rows(0))).toEqual(['3a', '3b', '5b']);
    expect(named(await t.rows(3))).toEqual(['5b']);
    expect(named(await t.rows(2, 4))).toEqual(['3a', '3b']);
    expect(named(await t.rows(0, 9, [rel('b')]))).toEqual(['3b', '5b']);
    expect(await t.rows(0, 9, [])).toEqual([]);
    expect(named(await t.firstRowsAfter(0))).toEqual(['3a', '3b']);
    expect(await t.firstRowsAfter(4)).toEqual([{ ...change('b', file(2), file(3)), seq: 5 }]);
  });

  test('rows of more paths than one statement takes are all found, in order', async () => {
    const { t } = await sample();
    const paths = Array.from({ length: 1203 }, (_, i) => `many/${String(i).padStart(4, '0')}`);
    await t.append(look(6, { changes: paths.map((path) => change(path, absent, file(1))) }));
    const found = await t.rows(6, undefined, paths.toReversed().map(rel));
    expect(found.map((row) => row.path)).toEqual(paths);
  });

  test('calls are found by the interval in which they were open', async () => {
    const { t, session, other } = await sample();
    const between = async (from: number, to?: number) => (await t.callsBetween(from, to)).map((c) => c.invocation);
    expect(await between(0)).toEqual([1, 2]);
    expect(await between(3), 'ended at 3, so not open after it').toEqual([2]);
    expect(await between(0, 5), 'begun at 5, so not before it').toEqual([1]);
    expect(await between(0, 2)).toEqual([]);
    expect((await t.openCalls()).map((c) => c.invocation)).toEqual([2]);
    expect(await t.openCalls(session)).toEqual([]);
    expect((await t.openCalls(other)).map((c) => c.callId)).toEqual(['c']);
    expect(await t.call(session, 'none')).toBeNull();
  });

  test('observations tell their kind, operation and overlap', async () => {
    const { t } = await sample();
    const observation = {
      id: id(7),
      kind: 'operation',
      createdAt: 1,
      operation: id(70),
      overlap: [rel('sub'), rel('z\udcff')],
    };
    await t.append({ expectSeq: 6, observation: { ...observation, kind: 'operation' }, durable: true });
    expect(await t.observation(7)).toEqual({ seq: 7, ...observation });
    expect(await t.observation(1)).toEqual({
      seq: 1,
      id: id(1),
      kind: 'first',
      createdAt: 1001,
      operation: null,
      overlap: [],
    });
    expect((await t.observations(2, 4)).map((o) => o.seq)).toEqual([3, 4]);
    expect(await t.observation(99)).toBeNull();
    expect(await t.newestManifest()).toEqual({ seq: 1, hash: id(900), entries: 3 });
  });

  test('calls of a step come in order of their begin', async () => {
    const { t, session, other } = await sample();
    await t.append(look(6, { beginCall: { ...call(session, 'd', 3), stepId: 's' } }));
    await t.append(look(7, { beginCall: { ...call(session, 'e', 4), stepId: 's' } }));
    expect((await t.callsOfStep(session, 's')).map((c) => c.callId)).toEqual(['d', 'e']);
    expect(await t.callsOfStep(other, 's')).toEqual([]);
  });

  test('a fork has the boundaries up to its own, and the lineage says up to where each ancestor counts', async () => {
    const { t, session } = await sample();
    const fork = async (threadId: string, parent: number, forkSeq: number): Promise<number> => {
      const made = (await t.ensureSession({ threadId, tenantId: null })).id;
      await t.fork({ session: made, parent, atSeq: 5, forkSeq });
      return made;
    };
    const first = await fork('f1', session, 6);
    await t.append(look(6));
    const second = await fork('f2', first, 7);
    expect((await t.boundaries(second)).map((b) => [b.session, b.boundaryId])).toEqual([[second, 'b1']]);
    expect(await t.lineage(session)).toEqual([]);
    expect(await t.lineage(first)).toEqual([{ session, forkSeq: 6 }]);
    expect(await t.lineage(second)).toEqual([
      { session: first, forkSeq: 7 },
      { session, forkSeq: 6 },
    ]);
  });

  test('what was taken back as of a seq leaves out what came after it', async () => {
    const { t, session } = await sample();
    const taken = [{ path: rel('a'), fromSeq: 3, toSeq: 3 }];
    await t.append(look(6, { operation: operation(session, id(70)), taken }));
    const redo = operation(session, id(71), { kind: 'redo', takesBack: id(70) });
    await t.append(look(7, { operation: redo, returned: [rel('a')] }));
    expect(await t.taken(session, 0, 6)).toEqual([]);
    expect(await t.taken(session, 0, 7)).toMatchObject([{ operation: id(70), returnedBy: null }]);
    expect(await t.taken(session, 0, 8)).toMatchObject([{ operation: id(70), returnedBy: id(71) }]);
  });

  test('no question scans a table that grows with the turns', async () => {
    const opener = recording(world.opener);
    const t = await world.open({}, opener);
    const session = (await t.ensureSession({ threadId: 't', tenantId: null })).id;
    opener.seen.length = 0;
    await t.append(
      look(0, { boundary: boundary(session, 'b1'), beginCall: call(session, 'c', 1), rules: Buffer.from('r') }),
    );
    const undo = operation(session, id(70));
    const turn = [{ session, boundaryId: 'b1' }];
    const taken = [{ path: rel('a'), fromSeq: 1, toSeq: 2 }];
    await t.append(
      look(1, {
        endCalls: [end(1)],
        operation: undo,
        taken,
        markUndone: turn,
        changes: [change('a', absent, file(1))],
      }),
    );
    const redo = operation(session, id(71), { kind: 'redo', takesBack: id(70) });
    await t.append(look(2, { operation: redo, returned: [rel('a')], clearUndone: turn, discard: turn }));
    await askEverything(t, session);
    const statements = [...new Map(opener.seen.map((statement) => [statement.sql, statement])).values()];
    expect(statements.length).toBeGreaterThan(40);
    const driver = await world.driver();
    for (const statement of statements) {
      expect(await plan(driver, statement), statement.sql).not.toMatch(GROWING);
    }
  });

  // The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
  test('answers stay quick when the timeline has 10,000 turns', { retry: 3 }, async () => {
    const t = await world.open();
    const session = (await t.ensureSession({ threadId: 't', tenantId: null })).id;
    await t.append(look(0));
    await t.close();
    const driver = await world.driver();
    const turns = Array.from({ length: 10_000 }, (_, i) => i + 2);
    const zero = new Uint8Array(1);
    await driver.transaction([
      { sql: `INSERT INTO observations VALUES (?, hex(?), 'capture', 0, NULL, NULL)`, many: turns.map((n) => [n, n]) },
      {
        sql: `INSERT INTO boundaries VALUES (NULL, ?, 'b' || ?, ?, NULL, 0, 0, 0, 0, NULL, NULL, 'live')`,
        many: turns.map((n) => [session, n, n]),
      },
      {
        sql: `INSERT INTO calls VALUES (?, ?, 'c' || ?, NULL, NULL, NULL, ?, ?, 'ended', 0, 0, 0, '', '', NULL, 0, NULL, 0, 0, 0)`,
        many: turns.map((n) => [n, session, n, n - 1, n]),
      },
      {
        sql: 'INSERT INTO rows VALUES (?, CAST(? AS BLOB), ?, ?, 0, NULL)',
        many: turns.map((n) => [n, String(n % 97), zero, zero]),
      },
      { sql: 'UPDATE state SET seq = 10001, observation = hex(10001)' },
    ]);
    const full = await world.open();
    const started = performance.now();
    for (let i = 0; i < 20; i++) {
      await full.head();
      await full.boundaries(session, { limit: 1 });
      await full.boundary(session, 'b5000');
      await full.openCalls();
      await full.callsBetween(9990);
      await full.rows(9990);
      await full.rows(9000, undefined, [rel('5')]);
      await full.firstRowsAfter(9990);
      await full.operationsAfter(9000);
    }
    // 180 questions; a scan of one of these tables takes some milliseconds each.
    expect(performance.now() - started).toBeLessThan(1000);
  });
});
