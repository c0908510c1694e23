/**
 * The text half of a patch: lines, edits between two lists of lines, and hunks. Pure.
 *
 * A line holds its own `\n`; only the last may lack one. CR is a character like any other.
 */
import { diffArrays } from 'diff';

/** Lines oldStart..oldEnd of the old text became newStart..newEnd of the new one; ends exclusive, from 0. */
export interface Edit {
  readonly oldStart: number;
  readonly oldEnd: number;
  readonly newStart: number;
  readonly newEnd: number;
}

const CONTEXT = 3;

export function splitLines(text: string): string[] {
  const lines: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end + 1;
    lines.push(text.slice(at, next));
    at = next;
  }
  return lines;
}

/** How long to look for the smallest edits: milliseconds, or how many lines they may add and delete. */
export type DiffLimit = { readonly timeout: number } | { readonly maxEditLength: number };

/** Edits in order, not touching each other. Past the limit, one edit replaces all between the common ends. */
export function diffLines(old: readonly string[], now: readonly string[], limit: DiffLimit): Edit[] {
  const shorter = Math.min(old.length, now.length);
  let head = 0;
  while (head < shorter && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < shorter - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const whole = { oldStart: head, oldEnd: old.length - tail, newStart: head, newEnd: now.length - tail };
  if (whole.oldStart === whole.oldEnd && whole.newStart === whole.newEnd) return [];
  if (whole.oldStart === whole.oldEnd || whole.newStart === whole.newEnd) return [whole];
  const middle = [old.slice(head, whole.oldEnd), now.slice(head, whole.newEnd)] as const;
  const runs = diffArrays(...middle, limit);
  return runs === undefined ? [whole] : editsOf(runs, head);
}

function editsOf(runs: readonly { added: boolean; removed: boolean; count: number }[], offset: number): Edit[] {
  const edits: Edit[] = [];
  let oldAt = offset;
  let newAt = offset;
  for (const run of runs) {
    const oldEnd = oldAt + (run.added ? 0 : run.count);
    const newEnd = newAt + (run.removed ? 0 : run.count);
    if (run.added || run.removed) {
      const last = edits.at(-1);
      const touches = last !== undefined && last.oldEnd === oldAt && last.newEnd === newAt;
      if (touches) edits[edits.length - 1] = { ...last, oldEnd, newEnd };
      else edits.push({ oldStart: oldAt, oldEnd, newStart: newAt, newEnd });
    }
    oldAt = oldEnd;
    newAt = newEnd;
  }
  return edits;
}

/** Unified hunks with three lines of context. */
export function hunksOf(old: readonly string[], now: readonly string[], edits: readonly Edit[]): string {
  const groups: Edit[][] = [];
  for (const edit of edits) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    if (group !== undefined && last !== undefined && edit.oldStart - last.oldEnd <= 2 * CONTEXT) group.push(edit);
    else groups.push([edit]);
  }
  return groups.map((group) => hunkOf(old, now, group)).join('');
}

function hunkOf(old: readonly string[], now: readonly string[], group: readonly Edit[]): string {
  const first = group[0] as Edit;
  const last = group.at(-1) as Edit;
  const lead = Math.min(CONTEXT, first.oldStart);
  const trail = Math.min(CONTEXT, old.length - last.oldEnd);
  const out: string[] = [];
  let at = first.oldStart - lead;
  for (const edit of group) {
    for (const line of old.slice(at, edit.oldStart)) out.push(mark(' ', line));
    for (const line of old.slice(edit.oldStart, edit.oldEnd)) out.push(mark('-', line));
    for (const line of now.slice(edit.newStart, edit.newEnd)) out.push(mark('+', line));
    at = edit.oldEnd;
  }
  for (const line of old.slice(at, at + trail)) out.push(mark(' ', line));
  const oldRange = range(first.oldStart - lead, last.oldEnd + trail);
  const newRange = range(first.newStart - lead, last.newEnd + trail);
  return `@@ -${oldRange} +${newRange} @@\n${out.join('')}`;
}

/** Line numbers count from 1; an empty range names the line before it. */
function range(start: number, end: number): string {
  const count = end - start;
  if (count === 0) return `${start},0`;
  return count === 1 ? `${start + 1}` : `${start + 1},${count}`;
}

function mark(sign: ' ' | '-' | '+', line: string): string {
  return line.endsWith('\n') ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`;
}
