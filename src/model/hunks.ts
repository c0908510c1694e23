/**
 * Single hunks of a text file: what they are, how they are named, and the text where only some of them go back. Pure.
 *
 * Old is what is on disk, new what a restore would make of it. An id holds the places and the start of both names, so
 * that it fits no other text. Does not cover files that are made or removed whole, links, folders and binary files.
 */
import type { PlanHunk, RelPath, Version } from '../types.ts';
import { isText, textOf, toBytes } from './merge-text.ts';
import { diffLines, type Edit, splitLines } from './patch-lines.ts';

type FileVersion = Extract<Version, { kind: 'file' }>;

/** Both sides of one path; both files. */
export interface HunkSides {
  readonly path: RelPath;
  readonly disk: FileVersion;
  readonly diskBytes: Uint8Array;
  readonly target: FileVersion;
  readonly targetBytes: Uint8Array;
}

/** Which hunks of a path: by id, or all that touch lines on disk (from 1, ends included). */
export interface HunkChoice {
  readonly ids: readonly string[];
  readonly ranges: readonly (readonly [start: number, end: number])[];
}

/** Edits beyond this many lines count as one hunk; the same on every machine. */
const MAX_EDITS = 4_000;

interface Lines {
  readonly old: readonly string[];
  readonly now: readonly string[];
  readonly edits: readonly Edit[];
  readonly encoding: 'bytes' | 'utf16le' | 'utf16be';
}

/** Null where a side is no text, or they aren't of one encoding. */
function linesOf({ diskBytes, targetBytes }: HunkSides): Lines | null {
  const [a, b] = [textOf(diskBytes), textOf(targetBytes)];
  if (!isText(a) || !isText(b)) return null;
  if (a.encoding !== 'empty' && b.encoding !== 'empty' && a.encoding !== b.encoding) return null;
  const encoding = a.encoding === 'empty' ? b.encoding : a.encoding;
  const [old, now] = [splitLines(a.text), splitLines(b.text)];
  const edits = diffLines(old, now, { maxEditLength: MAX_EDITS });
  return { old, now, edits, encoding: encoding === 'empty' ? 'bytes' : encoding };
}

/** The hunks of a file; null where it has none to choose from, being no text. */
export function hunksOfFile(sides: HunkSides): PlanHunk[] | null {
  const lines = linesOf(sides);
  return lines === null ? null : lines.edits.map((edit) => hunkOf(sides, lines, edit));
}

function hunkOf({ path, disk, target }: HunkSides, { old, now }: Lines, edit: Edit): PlanHunk {
  const oldLines = edit.oldEnd - edit.oldStart;
  const newLines = edit.newEnd - edit.newStart;
  const oldStart = edit.oldStart + (oldLines > 0 ? 1 : 0);
  const newStart = edit.newStart + (newLines > 0 ? 1 : 0);
  const texts = `${disk.content.slice(0, 16)}-${target.content.slice(0, 16)}`;
  return {
    id: `${oldStart},${oldLines}-${newStart},${newLines}@${texts}:${path}`,
    oldStart,
    oldLines,
    newStart,
    newLines,
    lines: [
      ...old.slice(edit.oldStart, edit.oldEnd).flatMap((line) => marked('-', line)),
      ...now.slice(edit.newStart, edit.newEnd).flatMap((line) => marked('+', line)),
    ],
  };
}

/** A carriage return before the line's end stays, so that a change of line ends shows. */
function marked(mark: string, line: string): string[] {
  return line.endsWith('\n') ? [mark + line.slice(0, -1)] : [mark + line, '\\ No newline at end of file'];
}

const ID = /^\d+,\d+-\d+,\d+@[0-9a-f]{16}-[0-9a-f]{16}:(.+)$/s;

/** The path that a hunk's id names; null for what is no such id. */
export function pathOfHunk(id: string): string | null {
  return ID.exec(id)?.[1] ?? null;
}

/** What is left of the file's hunks when the chosen ones went back. */
export type HunkResult =
  | { readonly bytes: Uint8Array; readonly chosen: number; readonly total: number }
  | { readonly unfit: 'not-text' }
  /** What was asked for that fits no hunk. */
  | { readonly unfit: 'no-hunk'; readonly asked: string };

/** Puts the chosen hunks back and leaves the others. */
export function putBack(sides: HunkSides, choice: HunkChoice): HunkResult {
  const lines = linesOf(sides);
  if (lines === null) return { unfit: 'not-text' };
  const { old, now, edits, encoding } = lines;
  const hunks = edits.map((edit) => hunkOf(sides, lines, edit));
  const chosen = new Set<PlanHunk>();
  for (const id of choice.ids) {
    const hunk = hunks.find((candidate) => candidate.id === id);
    if (hunk === undefined) return { unfit: 'no-hunk', asked: id };
    chosen.add(hunk);
  }
  for (const [start, end] of choice.ranges) {
    const touched = hunks.filter((hunk) => touches(hunk, start, end));
    if (touched.length === 0) return { unfit: 'no-hunk', asked: `lines ${start}–${end} of ${sides.path}` };
    for (const hunk of touched) chosen.add(hunk);
  }
  const out: string[] = [];
  let at = 0;
  for (const [i, edit] of edits.entries()) {
    if (!chosen.has(hunks[i] as PlanHunk)) continue;
    for (const line of old.slice(at, edit.oldStart)) out.push(line);
    for (const line of now.slice(edit.newStart, edit.newEnd)) out.push(line);
    at = edit.oldEnd;
  }
  for (const line of old.slice(at)) out.push(line);
  return { bytes: toBytes(out.join(''), encoding), chosen: chosen.size, total: hunks.length };
}

/** Lines that would only come back lie between two lines on disk: either of them names the hunk. */
function touches({ oldStart, oldLines }: PlanHunk, start: number, end: number): boolean {
  return oldLines === 0 ? start <= oldStart + 1 && end >= oldStart : start < oldStart + oldLines && end >= oldStart;
}
