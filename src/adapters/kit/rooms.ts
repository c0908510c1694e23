/** The workspaces of an adapter: one a root, opened at its first use. One that can't be opened is tried again when asked. */
import type { Workspace } from '../../api.ts';
import { openWorkspace } from '../../index.ts';
import type { OpenOptions } from '../../schemas.ts';
import type { AdapterOptions, HostThread } from './options.ts';

export class Rooms {
  readonly #options: Omit<OpenOptions, 'root'>;
  readonly #root: AdapterOptions['root'];
  readonly #open: (options: OpenOptions) => Promise<Workspace>;
  readonly #rooms = new Map<string, Promise<Workspace>>();
  #closed: Error | undefined;

  constructor(options: Omit<AdapterOptions, 'tools'>) {
    const { root, open, tenantId: _, onConflict, serialize, onProblem, ...rest } = options;
    this.#root = root;
    this.#open = open ?? openWorkspace;
    this.#options = rest;
  }

  /** The workspace of a thread. It is there, and answers why, where it isn't available. */
  async of(thread: HostThread): Promise<Workspace> {
    if (this.#closed !== undefined) throw this.#closed;
    const folder = typeof this.#root === 'function' ? await this.#root(thread) : this.#root;
    const opening = this.#rooms.get(folder) ?? this.#open({ ...this.#options, root: folder });
    this.#rooms.set(folder, opening);
    let workspace: Workspace;
    try {
      workspace = await opening;
    } catch (error) {
      this.#forget(folder, opening);
      throw error;
    }
    if (!workspace.available) {
      this.#forget(folder, opening);
      await workspace.close();
    }
    return workspace;
  }

  #forget(folder: string, opening: Promise<Workspace>): void {
    if (this.#rooms.get(folder) === opening) this.#rooms.delete(folder);
  }

  /** Closes all; what asks later gets `why`. */
  async close(why: Error): Promise<void> {
    this.#closed = why;
    const rooms = [...this.#rooms.values()];
    this.#rooms.clear();
    for (const room of rooms) await (await room).close();
  }
}
