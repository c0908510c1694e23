/**
 * The tree of one root, inside the worker: index, frozen rules, change sets. Synchronous; `portable.ts` is its asynchronous
 * face, `Hands` does what writes into the tree.
 *
 * One change set at a time. The index moves only by `commit`, `catchUp`, `reset` and `load`; a scan or ingest that
 * throws leaves it where it was.
 */
import { lstatSync } from 'node:fs';
import { TakebackError } from '../../errors.ts';
import { asRelPath, isWithin } from '../../rel-path.ts';
import type { Change, Hash, RandomId, RelPath, UncoveredPath, Version } from '../../types.ts';
import { decodeVersions, encodeVersions } from '../../wire.ts';
import type { IngestResult, MovedPath, Position, RuleSources, ScanResult } from '../backend.ts';
import { ChangeSet } from './change-set.ts';
import { type FsNow, fsNow, isRacy } from './clock.ts';
import type { WorkHooks } from './faults.ts';
import { Glances } from './glances.ts';
import type { Hasher } from './hash.ts';
import { bytePath } from './ignore.ts';
import { EntryFlag, IndexTree, nodesBelow, pathOrder } from './index.ts';
import type { DeltaOp } from './index-codec.ts';
import { IndexFile } from './index-file.ts';
import { type BlobSink, Ingester } from './ingest.ts';
import { provenMoves } from './moves.ts';
import { PresentRules } from './present-rules.ts';
import { FrozenRules } from './rules.ts';
import { Scanner } from './scan.ts';
import { ScanContext } from './scan-context.ts';

/** `TreeOptions` without what can't cross to a worker. */
export interface TreeSettings {
  readonly root: string;
  readonly indexFile: string;
  readonly storeId: RandomId;
  readonly skip: readonly RelPath[];
  readonly maxFileBytes: number;
  readonly maxEntries: number;
  readonly scratchDir: string;
}

export interface TreeBlobs extends BlobSink {
  read(hash: Hash): Buffer;
  /** Takes in what is borrowed; answers whether anything is or was. */
  settle(): boolean;
  /** The blob that has a borrowed name's bytes; else undefined or null. */
  real(hash: Hash): Hash | null | undefined;
}

/** `ScanOptions` without what can't cross. */
export interface ScanRequest {
  readonly renewRules?: RuleSources | undefined;
  readonly hold?: readonly RelPath[] | undefined;
  readonly only?: readonly RelPath[] | undefined;
  readonly rehash?: boolean | undefined;
}

export interface IngestRequest {
  readonly deadlineMs?: number | undefined;
  readonly first?: readonly RelPath[] | undefined;
  readonly hashOnly?: boolean | undefined;
  readonly stored?: ReadonlySet<Hash> | undefined;
}

interface CurrentSet {
  readonly id: number;
  readonly set: ChangeSet;
  readonly now: FsNow | null;
  /** What the scan was asked; a second look judges alike. */
  readonly request: ScanRequest;
}

export class TreeHost {
  readonly #settings: TreeSettings;
  readonly #blobs: TreeBlobs;
  readonly #rootId: { ino: bigint; dev: bigint };
  readonly #file: IndexFile;
  readonly #kept = new Set<RelPath>();
  readonly #glances = new Glances();
  #index = new IndexTree();
  #at: Position | null = null;
  #scannedAtNs = 0n;
  #frozen: FrozenRules | null = null;
  #rulesInFile: Buffer | null = null;
  /** What moved the index since its file was written. */
  #unsaved: DeltaOp[] = [];
  #current: CurrentSet | null = null;
  #nextSet = 1;

  constructor(settings: TreeSettings, blobs: TreeBlobs, hasher: Hasher) {
    this.#settings = settings;
    this.#blobs = blobs;
    this.#file = new IndexFile(settings.indexFile, settings.storeId, hasher);
    const stat = lstatSync(settings.root, { bigint: true, throwIfNoEntry: false });
    if (stat === undefined || !stat.isDirectory())
      throw new TakebackError('ERR_ROOT_CHANGED', `the root is gone or no folder: ${settings.root}`);
    this.#rootId = { ino: stat.ino, dev: stat.dev };
  }

  // ---- the index

  load(): Position | null {
    this.#current = null;
    this.#unsaved = [];
    const loaded = this.#file.load();
    let frozen: FrozenRules | null = null;
    try {
      if (loaded !== null && loaded.rules.length > 0) frozen = new FrozenRules(loaded.rules, this.#settings.root);
    } catch {
      return null; // rules that can't be read are damage like any other
    }
    if (loaded === null) return null;
    this.#index = loaded.tree;
    this.#at = loaded.at;
    this.#scannedAtNs = loaded.scannedAtNs;
    this.#frozen = frozen;
    this.#rulesInFile = loaded.rules;
    this.#takeIn();
    return loaded.at;
  }

  reset(manifest: Hash | null, at: Position | null): void {
    const entries = manifest === null ? [] : decodeVersions(this.#blobs.read(manifest));
    this.#blobs.settle();
    this.#current = null;
    this.#index = new IndexTree();
    this.#at = at;
    this.#scannedAtNs = 0n;
    this.#file.forget();
    this.#unsaved = [];
    for (const { path, version } of entries) this.#putUnseen(path, this.#real(version));
  }

  /** What is borrowed becomes ours: from here on no version of the index has a borrowed name. */
  #takeIn(): void {
    if (!this.#blobs.settle()) return;
    for (const [, node] of nodesBelow(this.#index.root, '' as RelPath)) node.version = this.#real(node.version);
  }

  #real(version: Version): Version {
    const real = version.kind === 'file' ? this.#blobs.real(version.content) : undefined;
    return version.kind === 'file' && typeof real === 'string' ? { ...version, content: real } : version;
  }

  /** A version that was not seen by us: nothing is known of the path's stat key. */
  #putUnseen(path: RelPath, version: Version): DeltaOp {
    const flags = EntryFlag.untrusted | (version.kind === 'dir' ? EntryFlag.partial : 0);
    const entry = { version, stat: version.kind === 'uncovered' ? version.stat : null, flags };
    this.#index.put(path, entry);
    return { path, op: 'put', entry };
  }

  catchUp(rows: readonly Pick<Change, 'path' | 'after'>[], at: Position): void {
    for (const { path, after } of rows) {
      if (after.kind !== 'absent') this.#unsaved.push(this.#putUnseen(path, after));
      else if (this.#index.find(path) !== undefined) {
        this.#index.remove(path);
        this.#unsaved.push({ path, op: 'remove' });
      }
    }
    this.#at = at;
  }

  rules(): Uint8Array | null {
    return this.#current?.set.rules?.bytes ?? this.#frozen?.bytes ?? null;
  }

  setRules(snapshot: Uint8Array): void {
    try {
      this.#frozen = new FrozenRules(snapshot, this.#settings.root);
    } catch (error) {
      throw new TakebackError('ERR_STORE_CORRUPT', `the frozen rules can't be read: ${(error as Error).message}`, {
        cause: error,
      });
    }
    this.#kept.clear();
  }

  // ---- looks

  #context(request: ScanRequest, at: { now: FsNow | null; set: ChangeSet; hooks: WorkHooks }): ScanContext {
    const { root, skip, maxFileBytes, maxEntries } = this.#settings;
    const sources = request.renewRules ?? this.#frozen?.sources;
    if (sources === undefined)
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'the first scan of a tree needs renewRules');
    const clockHolds = at.now !== null && at.now.ns >= this.#scannedAtNs;
    const trusting = clockHolds && request.rehash !== true;
    const turn = trusting && request.renewRules === undefined && request.only === undefined;
    return new ScanContext({
      ...at,
      root,
      maxFileBytes,
      maxEntries,
      rootId: this.#rootId,
      skip: new Set(skip),
      index: this.#index,
      frozen: this.#frozen,
      present: new PresentRules(sources, root),
      renew: request.renewRules !== undefined,
      hold: request.hold ?? [],
      kept: this.#kept,
      trusting,
      glances: turn ? this.#glances : null,
    });
  }

  scan(request: ScanRequest, hooks: WorkHooks): ScanResult {
    this.#current = null;
    const now = fsNow(this.#settings.root, this.#settings.scratchDir);
    const set = new ChangeSet(this.#index, now?.ns ?? 0n);
    const context = this.#context(request, { now, set, hooks });
    const judged = context.rulesEvaluated;
    const scanner = new Scanner(context);
    try {
      if (request.only !== undefined) scanner.only(request.only);
      else scanner.all();
    } finally {
      this.#glances.end();
    }
    const evaluated = context.rulesEvaluated - judged;
    if (context.renew) this.#freeze(set, { context, scanner, partial: request.only !== undefined });
    set.problems.push(...context.present.problems);
    const current = { id: this.#nextSet++, set, now, request };
    this.#current = current;
    const { entries, statCalls, dirsRead, files } = context;
    const counters = { entries, statCalls, dirsRead, rulesEvaluated: evaluated };
    return { set: current.id, files, suspects: set.pending().length, counters, problems: [...set.problems] };
  }

  #freeze(set: ChangeSet, of: { context: ScanContext; scanner: Scanner; partial: boolean }): void {
    const { present, frozen } = of.context;
    if (of.partial)
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'rules are renewed by a scan of the whole tree, not with `only`');
    if (present.rootIgnored()) {
      set.problems.push({
        path: asRelPath(''),
        kind: 'root-ignored',
        detail: 'a rule above the root hides it; its content is covered all the same',
      });
    }
    const keep = of.scanner.unentered.map((path) => of.context.bytes(path));
    const bytes = present.freeze([...of.scanner.tracked].sort(pathOrder), { rules: frozen, keep });
    set.rules = { present, bytes };
  }

  #take(id: number): CurrentSet {
    if (this.#current?.id !== id)
      throw new TakebackError(
        'ERR_INVALID_ARGUMENT',
        `change set ${id} is gone: a newer scan, or a commit, took its place`,
      );
    return this.#current;
  }

  #ingester({ set, now }: CurrentSet, request: IngestRequest, hooks: WorkHooks): Ingester {
    const { root, maxFileBytes } = this.#settings;
    return new Ingester(set, {
      ...request,
      root,
      maxFileBytes,
      hooks,
      index: this.#index,
      segments: this.#blobs,
      isRacy: (stat) => isRacy(stat, now),
    });
  }

  ingest(id: number, request: IngestRequest, hooks: WorkHooks): IngestResult {
    const current = this.#take(id);
    return this.#read(current, current.set.pending(), { request, hooks });
  }

  look(id: number, paths: readonly RelPath[], hooks: WorkHooks): void {
    this.#lookAt(this.#take(id), paths, { request: {}, hooks });
  }

  /** Reads files; where one was lost, what became of its path is looked at and read, once. */
  #read(
    current: CurrentSet,
    paths: readonly RelPath[],
    how: { request: IngestRequest; hooks: WorkHooks },
  ): IngestResult {
    const ingester = this.#ingester(current, how.request, how.hooks);
    const first = ingester.run(paths);
    if (ingester.lost.length === 0) return first;
    const lost = ingester.lost.splice(0);
    this.#scanOnly(current, lost, how.hooks);
    const again = ingester.run(current.set.pending().filter((path) => lost.some((folder) => isWithin(path, folder))));
    ingester.giveUp(ingester.lost);
    return { ...again, left: first.left + again.left };
  }

  #lookAt(current: CurrentSet, paths: readonly RelPath[], how: { request: IngestRequest; hooks: WorkHooks }): void {
    this.#scanOnly(current, paths, how.hooks);
    const wanted = new Set(paths);
    const pending = current.set.pending().filter((path) => wanted.has(path));
    this.#read(current, pending, how);
  }

  #scanOnly({ set, now, request }: CurrentSet, paths: readonly RelPath[], hooks: WorkHooks): void {
    const { renewRules, hold } = request;
    const context = this.#context({ renewRules, hold }, { now, set, hooks });
    new Scanner(context).only(paths);
  }

  // ---- answers

  changes(id: number): Change[] {
    return this.#take(id).set.changes();
  }

  moves(id: number): MovedPath[] {
    return provenMoves(this.#take(id).set, this.#index, this.#settings.root);
  }

  uncovered(id: number): UncoveredPath[] {
    return this.#take(id).set.uncovered();
  }

  manifest(id: number): { hash: Hash; entries: number } {
    const versions = [...this.#take(id).set.versions()].sort((a, b) => pathOrder(a.path, b.path));
    return { hash: this.#blobs.put(encodeVersions(versions)).hash, entries: versions.length };
  }

  commit(id: number, at: Position): void {
    const { set } = this.#take(id);
    const ops = set.ops();
    for (const op of ops) {
      if (op.op === 'remove') this.#index.remove(op.path);
      else this.#index.put(op.path, op.entry);
    }
    this.#current = null;
    this.#unsaved.push(...ops);
    this.#at = at;
    this.#scannedAtNs = set.scannedAtNs;
    if (set.rules !== null) this.setRules(set.rules.bytes);
    const rules = this.#frozen?.bytes ?? Buffer.alloc(0);
    const rulesChanged = this.#rulesInFile === null || !rules.equals(this.#rulesInFile);
    const saved = { tree: this.#index, at, scannedAtNs: set.scannedAtNs, rules, rulesChanged };
    // A cache that could not be written is no fault of the observation: an older file is caught up with from the timeline.
    const written = this.#file.save({ ...saved, ops: this.#unsaved });
    this.#unsaved = [];
    this.#rulesInFile = written ? rules : null;
  }

  discard(id: number): void {
    if (this.#current?.id === id) this.#current = null;
  }

  versions(paths: readonly RelPath[]): Version[] {
    return paths.map((path) => this.#index.versionOf(path));
  }

  list(folder: RelPath): RelPath[] {
    const node = this.#index.find(folder);
    if (node === undefined) return [];
    const out: RelPath[] = [];
    for (const [path, { version }] of nodesBelow(node, folder)) if (version.kind !== 'absent') out.push(path);
    return out.sort(pathOrder);
  }

  /** By the frozen rules: `include` names the path, so that not even its name makes it a secret. */
  isIncluded(path: RelPath): boolean {
    return this.#frozen?.included(bytePath(path), false) ?? false;
  }

  /** A restore wrote these: covered until the next boundary, whatever the rules say. */
  keepCovered(paths: readonly RelPath[]): void {
    for (const path of paths) this.#kept.add(path);
  }

  /** Ends its thread. */
  close(): void {
    this.#glances.close();
  }

  /** Where the index stands. */
  get position(): Position | null {
    return this.#at;
  }
}
