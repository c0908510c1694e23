/**
 * Where the store lies when the caller names no folder, and the folder of one workspace inside it.
 *
 * Owns names only: makes nothing, reads nothing but the environment that it is given. The layout below a data directory
 * is docs/formats.md's.
 */
import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
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
