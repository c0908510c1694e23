/**
 * Drafts of a scan: writes to its change set what a covered, hidden or uncovered name is, and nothing where the index has
 * it so already. What a name is to be was decided in `classify.ts`.
 *
 * A change that only an option brought (a limit, `include`) is flagged `coverage`.
 */
import { type BigIntStats, readlinkSync } from 'node:fs';
import { decodeName } from '../../rel-path.ts';
import { type FileKind, type RelPath, RowFlag, type StatKey, type UncoveredReason, type Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { statOrIdentity } from './change-set.ts';
import { fsPath, identityKey, isSecretName, kindOf, sameStat, specialType, statKey } from './coverage.ts';
import { EntryFlag, type Node, nodesBelow } from './index.ts';
import type { ScanContext } from './scan-context.ts';

/** How a path is drafted: kept for folders until their names were read. */
export interface Terms {
  readonly flags: number;
  readonly rowFlags: number;
  readonly before: Version | undefined;
}

export const EXCEPTIONS = EntryFlag.exception | EntryFlag.held;
export const NOTHING: StatKey = identityKey({ kind: 'other', ino: 0n, dev: 0n });

export function uncovered(reason: UncoveredReason, stat: StatKey): Version {
  return { kind: 'uncovered', reason, stat };
}

export function isUncovered(version: Version | undefined, reason: UncoveredReason): boolean {
  return version?.kind === 'uncovered' && version.reason === reason;
}

export class Drafts {
  readonly #context: ScanContext;
  /** For folders that are to be entered. */
  readonly terms = new Map<RelPath, Terms>();

  constructor(context: ScanContext) {
    this.#context = context;
  }

  isSecret(path: RelPath, stat: BigIntStats): boolean {
    const name = path.slice(path.lastIndexOf('/') + 1);
    return stat.isFile() && isSecretName(name) && !this.#context.present.included(this.#context.bytes(path), false);
  }

  ignore(path: RelPath, { node, kind }: { node: Node | undefined; kind: FileKind }): void {
    if (node !== undefined && (node.flags & EntryFlag.ignored) !== 0 && node.stat?.kind === kind) return;
    const stat = identityKey({ kind, ino: 0n, dev: 0n });
    this.#context.set.put(path, { version: { kind: 'absent' }, stat, flags: EntryFlag.ignored, rowFlags: 0 });
  }

  /** A boundary's rules hide what was covered: it and all below leave coverage, one row each. */
  leave(path: RelPath, node: Node, now: StatKey): void {
    const below = now.kind === 'dir' ? nodesBelow(node, path) : [];
    if (now.kind !== 'dir') this.#context.set.removeBelow(path);
    for (const [at, { version, stat }] of [[path, node] as [RelPath, Node], ...below]) {
      if (version.kind === 'absent' || isUncovered(version, 'ignored')) continue;
      const key = at === path ? now : statOrIdentity({ version, stat });
      const draft = { version: uncovered('ignored', key), stat: key, flags: 0, rowFlags: RowFlag.coverage };
      this.#context.set.put(at, draft);
    }
  }

  /** Listed as ignored, and still so: another file there is news; of a folder only another inode. */
  stillIgnored(path: RelPath, node: Node, stat: StatKey): null {
    const known = statOrIdentity(node);
    const identity = known.kind === stat.kind && known.ino === stat.ino && known.dev === stat.dev;
    const same = stat.kind === 'dir' ? identity : sameStat(known, stat);
    const draft = { version: uncovered('ignored', stat), stat, flags: 0, rowFlags: 0 };
    if (same) this.#context.set.keep(path);
    else this.#context.set.put(path, draft);
    if (!same && stat.kind !== 'dir') this.#context.set.removeBelow(path);
    return null;
  }

  /** An option alone (a limit, `include`) took a file into coverage or out of it. */
  #byOption(node: Node | undefined, stat: StatKey, now: 'file' | UncoveredReason): number {
    if (node === undefined || node.version.kind === 'absent' || statOrIdentity(node).kind !== 'file') return 0;
    const was = node.version.kind === 'uncovered' ? node.version.reason : node.version.kind;
    // A name is a secret or none by its spelling and by `include`: no write makes it one.
    if ((was === 'secret') !== (now === 'secret')) return RowFlag.coverage;
    const sized = was !== now && (was === 'too-large' || now === 'too-large');
    return sized && node.stat !== null && sameStat(node.stat, stat) ? RowFlag.coverage : 0;
  }

  cover(path: RelPath, of: { node: Node | undefined; stat: BigIntStats; terms: Terms }): BigIntStats | null {
    const context = this.#context;
    const { node, stat, terms } = of;
    const kind = kindOf(stat);
    if (kind !== 'dir' && node?.children != null) context.set.removeBelow(path);
    if (kind === 'dir') {
      if (stat.dev !== context.settings.rootId.dev) {
        this.settle(path, node, uncovered('mount', identityKey({ ino: stat.ino, dev: stat.dev, kind })), terms);
        return null;
      }
      this.terms.set(path, terms);
      return stat;
    }
    if (kind === 'file') this.#file(path, of);
    else if (kind === 'symlink') this.#link(path, of);
    else
      this.settle(
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
    const large = key.size > context.settings.maxFileBytes;
    const kind = this.isSecret(path, stat) ? 'secret' : large ? 'too-large' : 'file';
    const rowFlags = terms.rowFlags | this.#byOption(node, key, kind);
    if (kind !== 'file') this.settle(path, node, uncovered(kind, key), { ...terms, rowFlags });
    else {
      context.files++;
      const holds = node?.version.kind === 'file' && this.#holds(node, key);
      if (holds && (node.flags & EXCEPTIONS) === terms.flags) context.set.keep(path);
      else if (holds) context.set.put(path, { ...terms, version: node.version, stat: key });
      else {
        const writers = (node?.flags ?? 0) & EntryFlag.writers;
        const untrusted = context.isRacy(key) ? EntryFlag.untrusted : 0;
        context.set.put(path, {
          ...terms,
          rowFlags,
          version: null,
          stat: key,
          flags: terms.flags | writers | untrusted,
        });
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
      this.settle(path, node, { kind: 'symlink', target }, { ...terms, stat: key });
    } catch (error) {
      context.problem(path, 'vanished', `the link could not be read: ${(error as Error).message}`);
      if (node === undefined) this.settle(path, node, uncovered('unreadable', key), terms);
    }
  }

  /** Drafts what needs no bytes; nothing where it is as the index has it. */
  settle(path: RelPath, node: Node | undefined, version: Version, given?: Partial<Terms> & { stat?: StatKey }): void {
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
}
