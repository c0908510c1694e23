/** Looks at a tree with plain node:fs, independently of the engine: the oracle of every test. */
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

export interface Seen {
  readonly kind: 'file' | 'dir' | 'symlink' | 'other';
  /** The nine permission bits. */
  readonly mode: number;
  /** SHA-256 of a file's bytes, the target of a link, else ''. */
  readonly content: string;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  readonly ino: bigint;
}

export type Snapshot = ReadonlyMap<string, Seen>;

/**
 * Every path below `folder` (itself left out), without following links. Names are latin1 strings of their bytes, so that
 * no name is lossy; a file that can't be read has the content `unreadable`.
 */
export function snapshot(folder: string, skip: (path: string) => boolean = () => false): Snapshot {
  const seen = new Map<string, Seen>();
  walk(folder, '', { seen, skip });
  return seen;
}

function walk(folder: string, below: string, into: { seen: Map<string, Seen>; skip: (path: string) => boolean }): void {
  let names: Buffer[];
  try {
    names = readdirSync(Buffer.from(join(folder, below), 'latin1'), { encoding: 'buffer' }).sort(Buffer.compare);
  } catch {
    return;
  }
  for (const name of names) {
    const path = below === '' ? name.toString('latin1') : `${below}/${name.toString('latin1')}`;
    if (into.skip(path)) continue;
    const seen = look(Buffer.from(join(folder, path), 'latin1'));
    into.seen.set(path, seen);
    if (seen.kind === 'dir') walk(folder, path, into);
  }
}

function look(path: Buffer): Seen {
  const stat = lstatSync(path, { bigint: true });
  const kind = stat.isFile() ? 'file' : stat.isDirectory() ? 'dir' : stat.isSymbolicLink() ? 'symlink' : 'other';
  const { mtimeNs, ctimeNs, ino } = stat;
  return { kind, mode: Number(stat.mode & 0o777n), content: contentOf(path, kind), mtimeNs, ctimeNs, ino };
}

function contentOf(path: Buffer, kind: Seen['kind']): string {
  try {
    if (kind === 'file') return createHash('sha256').update(readFileSync(path)).digest('hex');
    if (kind === 'symlink') return readlinkSync(path, { encoding: 'buffer' }).toString('latin1');
  } catch {
    return 'unreadable';
  }
  return '';
}

/** What a restore must bring back: types, modes, bytes and targets, as one comparable object. */
export function contents(seen: Snapshot): Record<string, string> {
  return Object.fromEntries([...seen].map(([path, s]) => [path, `${s.kind} ${s.mode.toString(8)} ${s.content}`]));
}

/** Paths whose type, mode, bytes or target differ, or which only one of the two has; sorted. */
export function differing(a: Snapshot, b: Snapshot): string[] {
  const left = contents(a);
  const right = contents(b);
  return [...new Set([...a.keys(), ...b.keys()])].filter((path) => left[path] !== right[path]).sort();
}

/** True for a path in a `.git`, or a `.git` itself. */
export function inGit(path: string): boolean {
  return path.split('/').includes('.git');
}

/** A path in a full copy. */
export interface Copied {
  /** `dir <mode>` | `file <mode> <bytes as latin1>` | `symlink <target>`. */
  readonly version: string;
  readonly ino: bigint;
  readonly mtimeNs: bigint;
}

/** Everything below `folder` with its bytes, for small trees whose names are UTF-8. */
export function fullCopy(folder: string): ReadonlyMap<string, Copied> {
  const copy = new Map<string, Copied>();
  const visit = (below: string): void => {
    for (const name of readdirSync(join(folder, below)).sort()) {
      const path = below === '' ? name : `${below}/${name}`;
      const file = join(folder, path);
      const stat = lstatSync(file, { bigint: true });
      const mode = (stat.mode & 0o777n).toString(8);
      const { ino, mtimeNs } = stat;
      if (stat.isDirectory()) copy.set(path, { version: `dir ${mode}`, ino, mtimeNs });
      else if (stat.isSymbolicLink()) copy.set(path, { version: `symlink ${readlinkSync(file)}`, ino, mtimeNs });
      else copy.set(path, { version: `file ${mode} ${readFileSync(file, 'latin1')}`, ino, mtimeNs });
      if (stat.isDirectory()) visit(path);
    }
  };
  visit('');
  return copy;
}
