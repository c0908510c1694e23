/** The portable backend's worker: its life, what crosses to it, and a restore's paths in the next look. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { ABSENT } from '../../src/types.ts';
import { NO_SOURCES, TreeKit, told } from './tree-kit.ts';

let kit: TreeKit;
beforeEach(async () => {
  kit = await TreeKit.make(new PortableBackend());
});
afterEach(() => kit.close());

const built = new URL('../../dist/backend/portable/portable.js', import.meta.url).href;

test('an idle worker does not keep the process alive, nor does a backend that was closed', () => {
  for (const end of ['', 'await segments.close(); await backend.close();']) {
    const script = `
      import { PortableBackend } from ${JSON.stringify(built)};
      const backend = new PortableBackend();
      const segments = await backend.openSegments({ dir: ${JSON.stringify(join(kit.data, 'child'))}, seed: 1n });
      console.log(await segments.put(new Uint8Array([1, 2, 3])));
      ${end}`;
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect([run.status, run.stderr]).toEqual([0, '']);
    expect(run.stdout).toMatch(/^[0-9a-f]{32}\n$/);
  }
});

test('after close every handle answers ERR_CLOSED, and what was pending too', async () => {
  const backend = new PortableBackend();
  const segments = await backend.openSegments({ dir: join(kit.data, 'other'), seed: 1n });
  const pending = segments.stats();
  const settled = expect(pending).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  await backend.close();
  await settled;
  await expect(segments.stats()).rejects.toMatchObject({ name: 'TakebackError', code: 'ERR_CLOSED' });
  await expect(backend.openSegments({ dir: join(kit.data, 'x'), seed: 1n })).rejects.toMatchObject({
    code: 'ERR_CLOSED',
  });
});

test('errors cross with their code; a tree that was closed and segments of another backend are refused', async () => {
  await expect(kit.segments.read('0'.repeat(32))).rejects.toMatchObject({
    name: 'TakebackError',
    code: 'ERR_BLOB_MISSING',
  });
  const { tree } = kit;
  await tree.close();
  await expect(tree.scan({ renewRules: NO_SOURCES })).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  const other = new PortableBackend();
  await expect(
    other.openTree({
      root: kit.root,
      indexFile: join(kit.data, 'i'),
      storeId: '0'.repeat(32),
      segments: kit.segments,
      skip: [],
      maxFileBytes: 1,
      maxEntries: 1,
      scratchDir: kit.data,
    }),
  ).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  await other.close();
});

test('bytes that are a view of a larger buffer cross alone, and the caller keeps them', async () => {
  const large = Buffer.alloc(1 << 16, 'ab');
  const view = large.subarray(100, 104);
  const hash = await kit.segments.put(view);
  expect(view.toString()).toBe('abab');
  const back = await kit.segments.read(hash);
  expect(Buffer.from(back).toString()).toBe('abab');
  expect(back.buffer.byteLength).toBe(4);
});

test('two trees on one worker keep apart', async () => {
  kit.write('a');
  const second = join(kit.base, 'second');
  mkdirSync(second);
  const tree = await kit.backend.openTree({
    root: second,
    indexFile: join(kit.data, 'index2'),
    storeId: '1'.repeat(32),
    segments: kit.segments,
    skip: [],
    maxFileBytes: 1,
    maxEntries: 10,
    scratchDir: kit.data,
  });
  await kit.boundary();
  const { set } = await tree.scan({ renewRules: NO_SOURCES });
  expect(await tree.changes(set)).toEqual([]);
  expect(await kit.tree.list(asRelPath(''))).toEqual(['a']);
  await tree.close();
});

test('what a restore wrote is covered until the next boundary, whatever the rules say', async () => {
  kit.write('build/made', 'old');
  const { changes } = await kit.boundary();
  const made = changes.find(({ path }) => path === 'build/made')?.after;
  rmSync(join(kit.root, 'build'), { recursive: true });
  kit.write('.gitignore', 'build/\n');
  await kit.boundary();
  const outcomes = await kit.tree.apply({
    operationId: 'a'.repeat(32),
    journal: join(kit.data, 'op.journal'),
    trash: join(kit.data, 'trash'),
    durability: 'fast',
    entries: [
      { path: asRelPath('build'), expect: ABSENT, target: { kind: 'dir', mode: 0o755 } },
      { path: asRelPath('build/made'), expect: ABSENT, target: made ?? ABSENT },
    ],
  });
  expect(outcomes.map(({ status }) => status)).toEqual(['done', 'done']);
  kit.write('build/beside');
  expect((await kit.observe()).changes.map(told)).toEqual(['build: absent -> dir', 'build/made: absent -> file 3']);
  await kit.tree.finish(join(kit.data, 'op.journal'));
  expect((await kit.boundary()).changes.map(told)).toEqual([
    'build: dir -> uncovered ignored flags 8',
    'build/made: file 3 -> uncovered ignored flags 8',
  ]);
  expect(readdirSync(join(kit.root, 'build')).sort()).toEqual(['beside', 'made']);
});
