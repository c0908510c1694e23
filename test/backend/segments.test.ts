import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Hasher } from '../../src/backend/portable/hash.ts';
import { decodeIdx, decodeRecord, encodeIdx, encodeRecord, RECORD_MAGIC } from '../../src/backend/portable/records.ts';
import { isAlive, sealedName, startTimeOf, writerOf } from '../../src/backend/portable/segment-name.ts';
import { CollisionError, SegmentStore } from '../../src/backend/portable/segments.ts';

const SEED = 0x0123_4567_89ab_cdefn;
const hooks = { cancelled: () => false, progress: () => {} };
let dir: string;
let stores: SegmentStore[];

beforeEach(() => {
  dir = join(mkdtempSync(join(tmpdir(), 'takeback-seg-')), 'segments');
  stores = [];
});

afterEach(() => {
  for (const store of stores) store.close();
  rmSync(join(dir, '..'), { recursive: true });
});

async function openStore(): Promise<SegmentStore> {
  const store = await SegmentStore.open(dir, SEED);
  stores.push(store);
  return store;
}

/** A store over blobs whose writer is done. */
async function storeOf(...contents: (string | Buffer)[]): Promise<{ hashes: string[]; file: string }> {
  const store = await SegmentStore.open(dir, SEED);
  const hashes = contents.map((content) => store.put(Buffer.from(content)).hash);
  store.close();
  return { hashes, file: join(dir, segmentNames()[0] as string) };
}

function segmentNames(): string[] {
  return readdirSync(dir).filter((name) => name.endsWith('.seg'));
}

function removeIdx(): void {
  for (const name of readdirSync(dir)) if (name.endsWith('.idx')) unlinkSync(join(dir, name));
}

/** Compressible bytes that differ by `n`. */
function text(n: number, length = 1000): Buffer {
  return Buffer.from(`${n} lorem ipsum dolor sit amet `.repeat(Math.ceil(length / 20)).slice(0, length));
}

/** Bytes that no codec makes smaller, the same in each run. */
function noise(length: number): Buffer {
  let state = 88172645463325252n;
  return Buffer.from(
    Array.from({ length }, () => {
      state ^= (state << 13n) & 0xffff_ffff_ffff_ffffn;
      state ^= state >> 7n;
      state ^= (state << 17n) & 0xffff_ffff_ffff_ffffn;
      return Number(state & 0xffn);
    }),
  );
}

describe('hashes', () => {
  test('XXH3-128 of nothing is in canonical order', async () => {
    expect((await Hasher.create(0n)).hash(Buffer.alloc(0))).toBe('99aa06d3014798d86001c324468d497f');
  });

  test('check64 is XXH3-64 as a little-endian integer', async () => {
    expect((await Hasher.create(SEED)).check64(Buffer.alloc(0)).readBigUInt64LE(0)).toBe(0x2d06_8005_38d3_94c2n);
  });

  test('the seed changes the name, and parts count as one', async () => {
    const hasher = await Hasher.create(SEED);
    expect(hasher.hash(Buffer.from('ab'), Buffer.from('c'))).toBe(hasher.hash(Buffer.from('abc')));
    expect(hasher.hash(Buffer.from('abc'))).not.toBe((await Hasher.create(SEED >> 32n)).hash(Buffer.from('abc')));
  });
});

describe('records', () => {
  test('a record has the bytes of docs/formats.md', async () => {
    const hasher = await Hasher.create(SEED);
    const name = hasher.hash(Buffer.from('hello'));
    const record = encodeRecord(hasher, name, Buffer.from('hello'));
    expect(record.length).toBe(48 + 5 + 8);
    expect(record.toString('latin1', 0, 4)).toBe('TBR1');
    expect(record.readUInt32LE(0)).toBe(RECORD_MAGIC);
    expect(record[4], 'raw').toBe(0);
    expect([record.readBigUInt64LE(8), record.readBigUInt64LE(16)]).toEqual([5n, 5n]);
    expect(record.toString('hex', 24, 40)).toBe(name);
    expect(record.toString('latin1', 48, 53)).toBe('hello');
  });

  test('compressible bytes are compressed, incompressible ones are kept raw', async () => {
    const hasher = await Hasher.create(SEED);
    const small = encodeRecord(hasher, hasher.hash(text(1, 10_000)), text(1, 10_000));
    expect(small.length).toBeLessThan(2000);
    const raw = noise(2000);
    expect(encodeRecord(hasher, hasher.hash(raw), raw)[4]).toBe(0);
  });

  test('a zstd frame that another writer made is read', async () => {
    const hasher = await Hasher.create(SEED);
    const bytes = text(7, 5000);
    const frame = execFileSync('zstd', ['-1', '-c'], { input: bytes });
    expect(decodeRecord(hasher, recordWith(hasher, { codec: 1, payload: frame, bytes }), hasher.hash(bytes))).toEqual({
      bytes,
    });
  });

  test('a payload that decompresses to more than the record says is damage, not memory', async () => {
    const hasher = await Hasher.create(SEED);
    const bytes = text(7, 5000);
    const name = hasher.hash(bytes.subarray(0, 10));
    for (const [codec, payload] of [
      [1, execFileSync('zstd', ['-1', '-c'], { input: bytes })],
      [2, encodeRecord(hasher, hasher.hash(bytes), bytes).subarray(48, -8)],
    ] as const) {
      const record = recordWith(hasher, { codec, payload, bytes: bytes.subarray(0, 10) });
      expect(decodeRecord(hasher, record, name), `codec ${codec}`).toHaveProperty('damage');
    }
  });

  test('any changed byte of a record is found', async () => {
    const hasher = await Hasher.create(SEED);
    const bytes = text(3, 300);
    const name = hasher.hash(bytes);
    const record = encodeRecord(hasher, name, bytes);
    for (let i = 0; i < record.length; i++) {
      const damaged = Buffer.from(record);
      damaged[i] = (damaged[i] as number) ^ 1;
      expect(decodeRecord(hasher, damaged, name), `byte ${i}`).toHaveProperty('damage');
    }
  });

  test('an idx finds each record, and any changed or missing byte makes it void', async () => {
    const hasher = await Hasher.create(SEED);
    const places = Array.from(
      { length: 20 },
      (_, i) => [hasher.hash(text(i)), { offset: 32 + i, rawLength: i, storedLength: 2 * i }] as const,
    );
    const file = encodeIdx(hasher, places, 500);
    const table = decodeIdx(hasher, file, 500);
    expect(table?.covers).toBe(500);
    for (const [hash, place] of places) expect(table?.find(Buffer.from(hash, 'hex'))).toEqual(place);
    expect(table?.find(Buffer.alloc(16))).toBeUndefined();
    expect(decodeIdx(hasher, file, 499), 'covers more than there is').toBeNull();
    for (let i = 0; i < file.length; i++) {
      const damaged = Buffer.from(file);
      damaged[i] = (damaged[i] as number) ^ 1;
      expect(decodeIdx(hasher, damaged, 500), `byte ${i}`).toBeNull();
      expect(decodeIdx(hasher, file.subarray(0, i), 500), `cut at ${i}`).toBeNull();
    }
  });
});

function recordWith(
  hasher: Hasher,
  { codec, payload, bytes }: { codec: number; payload: Buffer; bytes: Buffer },
): Buffer {
  const record = Buffer.alloc(48 + payload.length + 8);
  record.writeUInt32LE(RECORD_MAGIC, 0);
  record.writeUInt8(codec, 4);
  record.writeBigUInt64LE(BigInt(bytes.length), 8);
  record.writeBigUInt64LE(BigInt(payload.length), 16);
  record.write(hasher.hash(bytes), 24, 'hex');
  hasher.check64(record.subarray(0, 40)).copy(record, 40);
  payload.copy(record, 48);
  hasher.check64(payload).copy(record, 48 + payload.length);
  return record;
}

describe('segment store: put and read', () => {
  test('what was put is read, by this store and by the next', async () => {
    const contents = [Buffer.alloc(0), Buffer.from('x'), text(1), noise(300_000), text(2, 400_000)];
    const { hashes } = await storeOf(...contents);
    const store = await openStore();
    for (const [i, hash] of hashes.entries())
      expect(store.read(hash).equals(contents[i] as Buffer), `blob ${i}`).toBe(true);
    expect(store.stats()).toMatchObject({ segments: 1, blobs: 5 });
  });

  test('the same bytes are stored once', async () => {
    const store = await openStore();
    const first = store.put(text(1));
    expect(first).toMatchObject({ isNew: true });
    expect(store.put(text(1))).toEqual({ hash: first.hash, isNew: false, stored: 0 });
    expect(store.stats().blobs).toBe(1);
  });

  test('other bytes of the same name are a collision, and the first stay', async () => {
    class Weak extends Hasher {
      static async weak(): Promise<Weak> {
        const { createXXHash128, createXXHash3 } = await import('hash-wasm');
        return new Weak(await createXXHash128(0, 0), await createXXHash3(0, 0));
      }
      override hash(): string {
        return 'ab'.repeat(16);
      }
    }
    const store = new SegmentStore(dir, SEED, await Weak.weak());
    stores.push(store);
    store.put(Buffer.from('one'));
    expect(() => store.put(Buffer.from('two'))).toThrow(CollisionError);
    expect(store.read('ab'.repeat(16)).toString()).toBe('one');
  });

  test('a blob that is not there is ERR_BLOB_MISSING', async () => {
    const store = await openStore();
    expect(() => store.read('00'.repeat(16))).toThrow(expect.objectContaining({ code: 'ERR_BLOB_MISSING' }));
  });

  test('a damaged blob is ERR_BLOB_CORRUPT, verify names it, and putting it again heals it', async () => {
    const { hashes, file } = await storeOf(text(1), text(2));
    const bytes = readFileSync(file);
    bytes[32 + 48 + 3] = (bytes[32 + 48 + 3] as number) ^ 0xff;
    writeFileSync(file, bytes);
    const store = await openStore();
    expect(() => store.read(hashes[0] as string)).toThrow(expect.objectContaining({ code: 'ERR_BLOB_CORRUPT' }));
    expect(store.verify(hooks)).toMatchObject({ checked: 2, problems: [{ hash: hashes[0] }] });
    expect(store.put(text(1))).toMatchObject({ isNew: true });
    expect(store.read(hashes[0] as string).equals(text(1))).toBe(true);
  });

  test('folders are 0700 and files 0600 from creation, whatever the umask', async () => {
    const umask = process.umask(0o777);
    try {
      const store = await openStore();
      store.put(text(1));
      store.close();
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
      expect(readdirSync(dir).length).toBe(2);
    } finally {
      process.umask(umask);
    }
  });

  test('a segment of another seed is no segment of this store', async () => {
    const { hashes } = await storeOf(text(1));
    removeIdx();
    const other = await SegmentStore.open(dir, SEED + 1n);
    stores.push(other);
    expect(other.has(hashes[0] as string)).toBe(false);
    expect(other.collect([], hooks)).toEqual({ freedBytes: 0, keptBytes: 0 });
    expect(segmentNames().length, 'and it is not collected').toBe(1);
  });
});

describe('segment store: torn tails and damage', () => {
  test('a segment cut at any byte gives exactly its whole records', async () => {
    const { hashes, file } = await storeOf(text(1, 60), text(2, 60), text(3, 60));
    removeIdx();
    const whole = readFileSync(file);
    const ends = [32, 32 + 116, 32 + 232, 32 + 348];
    expect(whole.length).toBe(380);
    const hasher = await Hasher.create(SEED);
    for (let cut = whole.length; cut >= 0; cut--) {
      removeIdx();
      truncateSync(file, cut);
      const store = new SegmentStore(dir, SEED, hasher);
      const expected = ends.filter((end) => end <= cut).length - 1;
      expect(hashes.filter((hash) => store.has(hash)).length, `cut at ${cut}`).toBe(Math.max(expected, 0));
    }
  });

  test('an idx that says more than the segment has is ignored', async () => {
    const { hashes, file } = await storeOf(text(1), text(2));
    truncateSync(file, statSync(file).size - 1);
    const store = await openStore();
    expect(hashes.map((hash) => store.has(hash))).toEqual([true, false]);
  });

  test('what stands behind the idx is found by scanning', async () => {
    const { hashes, file } = await storeOf(text(1));
    const hasher = await Hasher.create(SEED);
    const more = hasher.hash(text(2));
    writeFileSync(file, Buffer.concat([readFileSync(file), encodeRecord(hasher, more, text(2))]));
    const store = await openStore();
    expect(store.read(more).equals(text(2))).toBe(true);
    expect(store.has(hashes[0] as string)).toBe(true);
  });

  test('damage in the middle is told by verify, and its segment is never collected', async () => {
    const { file } = await storeOf(text(1), text(2), text(3));
    removeIdx();
    const bytes = readFileSync(file);
    bytes[40] = 0xff;
    writeFileSync(file, bytes);
    const store = await openStore();
    expect(store.verify(hooks).problems).toMatchObject([{ detail: expect.stringContaining('damaged at byte 32') }]);
    store.collect([], hooks);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test('a full disk leaves no half record, and the next put works', async () => {
    const parent = join(dir, '..');
    const small = join(parent, 'small');
    mkdirSync(small);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small], { stdio: 'ignore' });
    } catch {
      console.warn('skipped: no tmpfs can be mounted here');
      return;
    }
    try {
      const store = await SegmentStore.open(join(small, 'segments'), SEED);
      const kept = store.put(noise(50_000)).hash;
      expect(() => store.put(Buffer.concat([noise(400_000)]))).toThrow(
        expect.objectContaining({ code: 'ERR_NO_SPACE' }),
      );
      const after = store.put(Buffer.from('small enough')).hash;
      store.close();
      const again = await SegmentStore.open(join(small, 'segments'), SEED);
      expect(again.read(kept).equals(noise(50_000))).toBe(true);
      expect(again.read(after).toString()).toBe('small enough');
      expect(again.verify(hooks)).toEqual({ checked: 2, problems: [] });
      again.close();
    } finally {
      execFileSync('umount', [small]);
    }
  });
});

describe('segment store: several at once', () => {
  test('two stores in one folder see each other after refresh, and append to segments of their own', async () => {
    const a = await openStore();
    const b = await openStore();
    const hash = a.put(text(1)).hash;
    b.put(text(2));
    expect(b.has(hash)).toBe(false);
    b.refresh();
    expect(b.put(text(1))).toMatchObject({ isNew: false });
    const later = a.put(text(3)).hash;
    expect(b.read(later).equals(text(3)), 'read refreshes by itself').toBe(true);
    expect(segmentNames().length).toBe(2);
  });

  test('a live writer is told from a dead one by pid and start time', () => {
    const start = startTimeOf(process.pid) as bigint;
    expect(isAlive({ pid: process.pid, startTime: start })).toBe(true);
    expect(isAlive({ pid: process.pid, startTime: start + 1n }), 'the pid was given to another process').toBe(false);
    expect(isAlive({ pid: 2 ** 22 + 1, startTime: 5n })).toBe(false);
    expect(isAlive({ pid: 0, startTime: 0n })).toBe(false);
    expect(writerOf('12-34-0a1b2c3d.seg')).toEqual({ pid: 12, startTime: 34n });
    expect(writerOf('12-34-0a1b2c3d.idx')).toBeNull();
    expect(sealedName()).toMatch(/^0-0-[0-9a-f]{8}\.seg$/);
  });

  test('a reader whose segment was collected finds the blob in its new place', async () => {
    const { hashes } = await storeOf(text(1), text(2));
    const reader = await openStore();
    const collector = await openStore();
    collector.collect([hashes[0] as string], hooks);
    expect(reader.read(hashes[0] as string).equals(text(1))).toBe(true);
    expect(() => reader.read(hashes[1] as string)).toThrow(expect.objectContaining({ code: 'ERR_BLOB_MISSING' }));
  });

  test('a blob that was found before another process dropped it is there after sync', async () => {
    const { hashes } = await storeOf(text(1), text(2));
    const writer = await openStore();
    expect(writer.put(text(2))).toMatchObject({ isNew: false });
    (await openStore()).collect([hashes[0] as string], hooks);
    writer.sync();
    const reader = await openStore();
    expect(reader.read(hashes[1] as string).equals(text(2))).toBe(true);
  });

  test('a writer whose segment was taken for a dead one moves to a new segment at sync', async () => {
    const writer = await openStore();
    const hash = writer.put(text(1)).hash;
    unlinkSync(join(dir, segmentNames()[0] as string));
    writer.sync();
    expect((await openStore()).read(hash).equals(text(1))).toBe(true);
  });
});

describe('segment store: collect', () => {
  test('drops what is dead, keeps what lives, and gives the space back', async () => {
    const { hashes } = await storeOf(noise(5000), text(2), text(3));
    const store = await openStore();
    const { freedBytes, keptBytes } = store.collect(hashes.slice(1), hooks);
    expect(freedBytes).toBeGreaterThan(5000);
    expect(keptBytes).toBeLessThan(2000);
    expect(hashes.map((hash) => store.has(hash))).toEqual([false, true, true]);
    store.close();
    const again = await openStore();
    expect(again.read(hashes[2] as string).equals(text(3))).toBe(true);
    expect(again.verify(hooks)).toEqual({ checked: 2, problems: [] });
  });

  test('with nothing alive the folder is empty afterwards', async () => {
    await storeOf(text(1), text(2));
    const store = await openStore();
    expect(store.collect([], hooks)).toMatchObject({ keptBytes: 0 });
    expect(readdirSync(dir)).toEqual([]);
  });

  test('a segment with nothing dead is left alone', async () => {
    const { hashes, file } = await storeOf(text(1), text(2));
    const before = statSync(file, { bigint: true });
    (await openStore()).collect(hashes, hooks);
    expect(statSync(file, { bigint: true }).ino).toBe(before.ino);
  });

  test("a segment that another live store appends to is left alone, and the collector's own is not", async () => {
    const other = await openStore();
    const theirs = other.put(text(1)).hash;
    const store = await openStore();
    const ours = store.put(text(2)).hash;
    store.sync();
    store.collect([], hooks);
    expect([store.has(theirs), store.has(ours)]).toEqual([true, false]);
    expect(other.read(theirs).equals(text(1))).toBe(true);
  });

  test('what was put since the last sync lives, though no row names it yet', async () => {
    const store = await openStore();
    const hash = store.put(text(1)).hash;
    store.collect([], hooks);
    expect(store.read(hash).equals(text(1))).toBe(true);
  });

  test('a torn tail of a dead writer is given back', async () => {
    const { hashes, file } = await storeOf(text(1));
    writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from('TBR1 torn')]));
    const store = await openStore();
    expect(store.collect(hashes, hooks).freedBytes).toBe(32 + 9);
    expect(store.read(hashes[0] as string).equals(text(1))).toBe(true);
  });

  test('a live record that is damaged keeps its whole segment', async () => {
    const { hashes, file } = await storeOf(text(1), text(2));
    const bytes = readFileSync(file);
    bytes[32 + 48 + 3] = (bytes[32 + 48 + 3] as number) ^ 0xff;
    writeFileSync(file, bytes);
    (await openStore()).collect([hashes[0] as string], hooks);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test('a dead process that left its segment unsealed does not hold it', async () => {
    const { hashes, file } = await storeOf(text(1), text(2));
    removeIdx();
    renameSync(file, join(dir, '4194305-77-00c0ffee.seg'));
    const store = await openStore();
    expect(readdirSync(dir), 'read whole: it has an idx now').toContain('4194305-77-00c0ffee.idx');
    store.collect([hashes[1] as string], hooks);
    expect(store.has(hashes[0] as string)).toBe(false);
    expect(store.read(hashes[1] as string).equals(text(2))).toBe(true);
  });

  test('cancelled between segments, nothing that lives is gone', async () => {
    const { hashes } = await storeOf(text(1), text(2));
    const store = await openStore();
    const cancelled = { cancelled: () => true, progress: () => {} };
    expect(() => store.collect([], cancelled)).toThrow(expect.objectContaining({ code: 'ERR_CANCELLED' }));
    expect(hashes.map((hash) => store.has(hash))).toEqual([true, true]);
  });

  test('a folder that is not writable is said, not ignored', async () => {
    if (process.getuid?.() === 0) {
      console.warn('skipped: permissions do not bind root');
      return;
    }
    const store = await openStore();
    chmodSync(dir, 0o500);
    expect(() => store.put(text(1))).toThrow(expect.objectContaining({ code: 'ERR_IO' }));
    chmodSync(dir, 0o700);
  });
});
