/**
 * Writes the covered tree as of a position into an empty folder outside the root. Content of a path at a position is the
 * `before` of the first row after it, or its current version where there is none.
 */
import { constants, type PathLike } from 'node:fs';
import { mkdir, open, readdir, realpath, symlink } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize } from 'node:path';
import type { ExportFailure, ExportResult } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { encodeName, isBadPath, touchesGit } from '../rel-path.ts';
import { type EntryReason, type RelPath, RowFlag, type UncoveredPath, type Version } from '../types.ts';
import type { Engine } from './engine.ts';
import { decodePosition } from './position.ts';

type FileVersion = Extract<Version, { kind: 'file' }>;

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

/** Where an export writes to, and what came of it. */
interface Out {
  readonly targetDir: string;
  readonly uncovered: UncoveredPath[];
  readonly failed: ExportFailure[];
}

/**
 * A path that can't be written is told, and the rest goes on. Links come last and are never followed, so that nothing of a
 * damaged store leads out of the target; bits beyond the nine are never set.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where the target isn't an empty folder outside the root,
 *   `ERR_ROOT_MISMATCH` for a position of another workspace
 */
export async function exportTree(engine: Engine, position: string, targetDir: string): Promise<ExportResult> {
  const seq = decodePosition(position, engine.timeline.storeId);
  if (!(await isKept(engine, seq)))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `the position ${position} is not kept any more`);
  await prepare(engine, targetDir);
  const versions = [...(await versionsAt(engine, seq))].sort(([a], [b]) => (a < b ? -1 : 1));
  const out: Out = { targetDir, uncovered: [], failed: [] };
  const entries = versions.filter((entry) => isWritable(entry, out));
  let files = 0;
  const each = async <K extends Version['kind']>(
    kind: K,
    write: (target: PathLike, version: Extract<Version, { kind: K }>) => Promise<unknown>,
  ): Promise<number> => {
    let written = 0;
    for (const [path, version] of entries)
      if (version.kind === kind && (await attempt(out, path, (to) => write(to, version as never)))) written += 1;
    return written;
  };
  const made = new Set<string>();
  await each('dir', async (target) => {
    await mkdir(target, { recursive: true });
    made.add(String(target));
  });
  files += await each('file', async (target, version) =>
    writeFile(target, version, await engine.blobs.read(version.content)),
  );
  files += await each('symlink', (target, version) => symlink(encodeName(version.target), target));
  for (const [path, version] of entries) {
    if (version.kind === 'uncovered') out.uncovered.push({ path, reason: version.reason });
    else if (version.kind === 'special') out.uncovered.push({ path, reason: 'special' });
  }
  entries.reverse();
  await each('dir', async (target, version) => made.has(String(target)) && setFolderMode(target, version.mode));
  return { files, uncovered: out.uncovered, failed: out.failed };
}

/** False, and told, for what no tree of ours holds: a path of a damaged store. */
function isWritable([path, version]: readonly [RelPath, Version], out: Out): boolean {
  if (path === '') return false;
  if (version.kind !== 'file' && version.kind !== 'symlink' && version.kind !== 'dir') return true;
  const bad = isBadPath(path);
  if (!bad && !touchesGit(path)) return true;
  const detail = bad ? 'the path has a part that no file can have' : 'nothing is ever written to a .git';
  out.failed.push({ path, reason: 'walk-failed', detail });
  return false;
}

/** Makes the folders above a path and writes it; false, and told, where that fails by the path's own fault. */
async function attempt(out: Out, path: RelPath, write: (target: PathLike) => Promise<unknown>): Promise<boolean> {
  const target = join(out.targetDir, path);
  try {
    await mkdir(encodeName(dirname(target)), { recursive: true });
    await write(encodeName(target));
    return true;
  } catch (error) {
    const reason = failureOf(error);
    if (reason === null) throw error;
    out.failed.push({ path, reason, detail: (error as Error).message });
    return false;
  }
}

/** Null for what is no fault of one path: a full disk, a bug. */
function failureOf(error: unknown): EntryReason | null {
  if (error instanceof TakebackError) {
    if (error.code === 'ERR_BLOB_MISSING') return 'blob-missing';
    return error.code === 'ERR_BLOB_CORRUPT' ? 'blob-corrupt' : null;
  }
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EEXIST':
      return 'exists';
    case 'ENOTDIR':
    case 'ELOOP':
    case 'ENAMETOOLONG':
      return 'walk-failed';
    default:
      return null;
  }
}

async function writeFile(target: PathLike, version: FileVersion, bytes: Uint8Array): Promise<void> {
  const file = await open(target, 'wx', 0o600);
  try {
    await file.writeFile(bytes);
    await file.chmod(version.mode & 0o777);
  } finally {
    await file.close();
  }
}

async function setFolderMode(target: PathLike, mode: number): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(target, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await folder.chmod(mode & 0o777);
  } finally {
    await folder.close();
  }
}

async function prepare(engine: Engine, targetDir: string): Promise<void> {
  if (!isAbsolute(targetDir))
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `targetDir must be an absolute path, got ${JSON.stringify(targetDir)}`,
    );
  const { root } = engine.layout;
  const real = await realOf(normalize(targetDir));
  if (real === root || real.startsWith(`${root}/`))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `targetDir must lie outside the root: ${targetDir}`);
  await mkdir(real, { recursive: true }).catch((cause: unknown) => {
    throw new TakebackError('ERR_INVALID_ARGUMENT', `targetDir can't be made: ${(cause as Error).message}`, { cause });
  });
  if ((await readdir(real)).length > 0)
    throw new TakebackError('ERR_INVALID_ARGUMENT', `targetDir must be empty: ${targetDir}`);
}

/** Where a path will lead once it is made: links of what is there are followed before anything is. */
async function realOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error;
    return join(await realOf(dirname(path)), basename(path));
  }
}
