import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { currentOwner } from '../../src/process-owner.ts';
import { type OpenCalls, openOpenCalls } from '../../src/timeline/open-calls.ts';
import { overDrivers } from './kit.ts';

const gone = { ...currentOwner(), bootId: 'an earlier boot' };

await overDrivers('open calls of related roots', (world) => {
  const open = async (): Promise<OpenCalls> => world.keep(await openOpenCalls(world.opener, world.dir));
  const begin = (calls: OpenCalls, root: string, invocation: number, owner: typeof gone | null = currentOwner()) =>
    calls.begin({ root, sessionKey: 's', invocation, owner });

  test('a root sees calls of roots that contain it and of those below it, and no others', async () => {
    const calls = await open();
    const roots = ['/a', '/a/b', '/a/b/c/d', '/a/b/é\udcff', '/a/b-c', '/a/bc', '/x'];
    for (const [i, root] of roots.entries()) await begin(calls, root, i);
    expect(await calls.overlapping('/a/b', 0)).toEqual(['/a', '/a/b/c/d', '/a/b/é\udcff']);
    expect(await calls.overlapping('/a', 0)).toEqual(['/a/b', '/a/b-c', '/a/b/c/d', '/a/b/é\udcff', '/a/bc']);
    expect(await calls.overlapping('/x', 0), 'its own calls are no overlap').toEqual([]);
    expect(await calls.overlapping('/x/y', 0)).toEqual(['/x']);
    expect(await calls.overlapping('/', 0)).toEqual([
      '/a',
      '/a/b',
      '/a/b-c',
      '/a/b/c/d',
      '/a/b/é\udcff',
      '/a/bc',
      '/x',
    ]);
    await begin(calls, '/', 1);
    expect(await calls.overlapping('/x', 0)).toEqual(['/']);
    expect(await calls.overlapping('/y/z', 0)).toEqual(['/']);
  });

  test('an ended call counts for who looked last before its end, and not after', async () => {
    const calls = await open();
    const before = Date.now();
    await begin(calls, '/a/b', 1);
    await begin(calls, '/a/b', 2);
    await calls.end(1, '/a/b');
    expect(await calls.overlapping('/a', Date.now() + 1000), 'one is still open').toEqual(['/a/b']);
    await calls.end(2, '/a/b');
    await calls.end(2, '/a/b');
    expect(await calls.overlapping('/a', before)).toEqual(['/a/b']);
    expect(await calls.overlapping('/a', Date.now() + 1000)).toEqual([]);
  });

  test('a call whose owner is gone is told once more and then ended', async () => {
    const calls = await open();
    await begin(calls, '/a', 1, gone);
    const later = Date.now() + 1000;
    expect(await calls.overlapping('/a/b', later)).toEqual(['/a']);
    expect(await calls.overlapping('/a/b', later)).toEqual([]);
    expect(await calls.overlapping('/a/b', 0), 'it counts as open until it was found gone').toEqual(['/a']);
  });

  test('prune ends what owners left behind, and neither live nor detached calls', async () => {
    const calls = await open();
    await begin(calls, '/a', 1, gone);
    await begin(calls, '/b', 1);
    await begin(calls, '/c', 1, null);
    expect(await calls.prune()).toBe(1);
    expect(await calls.prune()).toBe(0);
    expect(await calls.overlapping('/', Date.now() + 1000)).toEqual(['/b', '/c']);
  });

  test('two handles see each other, and four opened at once make one table', async () => {
    const [one, two] = await Promise.all([open(), open(), open(), open()]);
    await begin(one as OpenCalls, '/a', 1);
    expect(await (two as OpenCalls).overlapping('/a/b', 0)).toEqual(['/a']);
    expect((await readdir(world.dir)).filter((name) => name.endsWith('.db'))).toEqual(['open-calls.db']);
  });

  test('a table of a newer version is refused and left as it is', async () => {
    await (await open()).close();
    const driver = await world.driver('open-calls.db');
    await driver.exec('PRAGMA user_version = 9');
    await driver.close();
    const name = join(world.dir, 'open-calls.db');
    const before = await readFile(name);
    await expect(open()).rejects.toMatchObject({ code: 'ERR_STORE_NEWER' });
    expect((await readFile(name)).equals(before)).toBe(true);
  });

  // The bound holds on a quiet machine; one that is busy with other tests is not busy each time.
  test('to look costs little where there is nothing', { retry: 3 }, async () => {
    const calls = await open();
    await calls.overlapping('/a/b/c/d', 0);
    const started = performance.now();
    for (let i = 0; i < 100; i++) await calls.overlapping('/a/b/c/d', 0);
    const each = (performance.now() - started) / 100;
    console.log(JSON.stringify({ name: 'overlapping, nothing there', ms: Number(each.toFixed(2)) }));
    expect(each).toBeLessThan(5);
  });
});
