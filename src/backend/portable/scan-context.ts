/** What one scan works with: the index, two sets of rules, the clock, limits, counters; and its looks at the disk. */
import { type BigIntStats, type Dirent, lstatSync, readdirSync } from 'node:fs';
import { TakebackError } from '../../errors.ts';
import { decodeName, isWithin, parentOf } from '../../rel-path.ts';
import type { FileKind, Problem, RelPath } from '../../types.ts';
import type { ChangeSet } from './change-set.ts';
import { type FsNow, isRacy } from './clock.ts';
import { fsPath, isTempName } from './coverage.ts';
import { errnoOf, type WorkHooks } from './faults.ts';
import type { Glances } from './glances.ts';
import { bytePath } from './ignore.ts';
import { type IndexTree, type Node, nodesBelow } from './index.ts';
import type { PresentRules } from './present-rules.ts';
import type { FrozenRules } from './rules.ts';

export interface ScanSettings {
  readonly root: string;
  /** Identity of the root when the tree was opened. */
  readonly rootId: { readonly ino: bigint; readonly dev: bigint };
  readonly skip: ReadonlySet<RelPath>;
  readonly maxFileBytes: number;
  readonly maxEntries: number;
  readonly index: IndexTree;
  readonly frozen: FrozenRules | null;
  readonly present: PresentRules;
  /** A boundary: the present rules become the frozen ones. */
  readonly renew: boolean;
  readonly hold: readonly RelPath[];
  /** Paths that a restore of this turn wrote: covered whatever the rules say. */
  readonly kept: ReadonlySet<RelPath>;
  readonly set: ChangeSet;
  readonly now: FsNow | null;
  /** Stat keys may be trusted. */
  readonly trusting: boolean;
  /** Told of folders whose files are as they were; null where none are told. */
  readonly glances: Glances | null;
  readonly hooks: WorkHooks;
}

export interface RawName {
  readonly name: string;
  /** Null: the file system doesn't tell. */
  readonly kind: FileKind | null;
}

function direntKind(entry: Dirent<string> | Dirent<Buffer>): FileKind | null {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'dir';
  if (entry.isSymbolicLink()) return 'symlink';
  if (entry.isFIFO()) return 'fifo';
  if (entry.isSocket()) return 'socket';
  if (entry.isCharacterDevice()) return 'char';
  return entry.isBlockDevice() ? 'block' : null;
}

/** Names of a folder; read again as bytes where one of them isn't UTF-8. */
function readNames(path: string | Buffer): RawName[] {
  const entries = readdirSync(path, { withFileTypes: true, encoding: 'utf8' });
  if (!entries.some(({ name }) => name.includes('\ufffd')))
    return entries.map((entry) => ({ name: entry.name, kind: direntKind(entry) }));
  const raw = readdirSync(path, { withFileTypes: true, encoding: 'buffer' });
  return raw.map((entry) => ({ name: decodeName(entry.name), kind: direntKind(entry) }));
}

export class ScanContext {
  readonly root: string;
  readonly index: IndexTree;
  readonly frozen: FrozenRules | null;
  readonly present: PresentRules;
  readonly renew: boolean;
  readonly set: ChangeSet;
  readonly trusting: boolean;
  readonly hooks: WorkHooks;
  readonly settings: ScanSettings;
  readonly #holdAbove = new Set<RelPath>();
  readonly #unreadable = new Set<RelPath>();
  entries = 0;
  statCalls = 0;
  dirsRead = 0;
  files = 0;

  constructor(settings: ScanSettings) {
    this.settings = settings;
    this.root = settings.root;
    this.index = settings.index;
    this.frozen = settings.frozen;
    this.present = settings.present;
    this.renew = settings.renew;
    this.set = settings.set;
    this.trusting = settings.trusting;
    this.hooks = settings.hooks;
    for (const path of settings.renew ? settings.hold : settings.kept) {
      for (let at = parentOf(path); at !== ''; at = parentOf(at)) this.#holdAbove.add(at);
    }
  }

  get rulesEvaluated(): number {
    return this.present.judged + (this.frozen?.judged ?? 0);
  }

  bytes(path: RelPath): string {
    return bytePath(path);
  }

  /** @throws {TakebackError} `ERR_ROOT_CHANGED` */
  checkRoot(): BigIntStats {
    const { ino, dev } = this.settings.rootId;
    this.statCalls++;
    let stat: BigIntStats | undefined;
    try {
      stat = lstatSync(this.root, { bigint: true, throwIfNoEntry: false });
    } catch (error) {
      throw new TakebackError('ERR_IO', `the root can't be looked at: ${(error as Error).message}`, { cause: error });
    }
    if (stat?.ino === ino && stat.dev === dev && stat.isDirectory()) return stat;
    throw new TakebackError('ERR_ROOT_CHANGED', `the root is gone or another one: ${this.root}`);
  }

  /** Undefined: no such name, or what leads to it is no folder. `unreadable`: the name can't be looked at. */
  tryLstat(path: RelPath): BigIntStats | 'unreadable' | undefined {
    this.statCalls++;
    try {
      return lstatSync(fsPath(this.root, path), { bigint: true, throwIfNoEntry: false });
    } catch (error) {
      const folder = parentOf(path);
      if (!this.#unreadable.has(folder))
        this.problem(folder, 'unreadable-dir', `names in it can't be looked at: ${(error as Error).message}`);
      this.#unreadable.add(folder);
      return errnoOf(error) === 'ENOTDIR' ? undefined : 'unreadable';
    }
  }

  readdir(path: RelPath): RawName[] {
    this.dirsRead++;
    return readNames(fsPath(this.root, path));
  }

  /** Names that are never looked at. */
  skips(path: RelPath, name: string): boolean {
    return isTempName(name) || this.settings.skip.has(path);
  }

  /** Stays covered though the rules hide it: held by the caller, written by a restore, or a folder that leads to such. */
  isHeld(path: RelPath, isDir: boolean): boolean {
    if (isDir && this.#holdAbove.has(path)) return true;
    return this.renew ? this.settings.hold.some((held) => isWithin(path, held)) : this.settings.kept.has(path);
  }

  isRacy(stat: { mtimeNs: bigint; ctimeNs: bigint }): boolean {
    return isRacy(stat, this.settings.now);
  }

  problem(path: RelPath, kind: Problem['kind'], detail: string): void {
    this.set.problems.push({ path, kind, detail });
  }

  countEntry(): void {
    this.countEntries(1);
  }

  countEntries(count: number): void {
    this.entries += count;
    if (this.entries > this.settings.maxEntries) {
      const remedy = 'Raise limits.maxEntries, or exclude folders.';
      throw new TakebackError(
        'ERR_TOO_MANY_ENTRIES',
        `the tree has more than ${this.settings.maxEntries} entries. ${remedy}`,
      );
    }
  }

  /** Files below a folder that can't be entered: they keep their versions. */
  countKept(node: Node, path: RelPath): void {
    for (const [, { version }] of nodesBelow(node, path))
      if (version.kind === 'file' || version.kind === 'symlink') this.files++;
  }

  progress(): void {
    this.hooks.progress({ phase: 'scan', done: this.files });
  }
}
