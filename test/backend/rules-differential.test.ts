/**
 * Random edits of a tree and of its rules, looked at by both backends through the Tree contract: after every look equal
 * changes, uncovered paths, problems, versions and rules snapshots. Prints the seed and the steps of a failure;
 * TAKEBACK_SEED and TAKEBACK_RUNS choose others.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Backend, RuleSources, ScanOptions, ScanResult, Segments, Tree } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { asRelPath } from '../../src/rel-path.ts';
import type { Version } from '../../src/types.ts';
import { availableBackends } from '../kit/backends.ts';

const FIRST = Number(process.env.TAKEBACK_SEED ?? 300);
const RUNS = Number(process.env.TAKEBACK_RUNS ?? 150);
const LOOKS = 7;
const NAMES = ['a', 'b', 'c.log', 'd', 'e.tmp', '.env', 'build', 'x.txt', '.env.ci'];
const RULES = [
  '*.log\n',
  'build/\n',
  '*.tmp\n!e.tmp\n',
  '/a\n',
  '*\n!*/\n!x.txt\n',
  '',
  'd\n',
  '!c.log\n',
  'b/c.log\n',
];
const INCLUDES = [[], ['c.log'], ['build/a'], ['.env.ci']];
const EXCLUDES = [[], ['x.txt'], ['b']];
const MODES = [0o755, 0o700, 0o644, 0o600];

/** Mulberry32: a number below `n`. */
type Random = (n: number) => number;

function randomOf(seed: number): Random {
  let state = (seed * 7919 + 1) >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
  };
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[random(from.length)] as T;
}

/** The tree that both look at, and what was done to it. */
class Scene {
  readonly base: string = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-rules-')));
  readonly root: string = join(this.base, 'root');
  readonly log: string[] = [];
  readonly isRepo: boolean;
  readonly random: Random;
  include: string[] = [];
  exclude: string[] = [];

  constructor(seed: number) {
    this.random = randomOf(seed);
    this.isRepo = this.random(2) === 0;
    mkdirSync(this.root);
    if (this.isRepo) execFileSync('git', ['init', '-q'], { cwd: this.root });
  }

  folders(): string[] {
    const found = [''];
    for (const folder of found) {
      for (const entry of readdirSync(join(this.root, folder), { withFileTypes: true }))
        if (entry.isDirectory() && entry.name !== '.git') found.push(join(folder, entry.name));
    }
    return found.sort();
  }

  somePath(): string {
    return join(pick(this.random, this.folders()), pick(this.random, NAMES));
  }

  act(): void {
    const folder = pick(this.random, this.folders());
    const path = join(folder, pick(this.random, NAMES));
    const full = join(this.root, path);
    const kind = this.random(11);
    const stat = lstatSync(full, { throwIfNoEntry: false });
    if (kind < 3 && stat?.isDirectory() !== true) {
      rmSync(full, { force: true });
      writeFileSync(full, `v${this.random(1000)}`);
      this.log.push(`write ${path}`);
    } else if (kind === 3 || kind === 8) {
      rmSync(full, { recursive: true, force: true });
      if (kind === 8) symlinkSync('a', full);
      this.log.push(`${kind === 3 ? 'rm' : 'ln'} ${path}`);
    } else if ((kind === 4 || kind === 5) && stat === undefined && folder.split('/').length <= 3) {
      mkdirSync(full);
      this.log.push(`mkdir ${path}`);
    } else if (kind === 6) {
      const rules = pick(this.random, RULES);
      writeFileSync(join(this.root, folder, '.gitignore'), rules);
      this.log.push(`rules ${folder} ${JSON.stringify(rules)}`);
    } else if (kind === 7 && stat !== undefined) this.#move(path);
    else if (kind === 9 && stat !== undefined) this.#trackOrChmod(path, stat.isDirectory());
    else if (kind === 10 && folder !== '' && this.random(3) === 0) this.#makeRepository(folder);
  }

  #move(path: string): void {
    const to = this.somePath();
    if (to.startsWith(`${path}/`) || lstatSync(join(this.root, to), { throwIfNoEntry: false }) !== undefined) return;
    renameSync(join(this.root, path), join(this.root, to));
    this.log.push(`mv ${path} ${to}`);
  }

  #trackOrChmod(path: string, isFolder: boolean): void {
    if (!existsSync(join(this.root, path))) return;
    if (this.isRepo && this.random(2) === 0) {
      // In the repository that the path lies in. A nested one without a commit is refused, and stays untracked.
      const cwd = join(this.root, dirname(path));
      const { status } = spawnSync('git', ['add', '-f', '--', basename(path)], { cwd, stdio: 'ignore' });
      this.log.push(`track ${path}: ${status}`);
    } else {
      const mode = pick(this.random, MODES) | (isFolder ? 0o700 : 0);
      chmodSync(join(this.root, path), mode);
      this.log.push(`chmod ${mode.toString(8)} ${path}`);
    }
  }

  /** A nested repository, as far as it takes for one to count; its info/exclude hides a name. */
  #makeRepository(folder: string): void {
    const git = join(this.root, folder, '.git');
    for (const name of ['objects', 'refs', 'info']) mkdirSync(join(git, name), { recursive: true });
    writeFileSync(join(git, 'HEAD'), 'ref: refs/heads/main\n');
    writeFileSync(join(git, 'info', 'exclude'), pick(this.random, RULES));
    this.log.push(`repository ${folder}`);
  }

  /** How the next look is made: a boundary's, one within a turn, or one at few paths. */
  options(isFirst: boolean): ScanOptions {
    const { random, isRepo, root } = this;
    const renews = isFirst || random(3) === 0;
    if (!renews) {
      const only = [...new Set([0, 1, 2].map(() => asRelPath(this.somePath())))];
      return random(5) === 0 ? { only } : {};
    }
    if (random(4) === 0) this.include = pick(random, INCLUDES);
    if (random(4) === 0) this.exclude = pick(random, EXCLUDES);
    const gitDir = join(root, '.git');
    const renewRules: RuleSources = {
      repo: isRepo ? { top: root, gitDir, commonDir: gitDir } : null,
      globalExcludes: null,
      ignoreCase: false,
      include: this.include,
      exclude: this.exclude,
    };
    return { renewRules, hold: random(3) === 0 ? [asRelPath(this.somePath())] : [] };
  }
}

/** One backend's view of a scene. */
class Eye {
  readonly #tree: Tree;
  readonly #segments: Segments;
  #seq = 0;
  #scan: ScanResult | null = null;

  private constructor(tree: Tree, segments: Segments) {
    this.#tree = tree;
    this.#segments = segments;
  }

  static async open(backend: Backend, { base, root }: Scene): Promise<Eye> {
    const data = join(base, backend.kind);
    mkdirSync(data);
    const segments = await backend.openSegments({ dir: join(data, 'segments'), seed: 1n });
    const tree = await backend.openTree({
      root,
      segments,
      indexFile: join(data, 'index'),
      storeId: '1'.repeat(32),
      skip: [],
      maxFileBytes: 1e6,
      maxEntries: 1e4,
      scratchDir: data,
    });
    return new Eye(tree, segments);
  }

  async scan(options: ScanOptions): Promise<void> {
    this.#scan = await this.#tree.scan(options);
  }

  /** Ends the look that `scan` began; what it says then. */
  async finish(): Promise<string[]> {
    const tree = this.#tree;
    const { set, problems } = this.#scan as ScanResult;
    await tree.ingest(set);
    const said = [
      ...(await tree.changes(set)).map((c) => `change ${c.path}: ${show(c.before)} -> ${show(c.after)} ${c.flags}`),
      ...(await tree.uncovered(set)).map(({ path, reason }) => `uncovered ${path} ${reason}`),
      ...problems.map(({ path, kind }) => `problem ${path} ${kind}`),
    ];
    this.#seq++;
    await tree.commit(set, { seq: this.#seq, observationId: String(this.#seq).padStart(32, '0') });
    const paths = await tree.list(asRelPath(''));
    const versions = await tree.versions(paths);
    said.push(...paths.map((path, i) => `version ${path}: ${show(versions[i] as Version)}`));
    said.push(`rules ${JSON.stringify(Buffer.from((await tree.rules()) ?? []).toString('latin1'))}`);
    return said;
  }

  async close(): Promise<void> {
    await this.#tree.close();
    await this.#segments.close();
  }
}

function show(version: Version): string {
  return JSON.stringify(version, (_, value) => (typeof value === 'bigint' ? String(value) : value));
}

describe.skipIf(availableBackends.length < 2)('native and portable', () => {
  let backends: Backend[] = [];
  beforeAll(async () => {
    backends = await Promise.all(availableBackends.map(async (kind) => (await openBackend(kind)).backend));
  });
  afterAll(async () => {
    for (const backend of backends) await backend.close();
  });

  async function differences(seed: number): Promise<string | null> {
    const scene = new Scene(seed);
    const eyes: Eye[] = [];
    try {
      for (const backend of backends) eyes.push(await Eye.open(backend, scene));
      for (let look = 0; look < LOOKS; look++) {
        for (let acts = 2 + scene.random(8); acts > 0; acts--) scene.act();
        const moves = scene.random(4) === 0;
        // Each reads all then: else what was racy to one but not to the other decides which of them sees a move.
        const options = { ...scene.options(look === 0), ...(moves ? { rehash: true } : {}) };
        scene.log.push(`look ${JSON.stringify(options)}`);
        await Promise.all(eyes.map((eye) => eye.scan(options)));
        if (moves) for (let acts = 2; acts > 0; acts--) scene.act();
        scene.log.push('read');
        const [native = [], portable = []] = await Promise.all(eyes.map((eye) => eye.finish()));
        if (native.join() === portable.join()) continue;
        const lacks = (others: readonly string[]) => (line: string) => !others.includes(line);
        const [mine, theirs] = [native.filter(lacks(portable)), portable.filter(lacks(native))];
        return [`seed ${seed}`, ...scene.log, 'native only:', ...mine, 'portable only:', ...theirs].join('\n');
      }
      return null;
    } finally {
      for (const eye of eyes) await eye.close();
      rmSync(scene.base, { recursive: true, force: true });
    }
  }

  test(`say the same of ${RUNS} random trees whose rules change`, { timeout: 600_000 }, async () => {
    const found: string[] = [];
    for (let seed = FIRST; seed < FIRST + RUNS && found.length < 5; seed++) {
      const difference = await differences(seed);
      if (difference !== null) found.push(difference);
    }
    expect(found.join('\n\n')).toBe('');
  });
});
