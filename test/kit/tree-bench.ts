/** A backend with one tree on a space, below the engine: what the conformance and differential suites work on. */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type {
  ApplyEntry,
  ApplyOutcome,
  Backend,
  BackendKind,
  IngestOptions,
  IngestResult,
  Position,
  ScanOptions,
  ScanResult,
  Segments,
  Tree,
  TreeOptions,
} from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { ruleSources } from '../../src/git/context.ts';
import { asRelPath } from '../../src/rel-path.ts';
import type { Change, RelPath, Version } from '../../src/types.ts';
import { Space } from './space.ts';

export const STORE_ID = '0123456789abcdef0123456789abcdef';
const SEED = 0x1234_5678_9abc_def0n;

export const newId = (): string => randomBytes(16).toString('hex');

export interface Looked {
  readonly scan: ScanResult;
  readonly ingest: IngestResult;
  readonly changes: readonly Change[];
}

export interface BenchOptions extends Partial<TreeOptions> {
  readonly space?: Space;
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}

export class TreeBench {
  readonly space: Space;
  readonly backend: Backend;
  readonly segments: Segments;
  readonly tree: Tree;
  readonly home: string;
  readonly #options: BenchOptions;
  #seq = 0;

  private constructor(
    options: BenchOptions,
    parts: { space: Space; backend: Backend; segments: Segments; tree: Tree; home: string },
  ) {
    this.#options = options;
    this.space = parts.space;
    this.backend = parts.backend;
    this.segments = parts.segments;
    this.tree = parts.tree;
    this.home = parts.home;
  }

  static async open(kind: BackendKind, setup: string, options: BenchOptions = {}): Promise<TreeBench> {
    const space = options.space ?? new Space();
    if (setup !== '') space.sh(setup);
    const home = join(space.dataDir, 'store');
    for (const name of ['segments', 'journal', 'trash', 'scratch'])
      mkdirSync(join(home, name), { recursive: true, mode: 0o700 });
    const { backend } = await openBackend(kind);
    const segments = await backend.openSegments({ dir: join(home, 'segments'), seed: SEED });
    const { include: _, exclude: __, space: ___, ...given } = options;
    const tree = await backend.openTree({
      root: space.root,
      indexFile: join(home, 'index'),
      storeId: STORE_ID,
      segments,
      skip: [asRelPath('.takeback')],
      maxFileBytes: 1024 * 1024,
      maxEntries: 100_000,
      scratchDir: join(home, 'scratch'),
      ...given,
    });
    if (process.env.TAKEBACK_WATCH === '1') await tree.watch();
    return new TreeBench(options, { space, backend, segments, tree, home });
  }

  /** Another handle on the same root and store, of either kind. The caller closes it. */
  async again(kind: BackendKind, options: Partial<TreeOptions> = {}): Promise<TreeBench> {
    return TreeBench.open(kind, '', { ...this.#options, ...options, space: this.space });
  }

  /** The options of a boundary's scan. */
  async renew(): Promise<ScanOptions> {
    const { include = [], exclude = [] } = this.#options;
    return {
      renewRules: await ruleSources(this.space.root, {
        include,
        exclude,
        home: join(this.space.base, 'home'),
        xdg: '',
      }),
    };
  }

  async look(scan: ScanOptions = {}, ingest: IngestOptions = {}): Promise<Looked> {
    const scanned = await this.tree.scan(scan);
    const ingested = await this.tree.ingest(scanned.set, ingest);
    return { scan: scanned, ingest: ingested, changes: await this.tree.changes(scanned.set) };
  }

  async commit(set: number): Promise<Position> {
    this.#seq += 1;
    const at = { seq: this.#seq, observationId: newId() };
    await this.tree.commit(set, at);
    return at;
  }

  /** One observation: look and commit. `boundary`: with the rules read anew. */
  async observe(kind: 'boundary' | 'look' = 'look', scan: ScanOptions = {}): Promise<Looked & { at: Position }> {
    const looked = await this.look({ ...(kind === 'boundary' ? await this.renew() : {}), ...scan });
    return { ...looked, at: await this.commit(looked.scan.set) };
  }

  async version(path: string): Promise<Version> {
    const [version] = await this.tree.versions([asRelPath(path)]);
    return version as Version;
  }

  async blob(content: string): Promise<Version> {
    const bytes = Buffer.from(content);
    return { kind: 'file', mode: 0o644, size: bytes.length, content: await this.segments.put(bytes) };
  }

  journal(name: string): string {
    return join(this.home, 'journal', `${name}.journal`);
  }

  async apply(
    entries: readonly ApplyEntry[],
    options: { finish?: boolean; durability?: 'full' | 'fast' } = {},
  ): Promise<{ outcomes: readonly ApplyOutcome[]; journal: string }> {
    const operationId = newId();
    const journal = this.journal(operationId);
    const { durability = 'fast' } = options;
    const outcomes = await this.tree.apply({
      operationId,
      journal,
      trash: join(this.home, 'trash'),
      durability,
      entries,
    });
    if (options.finish !== false) await this.tree.finish(journal);
    return { outcomes, journal };
  }

  async close(): Promise<void> {
    await this.tree.close();
    await this.segments.close();
    await this.backend.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    await this.space[Symbol.asyncDispose]();
  }
}

/** Path → what it became, in short: kind, mode or reason. Stat keys and hashes are left out. */
export function brief(changes: readonly Change[]): Record<string, string> {
  return Object.fromEntries(
    changes.map(({ path, before, after, flags }) => [
      path,
      `${text(before)} → ${text(after)}${flags === 0 ? '' : ` ${flags}`}`,
    ]),
  );
}

export function text(version: Version): string {
  switch (version.kind) {
    case 'file':
      return `file ${version.mode.toString(8)} ${version.size}`;
    case 'dir':
      return `dir ${version.mode.toString(8)}`;
    case 'symlink':
      return `link ${version.target}`;
    case 'special':
      return version.type;
    case 'uncovered':
      return version.reason;
    default:
      return version.kind;
  }
}

export const rel = (path: string): RelPath => asRelPath(path);
