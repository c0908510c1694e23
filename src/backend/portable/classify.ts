/**
 * What one name is (DESIGN §4.2): covered, ignored, or uncovered for a reason; and whether it changed. Writes drafts to
 * the scan's change set, nothing for what is as the index has it. Knows nothing of how folders are walked.
 *
 * Secret files are told by their name before any rule is asked: an ignored one is listed too, so that one which a call
 * moves away is known by its inode. A change that only an option brought (a limit, `include`) is flagged `coverage`.
 */
import { type BigIntStats, readlinkSync } from 'node:fs';
import { decodeName } from '../../rel-path.ts';
import { type FileKind, type RelPath, RowFlag, type StatKey, type UncoveredReason, type Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { statOrIdentity } from './change-set.ts';
import {
  foldsToGit,
  fsPath,
  identityKey,
  isSecretName,
  joinPath,
  kindOf,
  sameStat,
  specialType,
  statKey,
} from './coverage.ts';
import { EntryFlag, type Node, nodesBelow } from './index.ts';
import type { Verdict } from './rules.ts';
import type { ScanContext } from './scan-context.ts';

export interface Name {
  readonly name: string;
  readonly node: Node | undefined;
  /** What the folder's listing says it is; null: not told. */
  readonly kind: FileKind | null;
  stat?: BigIntStats | 'unreadable' | undefined;
}

/** Where a name stands. */
export interface Place {
  readonly folder: RelPath;
  readonly node: Node | undefined;
  /** The rules for the folder's names changed since they were frozen. */
  readonly changed: boolean;
}

/** How a path is drafted: kept for folders until their names were read. */
interface Terms {
  readonly flags: number;
  readonly rowFlags: number;
  readonly before: Version | undefined;
}

const EXCEPTIONS = EntryFlag.exception | EntryFlag.held;
const NOTHING: StatKey = identityKey({ kind: 'other', ino: 0n, dev: 0n });

function uncovered(reason: UncoveredReason, stat: StatKey): Version {
  return { kind: 'uncovered', reason, stat };
}

function isUncovered(version: Version | undefined, reason: UncoveredReason): boolean {
  return version?.kind === 'uncovered' && version.reason === reason;
}

/** Known to the index with a version; else an ignored name, or a folder that only leads somewhere. */
function isKnown(node: Node | undefined): node is Node {
  return node !== undefined && node.version.kind !== 'absent';
}

export class Classifier {
  readonly #context: ScanContext;
  readonly #terms = new Map<RelPath, Terms>();
  readonly tracked: RelPath[] = [];

  constructor(context: ScanContext) {
    this.#context = context;
  }

  /** Answers the stat of a folder that is to be entered, else null. */
  name(name: Name, place: Place): BigIntStats | null {
    const context = this.#context;
    const path = joinPath(place.folder, name.name);
    const look = (): BigIntStats | undefined => {
      name.stat ??= context.tryLstat(path);
      return name.stat === 'unreadable' ? undefined : name.stat;
    };
    if (foldsToGit(name.name, look, () => fsPath(context.root, joinPath(place.folder, '.git')))) {
      const stat = place.folder === '' ? undefined : look();
      if (stat !== undefined)
        this.#settle(path, name.node, uncovered('git', identityKey({ ...stat, kind: kindOf(stat) })));
      return null;
    }
    if (this.#staysIgnored(path, name, place)) return null;
    const stat = look();
    if (stat === undefined) return this.#unseen(path, name, place);
    const verdict = isKnown(name.node)
      ? this.#judgeKnown(path, { node: name.node, stat, place })
      : this.#judgeNew(path, { name, stat, place });
    return verdict === null ? null : this.#cover(path, { node: name.node, stat, terms: verdict });
  }

  /** Known to be ignored, and nothing happened that could change it. */
  #staysIgnored(path: RelPath, { node, kind }: Name, place: Place): boolean {
    if (node === undefined || (node.flags & EntryFlag.ignored) === 0) return false;
    if (kind !== null && kind !== node.stat?.kind) return false;
    if (!this.#context.renew) return !this.#context.isHeld(path, node.stat?.kind === 'dir');
    return !place.changed && !this.#context.present.tracksPath(this.#context.bytes(path), node.stat?.kind === 'dir');
  }

  /** A name that can't be looked at, or went since its folder was read. */
  #unseen(path: RelPath, { node, kind, stat }: Name, place: Place): null {
    const context = this.#context;
    if (stat !== 'unreadable') {
      if (isKnown(node)) context.problem(path, 'vanished', 'it went while its folder was scanned');
    } else if (
      node === undefined &&
      this.#judgeNew(path, { name: { name: '', node, kind }, stat: null, place }) !== null
    ) {
      const version = uncovered('unreadable', identityKey({ ...NOTHING, kind: kind ?? 'other' }));
      const before = this.#veil(place, null);
      context.set.put(path, {
        version,
        stat: version.kind === 'uncovered' ? version.stat : NOTHING,
        flags: EntryFlag.untrusted,
        rowFlags: 0,
        before,
      });
    }
    if (isKnown(node) && (node.version.kind === 'file' || node.version.kind === 'symlink')) context.files++;
    return null;
  }

  // ---- verdicts

  #judgeKnown(path: RelPath, of: { node: Node; stat: BigIntStats; place: Place }): Terms | null {
    const context = this.#context;
    const { node, stat, place } = of;
    const isDir = stat.isDirectory();
    const turned = isDir !== (statOrIdentity(node).kind === 'dir');
    const ignored = isUncovered(node.version, 'ignored');
    const terms = (flags: number): Terms => ({ flags, rowFlags: this.#rowFlags(node, stat, place), before: undefined });
    if (!context.renew) {
      if (ignored && !context.isHeld(path, isDir)) return null;
      if (ignored) return terms(EntryFlag.held);
      if (!turned) return terms(node.flags & EXCEPTIONS);
      return terms(
        context.frozen?.judge(context.bytes(path), isDir) === 'ignored' ? EntryFlag.held : node.flags & EXCEPTIONS,
      );
    }
    if (this.#isSecret(path, stat)) return terms(0);
    const again =
      place.changed ||
      turned ||
      ignored ||
      (node.flags & EntryFlag.held) !== 0 ||
      this.#exceptionEnded(path, node, isDir);
    const kept = node.flags & EXCEPTIONS;
    if (!again) return this.#note(path, isDir, terms(kept));
    const verdict = context.present.judge(context.bytes(path), isDir);
    if (verdict === 'covered') return terms(0);
    if (verdict === 'exception') return this.#note(path, isDir, terms(EntryFlag.exception));
    if (ignored) return null;
    if (verdict === 'blind' || (kept !== 0 && context.present.indexDamaged(context.bytes(path))))
      return this.#note(path, isDir, terms(kept));
    if (context.isHeld(path, isDir)) return terms(EntryFlag.held);
    this.#leave(path, node, stat);
    return null;
  }

  /** It was covered for being tracked, and git's index has it no more. */
  #exceptionEnded(path: RelPath, node: Node, isDir: boolean): boolean {
    const context = this.#context;
    if ((node.flags & EntryFlag.exception) === 0) return false;
    const bytes = context.bytes(path);
    return context.frozen?.tracksPath(bytes, isDir) === true && !context.present.tracksPath(bytes, isDir);
  }

  /** Collects what the next snapshot lists as tracked. */
  #note(path: RelPath, isDir: boolean, terms: Terms): Terms {
    const { present } = this.#context;
    const bytes = this.#context.bytes(path);
    if ((terms.flags & EntryFlag.exception) !== 0 && present.isTracked(bytes, isDir)) this.tracked.push(path);
    return terms;
  }

  #judgeNew(path: RelPath, of: { name: Name; stat: BigIntStats | null; place: Place }): Terms | null {
    const context = this.#context;
    const { name, stat, place } = of;
    const isDir = stat === null ? name.kind === 'dir' : stat.isDirectory();
    const before = this.#veil(place, stat) ?? this.#wasHidden(path, name, stat, isDir);
    const terms = (flags: number): Terms => ({ flags, rowFlags: before === undefined ? 0 : RowFlag.coverage, before });
    if (stat !== null && this.#isSecret(path, stat)) return terms(0);
    const verdict = this.#verdictOnNew(path, isDir);
    if (verdict === 'covered') return terms(0);
    if (verdict === 'exception') {
      const flagged = terms(context.isHeld(path, isDir) ? EntryFlag.held : EntryFlag.exception);
      return context.renew ? this.#note(path, isDir, flagged) : flagged;
    }
    if (verdict === 'ignored')
      this.#ignore(path, { node: name.node, kind: stat === null ? (name.kind ?? 'other') : kindOf(stat) });
    else if (stat !== null) {
      const version = uncovered('ignored', statKey(stat));
      context.set.put(path, { version, stat: statKey(stat), flags: 0, rowFlags: terms(0).rowFlags, before });
    }
    return null;
  }

  /** `blind` also for a name that only the boundary's rules allow: it is listed as ignored, and left alone. */
  #verdictOnNew(path: RelPath, isDir: boolean): Verdict {
    const context = this.#context;
    const bytes = context.bytes(path);
    if (context.renew) return context.present.judge(bytes, isDir);
    if (context.isHeld(path, isDir)) return 'exception';
    const frozen = context.frozen?.judge(bytes, isDir) ?? 'blind';
    if (frozen === 'ignored' || frozen === 'blind') return frozen;
    const present = context.present.judge(bytes, isDir);
    return present === 'ignored' ? 'blind' : present === 'blind' ? 'blind' : frozen;
  }

  /** What a new name was before, where its folder could not be seen into: uncovered, for the folder's reason. */
  #veil(place: Place, now: BigIntStats | null): Version | undefined {
    const { folder, node } = place;
    if (folder === '') return undefined;
    const before = node?.version ?? this.#context.set.drafts.get(folder)?.before;
    const stat = now === null ? NOTHING : statKey(now);
    if (before?.kind === 'uncovered') return uncovered(before.reason, stat);
    return node !== undefined && (node.flags & EntryFlag.ignored) !== 0 ? uncovered('ignored', stat) : undefined;
  }

  /** At a boundary: a name that the rules before it hid. */
  #wasHidden(path: RelPath, { node }: Name, stat: BigIntStats | null, isDir: boolean): Version | undefined {
    const context = this.#context;
    if (!context.renew || context.frozen === null || stat === null) return undefined;
    const known = node !== undefined && (node.flags & EntryFlag.ignored) !== 0;
    const hidden = known || context.frozen.judge(context.bytes(path), isDir) === 'ignored';
    return hidden ? uncovered('ignored', statKey(stat)) : undefined;
  }

  #isSecret(path: RelPath, stat: BigIntStats): boolean {
    const name = path.slice(path.lastIndexOf('/') + 1);
    return stat.isFile() && isSecretName(name) && !this.#context.present.included(this.#context.bytes(path), false);
  }

  // ---- drafts

  #ignore(path: RelPath, { node, kind }: { node: Node | undefined; kind: FileKind }): void {
    if (node !== undefined && (node.flags & EntryFlag.ignored) !== 0 && node.stat?.kind === kind) return;
    const stat = identityKey({ kind, ino: 0n, dev: 0n });
    this.#context.set.put(path, { version: { kind: 'absent' }, stat, flags: EntryFlag.ignored, rowFlags: 0 });
  }

  /** A boundary's rules hide what was covered: it and all below leave coverage, one row each. */
  #leave(path: RelPath, node: Node, stat: BigIntStats): void {
    const { set } = this.#context;
    const leave = (at: RelPath, key: StatKey): void =>
      set.put(at, { version: uncovered('ignored', key), stat: key, flags: 0, rowFlags: RowFlag.coverage });
    leave(path, statKey(stat));
    for (const [below, inner] of nodesBelow(node, path)) {
      if (inner.version.kind !== 'absent' && inner.version.kind !== 'uncovered') leave(below, statOrIdentity(inner));
    }
  }

  #rowFlags(node: Node, stat: BigIntStats, place: Place): number {
    const { version } = node;
    if (isUncovered(version, 'ignored')) return RowFlag.coverage;
    if (isUncovered(version, 'unstable')) return RowFlag.incomplete;
    const holds = node.stat !== null && (node.flags & EntryFlag.untrusted) === 0 && sameStat(node.stat, statKey(stat));
    if (isUncovered(version, 'out-of-time')) return holds ? RowFlag.late : 0;
    const byOption = isUncovered(version, 'too-large') || isUncovered(version, 'secret') || version.kind === 'file';
    if (byOption && holds && this.#context.renew) return RowFlag.coverage;
    return place.folder !== '' && isUncovered(place.node?.version, 'unreadable') ? RowFlag.incomplete : 0;
  }

  #cover(path: RelPath, of: { node: Node | undefined; stat: BigIntStats; terms: Terms }): BigIntStats | null {
    const context = this.#context;
    const { node, stat, terms } = of;
    const kind = kindOf(stat);
    if (kind !== 'dir' && node?.children != null) context.set.removeBelow(path);
    if (kind === 'dir') {
      if (stat.dev !== context.settings.rootId.dev) {
        this.#settle(path, node, uncovered('mount', identityKey({ ino: stat.ino, dev: stat.dev, kind })), terms);
        return null;
      }
      this.#terms.set(path, terms);
      return stat;
    }
    if (kind === 'file') this.#file(path, of);
    else if (kind === 'symlink') this.#link(path, of);
    else
      this.#settle(
        path,
        node,
        { kind: 'special', type: specialType(kind) ?? 'other', ino: stat.ino },
        { ...terms, stat: statKey(stat) },
      );
    return null;
  }

  /** The entry proves that nothing changed. */
  #holds(node: Node | undefined, stat: StatKey): node is Node {
    if (node === undefined || node.stat === null || !this.#context.trusting) return false;
    return (node.flags & (EntryFlag.untrusted | EntryFlag.writers)) === 0 && sameStat(node.stat, stat);
  }

  #file(path: RelPath, { node, stat, terms }: { node: Node | undefined; stat: BigIntStats; terms: Terms }): void {
    const context = this.#context;
    const key = statKey(stat);
    if (this.#isSecret(path, stat)) this.#settle(path, node, uncovered('secret', key), terms);
    else if (key.size > context.settings.maxFileBytes) this.#settle(path, node, uncovered('too-large', key), terms);
    else {
      context.files++;
      const holds = node?.version.kind === 'file' && this.#holds(node, key);
      if (holds && (node.flags & EXCEPTIONS) === terms.flags) context.set.keep(path);
      else if (holds) context.set.put(path, { ...terms, version: node.version, stat: key });
      else {
        const writers = (node?.flags ?? 0) & EntryFlag.writers;
        const untrusted = context.isRacy(key) ? EntryFlag.untrusted : 0;
        context.set.put(path, { ...terms, version: null, stat: key, flags: terms.flags | writers | untrusted });
      }
    }
  }

  #link(path: RelPath, { node, stat, terms }: { node: Node | undefined; stat: BigIntStats; terms: Terms }): void {
    const context = this.#context;
    context.files++;
    const key = statKey(stat);
    const holds = node?.version.kind === 'symlink' && this.#holds(node, key);
    if (holds && (node.flags & EXCEPTIONS) === terms.flags) {
      context.set.keep(path);
      return;
    }
    try {
      const target = decodeName(readlinkSync(fsPath(context.root, path), { encoding: 'buffer' }));
      this.#settle(path, node, { kind: 'symlink', target }, { ...terms, stat: key });
    } catch (error) {
      context.problem(path, 'vanished', `the link could not be read: ${(error as Error).message}`);
      if (node === undefined) this.#settle(path, node, uncovered('unreadable', key), terms);
    }
  }

  /** Drafts what needs no bytes; nothing where it is as the index has it. */
  #settle(path: RelPath, node: Node | undefined, version: Version, given?: Partial<Terms> & { stat?: StatKey }): void {
    const { set } = this.#context;
    const stat = given?.stat ?? (version.kind === 'uncovered' ? version.stat : NOTHING);
    const untrusted = this.#context.isRacy(stat) ? EntryFlag.untrusted : 0;
    const flags = (given?.flags ?? 0) | untrusted;
    const same =
      node !== undefined &&
      node.flags === flags &&
      node.stat !== null &&
      sameStat(node.stat, stat) &&
      sameVersion(node.version, version);
    if (same) set.keep(path);
    else set.put(path, { version, stat, flags, rowFlags: given?.rowFlags ?? 0, before: given?.before });
  }

  /** A folder whose names are known now. */
  folder(
    { path, node, stat }: { path: RelPath; node: Node | undefined; stat: BigIntStats },
    how: { moved: boolean; read: boolean },
  ): void {
    const terms = this.#terms.get(path) ?? { flags: 0, rowFlags: 0, before: undefined };
    if (!how.read && node !== undefined && (node.flags & EXCEPTIONS) === terms.flags) return;
    const again = how.moved ? EntryFlag.partial | EntryFlag.untrusted : 0;
    const key = statKey(stat);
    this.#settle(path, node, { kind: 'dir', mode: key.mode }, { ...terms, flags: terms.flags | again, stat: key });
  }

  /** A folder that is there and can't be read: what is below it keeps its versions. */
  unreadable(path: RelPath, stat: StatKey): void {
    const terms = this.#terms.get(path);
    const node = this.#context.index.find(path);
    this.#settle(path, node, uncovered('unreadable', stat), {
      ...terms,
      flags: (terms?.flags ?? 0) | EntryFlag.partial,
    });
  }

  /** A folder of which only its own entry is looked at. */
  unentered(path: RelPath, { node, stat }: { node: Node | undefined; stat: BigIntStats }): void {
    if (isUncovered(node?.version, 'unreadable')) return;
    const terms = this.#terms.get(path) ?? { flags: 0, rowFlags: 0, before: undefined };
    const key = statKey(stat);
    const version: Version = { kind: 'dir', mode: key.mode };
    if (node !== undefined && sameVersion(node.version, version)) return;
    const flags = terms.flags | EntryFlag.partial | EntryFlag.untrusted;
    this.#context.set.put(path, { ...terms, version, stat: key, flags });
  }
}
