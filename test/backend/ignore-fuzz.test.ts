/**
 * Ignore rules against git itself: seeded random trees with nested rule files, negation, braces, sets, escapes, trailing
 * spaces, info/exclude, global excludes, tracked files, roots below the repository's top, and nested repositories.
 * Git's own list of files that aren't ignored, tracked ones added, must be what a scan covers. Runs on each backend.
 */
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Backend, Segments } from '../../src/backend/backend.ts';
import { ruleSources } from '../../src/git/context.ts';
import { encodeName } from '../../src/rel-path.ts';
import { backendMakers, git } from './tree-kit.ts';

const TREES = 340;
const SEED = 20_261_130;

/** Mulberry32: small, seeded, good enough to make trees. */
class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = seed;
  }
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n: number): number {
    return Math.floor(this.next() * n);
  }
  chance(p: number): boolean {
    return this.next() < p;
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

const FOLDERS = ['a', 'b', 'build', 'foo', 'src', 'Foo', 'x y', '{a,b}', 'é'];
const FILES = [
  'a', 'b', 'foo', 'bar.c', 'bar.o', 'foo.c', 'FOO', 'x y', 'build', '{a,b}', 'a.b.c', '#hash', '!bang', 'tail ', 'back\\slash',
  'é.txt', 'star*', '[x]', '-', 'z9', 'keep.log', 'file~', 'x.', '.hidden', 'a]', 'Bar.C',
] as const; // biome-ignore format: a table
const ATOMS = [
  'a', 'b', 'foo', 'build', 'src', '*', '**', '?', '*.c', '*.o', '*.[co]', 'fo?', '[ab]', '[!a]', '[^b]*', '[a-z]*', '[[:upper:]]*', '{a,b}', '*.{c,o}',
  'x y', 'x\\ y', '\\#hash', '\\!bang', '#hash', 'back\\\\slash', 'star\\*', '\\[x\\]', '[]-]', '[a-]', '[x', 'tail\\ ', 'é*', '*é*', '.*', 'f*o', '*a*', 'z[0-9]',
  'keep.log', '*~', '[[:alpha:]]*', '[[:bad:]]', 'a\\', 'Foo', '[\\]a]*', 'a]', '*.*.c', '??', 'b*r.[!o]',
] as const; // biome-ignore format: a table

function pattern(dice: Dice): string {
  const length = dice.chance(0.6) ? 1 : 1 + dice.below(3);
  const body = Array.from({ length }, () => dice.pick(ATOMS)).join('/');
  const line = `${dice.chance(0.25) ? '!' : ''}${dice.chance(0.25) ? '/' : ''}${body}${dice.chance(0.3) ? '/' : ''}`;
  return `${line}${dice.chance(0.08) ? '  ' : ''}${dice.chance(0.04) ? '\t' : ''}${dice.chance(0.08) ? '\r' : ''}`;
}

function ruleFile(dice: Dice): string {
  const lines = Array.from({ length: 1 + dice.below(5) }, () => (dice.chance(0.06) ? '# note' : pattern(dice)));
  if (dice.chance(0.3)) lines.unshift('*');
  if (dice.chance(0.2)) lines.push('!*/');
  return `${dice.chance(0.05) ? '\ufeff' : ''}${lines.join('\n')}${dice.chance(0.7) ? '\n' : ''}`;
}

/** False where the name is a folder already. */
function put(root: string, path: string, content: string): boolean {
  try {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
    return true;
  } catch {
    return false;
  }
}

interface Made {
  readonly top: string;
  readonly home: string;
  /** From the top; '' for the top itself. */
  readonly rootBelow: string;
  readonly nested: string | null;
  /** Paths of all files, rule files included. */
  readonly files: readonly string[];
  readonly ignoreCase: boolean;
}

/** @param empty a `.git` without commits, to be copied: quicker than a process for each */
function makeTree(dice: Dice, base: string, empty: string): Made {
  const top = join(base, 'top');
  const home = join(base, 'home');
  mkdirSync(home, { recursive: true });
  cpSync(empty, join(top, '.git'), { recursive: true });
  const folders = [''];
  for (let i = 0; i < 7; i++) folders.push(join(dice.pick(folders), dice.pick(FOLDERS)));
  for (const folder of folders) mkdirSync(join(top, folder), { recursive: true });
  const files = new Set<string>();
  const add = (path: string, content: string): void => {
    if (put(top, path, content)) files.add(path);
  };
  for (const folder of folders) {
    for (let i = 0; i < 4; i++) add(join(folder, dice.pick(FILES)), 'x');
    if (dice.chance(folder === '' ? 0.8 : 0.35)) add(join(folder, '.gitignore'), ruleFile(dice));
  }
  if (dice.chance(0.4)) put(top, '.git/info/exclude', ruleFile(dice));
  if (dice.chance(0.4)) put(home, '.config/git/ignore', ruleFile(dice));
  const ignoreCase = dice.chance(0.2);
  if (ignoreCase) appendFileSync(join(top, '.git/config'), '[core]\n\tignorecase = true\n');
  let nested: string | null = null;
  const inner = folders[1 + dice.below(folders.length - 1)] as string;
  if (dice.chance(0.25)) {
    cpSync(empty, join(top, inner, '.git'), { recursive: true });
    if (ignoreCase) appendFileSync(join(top, inner, '.git/config'), '[core]\n\tignorecase = true\n');
    if (dice.chance(0.5)) put(top, join(inner, '.git/info/exclude'), ruleFile(dice));
    nested = inner;
  }
  const rootBelow = nested === null && dice.chance(0.2) ? inner : '';
  return { top, home, rootBelow, nested, files: [...files], ignoreCase };
}

/** Adds some files of the tree to git's index, ignored ones too. Not with core.ignoreCase: git then respells folders. */
function track(dice: Dice, { top, home, nested, files, ignoreCase }: Made): void {
  const picked = files.filter((path) => (nested === null || !path.startsWith(`${nested}/`)) && dice.chance(0.12));
  if (picked.length === 0 || ignoreCase) return;
  git(top, home, 'add', '-f', '--', ...picked.map((path) => `:(literal)${path}`));
  if (dice.chance(0.3)) git(top, home, 'update-index', '--index-version', '4');
  if (dice.chance(0.2)) git(top, home, 'update-index', '--split-index');
}

const lines = (text: string): string[] => text.split('\0').filter((path) => path !== '');

/** What git calls neither ignored nor of no account, as byte strings from the root. */
function byGit({ top, home, rootBelow, nested }: Made): string[] {
  const prefix = rootBelow === '' ? '' : `${Buffer.from(rootBelow).toString('latin1')}/`;
  const outer = lines(git(top, home, 'ls-files', '-c', '-o', '--exclude-standard', '-z'));
  const found = outer.filter((path) => !path.endsWith('/'));
  if (nested !== null) {
    const name = Buffer.from(nested).toString('latin1');
    if (outer.includes(`${name}/`)) {
      found.push(
        ...lines(git(join(top, nested), home, 'ls-files', '-c', '-o', '--exclude-standard', '-z')).map(
          (path) => `${name}/${path}`,
        ),
      );
    }
  }
  return found.filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
}

const makers = await backendMakers();

describe.each(makers)('ignore rules, %s backend', (_, make) => {
  let base: string;
  let empty: string;
  let backend: Backend;
  let segments: Segments;

  beforeAll(async () => {
    base = realpathSync(mkdtempSync(join(tmpdir(), 'tb-fuzz-')));
    mkdirSync(join(base, 'seed'));
    git(join(base, 'seed'), base, 'init', '-q', '--template=');
    empty = join(base, 'seed', '.git');
    backend = await make();
    segments = await backend.openSegments({ dir: join(base, 'segments'), seed: 1n });
  });
  afterAll(async () => {
    await segments.close();
    await backend.close();
    rmSync(base, { recursive: true, force: true });
  });

  /** Null: the root itself is hidden from above, where git has nothing to say of what is in it. */
  async function covered(made: Made): Promise<string[] | null> {
    const root = join(made.top, made.rootBelow);
    const tree = await backend.openTree({
      root,
      indexFile: join(base, 'index'),
      storeId: '0'.repeat(32),
      segments,
      skip: [],
      maxFileBytes: 1 << 20,
      maxEntries: 100_000,
      scratchDir: base,
    });
    const sources = await ruleSources(root, { home: made.home, xdg: '', system: join(made.home, 'none') });
    const { set, problems } = await tree.scan({ renewRules: sources });
    await tree.ingest(set, { hashOnly: true });
    const changes = await tree.changes(set);
    await tree.close();
    if (problems.some(({ kind }) => kind === 'root-ignored')) return null;
    return changes
      .filter(({ after }) => after.kind === 'file' || after.kind === 'symlink')
      .map(({ path }) => encodeName(path).toString('latin1'));
  }

  test(`covers what git does in ${TREES} random trees`, { timeout: 180_000 }, async () => {
    const wrong: string[] = [];
    let hidden = 0;
    for (let i = 0; i < TREES; i++) {
      const dice = new Dice(SEED + i);
      const folder = join(base, `t${i}`);
      const made = makeTree(dice, folder, empty);
      track(dice, made);
      const ours = (await covered(made))?.sort() ?? null;
      const theirs = [...new Set(byGit(made))].sort();
      if (ours === null) {
        hidden++;
        const untracked = lines(git(made.top, made.home, 'ls-files', '-o', '--exclude-standard', '-z', made.rootBelow));
        if (untracked.length > 0) wrong.push(`seed ${SEED + i}: git doesn't hide the root ${made.rootBelow}`);
        rmSync(folder, { recursive: true, force: true });
        continue;
      }
      if (JSON.stringify(ours) !== JSON.stringify(theirs)) {
        const more = ours.filter((path) => !theirs.includes(path));
        const less = theirs.filter((path) => !ours.includes(path));
        wrong.push(
          `seed ${SEED + i} (root ${made.rootBelow || '.'}): we cover ${more.join(', ') || 'none'}; git has ${less.join(', ') || 'none'} more`,
        );
        if (process.env.TAKEBACK_KEEP === '1') continue;
      }
      rmSync(folder, { recursive: true, force: true });
    }
    expect(wrong).toEqual([]);
    expect(TREES - hidden, 'trees that were compared').toBeGreaterThanOrEqual(300);
  });
});
