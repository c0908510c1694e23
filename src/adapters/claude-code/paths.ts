/**
 * Where a hook event belongs on disk: the root of its session, and the paths that an edit tool is about to change.
 * Looks at the file system, changes nothing.
 */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { workspaceDir } from '../../data-dir.ts';

export interface Place {
  /** The folder that the host was started for (CLAUDE_PROJECT_DIR), where it says so. */
  readonly projectDir: string | undefined;
  /** Where the host stands now. */
  readonly cwd: string;
  readonly dataDir: string;
}

/**
 * The root of an event: the host's project folder; else the nearest folder from `cwd` up that has a timeline in the data
 * directory, so that a shell that changed its folder stays in the session's root; else `cwd`. Real path where it exists.
 */
export function rootOf({ projectDir, cwd, dataDir }: Place): string {
  if (projectDir !== undefined && isAbsolute(projectDir)) return realOr(projectDir);
  const start = realOr(cwd);
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(workspaceDir(dataDir, folder), 'timeline.db'))) return folder;
    if (dirname(folder) === folder) return start;
  }
}

function realOr(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}

/** The real path of what is there, or, with the names that are missing behind it, of its nearest folder that is. */
function realOf(path: string): { real: string; missing: readonly string[] } {
  try {
    return { real: realpathSync.native(path), missing: [] };
  } catch {
    const parent = dirname(path);
    if (parent === path) return { real: path, missing: [] };
    const found = realOf(parent);
    return { real: found.real, missing: [...found.missing, path.slice(parent.length).replace(/^[/\\]/, '')] };
  }
}

function inside(root: string, path: string): string | undefined {
  const below = relative(root, path);
  return below === '' || below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below) ? undefined : below;
}

/**
 * What a tool that edits `file` can change below `root` (a real path): the file under the name that was given and under its
 * real one (a link's target, another spelling). Where its folder is missing too, the topmost folder that will be made.
 * Empty: the file lies outside the root, so nothing below it changes.
 */
export function editedPaths(root: string, cwd: string, file: string): string[] {
  const named = resolve(cwd, file);
  const { real, missing } = realOf(named);
  const target = missing.length === 0 ? real : join(real, missing[0] as string);
  const found = [inside(root, target)];
  if (missing.length < 2) found.push(inside(root, named));
  return [...new Set(found.filter((path) => path !== undefined))];
}
