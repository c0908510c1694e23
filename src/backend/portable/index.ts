/**
 * The index in memory: current versions and stat keys as a tree of folders. No I/O; `index-file.ts` stores it.
 *
 * A node without a version (kind `absent`) is either an ignored name, kept so that no rule is asked about it again, or a
 * folder that only leads to something known. What a scan finds is not written here but to a `ChangeSet`, which is taken
 * in by `put` and `remove` when it is committed.
 */
import { comparePaths, parentOf } from '../../rel-path.ts';
import { ABSENT, type RelPath, type StatKey, type Version } from '../../types.ts';
import { joinPath } from './coverage.ts';

/** Bits of an entry's flags (docs/formats.md). */
export const EntryFlag = {
  /** Stat key unknown or racy: hash again, read the names again. */
  untrusted: 1,
  /** Was open for writing when it was hashed: never trusted. */
  writers: 2,
  /** A rule hides it, but it is covered: tracked, included, or a folder that leads to such a name. */
  exception: 4,
  /** Folder whose names are not all known. */
  partial: 8,
  /** A name that rules hide; no version. */
  ignored: 16,
  /** A rule hides it, but it stays covered until the next boundary: owed, or written by a restore. */
  held: 32,
} as const;

export interface Entry {
  readonly version: Version;
  /** Null: not known. */
  readonly stat: StatKey | null;
  readonly flags: number;
}

export class Node implements Entry {
  readonly name: string;
  version: Version = ABSENT;
  stat: StatKey | null = null;
  flags: number = EntryFlag.untrusted | EntryFlag.partial;
  /** Null: no folder, or one whose names were never looked at. */
  children: Map<string, Node> | null = null;
  /** Of a folder: the number by which `glances.ts` knows its plain files; -1 where that is not known, or not true any more. */
  sight = -1;

  constructor(name: string) {
    this.name = name;
  }
}

/** Orders paths by bytes without making bytes of them where no char needs it. */
export function pathOrder(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return x < 0xd800 && y < 0xd800 ? x - y : comparePaths(a, b);
  }
  return a.length - b.length;
}

export function sortedChildren(node: Node): Node[] {
  return node.children === null ? [] : [...node.children.values()].sort((a, b) => pathOrder(a.name, b.name));
}

export class IndexTree {
  root = new Node('');

  /** The node of a path, or undefined. */
  find(path: RelPath): Node | undefined {
    if (path === '') return this.root;
    let node: Node | undefined = this.root;
    for (const name of path.split('/')) {
      node = node.children?.get(name);
      if (node === undefined) return undefined;
    }
    return node;
  }

  versionOf(path: RelPath): Version {
    return this.find(path)?.version ?? ABSENT;
  }

  /** Sets an entry; folders that lead to it are made where they lack. What isn't a folder loses what was below it. */
  put(path: RelPath, entry: Entry): void {
    let node = this.root;
    let parent = node;
    if (path !== '') {
      for (const name of path.split('/')) {
        parent = node;
        node.children ??= new Map();
        let child = node.children.get(name);
        if (child === undefined) {
          child = new Node(name);
          node.children.set(name, child);
          node.sight = -1;
        }
        node = child;
      }
    }
    parent.sight = -1;
    node.sight = -1;
    node.version = entry.version;
    node.stat = entry.stat;
    node.flags = entry.flags;
    if (entry.version.kind === 'dir') node.children ??= new Map();
    else if (!keepsChildren(entry)) dropChildren(node);
  }

  /** Forgets a path and all below it. */
  remove(path: RelPath): void {
    if (path === '') return;
    const parent = this.find(parentOf(path));
    const name = path.slice(path.lastIndexOf('/') + 1);
    const node = parent?.children?.get(name);
    if (parent === undefined || node === undefined) return;
    parent.sight = -1;
    dropChildren(node);
    parent.children?.delete(name);
  }
}

/** What was below a node is in the index no more. */
function dropChildren(node: Node): void {
  node.sight = -1;
  for (const child of node.children?.values() ?? []) dropChildren(child);
  node.children = null;
}

/** A folder that can't be entered now keeps what is known below it. */
function keepsChildren(entry: Entry): boolean {
  return entry.version.kind === 'uncovered' && entry.version.stat.kind === 'dir';
}

/** Every node below `node`, itself left out, in any order. */
export function* nodesBelow(node: Node, path: RelPath): Generator<[RelPath, Node]> {
  const stack: [RelPath, Node][] = [[path, node]];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    if (top[1].children === null) continue;
    for (const child of top[1].children.values()) {
      const below = joinPath(top[0], child.name);
      yield [below, child];
      if (child.children !== null) stack.push([below, child]);
    }
  }
}
