import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Segments } from '../../src/backend/backend.ts';
import { loadAddon } from '../../src/backend/load-addon.ts';
import { NativeBackend } from '../../src/backend/native.ts';
import { SegmentStore } from '../../src/backend/portable/segments.ts';
import type { Progress } from '../../src/types.ts';

const SEED = 0xfedc_ba98_7654_3210n;
const loaded = loadAddon();

if ('missing' in loaded) test.skip('native segments: skipped, the addon is not built here', () => undefined);
else {
  describe('native segments', () => {
    const backend = new NativeBackend(loaded.addon);
    let dir: string;
    let segments: Segments;

    beforeEach(async () => {
      dir = join(mkdtempSync(join(tmpdir(), 'takeback-native-seg-')), 'segments');
      segments = await backend.openSegments({ dir, seed: SEED });
    });
    afterEach(async () => {
      await segments.close();
      rmSync(join(dir, '..'), { recursive: true });
    });

    test('blobs read back, one copy of each is stored, and the next process finds them', async () => {
      const text = Buffer.from('hello\n'.repeat(100));
      const hash = await segments.put(text);
      expect(hash).toMatch(/^[0-9a-f]{32}$/);
      expect(await segments.put(text)).toBe(hash);
      expect(Buffer.from(await segments.read(hash)).equals(text)).toBe(true);
      const stats = await segments.stats();
      expect({ segments: stats.segments, blobs: stats.blobs }).toEqual({ segments: 1, blobs: 1 });
      expect(stats.bytes).toBeLessThan(200);
      await segments.sync();
      await segments.close();
      segments = await backend.openSegments({ dir, seed: SEED });
      expect(await segments.has([hash, 'f'.repeat(32)])).toEqual([true, false]);
      expect(Buffer.from(await segments.read(hash)).equals(text)).toBe(true);
    });

    test('folder and files are private, and a closed segment is nobody’s', async () => {
      await segments.put(Buffer.from('x'));
      await segments.close();
      const names = readdirSync(dir).sort();
      expect(names).toEqual([expect.stringMatching(/^0-0-[0-9a-f]{8}\.idx$/), expect.stringMatching(/\.seg$/)]);
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      expect(names.map((name) => statSync(join(dir, name)).mode & 0o777)).toEqual([0o600, 0o600]);
    });

    test('a missing and a damaged blob have codes of their own', async () => {
      await expect(segments.read('0'.repeat(32))).rejects.toMatchObject({
        name: 'TakebackError',
        code: 'ERR_BLOB_MISSING',
      });
      await expect(segments.read('no hash')).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
      const hash = await segments.put(Buffer.from('precious'));
      await segments.close();
      const file = join(dir, readdirSync(dir).find((name) => name.endsWith('.seg')) as string);
      const bytes = readFileSync(file);
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 9) ^ 1, bytes.length - 9);
      writeFileSync(file, bytes);
      segments = await backend.openSegments({ dir, seed: SEED });
      await expect(segments.read(hash)).rejects.toMatchObject({ code: 'ERR_BLOB_CORRUPT' });
      const { checked, problems } = await segments.verify();
      expect(checked).toBe(1);
      expect(problems).toMatchObject([{ hash, segment: expect.stringMatching(/\.seg$/) }]);
    });

    test('collect returns the space of dead blobs and keeps the living ones', async () => {
      const live = await segments.put(Buffer.from('live'));
      const dead = await segments.put(Buffer.from('dead'));
      await segments.sync();
      const before = (await segments.stats()).bytes;
      const { freedBytes, keptBytes } = await segments.collect([live]);
      expect(freedBytes).toBe(60);
      expect(keptBytes).toBe(before - 60);
      expect(await segments.has([live, dead])).toEqual([true, false]);
    });

    test('a signal that is aborted cancels at once', async () => {
      const signal = AbortSignal.abort();
      await expect(segments.verify({ signal })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
      await expect(segments.collect([], { signal })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    });

    test('a signal that is aborted later cancels what runs, and progress is told', async () => {
      for (let i = 0; i < 50; i++) await segments.put(Buffer.from(`blob ${i}`));
      const seen: Progress[] = [];
      const { checked } = await segments.verify({ onProgress: (progress) => seen.push(progress) });
      expect(checked).toBe(50);
      expect(seen[0]).toEqual({ phase: 'verify', done: 1, total: 50 });
      const controller = new AbortController();
      // Work is done in order: the signal comes while the put before it still runs.
      const put = segments.put(Buffer.alloc(32 << 20, 'takeback '));
      const verifying = segments.verify({ signal: controller.signal });
      controller.abort();
      await expect(verifying).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
      await put;
    });

    test('a closed handle says so, and a second close is fine', async () => {
      await segments.close();
      await segments.close();
      await expect(segments.put(Buffer.from('x'))).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    });

    test('the work leaves the JS thread free and does not wait for its pool', async () => {
      const big = Buffer.alloc(32 << 20, 'takeback ');
      const put = segments.put(big);
      const order: string[] = [];
      const done = put.then(() => order.push('put'));
      await new Promise((resolve) => setImmediate(resolve));
      order.push('loop');
      await done;
      expect(order).toEqual(['loop', 'put']);
    });

    test('each backend continues what the other one stored', async () => {
      const fromNative = await segments.put(Buffer.from('from native '.repeat(50)));
      await segments.close();
      const portable = await SegmentStore.open(dir, SEED);
      expect(Buffer.from(portable.read(fromNative)).toString()).toBe('from native '.repeat(50));
      const fromPortable = portable.put(Buffer.from('from portable '.repeat(50))).hash;
      expect(portable.put(Buffer.from('from native '.repeat(50))).hash).toBe(fromNative);
      portable.close();
      segments = await backend.openSegments({ dir, seed: SEED });
      expect(await segments.has([fromNative, fromPortable])).toEqual([true, true]);
      expect(Buffer.from(await segments.read(fromPortable)).toString()).toBe('from portable '.repeat(50));
      expect((await segments.stats()).blobs).toBe(2);
      expect((await segments.verify()).problems).toEqual([]);
      await segments.collect([fromPortable]);
      expect(await segments.has([fromNative, fromPortable])).toEqual([false, true]);
    });
  });
}
