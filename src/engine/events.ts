/** Listeners of one workspace, and how changes are told: at most `maxFileEvents`, then one total. Imports types only. */
import type { FileChangedEvent, FileChangedMoreEvent, SnapshotFailedEvent } from '../api.ts';
import type { ChangeSummary, Logger, Unavailable } from '../types.ts';

export interface EventMap {
  readonly fileChanged: FileChangedEvent;
  readonly fileChangedMore: FileChangedMoreEvent;
  readonly snapshotFailed: SnapshotFailedEvent;
}

interface Origin {
  readonly threadId: string;
  readonly tenantId?: string;
  readonly toolCallId?: string;
  readonly operationId?: string;
}

const CHANGE = { created: 'created', modified: 'updated', deleted: 'deleted', moved: 'moved' } as const;

export class Events {
  readonly #listeners = new Map<keyof EventMap, Set<(event: never) => void>>();
  readonly #maxFileEvents: number;
  readonly #logger: Logger | undefined;

  constructor(maxFileEvents: number, logger: Logger | undefined) {
    this.#maxFileEvents = maxFileEvents;
    this.#logger = logger;
  }

  on<K extends keyof EventMap>(event: K, listener: (event: EventMap[K]) => void): () => void {
    const set = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, set);
    set.add(listener as (event: never) => void);
    return () => set.delete(listener as (event: never) => void);
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

  changes(changes: readonly Pick<ChangeSummary, 'kind' | 'path' | 'from'>[], origin: Origin): void {
    for (const change of changes.slice(0, this.#maxFileEvents)) {
      this.#emit('fileChanged', {
        ...origin,
        change: CHANGE[change.kind],
        path: change.path,
        ...(change.from === undefined ? {} : { from: change.from }),
      });
    }
    if (changes.length > this.#maxFileEvents) this.#emit('fileChangedMore', { ...origin, total: changes.length });
  }

  failed(unavailable: Unavailable, origin: Origin): void {
    this.#emit('snapshotFailed', { ...origin, reason: unavailable.reason, detail: unavailable.detail });
  }
}
