/** A temp folder with a root, a data directory and a home of its own; and a shell in it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { BackendKind } from '../../src/backend/backend.ts';
import { type OpenOptions, openWorkspace, type Workspace } from '../../src/index.ts';

export interface SpaceOptions {
  /** Where the temp folder is made. Default: the OS's. */
  readonly parent?: string;
  /** Name of the root in it. */
  readonly root?: string;
  /** The data directory, relative to the temp folder. */
  readonly dataDir?: string;
}

export class Space {
  readonly base: string;
  readonly root: string;
  readonly dataDir: string;
  readonly #open = new Set<Workspace>();

  constructor(options: SpaceOptions = {}) {
    this.base = realpathSync(mkdtempSync(join(options.parent ?? tmpdir(), 'takeback-test-')));
    this.root = join(this.base, options.root ?? 'w');
    this.dataDir = join(this.base, options.dataDir ?? 'data');
    mkdirSync(this.root, { recursive: true });
    mkdirSync(join(this.base, 'home'));
  }

  /** Git's identity and no configuration but ours; every test's shell is the same. */
  get env(): NodeJS.ProcessEnv {
    return {
      PATH: process.env.PATH,
      HOME: join(this.base, 'home'),
      LC_ALL: 'C.UTF-8',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: 'test',
      GIT_AUTHOR_EMAIL: 'test@example.org',
      GIT_COMMITTER_NAME: 'test',
      GIT_COMMITTER_EMAIL: 'test@example.org',
    };
  }

  /** Runs a shell command in the root; throws with its output where it fails. Answers stdout. */
  sh(command: string, options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}): string {
    const run = spawnSync('bash', ['-c', command], {
      cwd: options.cwd ?? this.root,
      env: { ...this.env, ...options.env },
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    });
    if (run.status !== 0) throw new Error(`exit ${run.status}: ${command}\n${run.stdout}${run.stderr}`);
    return run.stdout;
  }

  git(...args: string[]): string {
    return execFileSync('git', args, { cwd: this.root, env: this.env, encoding: 'utf8' });
  }

  write(path: string, content: string | Uint8Array, mode?: number): void {
    const file = join(this.root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content, mode === undefined ? {} : { mode });
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), 'utf8');
  }

  /** Bytes as latin1 text; null where there is nothing. */
  bytes(path: string): string | null {
    const file = join(this.root, path);
    return existsSync(file) ? readFileSync(file, 'latin1') : null;
  }

  exists(path: string): boolean {
    return existsSync(join(this.root, path));
  }

  /** Opens the workspace and fails the test where it isn't available. `fast` by default: tests don't cut the power. */
  async open(backend: BackendKind, options: Partial<OpenOptions> = {}): Promise<Workspace> {
    const workspace = await openWorkspace({
      root: this.root,
      dataDir: this.dataDir,
      backend,
      durability: 'fast',
      ...(process.env.TAKEBACK_WATCH === '1' ? { watch: true } : {}),
      ...options,
    });
    if (!workspace.available) throw new Error(`not available: ${workspace.reason}: ${workspace.detail}`);
    this.#open.add(workspace);
    return workspace;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const workspace of this.#open) await workspace.close();
    spawnSync('chmod', ['-R', 'u+rwX', this.base]);
    // Node's own can't remove what lies deeper than PATH_MAX.
    spawnSync('rm', ['-rf', this.base]);
  }
}
