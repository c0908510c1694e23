/**
 * The notation of the cases: CP, T, U, UNDO, REDO, PLAN as methods, and the rules G1, G3, G4, G5, G7 checked around each
 * operation by an independent look at the disk. What a case itself promises (G2, G6), the case asserts.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import type {
  CaptureOptions,
  CaptureResult,
  ChangeSummary,
  HistoryResult,
  OpenOptions,
  Plan,
  PlanOptions,
  Receipt,
  RestoreOptions,
  Result,
  Session,
  Workspace,
} from '../../src/index.ts';
import { encodeName } from '../../src/rel-path.ts';
import { Space, type SpaceOptions } from './space.ts';
import { differing, inGit, type Snapshot, snapshot } from './tree.ts';

/** The value, or a failed test that says why there is none. */
export function got<T>(result: Result<T>): { readonly available: true } & T {
  if (!result.available) throw new Error(`unavailable: ${result.reason}: ${result.detail}`);
  return result;
}

const EMPTY = { available: true, outcome: 'nothing', restored: [], refused: [], skipped: [], failed: [] } as const;

export class Story {
  readonly space: Space;
  readonly backend: BackendKind;
  workspace!: Workspace;
  #options: Partial<OpenOptions>;
  #calls = 0;

  private constructor(space: Space, backend: BackendKind, options: Partial<OpenOptions>) {
    this.space = space;
    this.backend = backend;
    this.#options = options;
  }

  /** Runs the setup commands, then opens the workspace. */
  static async begin(
    backend: BackendKind,
    setup: string,
    options: { open?: Partial<OpenOptions>; space?: SpaceOptions } = {},
  ): Promise<Story> {
    const story = new Story(new Space(options.space), backend, options.open ?? {});
    if (setup !== '') story.space.sh(setup);
    story.workspace = await story.space.open(backend, story.#options);
    return story;
  }

  session(threadId = 's1'): Session {
    return this.workspace.session({ threadId });
  }

  /** Closes and opens again, as a new process would. */
  async reopen(options: Partial<OpenOptions> = {}): Promise<void> {
    await this.workspace.close();
    this.#options = { ...this.#options, ...options };
    this.workspace = await this.space.open(this.backend, this.#options);
  }

  async cp(boundaryId: string, options: CaptureOptions & { session?: Session } = {}): Promise<CaptureResult> {
    const { session = this.session(), ...rest } = options;
    const before = this.#look();
    const result = got(await session.capture(boundaryId, rest));
    const after = this.#look();
    expect(differing(before, after), 'a capture writes nothing into the root').toEqual([]);
    expect(untouchedFaults(before, after, new Set()), 'a capture leaves mtime and inode of every path').toEqual([]);
    return result;
  }

  /** One call for each command; a command that fails is part of the story only where it ends in `|| true`. */
  async t(...commands: string[]): Promise<readonly ChangeSummary[]> {
    return this.turnOf(this.session(), ...commands);
  }

  async turnOf(session: Session, ...commands: string[]): Promise<readonly ChangeSummary[]> {
    const changes: ChangeSummary[] = [];
    for (const command of commands) {
      const id = `call-${++this.#calls}`;
      got(await session.beginCall(id, { tool: 'bash' }));
      this.space.sh(command);
      changes.push(...got(await session.endCall(id)).changes);
    }
    return changes;
  }

  u(command: string): void {
    this.space.sh(command);
  }

  async plan(boundaryId: string, options: PlanOptions & { session?: Session } = {}): Promise<Plan> {
    const { session = this.session(), ...rest } = options;
    const before = this.#look();
    const plan = got(await session.plan(boundaryId, rest));
    expect(differing(before, this.#look()), 'a plan writes nothing').toEqual([]);
    return plan;
  }

  /** UNDO x: restores what the session changed since x. */
  async undo(boundaryId: string, options: RestoreOptions & { session?: Session } = {}): Promise<Receipt> {
    const { session = this.session(), ...rest } = options;
    return this.#guarded(async () => got(await session.restore(boundaryId, rest)));
  }

  async redo(session: Session = this.session()): Promise<HistoryResult> {
    let result: HistoryResult | undefined;
    await this.#guarded(async () => {
      result = got(await session.redo());
      return (
        result.receipt ?? { ...EMPTY, operationId: '', boundaryId: '', irreversible: [], uncovered: [], notes: [] }
      );
    });
    return result as HistoryResult;
  }

  #look(): Snapshot {
    const inside = this.space.dataDir.startsWith(`${this.space.root}/`)
      ? this.space.dataDir.slice(this.space.root.length + 1)
      : null;
    return snapshot(this.space.root, (path) => path === inside);
  }

  /** All beside the root, the data directory and the home. */
  #outside(): Snapshot {
    const { base, root, dataDir } = this.space;
    const own = new Set([root, dataDir, join(base, 'home')]);
    return snapshot(base, (path) => own.has(join(base, path)));
  }

  /** The rules around one operation. */
  async #guarded(run: () => Promise<Receipt>): Promise<Receipt> {
    const before = this.#look();
    const outside = this.#outside();
    const receipt = await run();
    const after = this.#look();
    checkReceipt(receipt);
    const written = new Set(receipt.restored.map((entry) => latin1(entry.path)));
    const changed = differing(before, after);
    expect(
      changed.filter((path) => !inReach(path, written)),
      'G1, G3: only restored paths changed',
    ).toEqual([]);
    expect(changed.filter(inGit), 'G4: every .git is byte-identical').toEqual([]);
    expect(untouchedFaults(before, after, written), 'G5: other paths keep mtime and inode').toEqual([]);
    expect(differing(outside, this.#outside()), 'G7: nothing outside the root was written').toEqual([]);
    expect(
      [...after.keys()].filter((path) => path.includes('.takeback-')),
      'G7: no temp file is left',
    ).toEqual([]);
    expect(restoredFaults(receipt, after), 'G3: what is said to be restored is there, or gone').toEqual([]);
    expect(this.#journals(), 'G7: no journal is left').toEqual([]);
    return receipt;
  }

  #journals(): string[] {
    const stores = join(this.space.dataDir, 'workspaces');
    return readdirSync(stores).flatMap((store) => readdirSync(join(stores, store, 'journal')));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.space[Symbol.asyncDispose]();
  }
}

/** The spelling of a snapshot: the bytes of a name, each as a char. */
function latin1(path: string): string {
  return encodeName(path).toString('latin1');
}

/** Each path is in one list only, and a success has no refused or failed path. */
function checkReceipt(receipt: Receipt): void {
  const all = [receipt.restored, receipt.refused, receipt.skipped, receipt.failed].flat().map((entry) => entry.path);
  expect(new Set(all).size, 'G3: each path is in one list').toBe(all.length);
  if (receipt.outcome === 'done') expect([...receipt.refused, ...receipt.failed], 'G3: done means all').toEqual([]);
}

/** A restored path, or a folder above one (made or removed with it). */
function inReach(path: string, written: ReadonlySet<string>): boolean {
  return written.has(path) || [...written].some((w) => w.startsWith(`${path}/`));
}

function restoredFaults(receipt: Receipt, after: Snapshot): string[] {
  return receipt.restored.flatMap(({ path, action }) =>
    after.has(latin1(path)) === (action === 'delete') ? [`${action} ${path}`] : [],
  );
}

function untouchedFaults(before: Snapshot, after: Snapshot, written: ReadonlySet<string>): string[] {
  const holders = new Set(
    [...written].flatMap((path) => path.split('/').map((_, i, parts) => parts.slice(0, i).join('/'))),
  );
  return [...before].flatMap(([path, was]) => {
    const is = after.get(path);
    if (is === undefined || inReach(path, written)) return [];
    if (is.ino !== was.ino) return [`${path}: inode`];
    return is.mtimeNs === was.mtimeNs || holders.has(path) ? [] : [`${path}: mtime`];
  });
}
