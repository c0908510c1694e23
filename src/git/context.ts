/**
 * Where a root stands in git: the rule sources that the backends read (DESIGN §4.2), and what HEAD is.
 *
 * Reads config files and refs itself; runs no git, writes nothing, heeds no GIT_* variable. A dozen small reads, done at
 * once. Does not cover: `core.worktree`, reftable (HEAD is then told by its contents alone), config that only an
 * environment variable or a command line sets.
 */
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import type { RuleSources } from '../backend/backend.ts';
import { asBoolean, type ConfigContext, type ConfigEntry, configPath, lastValue, readConfigFile } from './config.ts';
import { findRepository, type Repository } from './repository.ts';

export interface RuleSourcesOptions {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** Default: the user's home folder. */
  readonly home?: string;
  /** Default: $XDG_CONFIG_HOME. Empty: `.config` in the home folder. */
  readonly xdg?: string;
  /** Default: `/etc/gitconfig`. */
  readonly system?: string;
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

function branchOf(repository: Repository | null): string | null {
  if (repository === null) return null;
  const head = readText(join(repository.gitDir, 'HEAD'))?.trim();
  return head?.startsWith('ref: refs/heads/') === true ? head.slice('ref: refs/heads/'.length) : null;
}

/** What git's config says of a repository, or of none, in the order in which it counts. */
export function readConfig(repository: Repository | null, files: readonly string[], home: string): ConfigEntry[] {
  const context: ConfigContext = { home, gitDir: repository?.gitDir ?? null, branch: branchOf(repository) };
  const entries = files.flatMap((file) => readConfigFile(file, context));
  if (repository === null) return entries;
  const own = readConfigFile(join(repository.commonDir, 'config'), context);
  if (asBoolean(lastValue(own, 'extensions.worktreeconfig')) !== true) return [...entries, ...own];
  return [...entries, ...own, ...readConfigFile(join(repository.gitDir, 'config.worktree'), context)];
}

/** A `.git` that says of itself that it has no worktree. A linked worktree of a bare repository has one. */
function isBare(repository: Repository | null, entries: readonly ConfigEntry[]): boolean {
  return repository?.gitDir === repository?.commonDir && asBoolean(lastValue(entries, 'core.bare')) === true;
}

/**
 * True where a folder above the file can't be entered: as for git, there are no global rules then. (A process that runs
 * as another user than its HOME's is the usual case.)
 */
function isOutOfReach(file: string | null): boolean {
  if (file === null) return false;
  try {
    lstatSync(file);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES';
  }
}

/** The user's home, the folder of git's files in it, and the config files of system and user. */
export function userFiles(options: RuleSourcesOptions = {}): { home: string; xdg: string; files: string[] } {
  const home = options.home ?? homedir();
  const xdgHome = options.xdg ?? process.env.XDG_CONFIG_HOME ?? '';
  const xdg = join(xdgHome === '' ? join(home, '.config') : xdgHome, 'git');
  return { home, xdg, files: [options.system ?? '/etc/gitconfig', join(xdg, 'config'), join(home, '.gitconfig')] };
}

/**
 * Where ignore rules come from for a root: its repository (none for a bare or broken one), the user's global excludes,
 * `core.ignoreCase`, and the caller's own lines.
 *
 * @param root absolute real path
 */
export async function ruleSources(root: string, options: RuleSourcesOptions = {}): Promise<RuleSources> {
  const { home, xdg, files } = userFiles(options);
  const found = findRepository(root);
  const config = readConfig(found, files, home);
  const repo = found === null || isBare(found, config) ? null : found;
  const entries = repo === found ? config : readConfig(null, files, home);
  const named = lastValue(entries, 'core.excludesfile');
  const globalExcludes =
    typeof named === 'string' ? configPath(named, repo?.top ?? dirname(root), home) : join(xdg, 'ignore');
  return {
    repo: repo === null ? null : { top: repo.top, gitDir: repo.gitDir, commonDir: repo.commonDir },
    globalExcludes: isOutOfReach(globalExcludes) ? null : globalExcludes,
    ignoreCase: asBoolean(lastValue(entries, 'core.ignorecase')) ?? false,
    include: options.include ?? [],
    exclude: options.exclude ?? [],
  };
}

function packedRef(commonDir: string, ref: string): string | null {
  const line = readText(join(commonDir, 'packed-refs'))
    ?.split('\n')
    .find((text) => text.endsWith(` ${ref}`) && !text.startsWith('#'));
  return line === undefined ? null : (line.split(' ')[0] as string);
}

function resolveRef(repository: Repository, name: string): string | null {
  let ref = name;
  for (let hops = 0; hops < 5; hops++) {
    const text = readText(join(repository.gitDir, ref)) ?? readText(join(repository.commonDir, ref));
    if (text === null) return packedRef(repository.commonDir, ref);
    const value = text.trim();
    if (!value.startsWith('ref: ')) return value;
    ref = value.slice('ref: '.length);
  }
  return null;
}

/**
 * Contents of HEAD, and the commit that it leads to, as one text; equal texts mean that neither moved. Null without a
 * repository, or where HEAD can't be read.
 */
export async function headState(sources: RuleSources): Promise<string | null> {
  const { repo } = sources;
  if (repo === null || !existsSync(join(repo.gitDir, 'HEAD'))) return null;
  const head = readText(join(repo.gitDir, 'HEAD'))?.trim();
  if (head === undefined) return null;
  if (!head.startsWith('ref: ')) return head;
  return `${head} ${resolveRef(repo, head.slice('ref: '.length)) ?? 'unborn'}`;
}
