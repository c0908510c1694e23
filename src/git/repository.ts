/**
 * Finds a git repository by its `.git`, read only and without running git. Synchronous: the scan's worker uses it too.
 *
 * Knows `.git` folders, `.git` files (`gitdir:`: linked worktrees, submodules) and `commondir`. Heeds no GIT_* variable.
 */
import { lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

export interface Repository {
  /** The folder that holds `.git`. */
  readonly top: string;
  readonly gitDir: string;
  /** What linked worktrees share; the same as `gitDir` elsewhere. */
  readonly commonDir: string;
}

export type Found =
  | { readonly kind: 'repository'; readonly repository: Repository }
  /** No `.git`, or a folder of that name that is no repository: git looks further up. */
  | { readonly kind: 'none' }
  /** A `.git` file that leads nowhere: git stops there. */
  | { readonly kind: 'broken' }
  /** The folder's names can't be looked at. */
  | { readonly kind: 'unreadable' };

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function commonDirOf(gitDir: string): string {
  try {
    return realpathSync(resolve(gitDir, readFileSync(`${gitDir}/commondir`, 'utf8').trim()));
  } catch {
    return gitDir;
  }
}

/** The common folder of a git folder, or null where it is none. */
function checkGitDir(gitDir: string): string | null {
  try {
    const head = lstatSync(`${gitDir}/HEAD`);
    if (!head.isFile() && !head.isSymbolicLink()) return null;
    const commonDir = commonDirOf(gitDir);
    return isFolder(`${commonDir}/objects`) && isFolder(`${commonDir}/refs`) ? commonDir : null;
  } catch {
    return null;
  }
}

/** Whether a folder is itself a git folder: a bare repository. */
export function isGitDir(folder: string): boolean {
  return checkGitDir(folder) !== null;
}

/** Looks at `<folder>/.git` only. */
export function repositoryAt(folder: string): Found {
  const dotGit = `${folder === '/' ? '' : folder}/.git`;
  let gitDir: string;
  try {
    const stat = statSync(dotGit);
    if (stat.isDirectory()) gitDir = dotGit;
    else if (stat.isFile()) {
      const named = /^gitdir: (.+?)[\r\n]*$/s.exec(readFileSync(dotGit, 'utf8'));
      if (named === null) return { kind: 'broken' };
      gitDir = resolve(folder, named[1] as string);
    } else return { kind: 'none' };
    gitDir = realpathSync(gitDir);
    const commonDir = checkGitDir(gitDir);
    if (commonDir === null) return { kind: stat.isDirectory() ? 'none' : 'broken' };
    return { kind: 'repository', repository: { top: folder, gitDir, commonDir } };
  } catch {
    try {
      return { kind: lstatSync(dotGit, { throwIfNoEntry: false })?.isFile() === true ? 'broken' : 'none' };
    } catch {
      return { kind: 'unreadable' };
    }
  }
}

/** The repository that `root` lies in; stops at the file system's edge, as git does, and at a bare repository. */
export function findRepository(root: string): Repository | null {
  const device = statSync(root, { throwIfNoEntry: false })?.dev;
  for (let folder = root; ; folder = dirname(folder)) {
    if (statSync(folder, { throwIfNoEntry: false })?.dev !== device) return null;
    const found = repositoryAt(folder);
    if (found.kind === 'repository') return found.repository;
    if (found.kind !== 'none' || isGitDir(folder)) return null;
    if (dirname(folder) === folder) return null;
  }
}
