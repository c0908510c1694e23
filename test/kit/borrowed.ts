/** Repositories to borrow from, and an index of git's with other stat data in it. */
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Space } from './space.ts';
import { contents, inGit, snapshot } from './tree.ts';

/** Files of a repository that anything can be borrowed from. */
export const FILES = 24;

/** Shell: commits all that lies in the root, with `FILES` files more, into one pack. */
export function commitPacked(more = 'true', init = 'git init -q -b main'): string {
  return `${init}; mkdir -p src/deep; for i in $(seq ${FILES}); do seq $i 300 >src/f$i; done; ${more};
    git add -A; git commit -qm one; git gc -q`;
}

/** The index is younger than every file, so that it proves them. */
export function ripen(space: Space): void {
  const now = Date.now() / 1000;
  utimesSync(join(space.sh('git rev-parse --absolute-git-dir').trim(), 'index'), now, now);
}

/** Pinned packs of the store, as paths. */
export function pins(space: Space): string[] {
  const workspaces = join(space.dataDir, 'workspaces');
  return readdirSync(workspaces, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.pack'))
    .map((name) => join(workspaces, name));
}

/** Covered content by path. */
export function tree(folder: string): Record<string, string> {
  return Object.fromEntries(Object.entries(contents(snapshot(folder))).filter(([path]) => !inGit(path)));
}

/** What git's index says of a file; times in nanoseconds. */
export interface Stat {
  readonly ctimeNs: bigint;
  readonly mtimeNs: bigint;
  readonly ino: bigint;
  readonly size: number;
}

export function statOf(space: Space, path: string): Stat {
  const { ctimeNs, mtimeNs, ino, size } = statSync(join(space.root, path), { bigint: true });
  return { ctimeNs, mtimeNs, ino, size: Number(size) };
}

/** Makes the index (version 2) say of a file that it was this when git looked. Nothing checks its sum. */
export function forgeIndex(space: Space, path: string, stat: Stat): void {
  const file = join(space.root, '.git', 'index');
  const index = readFileSync(file);
  const at = index.indexOf(`${path}\0`) - 62;
  if (at < 12) throw new Error(`the index has no ${path}`);
  const time = (ns: bigint, offset: number): void => {
    index.writeUInt32BE(Number(ns / 1_000_000_000n), at + offset);
    index.writeUInt32BE(Number(ns % 1_000_000_000n), at + offset + 4);
  };
  time(stat.ctimeNs, 0);
  time(stat.mtimeNs, 8);
  index.writeUInt32BE(Number(stat.ino & 0xffff_ffffn), at + 20);
  index.writeUInt32BE(stat.size, at + 36);
  writeFileSync(file, index);
  ripen(space);
}
