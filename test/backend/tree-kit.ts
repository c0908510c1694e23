/** A tree of one backend over a temp folder, for suites that run on every backend that is there. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Backend, RuleSources, ScanOptions, Segments, Tree, TreeOptions } from '../../src/backend/backend.ts';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { asRelPath } from '../../src/rel-path.ts';
import type { Change, Version } from '../../src/types.ts';

export const NO_SOURCES: RuleSources = {
  repo: null,
  globalExcludes: null,
  ignoreCase: false,
  include: [],
  exclude: [],
};

/** Backends by name. The native one joins where its module can be loaded. */
export async function backendMakers(): Promise<[string, () => Promise<Backend>][]> {
  const makers: [string, () => Promise<Backend>][] = [['portable', async () => new PortableBackend()]];
  const open = '../../src/backend/open.ts';
  try {
    const { openBackend } = (await import(/* @vite-ignore */ open)) as {
      openBackend: (kind: 'native') => Promise<{ backend: Backend }>;
    };
    await (await openBackend('native')).backend.close();
    makers.push(['native', async () => (await openBackend('native')).backend]);
  } catch (error) {
    if (process.env.TAKEBACK_REQUIRE_NATIVE === '1') throw error;
  }
  return makers;
}

/** A git that knows nothing of the machine's own config. */
export function git(cwd: string, home: string, ...args: string[]): string {
  return execFileSync('git', args, {
    cwd,
    encoding: 'latin1',
    maxBuffer: 1 << 26,
    env: {
      PATH: process.env.PATH,
      HOME: home,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@a',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@a',
    },
  });
}

export class TreeKit {
  readonly base: string;
  readonly root: string;
  readonly data: string;
  readonly backend: Backend;
  segments!: Segments;
  tree!: Tree;
  seq = 0;

  private constructor(base: string, backend: Backend) {
    this.base = base;
    this.root = join(base, 'root');
    this.data = join(base, 'data');
    this.backend = backend;
  }

  static async make(backend: Backend, options: Partial<TreeOptions> = {}): Promise<TreeKit> {
    const kit = new TreeKit(realpathSync(mkdtempSync(join(tmpdir(), 'tb-tree-'))), backend);
    mkdirSync(kit.root);
    mkdirSync(join(kit.data, 'scratch'), { recursive: true });
    kit.segments = await backend.openSegments({ dir: join(kit.data, 'segments'), seed: 7n });
    await kit.reopen(options);
    return kit;
  }

  async reopen(options: Partial<TreeOptions> = {}): Promise<void> {
    this.tree = await this.backend.openTree({
      root: this.root,
      indexFile: join(this.data, 'index'),
      storeId: '00112233445566778899aabbccddeeff',
      segments: this.segments,
      skip: [],
      maxFileBytes: 1 << 20,
      maxEntries: 100_000,
      scratchDir: join(this.data, 'scratch'),
      ...options,
    });
  }

  write(path: string, content: string | Buffer = `${path}\n`): void {
    const file = join(this.root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }

  /** One whole observation: scan, ingest, commit. */
  async observe(options: ScanOptions = {}): Promise<{ changes: Change[]; scan: Awaited<ReturnType<Tree['scan']>> }> {
    const scan = await this.tree.scan(options);
    await this.tree.ingest(scan.set);
    const changes = await this.tree.changes(scan.set);
    this.seq++;
    await this.tree.commit(scan.set, this.position());
    return { changes, scan };
  }

  /** A boundary's observation. */
  boundary(options: Partial<RuleSources> & { hold?: string[] } = {}): ReturnType<TreeKit['observe']> {
    const { hold = [], ...sources } = options;
    return this.observe({ renewRules: { ...NO_SOURCES, ...sources }, hold: hold.map(asRelPath) });
  }

  position(): { seq: number; observationId: string } {
    return { seq: this.seq, observationId: this.seq.toString(16).padStart(32, '0') };
  }

  /** Waits until what was written so far is older than the tick of the file system's clock. */
  settle(): void {
    const probe = join(this.data, 'scratch', 'settle');
    writeFileSync(probe, '');
    const start = statSync(probe, { bigint: true }).mtimeNs;
    do writeFileSync(probe, 'x');
    while (statSync(probe, { bigint: true }).mtimeNs < start + 15_000_000n);
  }

  async close(): Promise<void> {
    await this.tree.close();
    await this.segments.close();
    await this.backend.close();
    rmSync(this.base, { recursive: true, force: true });
  }
}

/** A change in one short text, for literal expectations. */
export function told(change: Change): string {
  const flags = change.flags === 0 ? '' : ` flags ${change.flags}`;
  return `${change.path}: ${toldVersion(change.before)} -> ${toldVersion(change.after)}${flags}`;
}

export function toldVersion(version: Version): string {
  switch (version.kind) {
    case 'file':
      return `file ${version.size}`;
    case 'symlink':
      return `link ${version.target}`;
    case 'special':
      return version.type;
    case 'uncovered':
      return `uncovered ${version.reason}`;
    default:
      return version.kind;
  }
}
