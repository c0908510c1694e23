/**
 * One look at the tree: what each path is, against the index (DESIGN §4.1, §4.2).
 *
 * By name, with lstat; reads no file. A folder whose stat key stands and isn't racy is not read again, its known names
 * are stat-ed; rules are asked for new names only, or where a boundary found them changed. What is found goes to a
 * `ChangeSet`; files whose bytes must be read are left to `ingest.ts`.
 *
 * `absent` is said only where the parent was read whole and lacks the name. What can't be looked at keeps its entry.
 * Does not see: file systems mounted from the root's own device (bind mounts), nor who has a file open for writing.
 */
import type { BigIntStats } from 'node:fs';
import { parentOf } from '../../rel-path.ts';
import type { RelPath, StatKey } from '../../types.ts';
import { Classifier, type Entered, type Name, type Place, veilOf } from './classify.ts';
import { isKeyOf, joinPath, kindOf, sameStat, statKey } from './coverage.ts';
import { checkCancelled } from './faults.ts';
import { EntryFlag, type Node } from './index.ts';
import type { ScanContext } from './scan-context.ts';
import { sightOf } from './sight.ts';

/** A folder that is to be entered. */
interface Task extends Entered {
  readonly path: RelPath;
  readonly node: Node | undefined;
  /** At a boundary: the rules for its own entry differ from the frozen ones. */
  readonly changed: boolean;
}

/** What a folder's names are, and whether they were read now. */
interface Names {
  readonly names: readonly Name[];
  readonly read: boolean;
  /** Something moved while they were read: read them again next time. */
  readonly moved: boolean;
}

/** A covered file, or a folder, with nothing about it that asks for a closer look than at its stat key. */
type PlainNode = Node & { readonly stat: StatKey };

function isPlain(node: Node): node is PlainNode {
  const { version, flags, stat, name } = node;
  return flags === 0 && stat !== null && (version.kind === 'file' || (version.kind === 'dir' && !/git/i.test(name)));
}

export class Scanner {
  readonly #context: ScanContext;
  readonly #classify: Classifier;
  readonly #tasks: Task[] = [];
  /** Folders that are as the index has them, with all their plain names. */
  readonly #same: Pick<Task, 'path' | 'node'>[] = [];
  /** Folders that could not be entered; what is below them keeps its entries and rules. */
  readonly unentered: RelPath[] = [];

  constructor(context: ScanContext) {
    this.#context = context;
    this.#classify = new Classifier(context);
  }

  /** Tracked files that a rule hides, as met by a scan that renewed the rules. */
  get tracked(): readonly RelPath[] {
    return this.#classify.tracked;
  }

  /** The whole tree. */
  all(): void {
    const context = this.#context;
    const root = context.checkRoot();
    const changed = context.renew && (context.frozen === null || !context.present.sameAbove(context.frozen));
    context.settings.glances?.look(context.index, () => checkCancelled(context.hooks));
    const task = { path: '' as RelPath, node: context.index.root, stat: root, changed, veil: null, incomplete: false };
    this.#tasks.push(task);
    for (let next = this.#tasks.pop(); next !== undefined; next = this.#tasks.pop()) {
      checkCancelled(context.hooks);
      this.#folder(next);
      for (let same = this.#same.pop(); same !== undefined; same = this.#same.pop()) this.#sameFolder(same);
      context.progress();
    }
    context.checkRoot();
  }

  #mustRead({ node, stat }: Task): boolean {
    if (node === undefined || node.children === null || node.stat === null || node.version.kind !== 'dir') return true;
    if ((node.flags & (EntryFlag.untrusted | EntryFlag.partial)) !== 0 || !this.#context.trusting) return true;
    return !sameStat(node.stat, statKey(stat));
  }

  #folder(task: Task): void {
    const context = this.#context;
    const { path, node } = task;
    const found = this.#names(task);
    if (found === null) {
      this.#keep(path, node);
      return;
    }
    let changed = task.changed;
    if (context.renew) {
      // asked also where it is clear already: what is read on the way goes into the snapshot
      const same = this.#sameRules(path, found.names);
      changed ||= !same;
    }
    this.#classify.folder(task, { moved: found.moved, read: found.read });
    this.#each(found.names, { folder: path, changed, veil: task.veil, incomplete: task.incomplete });
    if (found.read && node !== undefined) this.#missing(task, found.names);
  }

  #each(names: readonly Name[], place: Place): void {
    for (const name of names) {
      this.#context.countEntry();
      const entered = this.#classify.name(name, place);
      const at = joinPath(place.folder, name.name);
      if (entered !== null) this.#tasks.push({ ...entered, path: at, node: name.node, changed: place.changed });
      else if (name.stat === 'unreadable' && name.node !== undefined) this.#keep(at, name.node);
    }
  }

  #sameFolder({ path, node }: Pick<Task, 'path' | 'node'>): void {
    const names = node === undefined ? null : this.#rest(path, node);
    const plain = { changed: false, veil: null, incomplete: false };
    if (names !== null) {
      this.#each(names, { folder: path, ...plain });
      return;
    }
    // A name is gone: the folder is to be read.
    const stat = this.#context.tryLstat(path);
    if (stat === undefined || stat === 'unreadable')
      this.#context.problem(path, 'vanished', 'it went while it was scanned');
    else this.#folder({ path, node, stat, ...plain });
  }

  #keep(path: RelPath, node: Node | undefined): void {
    this.unentered.push(path);
    if (node !== undefined) this.#context.countKept(node, path);
  }

  /** Whether a folder's own rules are the frozen ones. In a folder that rules hide its own don't matter. */
  #sameRules(path: RelPath, names: readonly Name[]): boolean {
    const { present, frozen } = this.#context;
    const bytes = this.#context.bytes(path);
    const has = (name: string): boolean => names.some((one) => one.name === name);
    const hasGit = path !== '' && has('.git');
    const closed = this.#classify.isHidden(path) && !(hasGit && present.isTracked(bytes, true));
    present.hint(bytes, { hasIgnore: !closed && has('.gitignore'), hasGit: !closed && hasGit });
    return closed || present.sameIn(bytes, frozen);
  }

  /** Known names that the folder lacks. */
  #missing({ path, node }: Task, names: readonly Name[]): void {
    if (node?.children == null || node.children.size === 0) return;
    const there = new Set(names.map(({ name }) => name));
    for (const name of node.children.keys()) {
      const below = joinPath(path, name);
      if (there.has(name) || this.#context.skips(below, name)) continue;
      if (this.#context.tryLstat(below) === undefined) this.#context.set.remove(below);
    }
  }

  #names(task: Task): Names | null {
    if (!this.#mustRead(task)) {
      const names = this.#known(task);
      if (names !== null) return { names, read: false, moved: false };
    }
    return this.#readNames(task);
  }

  /**
   * The names that the index has, without those that are plainly as they were; null where one is gone, so that the folder
   * has to be read.
   */
  #known({ path, node, veil, incomplete }: Task): Name[] | null {
    const context = this.#context;
    const { glances } = context.settings;
    if (node === undefined) return [];
    if (glances?.isSame(node) === true && veil === null && !incomplete) return this.#rest(path, node);
    const names: Name[] = [];
    const plain: PlainNode[] = [];
    let unchanged = 0;
    for (const child of node.children?.values() ?? []) {
      const name = this.#lookAt(path, child);
      if (name === null) return null;
      if (name === undefined) continue;
      const same = isPlain(child) && typeof name.stat === 'object' && isKeyOf(child.stat, name.stat);
      if (same) plain.push(child);
      if (same && this.#isSettledFile(child)) unchanged++;
      else names.push(name);
    }
    context.files += unchanged;
    context.countEntries(unchanged);
    if (glances !== null) this.#sight(path, node, plain);
    return names;
  }

  /** A known name; undefined where it is never looked at, null where it is gone. */
  #lookAt(folder: RelPath, child: Node): Name | undefined | null {
    const context = this.#context;
    const at = joinPath(folder, child.name);
    if (context.skips(at, child.name)) return undefined;
    const name: Name = { name: child.name, node: child, kind: null };
    if ((child.flags & EntryFlag.ignored) !== 0) return name;
    name.stat = context.tryLstat(at);
    return name.stat === undefined ? null : name;
  }

  /** Of a folder whose plain names are as they were: the others, and folders of which not all is. */
  #rest(path: RelPath, node: Node): Name[] | null {
    const context = this.#context;
    const { glances } = context.settings;
    const names: Name[] = [];
    const { rest, folders, files } = glances?.seen(node) ?? { rest: [], folders: [], files: 0 };
    const same: Pick<Task, 'path' | 'node'>[] = [];
    for (const child of [...rest, ...folders]) {
      if (glances?.isSame(child) === true) {
        same.push({ path: joinPath(path, child.name), node: child });
        continue;
      }
      const name = this.#lookAt(path, child);
      if (name === null) return null;
      if (name !== undefined) names.push(name);
    }
    this.#same.push(...same);
    context.files += files;
    context.countEntries(files + same.length);
    context.statCalls += files + same.length;
    return names;
  }

  /** Within a turn no rule is asked about a covered file: under a trusted key nothing is to be done. */
  #isSettledFile({ version, stat }: PlainNode): boolean {
    const { renew, settings } = this.#context;
    return !renew && version.kind === 'file' && stat.size <= settings.maxFileBytes;
  }

  /** Has the next scan of a turn look at all plain names of a folder at once, where all of them are as the index has them. */
  #sight(path: RelPath, node: Node, plain: readonly PlainNode[]): void {
    const { glances, root, maxFileBytes } = this.#context.settings;
    if (glances === null || node.sight >= 0 || plain.length === 0) return;
    const children = [...(node.children?.values() ?? [])];
    const rest = children.filter((child) => !isPlain(child));
    if (rest.length + plain.length < children.length || plain.some(({ stat }) => stat.size > maxFileBytes)) return;
    const sight = sightOf(root, path, plain);
    const folders = plain.filter(({ version }) => version.kind === 'dir');
    if (sight !== null) glances.add(node, { sight, rest, folders, files: plain.length - folders.length });
  }

  #readNames({ path, node, stat }: Task): Names | null {
    const context = this.#context;
    let entries: ReturnType<ScanContext['readdir']>;
    try {
      entries = context.readdir(path);
    } catch (error) {
      this.#unreadable({ path, stat }, error);
      return null;
    }
    const after = context.tryLstat(path);
    if (
      after === undefined ||
      after === 'unreadable' ||
      after.ino !== stat.ino ||
      after.dev !== stat.dev ||
      kindOf(after) !== 'dir'
    ) {
      context.problem(path, 'vanished', 'the folder was replaced or removed while it was read');
      return null;
    }
    const names: Name[] = [];
    for (const { name, kind } of entries) {
      if (!context.skips(joinPath(path, name), name)) names.push({ name, kind, node: node?.children?.get(name) });
    }
    return { names, read: true, moved: !sameStat(statKey(stat), statKey(after)) };
  }

  #unreadable({ path, stat }: { path: RelPath; stat: BigIntStats }, error: unknown): void {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') {
      this.#context.problem(path, 'vanished', `the folder went while it was to be read: ${message}`);
      return;
    }
    this.#context.problem(path, 'unreadable-dir', `the folder can't be read: ${message}`);
    if (path !== '') this.#classify.unreadable(path, statKey(stat));
  }

  /** These paths only; folders with their own entry, not what is below. */
  only(paths: readonly RelPath[]): void {
    this.#context.checkRoot();
    for (const path of paths) {
      checkCancelled(this.#context.hooks);
      if (path !== '') this.#one(path);
    }
  }

  #one(path: RelPath): void {
    const context = this.#context;
    const parts = path.split('/');
    let place: Place = { folder: '' as RelPath, changed: context.renew, veil: null, incomplete: false };
    for (const [i, name] of parts.entries()) {
      const at = parts.slice(0, i + 1).join('/') as RelPath;
      if (context.skips(at, name)) return;
      const stat = context.tryLstat(at);
      if (stat === undefined) {
        if (this.#lacks(at)) context.set.removeAgain(at);
        return;
      }
      if (stat !== 'unreadable' && !stat.isDirectory()) context.set.removeBelowAgain(at);
      const node = context.index.find(at);
      if (i + 1 < parts.length && this.#isKnownFolder(at, stat)) {
        const veil = veilOf(node);
        place = {
          ...place,
          folder: at,
          veil: place.veil ?? veil,
          incomplete: place.incomplete || veil === 'unreadable',
        };
        continue;
      }
      const entered = this.#classify.name({ name, node, kind: null, stat }, place);
      if (entered === null) return;
      this.#classify.unentered(at, { node, stat: entered.stat });
      place = { folder: at, changed: context.renew, veil: entered.veil, incomplete: entered.incomplete };
    }
  }

  /** It was a folder to the index or to this set, and still is one. */
  #isKnownFolder(path: RelPath, stat: BigIntStats | 'unreadable'): boolean {
    const { index, set } = this.#context;
    const version = set.drafts.get(path)?.version ?? index.versionOf(path);
    return version.kind === 'dir' && stat !== 'unreadable' && stat.isDirectory();
  }

  /** Whether the folder that would hold a path was read whole and lacks it, or is itself not there. */
  #lacks(path: RelPath): boolean {
    try {
      const name = path.slice(path.lastIndexOf('/') + 1);
      return !this.#context.readdir(parentOf(path)).some((entry) => entry.name === name);
    } catch {
      return false;
    }
  }
}
