import { expect, test } from 'vitest';
import type { SqlDriver } from '../../src/backend/backend.ts';
import type { Timeline } from '../../src/timeline/timeline.ts';
import { encodeVersion } from '../../src/wire.ts';
import { absent, boundary, call, change, end, file, id, look, operation, overDrivers, rel } from './kit.ts';

const MANIFEST = { hash: id(901), entries: 4 };

await overDrivers('timeline upkeep', (world) => {
  /** Two sessions: `mine` with b1, calls and an undo of it; `other` with o1 at seq 4. */
  async function sample(): Promise<{ t: Timeline; mine: number; other: number }> {
    const t = await world.open();
    const mine = (await t.ensureSession({ threadId: 'mine', tenantId: null })).id;
    const other = (await t.ensureSession({ threadId: 'other', tenantId: null })).id;
    await t.append(look(0, { boundary: boundary(mine, 'b1'), rules: Buffer.from('one') }));
    await t.append(look(1, { beginCall: call(mine, 'c1', 1) }));
    await t.append(
      look(2, { endCalls: [end(1)], changes: [change('a', absent, file(1)), change('b', file(8), file(2))] }),
    );
    await t.append(look(3, { boundary: boundary(other, 'o1'), rules: Buffer.from('two') }));
    await t.append(look(4, { beginCall: call(other, 'c2', 2), changes: [change('b', file(2), file(3))] }));
    await t.append({
      ...look(5, {
        operation: operation(mine, id(70)),
        taken: [{ path: rel('a'), fromSeq: 3, toSeq: 3 }],
        markUndone: [{ session: mine, boundaryId: 'b1' }],
        changes: [change('a', file(1), absent)],
      }),
      observation: { id: id(6), kind: 'operation', createdAt: 1, operation: id(70) },
    });
    await t.append(look(6, { beginCall: { ...call(other, 'c3', 3), parent: 2 } }));
    return { t, mine, other };
  }

  async function sound(t: Timeline): Promise<void> {
    expect((await t.verify()).problems).toEqual([]);
  }

  test('live hashes are those of rows, before and after, and of manifests, each once', async () => {
    const { t } = await sample();
    expect((await t.liveHashes()).sort()).toEqual([id(1), id(2), id(3), id(8), id(900)]);
    await t.append(
      look(7, { changes: Array.from({ length: 3000 }, (_, i) => change(`n/${i}`, absent, file(i % 50))) }),
    );
    const hashes = await t.liveHashes();
    expect(hashes.length).toBe(51);
    expect(new Set(hashes).size).toBe(51);
  });

  test('folded rows become one, its bytes between go, and the positions inside are marked', async () => {
    const { t } = await sample();
    await t.append(
      look(7, { changes: [change('b', file(3), file(4)), { ...change('c', absent, file(5)), movedFrom: rel('a') }] }),
    );
    await t.append(look(8, { changes: [change('b', file(4), file(6)), change('c', file(5), file(7))] }));
    await t.fold([
      { path: rel('b'), seqs: [5, 8, 9] },
      { path: rel('c'), seqs: [8, 9] },
    ]);
    expect(await t.rows(4)).toEqual([
      { ...change('a', file(1), absent), seq: 6 },
      { ...change('b', file(2), file(6)), seq: 9 },
      { ...change('c', absent, file(7)), seq: 9 },
    ]);
    expect(await t.liveHashes()).not.toContain(id(4));
    expect((await t.observations(3)).map((o) => o.kind)).toEqual([
      'capture',
      'folded',
      'folded',
      'folded',
      'folded',
      'capture',
    ]);
    await sound(t);
  });

  test('no hashes are live in an empty timeline', async () => {
    expect(await (await world.open()).liveHashes()).toEqual([]);
  });

  test('a cut takes everything up to its seq and leaves what came after as it was', async () => {
    const { t, mine, other } = await sample();
    await t.expire([{ session: mine, boundaryId: 'b1' }]);
    const after = await t.rows(4);
    await t.cut(4, MANIFEST);
    expect(await t.newestManifest()).toEqual({ seq: 4, ...MANIFEST });
    expect(await t.rows(0)).toEqual(after);
    expect((await t.observations(0)).map((o) => o.seq)).toEqual([4, 5, 6, 7]);
    expect((await t.callsBetween(0)).map((c) => c.callId)).toEqual(['c2', 'c3']);
    expect((await t.head()).seq).toBe(7);
    expect((await t.liveBoundaries()).map((b) => b.boundaryId)).toEqual(['o1']);
    expect(await t.boundary(mine, 'b1'), 'it is still known as expired').toMatchObject({
      state: 'expired',
      undoneBy: id(70),
    });
    expect(
      (await t.taken(mine)).map((k) => k.path),
      'the undo still stands',
    ).toEqual(['a']);
    expect(await t.liveHashes()).not.toContain(id(8));
    expect(await t.rules(1)).toBeNull();
    expect(await t.boundary(other, 'o1')).toMatchObject({ seq: 4, state: 'live' });
    await sound(t);
  });

  test('a cut at the head keeps the head and its observation', async () => {
    const { t, mine, other } = await sample();
    await t.expire([
      { session: mine, boundaryId: 'b1' },
      { session: other, boundaryId: 'o1' },
    ]);
    const head = await t.head();
    await t.cut(7, MANIFEST);
    expect(await t.head()).toEqual(head);
    expect(await t.rows(0)).toEqual([]);
    expect((await t.openCalls()).map((c) => [c.callId, c.parent])).toEqual([
      ['c2', null],
      ['c3', 2],
    ]);
    expect(await t.operation(id(70))).toBeNull();
    expect(await t.liveHashes()).toEqual([id(901)]);
    await sound(t);
    expect((await t.append(look(7))).seq).toBe(8);
  });

  test('an ended call stays past the cut while a call that lives on is nested in it', async () => {
    const { t, mine, other } = await sample();
    await t.append(look(7, { endCalls: [end(2)] }));
    await t.expire([
      { session: mine, boundaryId: 'b1' },
      { session: other, boundaryId: 'o1' },
    ]);
    await t.cut(8, MANIFEST);
    expect(await t.call(other, 'c2')).toMatchObject({ invocation: 2, state: 'ended' });
    expect(await t.call(mine, 'c1')).toBeNull();
    expect(await t.nextInvocation(), 'numbers of calls that are gone are not used again').toBe(4);
    await sound(t);
  });

  test('an operation stays past the cut while a newer one takes it back', async () => {
    const { t, mine, other } = await sample();
    const redo = operation(mine, id(72), { kind: 'redo', takesBack: id(70) });
    await t.append(look(7, { operation: redo, returned: [rel('a')] }));
    await t.expire([
      { session: mine, boundaryId: 'b1' },
      { session: other, boundaryId: 'o1' },
    ]);
    await t.cut(7, MANIFEST);
    expect((await t.operations(mine)).map((o) => o.id)).toEqual([id(72), id(70)]);
    expect((await t.takenBy(id(70))).map((k) => k.returnedBy)).toEqual([id(72)]);
    await sound(t);
  });

  test('a cut that would take bytes from a live boundary, or that has no observation, is refused whole', async () => {
    const { t } = await sample();
    const before = await t.rows(0);
    await expect(t.cut(4, MANIFEST)).rejects.toMatchObject({ code: 'ERR_INTERNAL', message: /live boundary/ });
    await expect(t.cut(99, MANIFEST)).rejects.toMatchObject({ code: 'ERR_INTERNAL', message: /timeline moved/ });
    expect(await t.rows(0)).toEqual(before);
    expect(await t.newestManifest()).toMatchObject({ seq: 1 });
  });

  test('clear goes back to before the first observation, keeps who the store is, and open calls', async () => {
    const { t, mine, other } = await sample();
    await t.setSettings('{"include":[]}');
    const { storeId, seed } = t;
    await t.clear();
    expect(await t.head()).toMatchObject({ seq: 0, observationId: null, rulesId: null });
    expect(await t.newestManifest()).toBeNull();
    expect([await t.rows(0), await t.observations(0), await t.liveHashes(), await t.liveBoundaries()]).toEqual([
      [],
      [],
      [],
      [],
    ]);
    expect(await t.boundary(mine, 'b1')).toMatchObject({ state: 'expired' });
    expect((await t.openCalls()).map((c) => [c.callId, c.beginSeq])).toEqual([
      ['c2', 0],
      ['c3', 0],
    ]);
    await sound(t);
    expect((await t.append(look(0, { boundary: boundary(other, 'o1') }))).seq).toBe(1);
    await t.close();
    const again = await world.open();
    expect([again.storeId, again.seed, await again.settings()]).toEqual([storeId, seed, '{"include":[]}']);
  });

  test('a dropped session leaves its rows, as nobody’s, and nothing of other sessions', async () => {
    const { t, mine, other } = await sample();
    const rows = await t.rows(0);
    await t.dropSession(mine);
    expect(await t.rows(0)).toEqual(rows);
    expect((await t.callsBetween(0)).map((c) => c.session)).toEqual([other, other]);
    expect(await t.operation(id(70))).toBeNull();
    // A call of the other was open: without the operation, its rows would pass for that call's.
    expect(await t.observation(6)).toMatchObject({ kind: 'operation', operation: id(70) });
    expect(await t.taken(mine)).toEqual([]);
    expect(await t.boundaries(mine, { all: true })).toEqual([]);
    expect(await t.findSession({ threadId: 'mine', tenantId: null })).toBeNull();
    await sound(t);
    await t.dropSession(other);
    expect(await t.openCalls()).toEqual([]);
    await sound(t);
  });

  test('a nested call of another session loses its parent with the parent’s session', async () => {
    const { t, mine, other } = await sample();
    await t.append(look(7, { beginCall: { ...call(mine, 'c4', 4), parent: 2 } }));
    await t.dropSession(other);
    expect(await t.call(mine, 'c4')).toMatchObject({ parent: null, state: 'open' });
    await sound(t);
  });

  test('expired boundaries are known as such and are no longer live', async () => {
    const { t, mine } = await sample();
    await t.expire([{ session: mine, boundaryId: 'b1' }]);
    await t.expire([]);
    expect(await t.boundary(mine, 'b1')).toMatchObject({ state: 'expired' });
    expect(await t.boundaries(mine)).toEqual([]);
  });

  test('the gc generation grows, and stats count what there is', async () => {
    const { t } = await sample();
    await t.bumpGcGeneration();
    expect((await t.head()).gcGeneration).toBe(1);
    const stats = await t.stats();
    expect(stats).toMatchObject({ observations: 7, rows: 4, sessions: 2, boundaries: 2, calls: 3, operations: 1 });
    expect(stats.bytes).toBeGreaterThan(10_000);
  });

  test('verify counts every row and finds nothing in a sound timeline', async () => {
    const { t } = await sample();
    const { checked, problems } = await t.verify();
    expect(problems).toEqual([]);
    expect(checked).toBeGreaterThan(4);
  });

  const damages: [string, string, unknown][] = [
    [
      'a chain that is broken',
      `UPDATE rows SET before = x'00' WHERE seq = 5`,
      { kind: 'chain', path: 'b', detail: 'row 5 does not begin where row 3 ended' },
    ],
    ['a version that can’t be read', `UPDATE rows SET after = x'09' WHERE seq = 5`, { kind: 'row', path: 'b' }],
    [
      'a missing observation',
      'DELETE FROM observations WHERE seq = 4',
      { kind: 'reference', detail: /missing before: 5/ },
    ],
    ['a missing manifest', 'DELETE FROM manifests', { kind: 'reference', detail: /rows without a manifest/ }],
    ['a head elsewhere', 'UPDATE state SET seq = 9', { kind: 'reference', detail: /head is not the newest/ }],
    ['a call of nobody', 'UPDATE calls SET session = 77', { kind: 'reference', detail: /call of an unknown session/ }],
    [
      'a boundary after the head',
      'UPDATE boundaries SET seq = 99',
      { kind: 'reference', detail: /boundary after the head/ },
    ],
    [
      'an operation that is gone',
      'DELETE FROM operations',
      { kind: 'reference', detail: /taken back by an unknown operation/ },
    ],
  ];
  for (const [what, sql, problem] of damages) {
    test(`verify finds ${what}`, async () => {
      const { t } = await sample();
      const driver: SqlDriver = await world.driver();
      await driver.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
      const { problems } = await t.verify();
      const wanted = Object.entries(problem as Record<string, string | RegExp>).map(([key, value]) => [
        key,
        value instanceof RegExp ? expect.stringMatching(value) : value,
      ]);
      expect(problems).toContainEqual(expect.objectContaining(Object.fromEntries(wanted)));
    });
  }

  test('verify reads chains across the pages in which it works', async () => {
    const { t } = await sample();
    const changes = Array.from({ length: 6000 }, (_, i) => change(`n/${String(i).padStart(5, '0')}`, absent, file(1)));
    await t.append(look(7, { changes }));
    await t.append(look(8, { changes: changes.map((c) => ({ ...c, before: c.after, after: absent })) }));
    expect(await t.verify()).toMatchObject({ problems: [] });
    const driver = await world.driver();
    await driver.query(`UPDATE rows SET before = ? WHERE seq = 9 AND path = CAST('n/02499' AS BLOB)`, [
      encodeVersion(file(5)),
    ]);
    expect((await t.verify()).problems).toEqual([
      { kind: 'chain', path: 'n/02499', detail: 'row 9 does not begin where row 8 ended' },
    ]);
  });
});
