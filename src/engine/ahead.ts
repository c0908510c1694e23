/**
 * What a hook process begins before its timeline is open, and before most of its own code is there: segments, tree and scan.
 * They need of the timeline the store's id, its seed and one setting. The first two stand in headers of files (docs/formats.md);
 * the setting is guessed to be the default. `open.ts` takes what was begun only where the timeline then says the same, and else
 * opens all anew.
 *
 * Reads only. Not begun where the store's file says that it is of a newer version.
 */
import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Backend, OpenedAhead, Position, Segments, Tree, TreeOptions } from '../backend/backend.ts';
import { SCHEMA_VERSION } from '../timeline/schema.sql.ts';
import { headerUserVersion } from '../timeline/store-version.ts';
import type { RandomId, RelPath } from '../types.ts';
import { INDEX_MAGIC, SEGMENT_MAGIC } from '../wire.ts';
import type { ScanAhead } from './engine.ts';
import type { Layout } from './root.ts';

export const DEFAULT_MAX_FILE_BYTES: number = 64 * 1024 * 1024;

export interface Guess {
  readonly storeId: RandomId;
  readonly seed: bigint;
}

export interface BegunAhead extends Guess {
  readonly layout: Layout;
  readonly segments: Segments;
  readonly tree: Tree;
  readonly loading: Promise<LoadedIndex>;
}

export interface LoadedIndex {
  /** Null where there is no index. */
  readonly at: Position | null;
  readonly ahead: ScanAhead | null;
}

/** Null where there is no store yet, nothing can be told of it, or the backend has no way to begin ahead. */
export async function beginAhead(
  backend: Backend,
  layout: Layout,
  { maxEntries }: { readonly maxEntries: number },
): Promise<BegunAhead | null> {
  if (backend.openAhead === undefined) return null;
  const guess = await guessStore(layout);
  if (guess === null) return null;
  const opened = backend.openAhead({
    ...treeOptions(layout, { storeId: guess.storeId, maxFileBytes: DEFAULT_MAX_FILE_BYTES, maxEntries }),
    segments: { dir: layout.segments, seed: guess.seed },
  });
  if (opened === null) return null;
  const { segments, tree } = opened;
  const loading = loadingOf(opened);
  // Where it is waited for its fault is heard.
  loading.catch(() => undefined);
  return { ...guess, layout, segments, tree, loading };
}

async function loadingOf({ loaded, scan }: OpenedAhead): Promise<LoadedIndex> {
  const known = handled({ rules: loaded.then(({ rules }) => rules), scan });
  const { at } = await loaded;
  return { at, ahead: at === null ? null : known };
}

/** How every tree of a workspace is opened. */
export function treeOptions(
  layout: Layout,
  of: Pick<TreeOptions, 'storeId' | 'maxFileBytes' | 'maxEntries'>,
): Omit<TreeOptions, 'segments'> {
  const { root, indexFile, scratch, inside } = layout;
  const ours = '.takeback' as RelPath;
  return { ...of, root, indexFile, skip: inside === null ? [ours] : [ours, inside], scratchDir: scratch };
}

/** Reads the index, and begins a scan of the tree as it stands where that is the first thing that will be asked for. */
export async function loadIndex(tree: Tree, lookAhead: boolean): Promise<LoadedIndex> {
  const at = await tree.load();
  return { at, ahead: !lookAhead || at === null ? null : handled({ rules: tree.rules(), scan: tree.scan() }) };
}

/** Whoever needs the parts hears of their faults. */
function handled(ahead: ScanAhead): ScanAhead {
  for (const part of [ahead.rules, ahead.scan]) part.catch(() => undefined);
  return ahead;
}

/** Null where there is no store yet, or nothing can be told. */
export async function guessStore(layout: Layout): Promise<Guess | null> {
  try {
    const version = await headerUserVersion(join(layout.home, 'timeline.db'));
    if (version === null || version > SCHEMA_VERSION) return null;
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
