/**
 * What a hook process begins before its timeline is open: segments, tree and scan, which take as long as opening the
 * databases does. They need of the timeline the store's id, its seed and one setting. The first two stand in headers of files
 * that are read in any case (docs/formats.md); the setting is guessed to be the default. `open.ts` takes what was begun only
 * where the timeline then says the same, and else opens all anew.
 *
 * Reads only, but for caches of segments. Not begun where the store is of a newer version: its files stay as they are.
 */
import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Position, Segments, Tree } from '../backend/backend.ts';
import { SCHEMA_VERSION } from '../timeline/schema.sql.ts';
import { storedUserVersion } from '../timeline/store-version.ts';
import type { RandomId } from '../types.ts';
import { INDEX_MAGIC, SEGMENT_MAGIC } from '../wire.ts';
import type { ScanAhead } from './engine.ts';
import type { Layout } from './root.ts';

export interface Guess {
  readonly storeId: RandomId;
  readonly seed: bigint;
}

export interface BegunAhead extends Guess {
  readonly segments: Promise<Segments>;
  readonly tree: Promise<Tree>;
  readonly loading: Promise<LoadedIndex>;
}

export interface LoadedIndex {
  /** Null where there is no index. */
  readonly at: Position | null;
  readonly ahead: ScanAhead | null;
}

/** Reads the index, and begins a scan of the tree as it stands where that is the first thing that will be asked for. */
export async function loadIndex(tree: Tree, lookAhead: boolean): Promise<LoadedIndex> {
  const at = await tree.load();
  if (!lookAhead || at === null) return { at, ahead: null };
  const ahead = { rules: tree.rules(), scan: tree.scan() };
  // Whoever needs them hears of their faults.
  for (const part of [ahead.rules, ahead.scan]) part.catch(() => undefined);
  return { at, ahead };
}

/** Null where there is no store yet, or nothing can be told. */
export async function guessStore(layout: Layout): Promise<Guess | null> {
  try {
    if ((await storedUserVersion(join(layout.home, 'timeline.db'))) > SCHEMA_VERSION) return null;
    const index = head(layout.indexFile, 32);
    const segment = readdirSync(layout.segments).find((name) => name.endsWith('.seg'));
    if (segment === undefined || index.toString('latin1', 0, 8) !== INDEX_MAGIC) return null;
    const first = head(join(layout.segments, segment), 16);
    if (first.toString('latin1', 0, 8) !== SEGMENT_MAGIC) return null;
    return { storeId: index.toString('hex', 16, 32), seed: first.readBigUInt64LE(8) };
  } catch {
    // Whoever opens it properly says what is wrong.
    return null;
  }
}

/** @throws {RangeError} where the file is shorter */
function head(file: string, bytes: number): Buffer {
  const fd = openSync(file, 'r');
  try {
    const out = Buffer.alloc(bytes);
    if (readSync(fd, out, 0, bytes, 0) < bytes) throw new RangeError(`${file} is shorter than its header`);
    return out;
  } finally {
    closeSync(fd);
  }
}
