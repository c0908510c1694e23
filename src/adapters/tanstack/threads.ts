/**
 * The threads of one history, and the workspaces that hold them: one workspace a root, opened when a thread first needs
 * it and closed when the last one lets go. Events of a workspace are handed to the thread that they belong to.
 */
import { join } from 'node:path';
import type { Session, Workspace } from '../../api.ts';
import { openWorkspace } from '../../index.ts';
import { check, type OpenOptions, openOptionsSchema, sessionOptionsSchema } from '../../schemas.ts';
import type { Logger } from '../../types.ts';
import {
  type FileChange,
  failureOf,
  type HostThread,
  type Listener,
  type SnapshotEvents,
  type SnapshotsOptions,
  type ThreadKey,
} from './options.ts';

interface Room {
  readonly workspace: Promise<Workspace>;
  readonly threads: Map<string, Thread>;
  leases: number;
}

/** A thread while somebody uses it. */
export interface Lease {
  readonly thread: Thread;
  /** Lets go; the workspace closes when nobody else holds it. */
  release(): Promise<void>;
}

const threadName = ({ threadId, tenantId }: ThreadKey): string => JSON.stringify([tenantId ?? null, threadId]);

/** One conversation: its session in the engine, its open calls, and who hears what happens in it. */
export class Thread {
  readonly key: ThreadKey;
  readonly workspace: Workspace;
  readonly session: Session;
  /** Calls that this adapter began and has not ended. */
  readonly openCalls: Set<string> = new Set();
  readonly #listeners: Set<Listener>;
  readonly #logger: Logger | undefined;

  constructor(key: ThreadKey, workspace: Workspace, options: SnapshotsOptions, everywhere: Listener) {
    this.key = key;
    this.workspace = workspace;
    this.session = workspace.session({
      threadId: key.threadId,
      ...(key.tenantId === undefined ? {} : { tenantId: key.tenantId }),
      ...(options.onConflict === undefined ? {} : { onConflict: options.onConflict }),
    });
    this.#listeners = new Set([everywhere]);
    this.#logger = options.logger;
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells all listeners at once. One that fails is said to the others, and never stops what it is told of. */
  async tell<K extends keyof SnapshotEvents>(event: K, value: SnapshotEvents[K]): Promise<void> {
    const told = [...this.#listeners].map(async (listener) => listener(event, value));
    for (const { status, ...rest } of await Promise.allSettled(told)) {
      if (status === 'fulfilled') continue;
      const { reason } = rest as PromiseRejectedResult;
      this.#logger?.error(`a listener of ${event} failed`, reason);
      if (event !== 'snapshotFailed') await this.failed(reason);
    }
  }

  failed(cause: unknown, off = false): Promise<void> {
    return this.tell('snapshotFailed', failureOf(this.key, cause, off));
  }

  /** Ends calls that nobody will end any more: their run was left without a word. */
  async endLeftovers(): Promise<void> {
    for (const callId of this.openCalls) {
      this.openCalls.delete(callId);
      await this.session.endCall(callId, { isError: true });
    }
  }
}

export class Threads {
  readonly #options: SnapshotsOptions;
  readonly #rooms = new Map<string, Room>();
  readonly #everywhere: Listener;
  #held: Lease[] = [];

  constructor(options: SnapshotsOptions, everywhere: Listener) {
    this.#options = options;
    this.#everywhere = everywhere;
  }

  keyOf(host: HostThread): ThreadKey {
    const { tenantId } = this.#options;
    const tenant = typeof tenantId === 'function' ? tenantId(host) : tenantId;
    return { threadId: host.threadId, ...(tenant === undefined ? {} : { tenantId: tenant }) };
  }

  /** Opens a thread. Where its workspace can't be opened, the thread is there all the same, and its answers say why. */
  async lease(host: HostThread, key: ThreadKey = this.keyOf(host)): Promise<Lease> {
    check(sessionOptionsSchema, key, 'thread');
    const { root } = this.#options;
    const folder = typeof root === 'function' ? await root(host) : root;
    const room = this.#roomOf(folder);
    room.leases += 1;
    let released = false;
    const release = async (): Promise<void> => {
      if (released) return;
      released = true;
      room.leases -= 1;
      if (room.leases > 0) return;
      this.#rooms.delete(folder);
      await (await room.workspace).close();
    };
    try {
      const workspace = await room.workspace;
      return { thread: this.#threadIn(room, workspace, key), release };
    } catch (error) {
      this.#rooms.delete(folder);
      throw error;
    }
  }

  /** The same, and the workspace stays open until {@link close} once it was available. */
  async hold(host: HostThread, key?: ThreadKey): Promise<Lease> {
    const lease = await this.lease(host, key);
    const held = this.#held.some(({ thread }) => thread === lease.thread);
    if (!held && lease.thread.workspace.available) this.#held.push(await this.lease(host, key));
    return lease;
  }

  /** Workspaces that are open now. */
  async workspaces(): Promise<Workspace[]> {
    return Promise.all([...this.#rooms.values()].map((room) => room.workspace));
  }

  async close(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    for (const lease of held) await lease.release();
  }

  #roomOf(folder: string): Room {
    const known = this.#rooms.get(folder);
    if (known !== undefined) return known;
    const threads = new Map<string, Thread>();
    const workspace = (this.#options.open ?? openWorkspace)({ ...openOptionsOf(this.#options), root: folder }).then(
      (opened) => {
        forward(opened, (key) => threads.get(threadName(key)));
        return opened;
      },
    );
    const room: Room = { workspace, threads, leases: 0 };
    this.#rooms.set(folder, room);
    return room;
  }

  #threadIn(room: Room, workspace: Workspace, key: ThreadKey): Thread {
    const known = room.threads.get(threadName(key));
    if (known !== undefined) return known;
    const thread = new Thread(key, workspace, this.#options, this.#everywhere);
    room.threads.set(threadName(key), thread);
    return thread;
  }
}

/** What `openWorkspace` takes of the options; checked, so that a misspelt option fails at once. */
export function openOptionsOf(options: SnapshotsOptions): Omit<OpenOptions, 'root'> {
  const { root: _, tenantId, onConflict, describeCall, logRecords, fileChanged, open, ...rest } = options;
  return check(openOptionsSchema.omit({ root: true }), rest, 'options');
}

function forward(workspace: Workspace, threadOf: (key: ThreadKey) => Thread | undefined): void {
  workspace.on('fileChanged', (event) => {
    const absolute: FileChange = {
      ...event,
      path: join(workspace.root, event.path),
      ...(event.from === undefined ? {} : { from: join(workspace.root, event.from) }),
    };
    void threadOf(event)?.tell('fileChanged', absolute);
  });
  workspace.on('fileChangedMore', (event) => void threadOf(event)?.tell('fileChangedMore', event));
  workspace.on('snapshotFailed', (event) => void threadOf(event)?.tell('snapshotFailed', failureOf(event, event)));
}
