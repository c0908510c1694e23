/**
 * Single hunks on the command line: lists those of a plan with numbers, and turns a choice (`--hunks 1,3-4`, ids, or what
 * was picked in a prompt) into ids.
 *
 * Numbers count the hunks of one plan, over all its paths: the restore gets that plan's token, so that they can't come to
 * mean others. Ids are good for the files as the plan saw them, whenever it was made.
 */
import { pathOfHunk } from '../model/hunks.ts';
import type { Plan, PlanHunk, RelPath } from '../types.ts';
import { writes } from './changes.ts';
import { type Context, NotAvailable, UsageError } from './context.ts';
import type { Screen } from './screen.ts';
import { count, oneLine, printable } from './text.ts';

/** Of one hunk; `--json` holds all. */
const SHOWN_LINES = 16;

export interface NumberedHunk {
  /** From 1. */
  readonly number: number;
  readonly path: RelPath;
  readonly hunk: PlanHunk;
}

/** Hunks in the order of the plan. */
export function numbered(plan: Plan): NumberedHunk[] {
  return plan.entries
    .flatMap(({ path, hunks = [] }) => hunks.map((hunk) => ({ path, hunk })))
    .map((hunk, i) => ({ number: i + 1, ...hunk }));
}

function place({ oldStart, oldLines, newLines }: PlanHunk): string {
  if (oldLines === 0) return `after line ${oldStart}, ${count(newLines, 'line')} would come back`;
  const range = oldLines === 1 ? `line ${oldStart}` : `lines ${oldStart}-${oldStart + oldLines - 1}`;
  return newLines === 0 ? `${range} would go` : `${range} would be replaced by ${count(newLines, 'line')}`;
}

function safe(line: string): string {
  return line.split('\t').map(oneLine).join('\t');
}

/** A heading for each file, then its hunks with their numbers and lines. */
export function hunkLines(screen: Screen, hunks: readonly NumberedHunk[]): string[] {
  let path: RelPath | undefined;
  return hunks.flatMap((item) => {
    const heading = item.path === path ? [] : [screen.style('bold', printable(item.path))];
    path = item.path;
    const { lines } = item.hunk;
    const more = lines.length - SHOWN_LINES;
    return [
      ...heading,
      `  [${item.number}] ${place(item.hunk)}`,
      ...lines
        .slice(0, SHOWN_LINES)
        .map((line) => `    ${screen.style(line.startsWith('-') ? 'red' : 'green', safe(line))}`),
      ...(more > 0 ? [`    ... and ${count(more, 'more line')}`] : []),
    ];
  });
}

/** What can be chosen, for people. */
export function hunkPlanLines(screen: Screen, plan: Plan): string[] {
  const hunks = numbered(plan);
  const whole = plan.entries.filter((entry) => writes(entry) && entry.hunks === undefined).length;
  const rest = whole === 0 ? [] : [`${count(whole, 'other path')} would be written, as a whole only.`];
  return [...(hunks.length === 0 ? ['There are no hunks to choose from.'] : hunkLines(screen, hunks)), ...rest];
}

/** A value of `--hunks`: an id as it is, else numbers and ranges of numbers. */
export function parseHunks(text: string): (string | number)[] {
  if (pathOfHunk(text) !== null) return [text];
  return text.split(',').flatMap((part) => {
    const match = /^([1-9]\d{0,5})(?:-([1-9]\d{0,5}))?$/.exec(part.trim());
    const from = Number(match?.[1]);
    const to = Number(match?.[2] ?? match?.[1]);
    if (match === null || to < from) {
      throw new UsageError(`--hunks takes numbers such as 1,3-4, or a hunk's id; ${JSON.stringify(part)} is neither.`);
    }
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
}

/** The ids of what was asked for by number or id. */
export function idsOf(hunks: readonly NumberedHunk[], wanted: readonly (string | number)[]): string[] {
  const ids = wanted.map((want) => {
    if (typeof want === 'string') return want;
    const found = hunks.find(({ number }) => number === want);
    if (found !== undefined) return found.hunk.id;
    throw new UsageError(
      `There is no hunk ${want}: the plan has ${count(hunks.length, 'hunk')}. --dry-run lists them with their numbers.`,
    );
  });
  return [...new Set(ids)];
}

/** @throws {NotAvailable} where there is nothing to choose from */
export function needHunks(plan: Plan): NumberedHunk[] {
  const hunks = numbered(plan);
  if (hunks.length > 0) return hunks;
  const refused = plan.entries.filter(({ action }) => action === 'refuse').length;
  const kept = refused === 0 ? '' : ` ${count(refused, 'path is', 'paths are')} refused; \`takeback plan\` says why.`;
  throw new NotAvailable({
    available: false,
    reason: 'unsupported',
    detail: `There are no hunks to choose from: no text file there would be changed.${kept} Restore whole paths without --hunks.`,
  });
}

/** Lets a person pick; null for none. */
export async function pickHunks(context: Context, hunks: readonly NumberedHunk[]): Promise<string[] | null> {
  const picked = await context.host.choose(
    'Which hunks go back?',
    hunks.map(({ number, path, hunk }) => `[${number}] ${printable(path)}: ${place(hunk)}`),
  );
  const ids = idsOf(
    hunks,
    (picked ?? []).map((at) => at + 1),
  );
  return ids.length === 0 ? null : ids;
}
