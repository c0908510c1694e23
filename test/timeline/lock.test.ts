import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { buildChild } from './child-build.ts';
import { overDrivers } from './kit.ts';

const script = await buildChild();

/** Another process; resolves once it has printed its first line. */
async function start(...args: string[]): Promise<{ child: ChildProcess; lines: () => string[] }> {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (data) => {
      out += data;
      if (out.includes('\n')) resolve();
    });
    child.on('exit', (code) => reject(new Error(`the child ended at once: ${code}`)));
  });
  return { child, lines: () => out.split('\n').slice(0, -1) };
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

await overDrivers('workspace lock', (world) => {
  test('the lock is taken, released and taken again; a second release does nothing', async () => {
    const t = await world.open();
    const first = await t.lock();
    await first.release();
    const second = await t.lock();
    await first.release();
    await expect((await world.open()).lock({ timeoutMs: 0 }), 'the second still stands').rejects.toMatchObject({
      code: 'ERR_BUSY',
    });
    await second.release();
  });

  test('a lock that is held leaves no journal beside its file', async () => {
    const lock = await (await world.open()).lock();
    expect(readdirSync(world.dir).filter((name) => name.startsWith('lock.db'))).toEqual(['lock.db']);
    await lock.release();
  });

  test('of two handles one waits for the other, and gets it when it is released', async () => {
    const [one, two] = [await world.open(), await world.open()];
    const lock = await one.lock();
    let got = false;
    const waiting = two.lock().then((second) => {
      got = true;
      return second;
    });
    await expect((await world.open()).lock({ timeoutMs: 60 })).rejects.toMatchObject({ code: 'ERR_BUSY' });
    expect(got).toBe(false);
    await lock.release();
    await (await waiting).release();
    expect(got).toBe(true);
  });

  test('who waits too long is told how long it was', async () => {
    const [one, two] = [await world.open(), await world.open()];
    const lock = await one.lock();
    const refused = await two.lock({ timeoutMs: 120 }).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ code: 'ERR_BUSY', message: expect.stringMatching(/waited \d+\.\d s/) });
    // On a busy machine it is longer than what was asked for; never shorter.
    expect(Number(/waited (\d+\.\d) s/.exec((refused as Error).message)?.[1])).toBeGreaterThanOrEqual(0.1);
    await lock.release();
    await (await two.lock({ timeoutMs: 0 })).release();
  });

  // The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
  test('an abort ends the wait at once, before it and during it', { retry: 3 }, async () => {
    const [one, two] = [await world.open(), await world.open()];
    const lock = await one.lock();
    const aborter = new AbortController();
    const waiting = two.lock({ signal: aborter.signal });
    setTimeout(() => aborter.abort(), 30);
    const started = performance.now();
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    expect(performance.now() - started).toBeLessThan(1000);
    await expect(two.lock({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    await lock.release();
    await (await two.lock()).release();
  });

  test('it is not re-entrant', async () => {
    const t = await world.open();
    const lock = await t.lock();
    await expect(t.lock()).rejects.toMatchObject({ code: 'ERR_INTERNAL' });
    await lock.release();
  });

  test('close lets go of it', async () => {
    const t = await world.open();
    await t.lock();
    await t.close();
    await (await (await world.open()).lock({ timeoutMs: 0 })).release();
  });

  test('the timeline can be read and sessions made while another handle has the lock', async () => {
    const [one, two] = [await world.open(), await world.open()];
    const lock = await one.lock();
    expect((await two.head()).seq).toBe(0);
    expect((await two.ensureSession({ threadId: 't', tenantId: null })).threadId).toBe('t');
    await lock.release();
  });

  test('it dies with its process', async () => {
    const { child, lines } = await start('hold', world.dir);
    expect(lines()).toEqual(['held']);
    const t = await world.open();
    await expect(t.lock({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'ERR_BUSY' });
    const waiting = t.lock();
    await kill(child);
    await (await waiting).release();
  });

  test('a killed writer leaves a sound timeline that holds all that it was told is durable', async () => {
    const { child, lines } = await start('durable', world.dir);
    while (lines().length < 20) await once(child.stdout as NodeJS.ReadableStream, 'data');
    await kill(child);
    const told = Number(lines().at(-1));
    const t = await world.open();
    await (await t.lock({ timeoutMs: 1000 })).release();
    expect((await t.head()).seq).toBeGreaterThanOrEqual(told);
    expect((await t.verify()).problems).toEqual([]);
  });
});
