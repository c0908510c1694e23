/** Listeners of one workspace, and how changes are told: at most `maxFileEvents`, then one total. Imports types only. */
import type { FileChangedEvent, FileChangedMoreEvent, SnapshotFailedEvent } from '../api.ts';
import type { PathChange } from '../model/types.ts';
import type { SessionRecord } from '../timeline/timeline.ts';
import type { Logger, Unavailable } from '../types.ts';

export interface EventMap {
  readonly fileChanged: FileChangedEvent;
  readonly fileChangedMore: FileChangedMoreEvent;
  readonly snapshotFailed: SnapshotFailedEvent;
}

export interface Origin {
  readonly threadId: string;
  readonly tenantId?: string;
  readonly operationId?: string;
}

/** A change with what its event carries besides. */
export interface ToldChange {
  readonly change: Pick<PathChange, 'kind' | 'path' | 'from'>;
  readonly toolCallId?: string;
  readonly patch?: string;
}

const CHANGE = { created: 'created', modified: 'updated', deleted: 'deleted', moved: 'moved' } as const;

export class Events {
  readonly maxFileEvents: number;
  readonly #listeners = new Map<keyof EventMap, Set<(event: never) => void>>();
  readonly #logger: Logger | undefined;
  /** Where each session's changes are told up to. A session's id alone may come again in an emptied store. */
  readonly #told = new Map<string, number>();

  constructor(maxFileEvents: number, logger: Logger | undefined) {
    this.maxFileEvents = maxFileEvents;
    this.#logger = logger;
  }

  on<K extends keyof EventMap>(event: K, listener: (event: EventMap[K]) => void): () => void {
    const set = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, set);
    set.add(listener as (event: never) => void);
    return () => set.delete(listener as (event: never) => void);
  }

  /** Somebody wants to hear of changed files. */
  get listens(): boolean {
    return (['fileChanged', 'fileChangedMore'] as const).some((event) => (this.#listeners.get(event)?.size ?? 0) > 0);
  }

  /** The seq up to which this process told of the session's changes; undefined before it told any. */
  toldSeq({ id, createdAt }: SessionRecord): number | undefined {
    return this.#told.get(`${id} ${createdAt}`);
  }

  markTold({ id, createdAt }: SessionRecord, seq: number): void {
    this.#told.set(`${id} ${createdAt}`, seq);
  }

  /** A listener that throws is logged: it must not undo the work that it is told of. */
  #emit<K extends keyof EventMap>(event: K, value: EventMap[K]): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      try {
        (listener as (event: EventMap[K]) => void)(value);
      } catch (error) {
        this.#logger?.error(`a listener of ${event} threw`, error);
      }
    }
  }

  /** `more` tells of all changes, of which `told` are the first. */
  changes(
    told: readonly ToldChange[],
    { origin, more }: { origin: Origin; more: { readonly total: number; readonly toolCallId?: string } },
  ): void {
    for (const { change, ...rest } of told) {
      const from = change.from === undefined ? {} : { from: change.from };
      this.#emit('fileChanged', { ...origin, change: CHANGE[change.kind], path: change.path, ...from, ...rest });
    }
    if (more.total > told.length) this.#emit('fileChangedMore', { ...origin, ...more });
  }

  failed(unavailable: Unavailable, origin: Origin): void {
    this.#emit('snapshotFailed', { ...origin, reason: unavailable.reason, detail: unavailable.detail });
  }
}
