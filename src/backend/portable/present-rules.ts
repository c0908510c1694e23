/**
 * The rules that are on disk now. A boundary's scan passes each folder that it enters, and what was read on the way is
 * the next snapshot; within a turn nothing is read before a new name needs it.
 *
 * Rule files inside the tree are not followed where they are links (git doesn't either). A file that is there and can't
 * be read makes the names below it `blind`, and a problem.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { repositoryAt } from '../../git/repository.ts';
import { asRelPath, decodeName } from '../../rel-path.ts';
import type { Problem } from '../../types.ts';
import { encodePaths } from '../../wire.ts';
import type { RuleSources } from '../backend.ts';
import { fsPath } from './coverage.ts';
import { errnoOf } from './faults.ts';
import { readTrackedPaths, type TrackedPaths } from './git-index.ts';
import { cutOf, encodeSources, type FrozenRules, folderOf, Rules, Snapshot, type Source } from './rules.ts';

/** Git reads no pattern file above this many bytes. */
const LARGEST = 100 << 20;
const MISSING: readonly (string | undefined)[] = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EISDIR'];

/** What a scan knows of a folder's names, to save looks at files that aren't there. */
export interface FolderHints {
  readonly hasIgnore: boolean;
  readonly hasGit: boolean;
}

function toName(bytes: string): string {
  return decodeName(Buffer.from(bytes, 'latin1'));
}

export class PresentRules extends Rules {
  readonly problems: Problem[] = [];
  readonly #root: string;
  readonly #read = new Snapshot();
  /** Keys asked for, so that each file is read once. */
  readonly #asked = new Map<string, Source>();
  readonly #gitDirs = new Map<string, string>();
  readonly #indexes = new Map<string, TrackedPaths | 'damaged'>();
  readonly #hints = new Map<string, FolderHints>();

  constructor(sources: RuleSources, root: string) {
    super(sources, root);
    this.#root = root;
    this.#read.set('sources', encodeSources(sources));
    if (sources.repo !== null) this.#gitDirs.set('', sources.repo.gitDir);
  }

  /** Tells what names a folder has, before it is asked for. */
  hint(folder: string, hints: FolderHints): void {
    this.#hints.set(folder, hints);
  }

  #file(path: string | Buffer, follow: boolean, of: { key: string; folder: string }): Source {
    try {
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | (follow ? 0 : constants.O_NOFOLLOW));
      try {
        const stat = fstatSync(fd);
        if (!stat.isFile()) return null;
        if (stat.size > LARGEST) throw new Error('larger than 100 MiB');
        return readFileSync(fd);
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      if (MISSING.includes(errnoOf(error))) return null;
      const detail = `the ignore rules ${JSON.stringify(toName(of.key))} can't be read: ${(error as Error).message}`;
      this.problems.push({ path: asRelPath(toName(of.folder)), kind: 'unreadable-rules', detail });
      return 'unreadable';
    }
  }

  #open(key: string, folder: string): Source {
    const { repo, globalExcludes } = this.sources;
    if (key === 'global') return globalExcludes === null ? null : this.#file(globalExcludes, true, { key, folder });
    if (key === 'info')
      return repo === null ? null : this.#file(`${repo.commonDir}/info/exclude`, true, { key, folder });
    if (this.#hints.get(folder)?.hasIgnore === false && key === `top:${this.full(folder)}`) return null;
    const full = toName(key.slice('top:'.length));
    const top = repo === null ? this.#root : repo.top;
    return this.#file(fsPath(top, full === '' ? '.gitignore' : `${full}/.gitignore`), false, { key, folder });
  }

  protected override source(key: string, folder: string): Source {
    let source = this.#asked.get(key);
    if (source === undefined) {
      source = this.#open(key, folder);
      this.#asked.set(key, source);
      this.#read.set(key, source);
    }
    return source;
  }

  protected override nested(folder: string): Source {
    if (this.#hints.get(folder)?.hasGit === false) return null;
    const name = toName(folder);
    if (!name.isWellFormed()) return null;
    const found = repositoryAt(`${this.#root}/${name}`);
    const key = `info:${folder}`;
    if (found.kind === 'unreadable') {
      const detail = "whether it is a git repository can't be looked at";
      this.problems.push({ path: asRelPath(name), kind: 'unreadable-rules', detail });
      this.#read.set(key, 'unreadable');
      return 'unreadable';
    }
    if (found.kind !== 'repository') return null;
    this.#gitDirs.set(folder, found.repository.gitDir);
    const info = this.#file(`${found.repository.commonDir}/info/exclude`, true, { key, folder }) ?? Buffer.alloc(0);
    this.#read.set(key, info);
    return info;
  }

  #index(repo: string): TrackedPaths | 'damaged' | null {
    const gitDir = this.#gitDirs.get(repo);
    if (gitDir === undefined) return null;
    let index = this.#indexes.get(repo);
    if (index === undefined) {
      try {
        index = readTrackedPaths(gitDir);
      } catch (error) {
        index = 'damaged';
        const detail = `git's index can't be read, so that it isn't known what is tracked: ${(error as Error).message}`;
        this.problems.push({ path: asRelPath(toName(repo)), kind: 'unreadable-rules', detail });
      }
      this.#indexes.set(repo, index);
    }
    return index;
  }

  /** A path of the root as its repository has it. */
  #inRepo(path: string, repo: string): string {
    return repo === '' ? this.full(path) : path.slice(cutOf(repo));
  }

  protected override tracks(path: string, isDir: boolean, repo: string): boolean {
    const index = this.#index(repo);
    return index !== null && index !== 'damaged' && index.tracks(this.#inRepo(path, repo), isDir);
  }

  protected override isSubmodule(path: string, repo: string): boolean {
    const index = this.#index(repo);
    return index !== null && index !== 'damaged' && index.isSubmodule(this.#inRepo(path, repo));
  }

  /** Whether git's index of the repository that holds `path` could not be read: verdicts then stay as they are. */
  indexDamaged(path: string): boolean {
    return this.#index(this.folder(folderOf(path)).repo) === 'damaged';
  }

  /** Whether git tracks a name that a rule hides. */
  isTracked(path: string, isDir: boolean): boolean {
    const { repo } = this.folder(folderOf(path));
    return isDir ? this.isSubmodule(path, repo) : this.tracks(path, false, repo);
  }

  /** Whether what holds for all of the tree is what `frozen` has: options, and the rule files outside the root. */
  sameAbove(frozen: FrozenRules): boolean {
    const options = (of: RuleSources): string => JSON.stringify([of.ignoreCase, of.include, of.exclude]);
    if (options(this.sources) !== options(frozen.sources) || this.fullRoot !== frozen.fullRoot) return false;
    this.folder('');
    const keys = ['global', 'info', ...this.foldersAbove().map((folder) => `top:${folder}`)];
    return keys.every((key) => this.#read.same(key, frozen.snapshot));
  }

  /** Reads what a folder adds; whether `frozen` has the same of it. */
  sameIn(folder: string, frozen: FrozenRules | null): boolean {
    this.folder(folder);
    if (frozen === null) return false;
    return [`top:${this.full(folder)}`, `info:${folder}`].every((key) => this.#read.same(key, frozen.snapshot));
  }

  /** What was read, as the next frozen rules; folders that could not be entered keep what `before` has of them. */
  freeze(tracked: readonly string[], before: { rules: FrozenRules | null; keep: readonly string[] }): Buffer {
    const entries = new Map(this.#read.entries);
    for (const folder of before.keep) {
      const marks = [`top:${this.full(folder)}`, `info:${folder}`];
      for (const [key, source] of before.rules?.snapshot.entries ?? []) {
        const bare = key.startsWith('unreadable:') ? key.slice('unreadable:'.length) : key;
        if (!entries.has(key) && marks.some((mark) => bare === mark || bare.startsWith(`${mark}/`)))
          entries.set(key, source);
      }
    }
    if (tracked.length > 0) entries.set('tracked', encodePaths(tracked));
    return new Snapshot(entries).encode();
  }
}
