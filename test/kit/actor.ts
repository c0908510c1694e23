/** Does the steps of a sequence on one root through the public API. What they mean is the suites' business. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { BackendKind } from '../../src/backend/backend.ts';
import { workspaceDir } from '../../src/data-dir.ts';
import type { Receipt, Session, Workspace } from '../../src/index.ts';
import { type Edit, makeEdit, type SessionName, type Step } from './sequence.ts';
import { Space } from './space.ts';
import { got } from './story.ts';
import { type Snapshot, snapshot } from './tree.ts';

/** How a step ended. */
export interface Done {
  readonly step: Step;
  readonly before: Snapshot;
  readonly after: Snapshot;
  /** Of undo, redo and restore, where there was something to do. */
  readonly receipt?: Receipt;
  /** Boundary of a restore. */
  readonly boundaryId?: string;
  /** Everything that it answered but ids, positions and times, for comparison. */
  readonly said: unknown;
}

export interface ActorOptions {
  /** Backends by turns: the next one at each `reopen`. */
  readonly kinds: readonly BackendKind[];
  /** Removes the index file at each `reopen`. */
  readonly dropIndex?: boolean;
}

export class Actor {
  readonly space = new Space();
  readonly #options: ActorOptions;
  workspace!: Workspace;
  #opened = 0;
  #run = 0;
  #ids = 0;
  readonly #boundaries = new Map<SessionName, string[]>();

  private constructor(options: ActorOptions) {
    this.#options = options;
  }

  static async open(options: ActorOptions): Promise<Actor> {
    const actor = new Actor(options);
    await actor.#open();
    return actor;
  }

  async #open(): Promise<void> {
    const { kinds } = this.#options;
    this.workspace = await this.space.open(kinds[this.#opened++ % kinds.length] as BackendKind);
  }

  get root(): string {
    return this.space.root;
  }

  session(name: SessionName): Session {
    return this.workspace.session({ threadId: `${name}-${this.#run}` });
  }

  boundaries(name: SessionName): readonly string[] {
    return this.#boundaries.get(name) ?? [];
  }

  /** An empty root, new sessions, an empty store. */
  async begin(): Promise<void> {
    for (const name of ['s1', 's2'] as const) got(await this.session(name).drop());
    got(await this.workspace.gc());
    this.space.sh('chmod -R u+rwX . ; find . -mindepth 1 -delete');
    this.#run += 1;
    this.#boundaries.clear();
    for (const name of ['s1', 's2'] as const) await this.#capture(name);
  }

  look(): Snapshot {
    return snapshot(this.root);
  }

  async do(step: Step): Promise<Done> {
    const before = this.look();
    const result = await this.#act(step);
    return { step, before, after: this.look(), ...result };
  }

  async #act(step: Step): Promise<Omit<Done, 'step' | 'before' | 'after'>> {
    switch (step.op) {
      case 'capture':
        return { said: await this.#capture(step.session) };
      case 'call':
        return { said: await this.#call(step.session, step.edits) };
      case 'overlap':
        return { said: await this.#overlap(step.edits, step.declared) };
      case 'user':
        for (const edit of step.edits) makeEdit(this.root, edit);
        return { said: null };
      case 'reopen':
        await this.#reopen();
        return { said: null };
      case 'gc':
        return { said: got(await this.workspace.gc()).droppedBoundaries };
      case 'restore':
        return this.#restore(step);
      default: {
        const session = this.session(step.session);
        const options = { onConflict: step.force ? ('overwrite' as const) : ('refuse' as const) };
        const result = got(await (step.op === 'undo' ? session.undo(options) : session.redo(options)));
        return {
          said: [result.message, result.outcome, result.receipt === undefined ? null : plain(result.receipt)],
          ...(result.receipt === undefined ? {} : { receipt: result.receipt, boundaryId: result.receipt.boundaryId }),
        };
      }
    }
  }

  async #capture(name: SessionName): Promise<unknown> {
    const id = `${name}-m${(this.#boundaries.get(name) ?? []).length}`;
    const capture = got(await this.session(name).capture(id));
    this.#boundaries.set(name, [...this.boundaries(name), id]);
    return [capture.complete, capture.scannedFiles, capture.uncovered];
  }

  async #call(name: SessionName, edits: readonly Edit[]): Promise<unknown> {
    const session = this.session(name);
    const id = `c${++this.#ids}`;
    got(await session.beginCall(id));
    for (const edit of edits) makeEdit(this.root, edit);
    return got(await session.endCall(id)).changes.map(({ path, kind }) => [path, kind]);
  }

  async #overlap(edits: readonly Edit[], declared: readonly string[]): Promise<unknown> {
    const [one, two] = [this.session('s1'), this.session('s2')];
    const id = `c${++this.#ids}`;
    got(await one.beginCall(id, declared.length === 0 ? {} : { paths: [...declared] }));
    got(await two.beginCall(id));
    for (const edit of edits) makeEdit(this.root, edit);
    const changes = got(await one.endCall(id)).changes.map(({ path, kind }) => [path, kind]);
    got(await two.endCall(id));
    return changes;
  }

  async #reopen(): Promise<void> {
    const { dataDir, root } = this.workspace;
    await this.workspace.close();
    if (this.#options.dropIndex === true) rmSync(join(workspaceDir(dataDir, root), 'index'), { force: true });
    await this.#open();
  }

  async #restore(step: Step & { op: 'restore' }): Promise<Omit<Done, 'step' | 'before' | 'after'>> {
    const known = this.boundaries(step.session);
    const boundaryId = known[Math.max(0, known.length - 1 - step.back)] as string;
    const result = await this.session(step.session).restore(boundaryId, {
      onConflict: step.force ? 'overwrite' : 'refuse',
      ...(step.paths === undefined ? {} : { paths: [...step.paths] }),
    });
    if (!result.available) return { said: [result.reason, result.detail] };
    return { said: plain(result), receipt: result, boundaryId };
  }

  /** What the store says of itself, with what differs between two stores left out. */
  async timeline(name: SessionName): Promise<unknown> {
    const { items } = got(await this.session(name).timeline());
    return items.map((item) =>
      Object.fromEntries(
        Object.entries(item).filter(([key]) => !['at', 'position', 'operationId', 'invocation'].includes(key)),
      ),
    );
  }

  async close(): Promise<void> {
    await this.space[Symbol.asyncDispose]();
  }
}

/** A receipt without ids, and without the notes on how a backend got there. Hashes have a seed of the store's own. */
function plain(receipt: Receipt): unknown {
  const lists = [receipt.restored, receipt.refused, receipt.skipped, receipt.failed];
  return [
    receipt.outcome,
    receipt.notes,
    receipt.uncovered,
    lists.map((list) =>
      list.map(({ path, action, reason, overrides, detail }) => [path, action, reason, overrides, detail]),
    ),
  ];
}
