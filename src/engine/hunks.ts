/**
 * Plans for single hunks: lists those of a plan, and narrows a plan to the ones that were asked for. All or nothing: a
 * hunk that fits no longer, or a file that has none, makes the whole of it unavailable, before anything is written.
 */
import { TakebackError } from '../errors.ts';
import { type HunkChoice, type HunkSides, hunksOfFile, pathOfHunk, putBack } from '../model/hunks.ts';
import { notAttributed } from '../model/plan.ts';
import type { ModelEntry, ModelPlan } from '../model/types.ts';
import { toRelPath } from '../rel-path.ts';
import type { RestoreOptions } from '../schemas.ts';
import type { PlanHunk, RelPath } from '../types.ts';
import { UnavailableError } from './answers.ts';
import type { Engine } from './engine.ts';
import { keepDisk } from './merge.ts';

export type HunkChoices = ReadonlyMap<RelPath, HunkChoice>;

/**
 * What a caller asked for, by path.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for what is no hunk's id, `ERR_OUTSIDE_ROOT`
 */
export function hunkChoices(root: string, hunks: NonNullable<RestoreOptions['hunks']>): HunkChoices {
  const choices = new Map<RelPath, { ids: string[]; ranges: [number, number][] }>();
  for (const hunk of hunks) {
    const named = typeof hunk === 'string' ? pathOfHunk(hunk) : hunk.path;
    if (named === null) {
      throw new TakebackError(
        'ERR_INVALID_ARGUMENT',
        `options.hunks: not a hunk’s id: ${JSON.stringify(hunk)}. Pass one that plan(…, { hunks: true }) gave.`,
      );
    }
    const path = toRelPath(named, [root]);
    const choice = choices.get(path) ?? { ids: [], ranges: [] };
    if (typeof hunk === 'string') choice.ids.push(hunk);
    else choice.ranges.push(...hunk.ranges);
    choices.set(path, choice);
  }
  return choices;
}

/** The hunks of each text file that the plan would write. */
export async function planHunks(engine: Engine, plan: ModelPlan): Promise<Map<RelPath, readonly PlanHunk[]>> {
  const entries = plan.entries.filter(changesFile);
  await keepDisk(engine, entries.map(found), false);
  const out = new Map<RelPath, readonly PlanHunk[]>();
  for (const entry of entries) {
    const sides = await sidesOf(engine, entry);
    const hunks = sides === null ? null : hunksOfFile(sides);
    if (hunks !== null) out.set(entry.path, hunks);
  }
  return out;
}

/**
 * The plan with nothing but the chosen hunks. Refused paths stay refused. Under the lock.
 *
 * @throws {UnavailableError} stale-plan where a hunk fits no hunk of the file, unsupported where the file has none
 */
export async function onlyHunks(engine: Engine, plan: ModelPlan, choices: HunkChoices): Promise<ModelPlan> {
  const chosen = plan.entries.filter((entry) => choices.has(entry.path));
  await keepDisk(engine, chosen.filter(changesFile).map(found), true);
  const entries: ModelEntry[] = [];
  for (const [path, choice] of choices) {
    const entry = chosen.find((candidate) => candidate.path === path) ?? notAttributed(path, new Map());
    entries.push(await narrowed(engine, entry, choice));
  }
  await engine.blobs.sync();
  return { entries };
}

async function narrowed(engine: Engine, entry: ModelEntry, choice: HunkChoice): Promise<ModelEntry> {
  const { path, action, reason } = entry;
  if (action === 'refuse' || reason === 'not-attributed') return entry;
  if (action === 'skip') throw stale(path, 'there is nothing to restore in it');
  const sides = changesFile(entry) ? await sidesOf(engine, entry) : undefined;
  if (sides === undefined) throw whole(path, 'it comes or goes as a whole');
  if (sides === null) throw stale(path, 'it changed while it was looked at');
  const result = putBack(sides, choice);
  if ('unfit' in result) {
    throw result.unfit === 'not-text'
      ? whole(path, 'it is a binary file')
      : stale(path, `no hunk there: ${result.asked}`);
  }
  const content = await engine.blobs.put(result.bytes);
  if (content === sides.target.content && sides.target.mode === sides.disk.mode) return entry;
  const target = { kind: 'file', mode: sides.disk.mode, size: result.bytes.length, content } as const;
  return { ...entry, target, partial: true, detail: `hunks: ${result.chosen} of ${result.total}` };
}

function stale(path: RelPath, why: string): UnavailableError {
  return new UnavailableError('stale-plan', `${path}: ${why}. Make a new plan and choose again; nothing was written.`);
}

function whole(path: RelPath, why: string): UnavailableError {
  return new UnavailableError('unsupported', `${path}: ${why}. Restore the path without hunks; nothing was written.`);
}

/** A file is written over a file. */
function changesFile({ action, expect, target }: ModelEntry): boolean {
  return (action === 'restore' || action === 'merge') && expect.kind === 'file' && target.kind === 'file';
}

function found({ path, expect }: ModelEntry): { path: RelPath; disk: ModelEntry['expect'] } {
  return { path, disk: expect };
}

/** Null where the disk's bytes aren't kept: the file changed since the plan. */
async function sidesOf(engine: Engine, { path, expect, target }: ModelEntry): Promise<HunkSides | null> {
  if (expect.kind !== 'file' || target.kind !== 'file') return null;
  if (!(await engine.blobs.has([expect.content]))[0]) return null;
  const [diskBytes, targetBytes] = [await engine.blobs.read(expect.content), await engine.blobs.read(target.content)];
  return { path, disk: expect, diskBytes, target, targetBytes };
}
