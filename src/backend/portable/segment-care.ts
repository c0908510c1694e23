/**
 * Care of the segments as a whole: checking every record, and returning the space of dead blobs.
 *
 * Collecting copies what lives in a segment into our own, makes that durable, and only then unlinks the segment. Left
 * alone are: a segment that another live process appends to, one with nothing dead, and one with a live record that
 * can't be read (its bytes may still be of use to somebody). What lives keeps its chunks.
 */
import { statSync, unlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { TakebackError } from '../../errors.ts';
import type { Hash } from '../../types.ts';
import type { Chunk } from './chunks.ts';
import { checkCancelled, errnoOf, type WorkHooks } from './faults.ts';
import { chunksOf } from './large.ts';
import { decodeRecord, SEGMENT_HEADER } from './records.ts';
import type { SegmentFile } from './segment-file.ts';
import type { SegmentStore } from './segments.ts';

export interface Problem {
  readonly hash?: Hash;
  readonly segment: string;
  readonly detail: string;
}

export function verifySegments(
  store: SegmentStore,
  files: readonly SegmentFile[],
  hooks: WorkHooks,
): { checked: number; problems: Problem[] } {
  const problems: Problem[] = [];
  let checked = 0;
  for (const file of files) {
    const segment = basename(file.path);
    try {
      for (const [hash, place] of file.entries()) {
        checkCancelled(hooks);
        const found = decodeRecord(store.hasher, file.readRecord(place), hash);
        checked += 1;
        const damage =
          'damage' in found ? found.damage : 'chunks' in found ? chunkDamage(store, hash, found.chunks) : null;
        if (damage !== null) problems.push({ hash, segment, detail: damage });
        hooks.progress({ phase: 'verify', done: checked });
      }
      const beyond = store.isForeign(file) || file === store.own ? null : file.beyondDamage();
      if (beyond !== null)
        problems.push({ segment, detail: `damaged at byte ${file.end}; a record stands behind it at byte ${beyond}` });
    } catch (error) {
      // Collected by another process while we looked: no problem, its blobs are elsewhere.
      if (errnoOf(error) !== 'ENOENT') throw error;
      store.forget(file);
    }
  }
  return { checked, problems };
}

/** A list whose chunks are gone is one that nobody names any more, or `has` says that it is missing. */
function chunkDamage(store: SegmentStore, hash: Hash, chunks: readonly Chunk[]): string | null {
  if (!chunks.every((chunk) => store.has(chunk.hash))) return null;
  try {
    for (const _piece of store.pieces(hash));
    return null;
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_BLOB_CORRUPT') return error.message;
    throw error;
  }
}

/**
 * What lives, and the chunks of what is large in it; null where a list of chunks can't be read: it might need any blob.
 */
export function withChunks(store: SegmentStore, live: ReadonlySet<Hash>): ReadonlySet<Hash> | null {
  const all = new Set(live);
  for (const hash of live) {
    try {
      for (const chunk of chunksOf(store, hash) ?? []) all.add(chunk.hash);
    } catch (error) {
      if (error instanceof TakebackError && error.code === 'ERR_BLOB_CORRUPT') return null;
      throw error;
    }
  }
  return all;
}

/** True where the segment can be had smaller, and nobody else needs it as it is. */
function isCollectable(store: SegmentStore, file: SegmentFile, keep: ReadonlySet<Hash>): boolean {
  if (store.isForeign(file)) return false;
  const size = statSync(file.path).size;
  // No segment of this store: not ours to judge, unless it is a header that was never finished.
  if (file.end === 0) return size <= SEGMENT_HEADER;
  if (size > file.end && file.beyondDamage() !== null) return false;
  let records = 0;
  for (const [hash] of file.entries()) {
    if (!keep.has(hash)) return true;
    records += 1;
  }
  return records === 0 || size > file.end;
}

/** Ours may have been taken over: what it held then counts where it can be read. */
function isInOwn({ own }: SegmentStore, hash: Hash): boolean {
  const place = own?.find(hash, Buffer.from(hash, 'hex'));
  return place !== undefined && own !== null && !('damage' in own.read(hash, place));
}

/** Copies what lives in a segment into our own. Answers the bytes, or null where a live record can't be read. */
function copyLive(store: SegmentStore, file: SegmentFile, keep: ReadonlySet<Hash>): number | null {
  let copied = 0;
  for (const [hash, place] of file.entries()) {
    if (!keep.has(hash) || isInOwn(store, hash)) continue;
    const record = file.readRecord(place);
    if ('damage' in decodeRecord(store.hasher, record, hash)) return null;
    store.appendRecord(hash, place.rawLength, record);
    copied += record.length;
  }
  return copied;
}

function drop(store: SegmentStore, file: SegmentFile): void {
  unlinkSync(file.path);
  try {
    unlinkSync(file.idxPath);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
  store.forget(file);
}

/** See `SegmentStore.collect`, which seals our own segment first. */
export function collectSegments(
  store: SegmentStore,
  live: ReadonlySet<Hash>,
  hooks: WorkHooks,
): { freedBytes: number; keptBytes: number } {
  const keep = withChunks(store, live);
  const isOld = (file: SegmentFile) => unlessGone(store, file, () => keep !== null && isCollectable(store, file, keep));
  const candidates = store.files().filter(isOld);
  for (const file of candidates) store.doomed.add(file);
  let freedBytes = 0;
  try {
    for (const [done, file] of candidates.entries()) {
      checkCancelled(hooks);
      freedBytes += unlessGone(store, file, () => collectOne(store, file, keep ?? live)) ?? 0;
      hooks.progress({ phase: 'gc', done: done + 1, total: candidates.length });
    }
  } finally {
    store.doomed.clear();
  }
  store.sync();
  const keptBytes = store.files().reduce((sum, file) => sum + file.end, 0);
  return { freedBytes, keptBytes };
}

/** Answers the bytes that went. */
function collectOne(store: SegmentStore, file: SegmentFile, keep: ReadonlySet<Hash>): number {
  const size = statSync(file.path).size;
  const copied = copyLive(store, file, keep);
  if (copied === null) return 0;
  store.sync();
  drop(store, file);
  return size - copied;
}

/** Another process may take a closed segment over at any time: then it isn't ours to collect. */
function unlessGone<T>(store: SegmentStore, file: SegmentFile, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    store.forget(file);
    return undefined;
  }
}
