/** A look at paths on disk that the store names. What no tree holds is not looked at. */
import type { Peek } from '../backend/backend.ts';
import { isBadPath } from '../rel-path.ts';
import type { RelPath, StatKey, WorkOptions } from '../types.ts';
import type { Engine } from './engine.ts';

const NO_STAT: StatKey = { kind: 'other', mode: 0, size: 0, mtimeNs: 0n, ctimeNs: 0n, ino: 0n, dev: 0n };

/** False for what a row of a damaged store may name and no tree holds: plans refuse it, `verify` tells it. */
export function isUsable({ path }: { readonly path: RelPath }): boolean {
  return path === '' || !isBadPath(path);
}

/** A path of a damaged row that leads out of the tree, or that no file can have, counts as uncovered: a plan refuses it. */
export async function peekKnown(engine: Engine, paths: readonly RelPath[], options: WorkOptions): Promise<Peek[]> {
  const bad = paths.filter((path) => !isUsable({ path }));
  if (bad.length === 0) return engine.tree.peek(paths, options);
  const refused = new Set(bad);
  const peeks = await engine.tree.peek(
    paths.filter((path) => !refused.has(path)),
    options,
  );
  const version = { kind: 'uncovered', reason: 'unreadable', stat: NO_STAT } as const;
  return [...peeks, ...bad.map((path) => ({ path, version, ino: 0n, nlink: 0, openForWrite: null }))];
}
