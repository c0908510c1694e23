/**
 * What begins before the timeline is open is used where it is what the timeline says, and given up where it is not: the answer is
 * the same.
 */
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { type BegunAhead, beginAhead, guessStore } from '../../src/engine/ahead.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { observe } from '../../src/engine/observe.ts';
import { openEngine } from '../../src/engine/open.ts';
import { SessionHandle } from '../../src/session.ts';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest } from '../kit/digest.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';

class Stage implements AsyncDisposable {
  readonly space = new Space();
  readonly #backend: BackendKind;
  readonly #engines = new Set<Engine>();

  constructor(backend: BackendKind) {
    this.#backend = backend;
    this.space.sh('echo 1 >a; echo 1 >b');
  }

  async open({
    lookAhead = false,
    maxFileBytes,
    begun,
  }: {
    lookAhead?: boolean;
    maxFileBytes?: number;
    begun?: BegunAhead;
  } = {}): Promise<Engine> {
    const engine = await openEngine({
      ...{ root: this.space.root, dataDir: this.space.dataDir, backend: this.#backend, maxEntries: 1000, lookAhead },
      ...{ include: undefined, exclude: undefined, maxFileBytes, maxFileEvents: 100, begun },
      options: {
        ...{
          durability: 'fast',
          recover: 'rollback',
          adoptRoot: false,
          captureDeadlineMs: undefined,
          logger: undefined,
        },
        retention: { maxAgeDays: 30, maxBytes: 1e9, maxBoundaries: undefined },
      },
    });
    this.#engines.add(engine);
    return engine;
  }

  async close(engine: Engine): Promise<void> {
    this.#engines.delete(engine);
    await engine.close();
  }

  /** A boundary, by a process that is gone. */
  async captured(options: { maxFileBytes?: number } = {}): Promise<void> {
    const engine = await this.open(options);
    got(await sessionOf(engine).capture('m'));
    await this.close(engine);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const engine of this.#engines) await engine.close();
    await this.space[Symbol.asyncDispose]();
  }
}

const sessionOf = (engine: Engine): SessionHandle =>
  new SessionHandle(() => engine, { threadId: 's', tenantId: undefined, onConflict: 'refuse' });

const look = async (engine: Engine) =>
  changeDigest((await observe(engine, { kind: 'look', durable: false })).changes.map(publicOf));

const publicOf = ({ path, before, after }: { path: string; before: { kind: string }; after: { kind: string } }) =>
  ({ path, kind: before.kind === 'absent' ? 'created' : after.kind === 'absent' ? 'deleted' : 'modified' }) as never;

describeBackends('a look ahead', (backend) => {
  test('serves the first look, and only that', async () => {
    await using stage = new Stage(backend);
    await stage.captured();
    stage.space.sh('echo 2 >a; rm b; echo 1 >c');
    const engine = await stage.open({ lookAhead: true });
    expect(engine.ahead).not.toBeNull();
    const scans = vi.spyOn(engine.tree, 'scan');
    expect(await look(engine)).toEqual({ a: 'modified', b: 'deleted', c: 'created' });
    expect(scans).not.toHaveBeenCalled();
    stage.space.sh('echo 3 >a');
    expect(await look(engine)).toEqual({ a: 'modified' });
    expect(scans).toHaveBeenCalledTimes(1);
    expect((await engine.timeline.verify()).problems).toEqual([]);
  });

  test('takes account of what another process appends meanwhile: each change counts once', async () => {
    await using stage = new Stage(backend);
    await stage.captured();
    const other = await stage.open();
    stage.space.sh('echo 2 >a');
    expect(await look(other)).toEqual({ a: 'modified' });
    stage.space.sh('echo 3 >a; echo 2 >b');
    const engine = await stage.open({ lookAhead: true });
    expect(await look(other)).toEqual({ a: 'modified', b: 'modified' });
    expect(await look(engine), 'all of it is recorded').toEqual({});
    const late = await stage.open({ lookAhead: true });
    stage.space.sh('echo 4 >b');
    expect(await look(other)).toEqual({ b: 'modified' });
    expect(await look(late), 'its scan saw b as it was before').toEqual({});
    expect(await look(engine)).toEqual({});
    expect((await engine.timeline.verify()).problems).toEqual([]);
  });

  test('is not the one that a boundary asks for', async () => {
    await using stage = new Stage(backend);
    await stage.captured();
    const engine = await stage.open({ lookAhead: true });
    stage.space.sh('echo x >.gitignore; echo 1 >x');
    expect(got(await sessionOf(engine).capture('n')).scannedFiles, 'a, b and the new rules').toBe(3);
    expect(engine.ahead).toBeNull();
  });

  test('is not begun without a store, and not used where a setting is not the default', async () => {
    await using stage = new Stage(backend);
    const first = await stage.open({ lookAhead: true });
    expect([first.ahead, await guessStore(first.layout)]).toEqual([null, null]);
    await stage.close(first);
    await stage.captured({ maxFileBytes: 1000 });
    stage.space.sh('echo 2 >a; head -c 2000 /dev/zero >large');
    const engine = await stage.open({ lookAhead: true });
    const { changes } = await observe(engine, { kind: 'look', durable: false });
    expect(changes.map(({ path, after }) => [path, after.kind])).toEqual([
      ['a', 'file'],
      ['large', 'uncovered'],
    ]);
  });

  test('index and segments of another store mislead nobody', async () => {
    await using stage = new Stage(backend);
    await using stranger = new Stage(backend);
    await stage.captured();
    stranger.space.sh('echo other >a');
    await stranger.captured();
    const { layout } = await stage.open();
    const { layout: foreign } = await stranger.open();
    copyFileSync(foreign.indexFile, layout.indexFile);
    for (const name of readdirSync(foreign.segments))
      copyFileSync(join(foreign.segments, name), join(layout.segments, `0-${name}`.replace('0-0-0-', '0-0-')));
    stage.space.sh('echo 2 >b');
    const engine = await stage.open({ lookAhead: true });
    expect(await look(engine)).toEqual({ b: 'modified' });
    expect((await engine.timeline.verify()).problems).toEqual([]);
    rmSync(layout.indexFile);
  });

  test('goes without an index that is cut off behind its header', async () => {
    await using stage = new Stage(backend);
    await stage.captured();
    stage.space.sh('echo 2 >a; rm b');
    const { layout } = await stage.open();
    truncateSync(layout.indexFile, 100);
    const engine = await stage.open({ lookAhead: true });
    expect(engine.ahead).toBeNull();
    expect(await look(engine)).toEqual({ a: 'modified', b: 'deleted' });
    expect((await engine.timeline.verify()).problems).toEqual([]);
  });

  test('a fault of a part that is opened later is told all the same', async () => {
    await using stage = new Stage(backend);
    await stage.captured();
    const { layout } = await stage.open();
    writeFileSync(join(layout.dataDir, 'open-calls.db'), 'no database, and long enough to have a header'.repeat(40));
    await expect(stage.open({ lookAhead: true })).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT' });
  });

  test.runIf(backend === 'native')(
    'another folder that comes to the path of the root since then is found out',
    async () => {
      await using stage = new Stage(backend);
      await stage.captured();
      const known = await stage.open();
      const { backend: opened } = await openBackend(backend);
      const begun = (await beginAhead(opened, known.layout, { maxEntries: 1000 })) as BegunAhead;
      expect((await (await begun.loading).ahead?.scan)?.files).toBe(2);
      renameSync(stage.space.root, `${stage.space.root}-away`);
      mkdirSync(stage.space.root);
      const engine = await stage.open({ begun });
      await expect(look(engine)).rejects.toMatchObject({ answer: { reason: 'root-changed' } });
      rmSync(`${stage.space.root}-away`, { recursive: true });
    },
  );
});
