/**
 * What one name is (DESIGN §4.2): covered, ignored, or uncovered for a reason. `drafts.ts` writes it down. Knows nothing
 * of how folders are walked.
 *
 * Secret files are told by their name before any rule is asked: an ignored one is listed too, so that one which a call
 * moves away is known by its inode (not so in a folder that rules hide).
 */
import type { BigIntStats } from 'node:fs';
import { type FileKind, type RelPath, RowFlag, type StatKey, type UncoveredReason, type Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { statOrIdentity } from './change-set.ts';
import { foldsToGit, fsPath, identityKey, joinPath, kindOf, sameStat, statKey } from './coverage.ts';
import { Drafts, EXCEPTIONS, isUncovered, NOTHING, type Terms, uncovered } from './drafts.ts';
import { EntryFlag, type Node } from './index.ts';
import type { Verdict } from './rules.ts';
import type { ScanContext } from './scan-context.ts';

export interface Name {
  readonly name: string;
  readonly node: Node | undefined;
  /** What the folder's listing says it is; null: not told. */
  readonly kind: FileKind | null;
  stat?: BigIntStats | 'unreadable' | undefined;
}

/** Where a name stands, and what the folders above it hand down. */
export interface Place {
  readonly folder: RelPath;
  /** At a boundary: the rules for the folder's names changed since they were frozen. */
  readonly changed: boolean;
  /** Names that the index lacks were there before, unseen for this reason. */
  readonly veil: UncoveredReason | null;
  /** What is below could not be observed at the last look. */
  readonly incomplete: boolean;
}

/** What a folder adds to what those above it hand down. */
export function veilOf(node: Node | undefined): UncoveredReason | null {
  if (node?.version.kind === 'uncovered') return node.version.reason;
  return node !== undefined && (node.flags & EntryFlag.ignored) !== 0 ? 'ignored' : null;
}

/** A folder that is to be entered. */
export interface Entered extends Pick<Place, 'veil' | 'incomplete'> {
  readonly stat: BigIntStats;
}

/** Known to the index with a version; else an ignored name, or a folder that only leads somewhere. */
function isKnown(node: Node | undefined): node is Node {
  return node !== undefined && node.version.kind !== 'absent';
}

export class Classifier {
  readonly #context: ScanContext;
  readonly #drafts: Drafts;
  readonly tracked: RelPath[] = [];

  constructor(context: ScanContext) {
    this.#context = context;
    this.#drafts = new Drafts(context);
  }

  /** Answers a folder that is to be entered, else null. */
  name(name: Name, place: Place): Entered | null {
    const context = this.#context;
    const path = joinPath(place.folder, name.name);
    const look = (): BigIntStats | undefined => {
      name.stat ??= context.tryLstat(path);
      return name.stat === 'unreadable' ? undefined : name.stat;
    };
    if (foldsToGit(name.name, look, () => fsPath(context.root, joinPath(place.folder, '.git')))) {
      const stat = place.folder === '' ? undefined : look();
      if (stat !== undefined) this.#git(path, { node: name.node, stat, place });
      return null;
    }
    if (this.#staysIgnored(path, name, place)) return null;
    const stat = look();
    if (stat === undefined) return this.#unseen(path, name, place);
    const verdict = isKnown(name.node)
      ? this.#judgeKnown(path, { node: name.node, stat, place })
      : this.#judgeNew(path, { name, stat, place });
    if (verdict === null) return null;
    const entered = this.#drafts.cover(path, { node: name.node, stat, terms: verdict });
    if (entered === null) return null;
    const hidden = verdict.before?.kind === 'uncovered' ? verdict.before.reason : veilOf(name.node);
    const veil = place.veil ?? hidden;
    return { stat: entered, veil, incomplete: place.incomplete || hidden === 'unreadable' };
  }

  /** A nested `.git`: never entered, whatever the rules say. */
  #git(path: RelPath, { node, stat, place }: { node: Node | undefined; stat: BigIntStats; place: Place }): void {
    const before = isKnown(node) ? undefined : this.#veil(place, stat);
    const entering = before !== undefined || isUncovered(node?.version, 'ignored');
    const version = uncovered('git', identityKey({ ino: stat.ino, dev: stat.dev, kind: kindOf(stat) }));
    this.#drafts.settle(path, node, version, { before, rowFlags: entering ? RowFlag.coverage : 0 });
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
      if (ignored && !context.isHeld(path, isDir)) return this.#hiddenInTurn(path, of);
      if (ignored) return terms(EntryFlag.held);
      if (!turned) return terms(node.flags & EXCEPTIONS);
      // A verdict on a folder is none on a file: covered it stays, but the next boundary may see it otherwise.
      const now = context.frozen?.judge(context.bytes(path), isDir);
      if (now === 'ignored') return terms(EntryFlag.held);
      return terms(node.flags & EXCEPTIONS || (now === 'exception' ? EntryFlag.exception : 0));
    }
    if (this.#drafts.isSecret(path, stat) && !this.isHidden(place.folder)) return terms(0);
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
    if (ignored) return this.#drafts.stillIgnored(path, node, statKey(stat));
    if (verdict === 'blind' || (kept !== 0 && context.present.indexDamaged(context.bytes(path))))
      return this.#note(path, isDir, terms(kept));
    if (context.isHeld(path, isDir)) return terms(EntryFlag.held);
    this.#drafts.leave(path, node, statKey(stat));
    return null;
  }

  /** A hidden name stays hidden within a turn, unless a thing of another kind, a new one, stands there. */
  #hiddenInTurn(path: RelPath, { node, stat, place }: { node: Node; stat: BigIntStats; place: Place }): Terms | null {
    const terms = (flags: number): Terms => ({ flags, rowFlags: 0, before: undefined });
    if (kindOf(stat) !== statOrIdentity(node).kind) {
      if (this.#drafts.isSecret(path, stat) && !this.isHidden(place.folder)) return terms(0);
      const verdict = this.#verdictOnNew(path, stat.isDirectory());
      if (verdict === 'covered') return terms(0);
      if (verdict === 'exception') return terms(EntryFlag.exception);
    }
    return this.#drafts.stillIgnored(path, node, statKey(stat));
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
    const secret = stat !== null && this.#drafts.isSecret(path, stat) && !this.isHidden(place.folder);
    const before = this.#veil(place, stat) ?? this.#wasHidden(path, { name, stat, place, isDir, secret });
    const rowFlags = before === undefined ? 0 : RowFlag.coverage;
    const terms = (flags: number): Terms => ({ flags, rowFlags, before });
    if (secret) return terms(0);
    const verdict = this.#verdictOnNew(path, isDir);
    if (verdict === 'covered') return terms(0);
    if (verdict === 'exception') {
      if (context.renew) return this.#note(path, isDir, terms(EntryFlag.exception));
      return terms(context.isHeld(path, isDir) ? EntryFlag.held : EntryFlag.exception);
    }
    if (verdict === 'ignored')
      this.#drafts.ignore(path, { node: name.node, kind: stat === null ? (name.kind ?? 'other') : kindOf(stat) });
    // Rules that can't be read over a name that can't be looked at: it may be ignored, but what is known is the latter.
    else if (stat === null) return terms(0);
    else {
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
    if (present === 'ignored' || present === 'blind') return 'blind';
    return present === 'exception' ? 'exception' : frozen;
  }

  /** What a new name was before, where a folder above could not be seen into. */
  #veil({ veil }: Place, now: BigIntStats | null): Version | undefined {
    return veil === null ? undefined : uncovered(veil, now === null ? NOTHING : statKey(now));
  }

  /** At a boundary: a name that the rules before it hid. */
  #wasHidden(
    path: RelPath,
    of: { name: Name; stat: BigIntStats | null; place: Place; isDir: boolean; secret: boolean },
  ): Version | undefined {
    const context = this.#context;
    const { name, stat, place, isDir, secret } = of;
    if (!context.renew || context.frozen === null || stat === null) return undefined;
    const asked = !secret && place.changed && context.frozen.judge(context.bytes(path), isDir) === 'ignored';
    const hidden = asked || veilOf(name.node) === 'ignored';
    return hidden ? uncovered('ignored', statKey(stat)) : undefined;
  }

  /** The folder is entered though rules hide it. */
  isHidden(folder: RelPath): boolean {
    const flags = this.#drafts.terms.get(folder)?.flags ?? this.#context.index.find(folder)?.flags ?? 0;
    return (flags & EXCEPTIONS) !== 0;
  }

  #rowFlags({ version, stat: known, flags }: Node, stat: BigIntStats, place: Place): number {
    if (isUncovered(version, 'ignored')) return RowFlag.coverage;
    if (isUncovered(version, 'unstable')) return RowFlag.incomplete;
    if (isUncovered(version, 'out-of-time')) {
      const holds = known !== null && (flags & EntryFlag.untrusted) === 0 && sameStat(known, statKey(stat));
      return holds ? RowFlag.late : 0;
    }
    return place.incomplete ? RowFlag.incomplete : 0;
  }

  /** A folder whose names are known now. */
  folder(
    { path, node, stat }: { path: RelPath; node: Node | undefined; stat: BigIntStats },
    how: { moved: boolean; read: boolean },
  ): void {
    const terms = this.#drafts.terms.get(path) ?? { flags: 0, rowFlags: 0, before: undefined };
    if (!how.read && node !== undefined && (node.flags & EXCEPTIONS) === terms.flags) return;
    const again = how.moved ? EntryFlag.partial | EntryFlag.untrusted : 0;
    const key = statKey(stat);
    this.#drafts.settle(
      path,
      node,
      { kind: 'dir', mode: key.mode },
      { ...terms, flags: terms.flags | again, stat: key },
    );
  }

  /** A folder that is there and can't be read: what is below it keeps its versions. */
  unreadable(path: RelPath, stat: StatKey): void {
    const terms = this.#drafts.terms.get(path);
    const node = this.#context.index.find(path);
    this.#drafts.settle(path, node, uncovered('unreadable', stat), {
      ...terms,
      flags: (terms?.flags ?? 0) | EntryFlag.partial,
    });
  }

  /** A folder of which only its own entry is looked at. */
  unentered(path: RelPath, { node, stat }: { node: Node | undefined; stat: BigIntStats }): void {
    if (isUncovered(node?.version, 'unreadable')) return;
    const terms = this.#drafts.terms.get(path) ?? { flags: 0, rowFlags: 0, before: undefined };
    const key = statKey(stat);
    const version: Version = { kind: 'dir', mode: key.mode };
    if (node !== undefined && sameVersion(node.version, version)) return;
    const flags = terms.flags | EntryFlag.partial | EntryFlag.untrusted;
    this.#context.set.put(path, { ...terms, version, stat: key, flags });
  }
}
