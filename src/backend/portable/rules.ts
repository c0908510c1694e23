/**
 * Where rules come from, and which are frozen: the snapshot of rule files (docs/formats.md), and the judgement of a name
 * by one set of rules. `present-rules.ts` judges by what is on disk now.
 *
 * Paths are byte strings. A full path counts from the top of the root's repository (without one, from the root).
 */
import { decodeName } from '../../rel-path.ts';
import { decodePaths, Reader, Writer } from '../../wire.ts';
import type { RuleSources } from '../backend.ts';
import { bytePath, PatternFile, RuleStack } from './ignore.ts';

/** What rules say of a name. */
export type Verdict =
  | 'covered'
  | 'exception' // covered although a rule hides it: tracked, included, or a folder that leads to such a name
  | 'ignored'
  | 'blind'; // a rule file can't be read: it may be ignored

/** Whether a folder is entered although it is hidden: names in it are then ignored unless tracked (or included). */
export type Inside = 'no' | 'ignored' | 'excluded' | 'blind';

/** One rule file as it was read: bytes, none, or there and unreadable. */
export type Source = Buffer | null | 'unreadable';

/** Rule files by key, keys as byte strings. */
export class Snapshot {
  readonly entries: Map<string, Buffer>;

  constructor(entries: Map<string, Buffer> = new Map()) {
    this.entries = entries;
  }

  static decode(bytes: Uint8Array): Snapshot {
    const reader = new Reader(bytes);
    const entries = new Map<string, Buffer>();
    for (let left = reader.u32(); left > 0; left--) {
      const key = reader.bytes().toString('latin1');
      entries.set(key, Buffer.from(reader.bytes()));
    }
    return new Snapshot(entries);
  }

  encode(): Buffer {
    const writer = new Writer().u32(this.entries.size);
    const keys = [...this.entries.keys()].sort((a, b) => (a < b ? -1 : 1));
    for (const key of keys) writer.bytes(Buffer.from(key, 'latin1')).bytes(this.entries.get(key) as Buffer);
    return writer.done();
  }

  source(key: string): Source {
    return this.entries.get(key) ?? (this.entries.has(`unreadable:${key}`) ? 'unreadable' : null);
  }

  set(key: string, source: Source): void {
    if (source === 'unreadable') this.entries.set(`unreadable:${key}`, Buffer.alloc(0));
    else if (source !== null) this.entries.set(key, source);
  }

  /** Whether both have the same under a key. */
  same(key: string, other: Snapshot): boolean {
    const [mine, theirs] = [this.source(key), other.source(key)];
    return Buffer.isBuffer(mine) && Buffer.isBuffer(theirs) ? mine.equals(theirs) : mine === theirs;
  }
}

export function encodeSources(sources: RuleSources): Buffer {
  const { repo, globalExcludes, ignoreCase, include, exclude } = sources;
  const where = repo === null ? null : { top: repo.top, gitDir: repo.gitDir, commonDir: repo.commonDir };
  return Buffer.from(JSON.stringify({ repo: where, globalExcludes, ignoreCase, include, exclude }), 'utf8');
}

function decodeSources(snapshot: Snapshot): RuleSources {
  return JSON.parse(decodeName(snapshot.entries.get('sources') ?? Buffer.from('null'))) as RuleSources;
}

/** Byte string of the folder that holds a path; '' at the top. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** How many bytes of a path below `folder` lead to it. */
export function cutOf(folder: string): number {
  return folder === '' ? 0 : folder.length + 1;
}

/** The root's full path; '' where the root is the top. */
export function fullRoot(sources: RuleSources, root: string): string {
  const top = sources.repo === null ? root : sources.repo.top.replace(/\/$/, '');
  return root.startsWith(`${top}/`) ? bytePath(root.slice(top.length + 1)) : '';
}

/** What a set of rules knows of one folder. */
interface FolderRules {
  readonly stack: RuleStack;
  /** Path, from the root, of the repository that the folder lies in; '' for the root's own. */
  readonly repo: string;
  /** Its names are judged afresh, whatever hides it: a submodule. */
  readonly open: boolean;
}

/** One set of rules, frozen or present. What a folder says is asked once and kept. */
export abstract class Rules {
  readonly sources: RuleSources;
  /** Full path of the root. */
  readonly fullRoot: string;
  /** Names judged so far. */
  judged = 0;
  readonly #include: PatternFile;
  readonly #exclude: PatternFile;
  readonly #folders = new Map<string, FolderRules>();
  readonly #insides = new Map<string, Inside>();

  constructor(sources: RuleSources, root: string) {
    this.sources = sources;
    this.fullRoot = fullRoot(sources, root);
    this.#include = this.file(Buffer.from(bytePath(sources.include.join('\n')), 'latin1')) as PatternFile;
    this.#exclude = this.file(Buffer.from(bytePath(sources.exclude.join('\n')), 'latin1')) as PatternFile;
  }

  protected abstract source(key: string, folder: string): Source;
  /** info/exclude of the nested repository whose top is `folder`; null where it is none. */
  protected abstract nested(folder: string): Source;
  protected abstract tracks(path: string, isDir: boolean, repo: string): boolean;
  protected abstract isSubmodule(path: string, repo: string): boolean;

  protected file(source: Source): PatternFile | 'unreadable' | null {
    return Buffer.isBuffer(source) ? new PatternFile(source.toString('latin1'), this.sources.ignoreCase) : source;
  }

  /** Full path of a path below the root. */
  full(path: string): string {
    if (this.fullRoot === '') return path;
    return path === '' ? this.fullRoot : `${this.fullRoot}/${path}`;
  }

  /** Rules that hold for the root's own names. Rules above it that hide the root itself don't count. */
  #rootFolder(): FolderRules {
    let stack = RuleStack.empty()
      .push(this.file(this.source('global', '')), 0)
      .push(this.file(this.source('info', '')), 0);
    for (const folder of this.foldersAbove())
      stack = stack.push(this.file(this.source(`top:${folder}`, '')), cutOf(folder));
    stack = stack.push(this.file(this.source(`top:${this.fullRoot}`, '')), cutOf(this.fullRoot));
    return { stack, repo: '', open: true };
  }

  /** Full paths of the folders above the root, outermost first. */
  protected foldersAbove(): string[] {
    const parts = this.fullRoot === '' ? [] : this.fullRoot.split('/');
    return parts.map((_, i) => parts.slice(0, i).join('/'));
  }

  /** Whether a rule above the root hides it. */
  rootIgnored(): boolean {
    let stack = RuleStack.empty()
      .push(this.file(this.source('global', '')), 0)
      .push(this.file(this.source('info', '')), 0);
    const above = this.foldersAbove();
    return above.some((folder, i) => {
      stack = stack.push(this.file(this.source(`top:${folder}`, '')), cutOf(folder));
      return stack.verdict(above[i + 1] ?? this.fullRoot, true) === 'ignored';
    });
  }

  /** Whether a name, or something below it, is tracked. */
  tracksPath(path: string, isDir: boolean): boolean {
    return this.tracks(path, isDir, this.folder(folderOf(path)).repo);
  }

  protected folder(path: string): FolderRules {
    const known = this.#folders.get(path);
    if (known !== undefined) return known;
    const made = path === '' ? this.#rootFolder() : this.#makeFolder(path);
    this.#folders.set(path, made);
    return made;
  }

  #makeFolder(path: string): FolderRules {
    const parent = this.folder(folderOf(path));
    const cut = cutOf(this.full(path));
    let { stack, repo } = parent;
    const fresh = this.nested(path);
    if (fresh !== null) {
      repo = path;
      stack = RuleStack.empty()
        .push(this.file(this.source('global', '')), cut)
        .push(this.file(fresh), cut);
    }
    stack = stack.push(this.file(this.source(`top:${this.full(path)}`, path)), cut);
    return { stack, repo, open: fresh !== null && this.isSubmodule(path, parent.repo) };
  }

  #insideOf(path: string): Inside {
    let inside = this.#insides.get(path);
    if (inside === undefined) {
      inside = this.folder(path).open ? 'no' : this.#judgeInside(path);
      this.#insides.set(path, inside);
    }
    return inside;
  }

  #judgeInside(path: string): Inside {
    const verdict = this.judge(path, true);
    if (verdict === 'covered') return 'no';
    if (verdict === 'blind') return 'blind';
    return this.#excluded(path, true) || this.#insideOf(folderOf(path)) === 'excluded' ? 'excluded' : 'ignored';
  }

  included(path: string, isDir: boolean): boolean {
    return this.#include.matchWithFolders(path, isDir) === 'ignored';
  }

  #excluded(path: string, isDir: boolean): boolean {
    return this.#exclude.matchWithFolders(path, isDir) === 'ignored';
  }

  #hidden(path: string, isDir: boolean): Verdict {
    return isDir && this.#include.mayMatchBelow(path) ? 'exception' : 'ignored';
  }

  /** @param path from the root */
  judge(path: string, isDir: boolean): Verdict {
    this.judged++;
    const { stack, repo } = this.folder(folderOf(path));
    const inside = this.#insideOf(folderOf(path));
    if (this.included(path, isDir)) return inside === 'no' ? 'covered' : 'exception';
    if (inside === 'excluded' || this.#excluded(path, isDir)) return this.#hidden(path, isDir);
    const found = inside === 'no' ? stack.verdict(this.full(path), isDir) : inside === 'blind' ? 'unknown' : 'ignored';
    if (found === 'visible') return 'covered';
    if (this.tracks(path, isDir, repo)) return 'exception';
    return found === 'unknown' ? 'blind' : this.#hidden(path, isDir);
  }
}

/** The rules of the last boundary: judges by a snapshot, without a look at the disk. */
export class FrozenRules extends Rules {
  readonly snapshot: Snapshot;
  readonly bytes: Buffer;
  readonly #tracked: ReadonlySet<string>;
  readonly #leading: ReadonlySet<string>;

  /** @throws where the snapshot is damaged */
  constructor(bytes: Uint8Array, root: string) {
    const snapshot = Snapshot.decode(bytes);
    super(decodeSources(snapshot), root);
    this.snapshot = snapshot;
    this.bytes = Buffer.from(bytes);
    const tracked = snapshot.entries.get('tracked');
    const paths = tracked === undefined ? [] : decodePaths(tracked).map(bytePath);
    this.#tracked = new Set(paths);
    const leading = new Set<string>();
    for (const path of paths)
      for (let folder = folderOf(path); folder !== ''; folder = folderOf(folder)) leading.add(folder);
    this.#leading = leading;
  }

  protected override source(key: string): Source {
    return this.snapshot.source(key);
  }

  protected override nested(folder: string): Source {
    return this.snapshot.source(`info:${folder}`);
  }

  protected override tracks(path: string, isDir: boolean): boolean {
    return this.#tracked.has(path) || (isDir && this.#leading.has(path));
  }

  protected override isSubmodule(path: string): boolean {
    return this.#tracked.has(path);
  }
}
