/**
 * The workspaces of a host's sessions: which root a session works in, and one open workspace a root for as long as a
 * session or a request needs it. Knows nothing of requests and answers.
 *
 * A session belongs to one root from its first answered request until it is let go. Where a root can't be opened nothing
 * is kept, so that the next request tries again.
 */
import { realpath } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import type { Session, Workspace } from '../../api.ts';
import { TakebackError } from '../../errors.ts';
import { openWorkspace } from '../../index.ts';
import type { OpenOptions } from '../../schemas.ts';
import type { ConflictPolicy, Result, Unavailable } from '../../types.ts';

/** Whose request it is, and the root that it names, if any. */
export interface Asker {
  readonly session_id: string;
  readonly root?: string | undefined;
}

export interface RoomsOptions {
  readonly open: Omit<OpenOptions, 'root'>;
  readonly openWorkspace?: ((options: OpenOptions) => Promise<Workspace>) | undefined;
  /** The one root of all sessions; or what tells the root of one. Default: requests name it. */
  readonly root?: string | ((asker: Asker) => string | undefined | Promise<string | undefined>) | undefined;
  readonly tenantId?: string | undefined;
  readonly onConflict?: ConflictPolicy | undefined;
}

/** A session in its open workspace, for one request. */
export interface Place {
  readonly workspace: Workspace;
  readonly session: Session;
}

interface Root {
  readonly given: string;
  readonly real: string;
}

interface Room {
  readonly workspace: Promise<Workspace>;
  readonly sessions: Set<string>;
  requests: number;
}

export class Rooms {
  readonly #options: RoomsOptions;
  readonly #rooms = new Map<string, Room>();
  readonly #rootOf = new Map<string, Root>();
  #closed = false;

  constructor(options: RoomsOptions) {
    this.#options = options;
  }

  /**
   * Runs one request of a session in its workspace. `rootless` is what it means that nobody tells the root.
   *
   * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a root that is not the session's
   */
  async use<T>(
    asker: Asker,
    rootless: () => Unavailable,
    run: (place: Place) => Promise<Result<T>>,
  ): Promise<Result<T>> {
    const root = await this.#find(asker);
    if (this.#closed) return { available: false, reason: 'closed', detail: 'the checkpoint methods were closed' };
    if (root === undefined) return rootless();
    const room = this.#enter(root);
    try {
      const workspace = await room.workspace;
      if (!workspace.available) {
        return { available: false, reason: workspace.reason ?? 'closed', detail: workspace.detail ?? '' };
      }
      const result = await run({ workspace, session: this.session(workspace, asker.session_id) });
      if (result.available) {
        this.#rootOf.set(asker.session_id, root);
        room.sessions.add(asker.session_id);
      }
      return result;
    } finally {
      await this.#leave(root, room);
    }
  }

  session(workspace: Workspace, threadId: string): Session {
    const { tenantId, onConflict } = this.#options;
    return workspace.session({
      threadId,
      ...(tenantId === undefined ? {} : { tenantId }),
      ...(onConflict === undefined ? {} : { onConflict }),
    });
  }

  get tenantId(): string | undefined {
    return this.#options.tenantId;
  }

  /** Lets a session go: the workspace closes when nobody else needs it. What is stored stays. */
  async release(sessionId: string): Promise<void> {
    const root = this.#rootOf.get(sessionId);
    this.#rootOf.delete(sessionId);
    const room = root && this.#rooms.get(root.real);
    if (root === undefined || room === undefined) return;
    room.sessions.delete(sessionId);
    await this.#closeUnused(root, room);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const rooms = [...this.#rooms.values()];
    this.#rooms.clear();
    this.#rootOf.clear();
    await Promise.all(rooms.map(async (room) => (await room.workspace.catch(() => undefined))?.close()));
  }

  async #find(asker: Asker): Promise<Root | undefined> {
    const bound = this.#rootOf.get(asker.session_id);
    const named = await this.#named(asker, bound);
    if (named === undefined || named === bound?.given) return bound;
    const root = { given: named, real: await realOr(named) };
    if (bound !== undefined && bound.real !== root.real) {
      throw invalid(
        `the session works in ${bound.given}, not in ${named}. Drop it first, or use a session of another id.`,
      );
    }
    return bound ?? root;
  }

  async #named(asker: Asker, bound: Root | undefined): Promise<string | undefined> {
    const { root } = this.#options;
    if (asker.root !== undefined && !isAbsolute(asker.root)) {
      throw invalid(`root must be an absolute path, got ${JSON.stringify(asker.root)}`);
    }
    if (typeof root === 'function') return bound !== undefined && asker.root === undefined ? undefined : root(asker);
    if (root !== undefined && asker.root !== undefined && (await realOr(root)) !== (await realOr(asker.root))) {
      throw invalid(`root is fixed here: ${root}. Leave root out of the request.`);
    }
    return root ?? asker.root;
  }

  #enter(root: Root): Room {
    let room = this.#rooms.get(root.real);
    if (room === undefined) {
      const { open, openWorkspace: opener = openWorkspace } = this.#options;
      room = { workspace: opener({ ...open, root: root.given }), sessions: new Set(), requests: 0 };
      this.#rooms.set(root.real, room);
    }
    room.requests += 1;
    return room;
  }

  async #leave(root: Root, room: Room): Promise<void> {
    room.requests -= 1;
    await this.#closeUnused(root, room);
  }

  async #closeUnused(root: Root, room: Room): Promise<void> {
    if (room.requests > 0 || room.sessions.size > 0 || this.#rooms.get(root.real) !== room) return;
    this.#rooms.delete(root.real);
    // One that failed to open has nothing to close; who waited for it has the error.
    const workspace = await room.workspace.catch(() => undefined);
    await workspace?.close();
  }
}

function invalid(what: string): TakebackError {
  return new TakebackError('ERR_INVALID_ARGUMENT', `request.root: ${what}`);
}

/** The real path, or the path itself where nothing is there: opening it tells what is wrong. */
function realOr(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}
