/** How often the tree is looked at: calls that are asked for at once share a scan, and what others append beside it counts once. */
import { expect, test, vi } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openEngine } from '../../src/engine/open.ts';
import { SessionHandle } from '../../src/session.ts';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest } from '../kit/digest.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';

class Looks implements AsyncDisposable {
  readonly space = new Space();
  readonly #backend: BackendKind;
  readonly #engines: Engine[] = [];

  constructor(backend: BackendKind, setup: string) {
    this.#backend = backend;
    this.space.sh(setup);
  }

  /** As a process of its own would open it. */
  async open(durability: 'full' | 'fast' = 'fast'): Promise<Engine> {
    const engine = await openEngine({
      ...{ root: this.space.root, dataDir: this.space.dataDir, backend: this.#backend, maxEntries: 1000 },
      ...{ include: undefined, exclude: undefined, maxFileBytes: undefined, maxFileEvents: 100 },
      options: {
        ...{ durability, recover: 'rollback', adoptRoot: false, captureDeadlineMs: undefined, logger: undefined },
        retention: { maxAgeDays: 30, maxBytes: 1e9, maxBoundaries: undefined },
      },
    });
    this.#engines.push(engine);
    return engine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const engine of this.#engines) await engine.close();
    await this.space[Symbol.asyncDispose]();
  }
}

const sessionOf = (engine: Engine, threadId = 's1'): SessionHandle =>
  new SessionHandle(() => engine, { threadId, tenantId: undefined, onConflict: 'refuse' });

describeBackends('looks', (backend) => {
  test('begins and ends that are asked for at once share one scan; one that is asked for later has its own', async () => {
    await using looks = new Looks(backend, 'echo 1 >a; echo 1 >b');
    const engine = await looks.open();
    const [one, two] = [sessionOf(engine, 's1'), sessionOf(engine, 's2')];
    got(await one.capture('m'));
    got(await two.capture('m'));
    const scans = vi.spyOn(engine.tree, 'scan');
    const begun = await Promise.all([one.beginCall('x'), one.beginCall('y'), two.beginCall('z')]);
    expect(begun.map((begin) => got(begin).scannedFiles)).toEqual([2, 2, 2]);
    expect(scans).toHaveBeenCalledTimes(1);
    looks.space.sh('echo 2 >a');
    const [x, z] = await Promise.all([one.endCall('x'), two.endCall('z')]);
    expect(scans).toHaveBeenCalledTimes(2);
    expect([changeDigest(got(x).changes), changeDigest(got(z).changes)]).toEqual([
      { a: 'modified' },
      { a: 'modified' },
    ]);
    looks.space.sh('echo 2 >b');
    expect(changeDigest(got(await one.endCall('y')).changes)).toEqual({ a: 'modified', b: 'modified' });
    expect(scans).toHaveBeenCalledTimes(3);
    expect((await engine.timeline.verify()).problems).toEqual([]);
  });

  test('the next scan compares with what a shared look left, also in another process', async () => {
    await using looks = new Looks(backend, 'echo 1 >a');
    const engine = await looks.open();
    const session = sessionOf(engine);
    got(await session.capture('m'));
    await Promise.all([session.beginCall('x'), session.beginCall('y')]);
    looks.space.sh('echo 2 >a');
    const other = await looks.open();
    expect(other.position).toEqual(engine.position);
    await Promise.all([session.endCall('x'), session.endCall('y')]);
    expect((await engine.timeline.rows(0)).map((row) => [row.seq, `${row.path}`])).toEqual([[4, 'a']]);
  });

  test('a begin that waited behind an undo looks for itself: what somebody did meanwhile is not the call’s', async () => {
    await using looks = new Looks(backend, 'echo 1 >a; echo 1 >b');
    const engine = await looks.open();
    const session = sessionOf(engine);
    got(await session.capture('m'));
    got(await session.beginCall('w'));
    looks.space.sh('echo 2 >a');
    got(await session.endCall('w'));
    const scans = vi.spyOn(engine.tree, 'scan');
    const whole = () => scans.mock.calls.filter(([options]) => options?.only === undefined).length;
    const asked = [session.beginCall('x'), session.endCall('x'), session.undo(), session.beginCall('y')];
    await Promise.all(asked);
    // x’s end was asked for before x’s scan began; y waited for the undo.
    expect(whole()).toBe(2);
    got(await session.endCall('y'));
  });

  test('a look that the rows of another process overtook is not shared', async () => {
    await using looks = new Looks(backend, 'echo 1 >a');
    const [engine, other] = [await looks.open(), await looks.open()];
    const [session, beside] = [sessionOf(engine), sessionOf(other, 'beside')];
    got(await session.capture('m'));
    got(await beside.capture('m'));
    const scans = vi.spyOn(engine.tree, 'scan');
    const begin = engine.openCalls.begin.bind(engine.openCalls);
    vi.spyOn(engine.openCalls, 'begin').mockImplementationOnce(async (call) => {
      got(await beside.beginCall('b'));
      looks.space.sh('echo 2 >a');
      got(await beside.endCall('b'));
      await begin(call);
    });
    const begun = await Promise.all([session.beginCall('x'), session.beginCall('y')]);
    begun.forEach(got);
    expect(scans).toHaveBeenCalledTimes(2);
    expect((await engine.timeline.rows(0)).map((row) => `${row.path}`)).toEqual(['a']);
  });

  test('rows that another process appended since the last look are taken beside the scan, and recorded once', async () => {
    await using looks = new Looks(backend, 'echo 1 >a; mkdir d; echo 1 >d/b');
    const [engine, other] = [await looks.open(), await looks.open()];
    const [session, beside] = [sessionOf(engine), sessionOf(other, 'beside')];
    got(await session.capture('m'));
    got(await beside.capture('m'));
    got(await session.beginCall('warm'));
    got(await session.endCall('warm'));
    got(await beside.beginCall('b'));
    looks.space.sh('echo 2 >a; rm -r d; mkdir -p e/f; echo n >e/f/new');
    got(await beside.endCall('b'));
    const rows = (await engine.timeline.rows(0)).length;
    const scans = vi.spyOn(engine.tree, 'scan');
    got(await session.beginCall('x'));
    looks.space.sh('echo 3 >a');
    expect(changeDigest(got(await session.endCall('x')).changes)).toEqual({ a: 'modified' });
    expect(scans).toHaveBeenCalledTimes(2);
    expect(await engine.timeline.rows(0)).toHaveLength(rows + 1);
    expect((await engine.timeline.verify()).problems).toEqual([]);
  });

  test('an end whose look fails before it asked anything is recorded by the next observation', async () => {
    await using looks = new Looks(backend, 'echo 1 >a');
    const engine = await looks.open();
    const session = sessionOf(engine);
    got(await session.capture('m'));
    got(await session.beginCall('x'));
    vi.spyOn(engine, 'checkRoot').mockRejectedValueOnce(new Error('once'));
    await expect(session.endCall('x')).rejects.toThrow('once');
    got(await session.beginCall('y'));
    expect((await engine.timeline.openCalls()).map((call) => call.callId)).toEqual(['y']);
    got(await session.endCall('y'));
  });

  test('a call that is not open is refused, and leaves no set of a scan behind', async () => {
    await using looks = new Looks(backend, 'echo 1 >a');
    const engine = await looks.open();
    const session = sessionOf(engine);
    got(await session.capture('m'));
    await expect(session.endCall('none')).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
    got(await session.beginCall('x'));
    await expect(session.beginCall('x')).rejects.toMatchObject({ code: 'ERR_DUPLICATE_CALL' });
    got(await session.endCall('x'));
    expect((await engine.timeline.head()).seq).toBe(3);
  });

  test.each(['full', 'fast'] as const)(
    'durability %s: blobs are synced before their rows where it promises that',
    async (durability) => {
      await using looks = new Looks(backend, 'echo 1 >a');
      const engine = await looks.open(durability);
      const session = sessionOf(engine);
      const syncs = vi.spyOn(engine.blobs, 'sync');
      got(await session.capture('m'));
      looks.space.sh('echo 2 >a');
      got(await session.capture('n'));
      got(await session.beginCall('x'));
      looks.space.sh('echo 3 >a');
      got(await session.endCall('x'));
      expect(syncs.mock.calls.length > 0).toBe(durability === 'full');
      if (durability === 'fast') expect(syncs).not.toHaveBeenCalled();
      else expect(syncs.mock.calls.length).toBeGreaterThanOrEqual(3);
    },
  );

  test('an undo looks at what it wrote once, and stores what somebody wrote over it before that look', async () => {
    await using looks = new Looks(backend, 'echo 1 >a; echo 1 >b');
    const engine = await looks.open();
    const session = sessionOf(engine);
    got(await session.capture('m'));
    got(await session.beginCall('c'));
    looks.space.sh('echo 2 >a; echo 2 >b');
    got(await session.endCall('c'));
    const apply = engine.tree.apply.bind(engine.tree);
    vi.spyOn(engine.tree, 'apply').mockImplementation(async (...asked) => {
      const outcomes = await apply(...asked);
      looks.space.sh('echo theirs >b');
      return outcomes;
    });
    const scans = vi.spyOn(engine.tree, 'scan');
    const { receipt } = got(await session.undo());
    expect(receipt?.restored.map(({ path }) => path)).toEqual(['a', 'b']);
    expect(scans.mock.calls.map(([asked]) => asked?.only)).toEqual([['a', 'b']]);
    const { seq } = await engine.timeline.head();
    const rows = await engine.timeline.rows(seq - 1, seq);
    const bytes = rows.map(({ after }) => (after.kind === 'file' ? engine.blobs.read(after.content) : null));
    expect((await Promise.all(bytes)).map((content) => Buffer.from(content ?? []).toString())).toEqual([
      '1\n',
      'theirs\n',
    ]);
  });
});
