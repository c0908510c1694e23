/**
 * Where the store lies when the caller names no folder, the folder of one workspace inside it, and how such folders are made.
 *
 * Reads nothing but the environment that it is given. The layout below a data directory is docs/formats.md's.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { encodeName } from './rel-path.ts';

/** What the default depends on; a seam for tests. */
export interface DataDirHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/**
 * The default data directory: `$XDG_STATE_HOME/takeback` where that variable holds an absolute path (as the XDG base
 * directory specification asks), else the place of the operating system for state that is not settings:
 * `~/Library/Application Support/takeback`, `%LOCALAPPDATA%\takeback`, or `~/.local/state/takeback`.
 */
export function defaultDataDir(
  host: DataDirHost = { env: process.env, platform: process.platform, home: homedir() },
): string {
  const xdg = host.env.XDG_STATE_HOME;
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, 'takeback');
  if (host.platform === 'darwin') return join(host.home, 'Library', 'Application Support', 'takeback');
  if (host.platform === 'win32') {
    return join(host.env.LOCALAPPDATA ?? join(host.home, 'AppData', 'Local'), 'takeback');
  }
  return join(host.home, '.local', 'state', 'takeback');
}

/** Key of a workspace: the first 32 hex digits of SHA-256 of the root's real path, as bytes. */
export function workspaceKey(realRoot: string): string {
  return createHash('sha256').update(encodeName(realRoot)).digest('hex').slice(0, 32);
}

/** Folder of one workspace's timeline, index, segments, journal and trash. */
export function workspaceDir(dataDir: string, realRoot: string): string {
  return join(dataDir, 'workspaces', workspaceKey(realRoot));
}

/**
 * Makes a folder (0700) and those above it that are missing. Node's own recursive mkdir never ends where a file system says
 * ENOENT of a name below a folder that is there, as procfs and automounts do.
 *
 * @throws what the file system says of the first folder that can't be made
 */
export function makeFolders(path: string): void {
  const missing: string[] = [];
  for (let at = path; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at);
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, 0o700);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}
