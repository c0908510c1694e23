/**
 * The files of sessions that are gone: the folder of one session, and the folders that no session owns.
 *
 * Deletes only what `offloadHook` makes: below a `tool_results` that holds its `.gitignore`, folders by their safe names. No
 * link is followed. A fault is an answer: it names the path, and the rest goes on.
 */
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, type HeldFolder, openChild, openContained, removeContained } from '../hooks/contained.ts';
import { isSafeName, safeName } from '../hooks/safe-name.ts';

/** Outputs, and temp files that a kill left. */
const OUTPUT = /^[A-Za-z0-9_~-]+(\.\d+)?\.txt$|^\.[0-9a-f]{16}\.tmp$/;

export interface FileProblem {
  /** Absolute. */
  readonly path: string;
  readonly detail: string;
}

export interface RemovedFiles {
  /** Folders that were removed, absolute. */
  readonly removed: readonly string[];
  readonly problems: readonly FileProblem[];
}

/** Removes the folder of one session, where there is one. */
export function removeSessionFiles(resultsDir: string, sessionId: string): Promise<RemovedFiles> {
  return removeFolders(resultsDir, { names: async () => [safeName(sessionId)], goes: async () => true });
}

/** Removes folders that none of `sessionIds` owns, and in which nothing changed since `before` (milliseconds). */
export function removeUnowned(
  resultsDir: string,
  { sessionIds, before }: { sessionIds: readonly string[]; before: number },
): Promise<RemovedFiles> {
  const owned = new Set(sessionIds.map(safeName));
  return removeFolders(resultsDir, {
    names: async (folder) => {
      if (!(await isOurs(folder))) throw new Error('it has no .gitignore of offloadHook: nothing in it was removed');
      return (await readdir(folder.at())).filter((name) => isSafeName(name) && !owned.has(name));
    },
    goes: async (folder, name) => (await lastChange(folder, name)) < before,
  });
}

async function removeFolders(
  resultsDir: string,
  choice: {
    names: (folder: HeldFolder) => Promise<string[]>;
    goes: (folder: HeldFolder, name: string) => Promise<boolean>;
  },
): Promise<RemovedFiles> {
  const removed: string[] = [];
  const problems: FileProblem[] = [];
  let folder: HeldFolder | undefined;
  try {
    folder = await openContained(resultsDir, []);
    for (const name of await choice.names(folder)) {
      try {
        if ((await choice.goes(folder, name)) && (await removeContained(folder, name)))
          removed.push(join(resultsDir, name));
      } catch (error) {
        problems.push({ path: join(resultsDir, name), detail: detailOf(error) });
      }
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') problems.push({ path: resultsDir, detail: detailOf(error) });
  } finally {
    await folder?.close();
  }
  return { removed, problems };
}

async function isOurs(folder: HeldFolder): Promise<boolean> {
  try {
    return (await readFile(folder.at('.gitignore'), 'utf8')) === '*\n';
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * When a session's folder, or a file in it, last changed.
 *
 * @throws where it holds anything but outputs: it may be somebody's
 */
async function lastChange(parent: HeldFolder, name: string): Promise<number> {
  const folder = await openChild(parent, name);
  try {
    let newest = (await lstat(folder.at())).mtimeMs;
    for (const leaf of await readdir(folder.at())) {
      const found = await lstat(folder.at(leaf));
      if (!OUTPUT.test(leaf) || !found.isFile()) throw new Error(`it holds ${leaf}, which is no offloaded output`);
      newest = Math.max(newest, found.mtimeMs);
    }
    return newest;
  } finally {
    await folder.close();
  }
}

function detailOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
