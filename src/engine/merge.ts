/**
 * Gives a plan the merges that it wants: brings the bytes of the disk into the store, merges, stores what came of it.
 * Nothing is written into the root. How lines are merged is `model/merge.ts`'s.
 */
import { type RunSides, type Side, takeOut } from '../model/merge.ts';
import type { Merged, MergeNeed } from '../model/types.ts';
import type { Hash, RelPath, Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { Engine } from './engine.ts';
import { observe, observeLocked } from './observe.ts';

/** A path with the version that was found on disk. */
interface Found {
  readonly path: RelPath;
  readonly disk: Version;
}

/**
 * Records what is on disk at these paths, where the timeline doesn't know it yet: its bytes are then in the store.
 * Answers whether anything was recorded; rows that were read before are then old.
 *
 * @param locked the caller holds the workspace's lock
 */
export async function keepDisk(engine: Engine, found: readonly Found[], locked: boolean): Promise<boolean> {
  if (found.length === 0) return false;
  const known = await engine.tree.versions(found.map(({ path }) => path));
  const moved = found.filter(({ disk }, i) => !sameVersion(known[i] as Version, disk));
  if (moved.length === 0) return false;
  const look = { kind: 'look', only: moved.map(({ path }) => path), durable: true } as const;
  await (locked ? observeLocked(engine, look) : observe(engine, look));
  return true;
}

/** Merges path by path. Files whose bytes aren't kept clash: they changed while they were looked at, or gc took them. */
export async function mergeAll(engine: Engine, needs: readonly MergeNeed[]): Promise<Map<RelPath, Merged>> {
  const out = new Map<RelPath, Merged>();
  for (const need of needs) out.set(need.path, await mergeOne(engine, need));
  if (out.size > 0) await engine.blobs.sync();
  return out;
}

async function mergeOne(engine: Engine, { disk, runs }: MergeNeed): Promise<Merged> {
  const sides = [disk, ...runs.flatMap(({ after, before }) => [after, before])];
  const hashes = [...new Set(sides.flatMap((version) => (version.kind === 'file' ? [version.content] : [])))];
  const stored = await engine.blobs.has(hashes);
  if (!stored.every(Boolean)) return { clash: 'can’t be merged: bytes of one side are not kept' };
  const bytes = new Map<Hash, Uint8Array>();
  for (const hash of hashes) bytes.set(hash, await engine.blobs.read(hash));
  const sideOf = (version: Version): Side =>
    version.kind === 'file' ? { version, bytes: bytes.get(version.content) as Uint8Array } : { version };
  const out = takeOut(
    sideOf(disk),
    runs.map(({ after, before }): RunSides => ({ after: sideOf(after), before: sideOf(before) })),
  );
  return 'clash' in out ? out : { version: await storedVersion(engine, out.side) };
}

/** A file that a merge made gets its name by being stored. */
async function storedVersion(engine: Engine, { version, bytes }: Side): Promise<Version> {
  if (version.kind !== 'file' || version.content !== '' || bytes === undefined) return version;
  return { ...version, content: await engine.blobs.put(bytes) };
}
