/**
 * Rows of the containment table: a turn, what somebody puts in the way, an operation, and what its receipt says. Each row runs
 * on both backends, on the native one with each of its path resolvers, and is watched by plain node:fs: outside the root
 * nothing changes, down to inodes and times, and inside it only what the receipt calls restored.
 */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import type { Backend, BackendKind, Tree, TreeOptions } from '../../src/backend/backend.ts';
import { NativeBackend } from '../../src/backend/native.ts';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import type { OpenOptions, Receipt, RestoreOptions, Session, Workspace } from '../../src/index.ts';
import { encodeName } from '../../src/rel-path.ts';
import { availableBackends } from './backends.ts';
import { digest } from './digest.ts';
import { Space } from './space.ts';
import { got } from './story.ts';
import { differing, type Snapshot, snapshot } from './tree.ts';

export interface Resolved {
  readonly backend: BackendKind;
  readonly resolver: 'auto' | 'component';
}

/** The backends that can run here, the native one with both resolvers; the portable one has one. */
export const RESOLVERS: readonly Resolved[] = availableBackends.flatMap((backend): Resolved[] =>
  (backend === 'native' ? (['auto', 'component'] as const) : (['auto'] as const)).map((resolver) => ({
    backend,
    resolver,
  })),
);

/** One suite, every way to resolve a path. */
export function describeResolvers(name: string, suite: (how: Resolved) => void): void {
  for (const how of RESOLVERS) {
    const walk = how.backend === 'native' ? (how.resolver === 'auto' ? ', openat2' : ', component walk') : '';
    describe(`${name} [${how.backend}${walk}]`, () => suite(how));
  }
  if (!availableBackends.includes('native'))
    test.skip(`${name} [native]: skipped, the addon is not there`, () => undefined);
}

export interface Row {
  readonly label: string;
  /** Before the boundary, in the root. `../out` is there always, with files `f` and `d/e/f`. */
  readonly setup?: string;
  /** The agent's call. */
  readonly turn: string;
  /** What somebody else does after the turn and before the plan. */
  readonly planned?: string;
  /** What somebody else does when the plan is made and nothing is written yet. */
  readonly late?: string;
  readonly run?: (session: Session) => Promise<Receipt>;
  /** Done after the turn and before `planned`: what the operation of the row takes back. */
  readonly first?: (session: Session) => Promise<unknown>;
  /** Path → its list in the receipt, with its action or reason: the whole receipt. */
  readonly says: Readonly<Record<string, string>> | Readonly<Record<BackendKind, Readonly<Record<string, string>>>>;
  /** Paths of the root → text, `-> target` of a link, `dir`, or null where nothing is to be. */
  readonly left?: Readonly<Record<string, string | null>>;
  /** Ends what `planned` or `late` began (a mount), whatever happened. */
  readonly last?: string;
  /** Why it can't run here. */
  readonly skip?: string | undefined;
}

export const restore =
  (options: RestoreOptions = {}) =>
  async (session: Session): Promise<Receipt> =>
    got(await session.restore('m1', options));

/** One test a row. */
export function testRows(how: Resolved, rows: readonly Row[]): void {
  test('labels are told apart', () => {
    expect(new Set(rows.map((row) => row.label)).size).toBe(rows.length);
  });
  for (const row of rows) {
    if (row.skip === undefined) test(row.label, () => runRow(how, row));
    else test.skip(`${row.label}: skipped, ${row.skip}`, () => undefined);
  }
}

async function runRow(how: Resolved, row: Row): Promise<void> {
  await using scene = await Scene.begin(how, row.setup);
  const { space, session } = scene;
  try {
    got(await session.capture('m1'));
    got(await session.beginCall('c1'));
    space.sh(row.turn);
    got(await session.endCall('c1'));
    await row.first?.(session);
    if (row.planned !== undefined) space.sh(row.planned);
    const { run = restore() } = row;
    const receipt = await scene.watched(() => run(session), row.late);
    expect(told(receipt)).toEqual('native' in row.says ? row.says[how.backend] : row.says);
    for (const [path, what] of Object.entries(row.left ?? {})) expect(seen(space, path), path).toBe(what);
  } finally {
    if (row.last !== undefined) space.sh(row.last);
  }
}

/** A root with a folder `../out` beside it, opened with a resolver forced. */
export class Scene {
  readonly space: Space;
  readonly workspace: Workspace;
  readonly #strike: { now: (() => void) | null };

  private constructor(space: Space, workspace: Workspace, strike: { now: (() => void) | null }) {
    this.space = space;
    this.workspace = workspace;
    this.#strike = strike;
  }

  static async begin(how: Resolved, setup = '', options: Partial<OpenOptions> = {}): Promise<Scene> {
    const space = new Space();
    space.sh('mkdir -p ../out/d/e; echo outside >../out/f; echo outside >../out/d/e/f; chmod 755 ../out/d/e');
    if (setup !== '') space.sh(setup);
    return Scene.open(space, how, options);
  }

  /** Opens a root again, as another process would; the caller closes the scene before. */
  static async open(space: Space, how: Resolved, options: Partial<OpenOptions> = {}): Promise<Scene> {
    const strike: { now: (() => void) | null } = { now: null };
    const spies = [NativeBackend.prototype, PortableBackend.prototype].map((backend) => {
      const { openTree } = backend;
      return vi.spyOn(backend, 'openTree').mockImplementation(async function (
        this: Backend,
        given: TreeOptions,
      ): Promise<Tree> {
        const tree = await openTree.call(this as never, { ...given, resolver: how.resolver });
        const apply = tree.apply.bind(tree);
        tree.apply = (request, work) => {
          strike.now?.();
          return apply(request, work);
        };
        return tree;
      });
    });
    try {
      const workspace = await space.open(how.backend, options);
      const { walk } = got(await workspace.capabilities()).capabilities;
      if (how.backend === 'native') expect(walk).toBe(how.resolver === 'auto' ? 'openat2' : 'component');
      return new Scene(space, workspace, strike);
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  }

  get session(): Session {
    return this.workspace.session({ threadId: 's1' });
  }

  /** Runs an operation under watch. What `late` does is done when the plan is made, right before the backend applies it. */
  async watched(run: () => Promise<Receipt>, late?: string): Promise<Receipt> {
    let before = this.looks();
    if (late !== undefined) {
      this.#strike.now = () => {
        this.#strike.now = null;
        this.space.sh(late);
        before = this.looks();
      };
    }
    const receipt = await run();
    expect(this.#strike.now, 'the plan was carried out, so that what is late came between').toBe(null);
    this.check(before, receipt);
    return receipt;
  }

  looks(): Looks {
    return { root: snapshot(this.space.root), outside: this.outside() };
  }

  /** All beside the root, the data directory and the home. */
  outside(): Snapshot {
    const { base, root, dataDir } = this.space;
    const own = new Set([root, dataDir, join(base, 'home')]);
    return snapshot(base, (path) => own.has(join(base, path)));
  }

  /** Only what the receipt calls restored changed, nothing outside did, and each path is told once, with a reason. */
  check(before: Looks, receipt: Receipt): void {
    const after = this.looks();
    expect(kept(after.outside), 'nothing outside the root changed').toEqual(kept(before.outside));
    const written = receipt.restored.map((entry) => encodeName(entry.path).toString('latin1'));
    // One that the system lets nobody take away stays; then the receipt says so.
    const isTemp = (path: string): boolean => path.includes('.takeback-') && path.endsWith('.tmp');
    const temps = [...after.root.keys()].filter(isTemp);
    const owned = [receipt.restored, receipt.failed]
      .flat()
      .filter((entry) => entry.note?.startsWith('a temp file was left'));
    expect(temps.length, 'a temp file that is left is told').toBe(owned.length);
    const changed = differing(before.root, after.root)
      .filter((path) => !isTemp(path))
      .filter((path) => !written.some((w) => w === path || w.startsWith(`${path}/`) || path.startsWith(`${w}/`)));
    expect(changed, 'only restored paths changed').toEqual([]);
    for (const { path, action } of receipt.restored)
      expect(after.root.has(encodeName(path).toString('latin1')), `${action} ${path}`).toBe(action !== 'delete');
    const left = [receipt.refused, receipt.failed, receipt.skipped].flat();
    const all = [...receipt.restored, ...left].map((entry) => entry.path);
    expect(new Set(all).size, 'each path is told once').toBe(all.length);
    expect(
      left.filter((entry) => (entry.reason ?? '') === ''),
      'what was kept has a reason',
    ).toEqual([]);
    const stores = join(this.space.dataDir, 'workspaces');
    const journals = readdirSync(stores).flatMap((store) => readdirSync(join(stores, store, 'journal')));
    expect(journals, 'no journal is left').toEqual([]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.space[Symbol.asyncDispose]();
  }
}

interface Looks {
  readonly root: Snapshot;
  readonly outside: Snapshot;
}

/** All but ctime: that of a hard link moves with its other names. */
function kept(outside: Snapshot): unknown[] {
  return [...outside].map(([path, { ctimeNs: _, ...seen }]) => [path, seen]);
}

/** Path → `restored: recreate`, `failed: walk-failed`, … */
export function told(receipt: Receipt): Record<string, string> {
  const { outcome: _, uncovered: __, ...lists } = digest(receipt);
  return Object.fromEntries(
    Object.entries(lists).flatMap(([list, paths]) =>
      Object.entries(paths as Record<string, string>).map(([path, why]) => [path, `${list}: ${why}`]),
    ),
  );
}

/** What is at a path of the root: text, `-> target`, `dir`, another kind, or null. */
function seen(space: Space, path: string): string | null {
  const file = join(space.root, path);
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  if (stat.isSymbolicLink()) return `-> ${readlinkSync(file)}`;
  if (stat.isDirectory()) return 'dir';
  return stat.isFile() ? readFileSync(file, 'utf8').trimEnd() : 'special';
}
