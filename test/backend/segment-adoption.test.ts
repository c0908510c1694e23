/**
 * Many short processes share segments: each takes over the one that the last closed, on both backends and on a store that both
 * write. What one backend takes over, the other reads on.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Backend, BackendKind } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import type { Hash } from '../../src/types.ts';
import { availableBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';

const SEED = 0x1234_5678_9abc_def0n;
const OPENS = 300;

const mixes: readonly (readonly BackendKind[])[] =
  availableBackends.length > 1 ? [['native'], ['portable'], ['native', 'portable']] : [availableBackends];

function named(dir: string, extension: string): string[] {
  return readdirSync(dir).filter((name) => name.endsWith(extension));
}

const bytesOf = (number: number): Buffer => Buffer.from(`file ${number}\n`.repeat(1 + (number % 50)));

/** What a hook that found one changed file does with the store. */
async function storeOne(backend: Backend, dir: string, number: number): Promise<Hash> {
  const segments = await backend.openSegments({ dir, seed: SEED });
  const hash = await segments.put(bytesOf(number));
  await segments.sync();
  await segments.close();
  return hash;
}

for (const kinds of mixes) {
  test(`${OPENS} opens that each store a file leave one segment, whole [${kinds.join(' and ')}]`, async () => {
    await using space = new Space();
    const dir = join(space.base, 'segments');
    const backends = await Promise.all(kinds.map(async (kind) => (await openBackend(kind)).backend));
    const hashes: Hash[] = [];
    for (let i = 0; i < OPENS; i += 1) hashes.push(await storeOne(backends[i % backends.length] as Backend, dir, i));
    expect([named(dir, '.seg').length, named(dir, '.idx').length]).toEqual([1, 1]);
    for (const backend of backends) {
      const segments = await backend.openSegments({ dir, seed: SEED });
      for (const [i, hash] of hashes.entries())
        expect(Buffer.from(await segments.read(hash)).equals(bytesOf(i)), `file ${i}`).toBe(true);
      expect(await segments.verify()).toEqual({ checked: OPENS, problems: [] });
      await segments.close();
      await backend.close();
    }
  }, 120_000);

  test(`a reader goes on while its segment is taken over, grows and is collected [${kinds.join(' and ')}]`, async () => {
    await using space = new Space();
    const dir = join(space.base, 'segments');
    const backends = await Promise.all(kinds.map(async (kind) => (await openBackend(kind)).backend));
    const [first, last] = [backends[0] as Backend, backends.at(-1) as Backend];
    const old = await storeOne(first, dir, 1);
    const dead = await storeOne(first, dir, 2);
    const reader = await first.openSegments({ dir, seed: SEED });
    const writer = await last.openSegments({ dir, seed: SEED });
    const fresh = await writer.put(bytesOf(3));
    expect(Buffer.from(await reader.read(old)).equals(bytesOf(1)), 'under a name of its writer').toBe(true);
    await writer.sync();
    await writer.close();
    expect(Buffer.from(await reader.read(fresh)).equals(bytesOf(3)), 'closed again, and longer').toBe(true);
    const collector = await last.openSegments({ dir, seed: SEED });
    await collector.collect([old, fresh]);
    await collector.close();
    expect(Buffer.from(await reader.read(old)).equals(bytesOf(1)), 'collected').toBe(true);
    await reader.close();
    const later = await first.openSegments({ dir, seed: SEED });
    expect(await later.has([old, dead, fresh])).toEqual([true, false, true]);
    await later.close();
    for (const backend of backends) await backend.close();
  });
}
