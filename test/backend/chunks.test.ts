/** Large contents in chunks: both backends cut at the same places, and one reads what the other stored. */
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Segments } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { Cutter, decodeList, encodeList, OVER } from '../../src/backend/portable/chunks.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

const SEED = 0xfedc_ba98_7654_3210n;
const LARGE = 12 * 1024 * 1024;
let dir: string;

beforeEach(() => {
  dir = join(mkdtempSync(join(tmpdir(), 'takeback-chunks-')), 'segments');
});
afterEach(() => rmSync(join(dir, '..'), { recursive: true }));

/** Bytes that no codec makes smaller. */
function noise(length: number, seed: number): Buffer {
  const words = new Uint32Array(length / 4);
  let state = seed;
  for (let at = 0; at < words.length; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[at] = state;
  }
  return Buffer.from(words.buffer);
}

/** As an edit that makes the file longer would leave it. */
function edited(bytes: Buffer): Buffer {
  const middle = bytes.length / 2;
  return Buffer.concat([bytes.subarray(0, middle), Buffer.from('an edit of another length'), bytes.subarray(middle)]);
}

function cutsOf(bytes: Buffer): number[] {
  const cutter = new Cutter();
  const ends: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    // Pieces of odd lengths: where they end must not matter.
    const { taken, ends: isEnd } = cutter.take(bytes.subarray(at, at + 65_537));
    at += taken;
    if (isEnd) ends.push(at);
  }
  return ends;
}

function onDisk(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  // Blocks, as `du` counts them.
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).blocks * 512, 0);
}

test('cuts lie where the format says', () => {
  // The same numbers stand in native/src/segment/tests/chunks.rs.
  expect(cutsOf(noise(LARGE, 7))).toEqual([
    734_996, 1_038_250, 1_745_462, 2_125_194, 6_072_656, 6_339_526, 7_216_967, 7_532_348, 8_246_485, 8_602_835,
    9_811_944, 10_094_731, 11_122_405, 12_447_155,
  ]);
  expect(cutsOf(Buffer.alloc(9 * 1024 * 1024))).toEqual([4 * 1024 * 1024, 8 * 1024 * 1024]);
});

test('a list that can’t be one of its content is none', () => {
  const chunk = { hash: '05'.repeat(16), length: OVER };
  const list = encodeList([chunk, chunk]);
  expect(decodeList(list, 2 * OVER)).toEqual([chunk, chunk]);
  for (const [bytes, raw] of [
    [list, 2 * OVER + 1],
    [list.subarray(1), 2 * OVER],
    [encodeList([chunk]), OVER],
    [encodeList([{ ...chunk, length: 2 * OVER }]), 2 * OVER],
    [encodeList([chunk, chunk, { ...chunk, length: 0 }]), 2 * OVER],
  ] as const)
    expect(decodeList(bytes, raw)).toBeNull();
});

describeBackends('large contents', (kind) => {
  async function withStore<T>(on: 'native' | 'portable', work: (segments: Segments) => Promise<T>): Promise<T> {
    const { backend } = await openBackend(on);
    const segments = await backend.openSegments({ dir, seed: SEED });
    try {
      return await work(segments);
    } finally {
      await segments.close();
      await backend.close();
    }
  }

  test('what one backend stored the other reads, and stores an edit of it beside it at the price of its surroundings', async () => {
    const bytes = noise(LARGE, 7);
    const other = kind === 'native' ? 'portable' : 'native';
    const hash = await withStore(kind, (segments) => segments.put(bytes));
    await withStore(other, async (segments) => {
      expect(Buffer.from(await segments.read(hash)).equals(bytes)).toBe(true);
      const before = (await segments.stats()).bytes;
      expect(await segments.put(bytes)).toBe(hash);
      expect((await segments.stats()).bytes, 'nothing is stored twice').toBe(before);
      const changed = edited(bytes);
      const second = await segments.put(changed);
      const grown = (await segments.stats()).bytes - before;
      expect(grown).toBeGreaterThan(200_000);
      expect(grown).toBeLessThan(2 * OVER);
      expect(Buffer.from(await segments.read(second)).equals(changed)).toBe(true);
      expect((await segments.verify()).problems).toEqual([]);
    });
  });

  test('gc keeps the chunks of what lives, and gives the space of others back', async () => {
    await withStore(kind, async (segments) => {
      const [first, second] = [noise(LARGE, 7), noise(LARGE, 8)];
      const [kept, dead] = [await segments.put(first), await segments.put(second)];
      await segments.sync();
      expect(onDisk(dir)).toBeGreaterThan(2 * LARGE);
      expect((await segments.collect([kept])).freedBytes).toBeGreaterThan(LARGE - 4096);
      expect(onDisk(dir)).toBeLessThan(LARGE + 64 * 1024);
      expect(await segments.has([kept, dead])).toEqual([true, false]);
      expect(Buffer.from(await segments.read(kept)).equals(first)).toBe(true);
      expect((await segments.verify()).problems).toEqual([]);
      await segments.collect([]);
      expect(onDisk(dir)).toBeLessThan(64 * 1024);
    });
  });

  test('a large file that a turn edited, or deleted, comes back; dropping the session gives the space back', async () => {
    await using story = await Story.begin(kind, 'echo small >f');
    const bytes = noise(LARGE, 9);
    writeFileSync(join(story.space.root, 'large.bin'), bytes);
    await story.cp('a');
    const before = onDisk(story.space.dataDir);
    const call = got(await story.session().beginCall('edit'));
    expect(call.available).toBe(true);
    writeFileSync(join(story.space.root, 'large.bin'), edited(bytes));
    got(await story.session().endCall('edit'));
    expect(onDisk(story.space.dataDir) - before).toBeLessThan(2 * OVER);
    await story.cp('b');
    await story.t('rm large.bin');
    expect(got(await story.workspace.verify({ rehash: true }))).toMatchObject({ ok: true, problems: [] });
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'large.bin': 'recreate' } });
    expect(story.space.read('large.bin')).toBe(bytes.toString());
    got(await story.session().drop());
    got(await story.workspace.gc());
    expect(onDisk(story.space.dataDir)).toBeLessThan(1024 * 1024);
  });

  test('a deadline that comes while a large file is read leaves it for later, and says so', async () => {
    await using story = await Story.begin(kind, '');
    writeFileSync(join(story.space.root, 'large.bin'), noise(60 * 1024 * 1024, 9));
    const capture = await story.cp('a', { deadlineMs: 30 });
    expect(capture.tookMs, 'it does not wait for the file').toBeLessThan(10_000);
    expect(capture.complete).toBe(capture.uncovered.length === 0);
    await story.t('echo x >>large.bin');
    const later = await story.cp('b');
    expect([later.complete, later.uncovered]).toEqual([true, []]);
  });
});
