/**
 * What a scan found, over the index: drafts (entries as they are now) and removals. No I/O.
 *
 * Changes are drafts compared with the index as it stands when they are asked for, so that a set stays right when other
 * processes' rows were taken in meanwhile. A draft whose bytes were not read yet counts as `out-of-time`.
 */
import { isWithin, parentOf } from '../../rel-path.ts';
import {
  ABSENT,
  type Change,
  type Problem,
  type RelPath,
  RowFlag,
  type StatKey,
  type UncoveredPath,
  type Version,
} from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { identityKey, joinPath } from './coverage.ts';
import { type Entry, type IndexTree, type Node, nodesBelow, pathOrder } from './index.ts';
import type { DeltaOp } from './index-codec.ts';
import type { PresentRules } from './present-rules.ts';

export interface Draft {
  /** Null: a file whose bytes are still to be read. */
  readonly version: Version | null;
  readonly stat: StatKey;
  readonly flags: number;
  /** Flags of its row, where there is one. */
  readonly rowFlags: number;
  /** Where the index has no version: what stood there, if that isn't `absent`. */
  readonly before?: Version | undefined;
}

export function draftVersion(draft: Draft): Version {
  return draft.version ?? { kind: 'uncovered', reason: 'out-of-time', stat: draft.stat };
}

function draftEntry(draft: Draft): Entry {
  return { version: draftVersion(draft), stat: draft.stat, flags: draft.flags };
}

/** What is known of a path without a stat key, as one. */
export function statOrIdentity(entry: { version: Version; stat: StatKey | null }): StatKey {
  if (entry.stat !== null) return entry.stat;
  if (entry.version.kind === 'uncovered') return entry.version.stat;
  const kind = entry.version.kind === 'symlink' || entry.version.kind === 'dir' ? entry.version.kind : 'file';
  return identityKey({ kind, ino: 0n, dev: 0n });
}

export class ChangeSet {
  readonly drafts = new Map<RelPath, Draft>();
  /** Paths that are gone with all below; none lies below another. */
  readonly removed = new Set<RelPath>();
  readonly problems: Problem[] = [];
  /** Set where the scan renewed the rules. */
  rules: { readonly present: PresentRules; readonly bytes: Buffer } | null = null;
  readonly #index: IndexTree;
  readonly scannedAtNs: bigint;

  constructor(index: IndexTree, scannedAtNs: bigint) {
    this.#index = index;
    this.scannedAtNs = scannedAtNs;
  }

  put(path: RelPath, draft: Draft): void {
    this.#revive(path);
    this.drafts.set(path, draft);
  }

  /** The path is as the index has it. */
  keep(path: RelPath): void {
    this.#revive(path);
    this.drafts.delete(path);
  }

  /** A walk that comes by each path once found it gone. */
  remove(path: RelPath): void {
    this.removed.add(path);
  }

  /** A second look found it gone: what was found of it, and below it, no longer counts. */
  removeAgain(path: RelPath): void {
    this.#forget(path);
    this.drafts.delete(path);
    const isGone = this.#coveringRemoval(path) !== undefined;
    if (!isGone && this.#index.find(path) !== undefined) this.removed.add(path);
  }

  #forget(folder: RelPath): void {
    const node = this.#index.find(folder);
    if (this.drafts.get(folder)?.version?.kind !== 'dir' && node?.children == null) return;
    for (const known of this.drafts.keys()) if (known !== folder && isWithin(known, folder)) this.drafts.delete(known);
    for (const known of this.removed) if (known !== folder && isWithin(known, folder)) this.removed.delete(known);
  }

  /** A second look found that it is no folder. */
  removeBelowAgain(path: RelPath): void {
    this.#forget(path);
    this.removeBelow(path);
  }

  /** What was a folder and is none any more: all below it is gone, the path itself is a draft. */
  removeBelow(path: RelPath): void {
    for (const name of this.#index.find(path)?.children?.keys() ?? []) this.removed.add(joinPath(path, name));
  }

  /** A path below a removed one is there again: the removal is narrowed to its siblings. */
  #revive(path: RelPath): void {
    if (this.removed.size === 0) return;
    for (let gone = this.#coveringRemoval(path); gone !== undefined; gone = this.#coveringRemoval(path)) {
      this.removed.delete(gone);
      for (const name of this.#index.find(gone)?.children?.keys() ?? []) this.removed.add(joinPath(gone, name));
    }
  }

  #coveringRemoval(path: RelPath): RelPath | undefined {
    for (let at: RelPath = path; at !== ''; at = parentOf(at)) if (this.removed.has(at)) return at;
    return undefined;
  }

  /** Files to be read, in order of their paths. */
  pending(): RelPath[] {
    const paths: RelPath[] = [];
    for (const [path, draft] of this.drafts) if (draft.version === null) paths.push(path);
    return paths.sort(pathOrder);
  }

  changes(): Change[] {
    const out: Change[] = [];
    for (const top of this.removed) {
      const node = this.#index.find(top);
      if (node === undefined) continue;
      const flags = this.#belowUnreadable(top) ? RowFlag.incomplete : 0;
      for (const [path, below] of [[top, node] as [RelPath, Node], ...nodesBelow(node, top)]) {
        if (below.version.kind !== 'absent') out.push({ path, before: below.version, after: ABSENT, flags });
      }
    }
    for (const [path, draft] of this.drafts) {
      const known = this.#index.versionOf(path);
      const before = known.kind === 'absent' ? (draft.before ?? ABSENT) : known;
      const after = draftVersion(draft);
      if (path !== '' && !sameVersion(before, after)) out.push({ path, before, after, flags: draft.rowFlags });
    }
    return out.sort((a, b) => pathOrder(a.path, b.path));
  }

  /** Names below a folder that could not be read were not observed when they went. */
  #belowUnreadable(path: RelPath): boolean {
    for (let at = path; at !== ''; ) {
      at = parentOf(at);
      const { kind, reason } = { reason: '', ...this.#index.versionOf(at) };
      if (kind === 'uncovered' && reason === 'unreadable') return true;
    }
    return false;
  }

  /** All paths with a version, the set taken in; in any order. */
  *versions(): Generator<{ path: RelPath; version: Version }> {
    for (const [path, draft] of this.drafts) {
      if (path !== '' && draftVersion(draft).kind !== 'absent') yield { path, version: draftVersion(draft) };
    }
    const stack: [RelPath, Node][] = [['' as RelPath, this.#index.root]];
    for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
      for (const child of top[1].children?.values() ?? []) {
        const path = joinPath(top[0], child.name);
        if (this.removed.has(path)) continue;
        if (child.version.kind !== 'absent' && !this.drafts.has(path)) yield { path, version: child.version };
        if (child.children !== null) stack.push([path, child]);
      }
    }
  }

  /** What is below a folder that left coverage is not listed beside it. */
  uncovered(): UncoveredPath[] {
    const out: UncoveredPath[] = [];
    const hidden = new Set<RelPath>();
    for (const { path, version } of this.versions()) {
      if (version.kind === 'uncovered') {
        out.push({ path, reason: version.reason });
        if (version.reason === 'ignored' && version.stat.kind === 'dir') hidden.add(path);
      } else if (version.kind === 'special') out.push({ path, reason: 'special' });
    }
    const isBelow = (path: RelPath): boolean => {
      for (let at = parentOf(path); at !== ''; at = parentOf(at)) if (hidden.has(at)) return true;
      return false;
    };
    return out.filter(({ path }) => hidden.size === 0 || !isBelow(path)).sort((a, b) => pathOrder(a.path, b.path));
  }

  /** What brings the index to where the set is: removals first, then entries, folders before what they hold. */
  ops(): DeltaOp[] {
    const ops: DeltaOp[] = [...this.removed].sort(pathOrder).map((path) => ({ path, op: 'remove' }));
    const paths = [...this.drafts.keys()].sort(pathOrder);
    for (const path of paths) ops.push({ path, op: 'put', entry: draftEntry(this.drafts.get(path) as Draft) });
    return ops;
  }
}
