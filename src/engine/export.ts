/**
 * Writes the covered tree as of a position into an empty folder outside the root. Content of a path at a position is the
 * `before` of the first row after it, or its current version where there is none.
 */
import { chmod, mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import { type RelPath, RowFlag, type UncoveredPath, type Version } from '../types.ts';
import type { Engine } from './engine.ts';
import { decodePosition } from './position.ts';

/** Versions of every known path at a position. */
export async function versionsAt(engine: Engine, seq: number): Promise<Map<RelPath, Version>> {
  await engine.catchUp();
  const paths = await engine.tree.list('' as RelPath);
  const current = await engine.tree.versions(paths);
  const versions = new Map<RelPath, Version>(paths.map((path, i) => [path, current[i] as Version]));
  for (const row of await engine.timeline.firstRowsAfter(seq))
    versions.set(row.path, (row.flags & RowFlag.late) === 0 ? row.before : await afterLate(engine, row.path, seq));
  return versions;
}

/** Late bytes count as the boundary's: the version that the last of the late rows gave. */
async function afterLate(engine: Engine, path: RelPath, seq: number): Promise<Version> {
  const rows = await engine.timeline.rows(seq, undefined, [path]);
  const first = rows.findIndex((row) => (row.flags & RowFlag.late) === 0);
  const last = rows[(first < 0 ? rows.length : first) - 1];
  return last?.after ?? { kind: 'absent' };
}

/** False for a position before the timeline's old end, after its head, or inside a fold. */
export async function isKept(engine: Engine, seq: number): Promise<boolean> {
  const head = await engine.timeline.head();
  const oldest = (await engine.timeline.newestManifest())?.seq ?? 0;
  if (seq > head.seq || seq < oldest) return false;
  return (await engine.timeline.observation(seq))?.kind !== 'folded';
}

/**
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where the target isn't an empty folder outside the root,
 *   `ERR_ROOT_MISMATCH` for a position of another workspace
 */
export async function exportTree(
  engine: Engine,
  position: string,
  targetDir: string,
): Promise<{ files: number; uncovered: readonly UncoveredPath[] }> {
  const seq = decodePosition(position, engine.timeline.storeId);
  if (!(await isKept(engine, seq)))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `the position ${position} is not kept any more`);
  await prepare(engine, targetDir);
  const versions = [...(await versionsAt(engine, seq))].sort(([a], [b]) => (a < b ? -1 : 1));
  const uncovered: UncoveredPath[] = [];
  const folders: { path: string; mode: number }[] = [];
  let files = 0;
  for (const [path, version] of versions) {
    const target = encodeName(join(targetDir, path)) as unknown as string;
    if (version.kind === 'dir') {
      await mkdir(target, { recursive: true });
      folders.push({ path: target, mode: version.mode });
    } else if (version.kind === 'file' || version.kind === 'symlink') {
      await mkdir(encodeName(dirname(join(targetDir, path))), { recursive: true });
      if (version.kind === 'symlink') await symlink(encodeName(version.target), target);
      else {
        await writeFile(target, await engine.blobs.read(version.content), { flag: 'wx', mode: 0o600 });
        await chmod(target, version.mode);
      }
      files += 1;
    } else if (version.kind === 'uncovered') uncovered.push({ path, reason: version.reason });
    else if (version.kind === 'special') uncovered.push({ path, reason: 'special' });
  }
  for (const { path, mode } of folders.reverse()) await chmod(path, mode);
  return { files, uncovered };
}

async function prepare(engine: Engine, targetDir: string): Promise<void> {
  if (!isAbsolute(targetDir))
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `targetDir must be an absolute path, got ${JSON.stringify(targetDir)}`,
    );
  await mkdir(targetDir, { recursive: true });
  const real = await realpath(targetDir);
  const { root } = engine.layout;
  if (real === root || real.startsWith(`${root}/`))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `targetDir must lie outside the root: ${targetDir}`);
  if ((await readdir(real)).length > 0)
    throw new TakebackError('ERR_INVALID_ARGUMENT', `targetDir must be empty: ${targetDir}`);
}
