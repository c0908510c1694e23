/**
 * One open workspace in this process: its backend, blobs, tree, timeline, and where they stand. `open.ts` makes it;
 * `observe.ts`, `operate.ts`, `query.ts` and `maintain.ts` work on it; sessions and workspaces are handles on it.
 *
 * All work goes through `queue`, one thing at a time in this process, and what writes goes through `locked`, one process
 * at a time. Whoever gets the lock ends first what a dead process left half done.
 */
import { accessSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { RecoveredOperation } from '../api.ts';
import type { Backend, Position, ScanResult, Tree } from '../backend/backend.ts';
import type { BlobStore } from '../blobs/blobs.ts';
import { currentOwner } from '../process-owner.ts';
import type { OpenCalls } from '../timeline/open-calls.ts';
import type { Append, CallOwner, Head, RootIdentity, Timeline } from '../timeline/timeline.ts';
import type { Logger, RandomId, RelPath } from '../types.ts';
import { UnavailableError } from './answers.ts';
import { recordCompleted } from './complete.ts';
import type { Events } from './events.ts';
import { dropIntent, INTENT, JOURNAL } from './intent.ts';
import { isUsable } from './peek.ts';
import { Queue } from './queue.ts';
import { identityOf, type Layout, sameRoot } from './root.ts';

export interface EngineSettings {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** Bytes. */
  readonly maxFileBytes: number;
}

export interface EngineOptions {
  readonly captureDeadlineMs: number | undefined;
  readonly retention: {
    readonly maxAgeDays: number;
    readonly maxBytes: number;
    readonly maxBoundaries: number | undefined;
  };
  readonly durability: 'full' | 'fast';
  readonly recover: 'rollback' | 'complete';
  readonly adoptRoot: boolean;
  readonly logger: Logger | undefined;
}

export interface CaughtUp {
  readonly head: Head;
  readonly paths: readonly RelPath[];
  readonly rebuilt: boolean;
  readonly rulesChanged: boolean;
}

/** A scan that began when the tree was opened, before it was asked for. */
export interface ScanAhead {
  /** The frozen rules that the tree had then. */
  readonly rules: Promise<Uint8Array | null>;
  readonly scan: Promise<ScanResult>;
}

type EndedCall = NonNullable<Append['endCalls']>[number];

/** A look at the whole tree whose findings are recorded. */
export interface RecordedLook {
  readonly scan: ScanResult;
  readonly gcGeneration: number;
  /** `scansBegun` with its scan. */
  readonly number: number;
  /** Of the newest observation that it served. */
  readonly seq: number;
}

export interface EngineParts {
  readonly layout: Layout;
  readonly identity: RootIdentity;
  readonly backend: Backend;
  readonly why: string;
  readonly blobs: BlobStore;
  readonly tree: Tree;
  readonly timeline: Timeline;
  readonly openCalls: OpenCalls;
  readonly settings: EngineSettings;
  readonly options: EngineOptions;
  readonly events: Events;
}

export class Engine {
  readonly layout: Layout;
  readonly identity: RootIdentity;
  readonly backend: Backend;
  readonly why: string;
  readonly blobs: BlobStore;
  readonly tree: Tree;
  readonly timeline: Timeline;
  readonly openCalls: OpenCalls;
  readonly settings: EngineSettings;
  readonly options: EngineOptions;
  readonly events: Events;
  readonly queue: Queue = new Queue();
  /** What dead processes had left, ended by this one. */
  readonly recovered: RecoveredOperation[] = [];
  /** Ends that could not be recorded yet; the next observation records them. By invocation. */
  readonly pendingEnds: Map<number, EndedCall> = new Map();
  /** Aborted when the engine closes: background work stops. */
  readonly closing: AbortController = new AbortController();
  /** Where the tree's index stands; null before the first observation. */
  position: Position | null = null;
  /** The frozen rules that the tree has, by their id in the timeline. */
  rulesId: number | null = null;
  /** The tree has its index: what needs a look can be recorded. */
  indexed = false;
  /** Null once it was taken, or the tree has become another. */
  ahead: ScanAhead | null = null;
  /** Somebody asked for events to tell where to look; whether they do, `tree.watch` says. */
  watches = false;
  /** An operation that recovery completed waits for the index. */
  unrecorded = false;
  /** Scans that this process began here, for who asks to tell which began after it asked. */
  scansBegun = 0;
  /** The newest look that other begins and ends of calls may share. */
  newestLook: RecordedLook | null = null;
  /** This process, as its calls' owner: asked for by few looks. */
  #owner: CallOwner | null = null;
  /** Date.now() of the last look, for calls in other roots that contain this one or lie in it. */
  lastLookAt: number = Date.now();

  constructor(parts: EngineParts) {
    this.layout = parts.layout;
    this.identity = parts.identity;
    this.backend = parts.backend;
    this.why = parts.why;
    this.blobs = parts.blobs;
    this.tree = parts.tree;
    this.timeline = parts.timeline;
    this.openCalls = parts.openCalls;
    this.settings = parts.settings;
    this.options = parts.options;
    this.events = parts.events;
  }

  get owner(): CallOwner {
    this.#owner ??= currentOwner();
    return this.#owner;
  }

  /**
   * @throws {UnavailableError} root-missing or root-changed: what is at the path isn't the folder that was opened;
   *   data-dir-unwritable where the store was removed (SQLite would go on in files that nobody can reach)
   */
  async checkRoot(): Promise<void> {
    // Synchronous: microseconds each, where a busy pool of libuv would hold up every call by as long as its tasks take.
    const now = identityOf(this.layout.root);
    if (now === null)
      throw new UnavailableError('root-missing', `the root is gone: ${this.layout.root}. Nothing was written.`);
    if (!sameRoot(now, this.identity)) {
      throw new UnavailableError(
        'root-changed',
        `another folder stands at ${this.layout.root} since it was opened. Open the workspace again.`,
      );
    }
    try {
      accessSync(this.layout.journal);
    } catch {
      throw new UnavailableError(
        'data-dir-unwritable',
        `the store is gone: ${this.layout.home}. What was recorded can't be taken back; open the workspace again.`,
      );
    }
  }

  /** The scan that began ahead, for the first who asks for one of the tree as it stands. */
  takeAhead(): Promise<ScanResult> | null {
    const ahead = this.ahead;
    this.ahead = null;
    return ahead?.scan ?? null;
  }

  /** Gives up the scan that began ahead: the tree, or its index, is about to become another. */
  async dropAhead(): Promise<void> {
    const nothing = (): void => undefined;
    await this.takeAhead()?.then(({ set }) => this.tree.discard(set), nothing);
  }

  /** True where a process died in an operation, or is in one: whoever gets the lock will know. */
  hasLeftovers(): boolean {
    return this.#left(JOURNAL).length + this.#left(INTENT).length > 0;
  }

  #left(end: string): string[] {
    return readdirSync(this.layout.journal).filter((name) => name.endsWith(end));
  }

  /**
   * Runs `work` under the workspace's lock, after recovering what a dead process left.
   * `recovered` tells that the tree may have changed since a look that was made before the lock.
   */
  async locked<T>(work: (state: { recovered: boolean }) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const lock = await this.timeline.lock({ signal });
    try {
      const before = this.recovered.length;
      await this.#recover();
      return await work({ recovered: this.recovered.length > before });
    } finally {
      await lock.release();
    }
  }

  /** The lock's holder is alive, so a journal that is there when we hold it belongs to a process that died or failed. */
  async #recover(): Promise<void> {
    const left = readdirSync(this.layout.journal);
    if (left.length === 0) return;
    for (const name of left.filter((name) => name.endsWith(JOURNAL))) {
      const journal = join(this.layout.journal, name);
      const operationId = name.slice(0, -JOURNAL.length);
      if ((await this.timeline.operation(operationId)) !== null) {
        await this.tree.finish(journal);
        this.recovered.push({ operationId, mode: 'finished', paths: [] });
        continue;
      }
      await this.dropAhead();
      const mode = this.options.recover;
      const outcome = await this.tree.recover({ journal, trash: this.layout.trash, mode });
      if (mode === 'rollback') await dropIntent(this, operationId);
      this.recovered.push({ operationId, mode, paths: outcome.paths });
      this.options.logger?.warn('recovered an operation whose process had died', {
        operationId,
        mode,
        paths: outcome.paths.length,
      });
    }
    for (const name of this.#left(INTENT)) await this.#record(name.slice(0, -INTENT.length));
  }

  /** An operation that was written down, and whose journal is gone. */
  async #record(operationId: RandomId): Promise<void> {
    if ((await this.timeline.operation(operationId)) !== null) {
      await dropIntent(this, operationId);
      return;
    }
    this.unrecorded = !this.indexed;
    if (!this.indexed) return;
    try {
      const told = this.recovered.some((operation) => operation.operationId === operationId);
      const recorded = await recordCompleted(this, operationId);
      if (recorded && !told) this.recovered.push({ operationId, mode: 'finished', paths: [] });
    } catch (error) {
      // Its files are whole. What is written down of it stays, for the next who takes the lock.
      this.options.logger?.error('a completed operation could not be recorded yet', { operationId, error });
    }
  }

  /**
   * Brings the tree up to what other processes appended. Answers the head and the paths that moved; `rebuilt` means that
   * the index was made anew, and no change set of before is good any more.
   */
  async catchUp(): Promise<CaughtUp> {
    const head = await this.timeline.head();
    let moved: { paths: RelPath[]; rebuilt: boolean } = { paths: [], rebuilt: false };
    if (head.seq !== (this.position?.seq ?? 0) || head.observationId !== (this.position?.observationId ?? null)) {
      moved = await this.#takeRows(head);
    }
    const rulesChanged = head.rulesId !== this.rulesId;
    if (rulesChanged) await this.#takeRules(head);
    return { head, ...moved, rulesChanged };
  }

  async #takeRows(head: Head): Promise<{ paths: RelPath[]; rebuilt: boolean }> {
    await this.dropAhead();
    if (head.seq === 0 || head.observationId === null) {
      await this.tree.reset(null, null);
      this.position = null;
      return { paths: [], rebuilt: true };
    }
    const known =
      this.position !== null &&
      (await this.timeline.observation(this.position.seq))?.id === this.position.observationId;
    if (!known) {
      await this.rebuild(head);
      return { paths: [], rebuilt: true };
    }
    const at = { seq: head.seq, observationId: head.observationId };
    const rows = (await this.timeline.rows(this.position?.seq ?? 0, head.seq)).filter(isUsable);
    await this.tree.catchUp(rows, at);
    this.position = at;
    return { paths: [...new Set(rows.map((row) => row.path))], rebuilt: false };
  }

  /** Rules that the tree has already (from its index file) are not taken again: that would cost it its verdicts. */
  async #takeRules(head: Head): Promise<void> {
    const rules = head.rulesId === null ? null : await this.timeline.rules(head.rulesId);
    const mine = await (this.ahead?.rules ?? this.tree.rules());
    if (rules !== null && (mine === null || Buffer.compare(mine, rules) !== 0)) {
      await this.dropAhead();
      await this.tree.setRules(rules);
    }
    this.rulesId = head.rulesId;
  }

  /** Makes the index anew from manifest and rows; every file is hashed at the next scan. */
  async rebuild(head: Head): Promise<void> {
    await this.dropAhead();
    const manifest = await this.timeline.newestManifest();
    if (manifest === null || head.observationId === null) {
      throw new UnavailableError(
        'store-corrupt',
        `the timeline of ${this.layout.root} has no manifest to start from; its store is left as it is`,
      );
    }
    const origin = await this.timeline.observation(manifest.seq);
    await this.tree.reset(manifest.hash, { seq: manifest.seq, observationId: origin?.id ?? head.observationId });
    const rows = await this.timeline.rows(manifest.seq, head.seq);
    this.position = { seq: head.seq, observationId: head.observationId };
    await this.tree.catchUp(rows.filter(isUsable), this.position);
    await this.#takeRules(head);
  }

  /** From here on, where it can be had, events tell begins and ends of calls where to look. */
  async watch(): Promise<void> {
    if (this.watches) return;
    this.watches = true;
    const why = await this.tree.watch();
    if (why !== null) this.options.logger?.warn('no watch: each look is at the whole tree', { why });
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.queue.idle();
    // A part that can't close cleanly (its files are gone, say) must not keep the others open, nor fail the caller's work.
    for (const part of [this.tree, this.blobs, this.timeline, this.openCalls, this.backend]) {
      await part.close().catch((error: unknown) => this.options.logger?.warn('a part did not close cleanly', error));
    }
  }
}
