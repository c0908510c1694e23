/**
 * Takes changes out of a file that went on changing: text is merged three ways, line by line, and never gets markers. Pure.
 *
 * Bytes in, bytes out. A line holds its own line end, so that CRLF, a missing last newline and a byte order mark stay
 * as they are; UTF-8 is compared byte by byte, UTF-16 (with its mark) by its units. Changes that overlap or touch clash,
 * unless both sides made the same of the place. Lines are matched by the diff of the patches: the library `node-diff3`
 * takes time in the square of the lines between the first and the last change (6 s at 20,000 lines), and is the oracle of the
 * tests instead. Not covered: anything but text; a moved line is a deleted and an added one.
 */

import type { Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import { isText, type TextEncoding, textOf, toBytes } from './merge-text.ts';
import { diffLines, type Edit, splitLines } from './patch-lines.ts';

/** Lines `startLine` to `endLine` of our side, from 1; `endLine` is `startLine - 1` where lines were taken out. */
export interface Clash {
  readonly startLine: number;
  readonly endLine: number;
}

export type TextMerge =
  | { readonly bytes: Uint8Array }
  | { readonly clash: 'binary' | 'encoding' | 'too-large' }
  | { readonly clash: 'lines'; readonly hunks: readonly Clash[] };

/** Text above this many bytes isn't merged: a guess that keeps one merge well under a second. */
const MAX_BYTES = 16 * 1024 * 1024;

/** Edits beyond this many lines count as one that replaces all between the common ends; the same on every machine. */
const MAX_EDITS = 4_000;

/** Merges what became of `base` on two sides. */
export function mergeText(base: Uint8Array, ours: Uint8Array, theirs: Uint8Array): TextMerge {
  if ([base, ours, theirs].some((bytes) => bytes.length > MAX_BYTES)) return { clash: 'too-large' };
  const texts = [base, ours, theirs].map(textOf);
  if (!texts.every(isText)) return { clash: 'binary' };
  const encoding = commonEncoding(texts.map((text) => text.encoding));
  if (encoding === null) return { clash: 'encoding' };
  const [o, a, b] = texts.map((text) => splitLines(text.text)) as [string[], string[], string[]];
  const merged = mergeLines(o, a, b);
  return 'hunks' in merged ? { clash: 'lines', ...merged } : { bytes: toBytes(merged.lines.join(''), encoding) };
}

/** An empty file goes with any encoding. */
function commonEncoding(encodings: readonly (TextEncoding | 'empty')[]): TextEncoding | null {
  const named = new Set(encodings.filter((encoding) => encoding !== 'empty'));
  return named.size > 1 ? null : ([...named][0] ?? 'bytes');
}

interface Sides {
  readonly base: readonly string[];
  readonly ours: readonly string[];
  readonly theirs: readonly string[];
}

/** Edits of both sides that overlap or touch, and the lines of the base that they reach over. */
interface Region {
  start: number;
  end: number;
  readonly ours: Edit[];
  readonly theirs: Edit[];
}

function mergeLines(
  base: readonly string[],
  ours: readonly string[],
  theirs: readonly string[],
): { lines: string[] } | { hunks: Clash[] } {
  const limit = { maxEditLength: MAX_EDITS };
  const regions = regionsOf(diffLines(base, ours, limit), diffLines(base, theirs, limit));
  const lines: string[] = [];
  const hunks: Clash[] = [];
  let at = 0;
  const take = (from: readonly string[], start: number, end: number): void => {
    for (let i = start; i < end; i++) lines.push(from[i] as string);
  };
  for (const region of regions) {
    take(base, at, region.start);
    at = region.end;
    const [a, b] = [reach(region, region.ours), reach(region, region.theirs)];
    if (b === null || (a !== null && isSame({ base, ours, theirs }, a, b))) {
      if (a !== null) take(ours, a.start, a.end);
    } else if (a === null) take(theirs, b.start, b.end);
    else hunks.push({ startLine: a.start + 1, endLine: a.end });
  }
  take(base, at, base.length);
  return hunks.length > 0 ? { hunks } : { lines };
}

function regionsOf(ours: readonly Edit[], theirs: readonly Edit[]): Region[] {
  const regions: Region[] = [];
  let [i, j] = [0, 0];
  for (;;) {
    const [a, b] = [ours[i], theirs[j]];
    const isOurs = a !== undefined && (b === undefined || a.oldStart <= b.oldStart);
    const edit = isOurs ? a : b;
    if (edit === undefined) return regions;
    let region = regions.at(-1);
    if (region === undefined || edit.oldStart > region.end) {
      region = { start: edit.oldStart, end: edit.oldEnd, ours: [], theirs: [] };
      regions.push(region);
    }
    region.end = Math.max(region.end, edit.oldEnd);
    region[isOurs ? 'ours' : 'theirs'].push(edit);
    if (isOurs) i++;
    else j++;
  }
}

/** The lines of one side that stand where the region's lines stood in the base; null where that side left them alone. */
function reach(region: Region, edits: readonly Edit[]): { start: number; end: number } | null {
  const [first, last] = [edits[0], edits.at(-1)];
  if (first === undefined || last === undefined) return null;
  return {
    start: first.newStart - (first.oldStart - region.start),
    end: last.newEnd + (region.end - last.oldEnd),
  };
}

function isSame(
  { ours, theirs }: Sides,
  a: { start: number; end: number },
  b: { start: number; end: number },
): boolean {
  if (a.end - a.start !== b.end - b.start) return false;
  for (let i = 0; i < a.end - a.start; i++) if (ours[a.start + i] !== theirs[b.start + i]) return false;
  return true;
}

// ---- versions ------------------------------------------------------------------------------------------------------

/** A version with its bytes where it is a file. A file that a merge made has no name yet: its `content` is empty. */
export interface Side {
  readonly version: Version;
  readonly bytes?: Uint8Array;
}

/** One run of changes that is to be taken out: what it made, and what had been there before. */
export interface RunSides {
  readonly after: Side;
  readonly before: Side;
}

/** Takes runs out of what is on disk, newest first, each by a merge of its own. `clash` says what stands in the way. */
export function takeOut(disk: Side, runs: readonly RunSides[]): { side: Side } | { clash: string } {
  let side = disk;
  for (const { after, before } of runs) {
    const step = takeOutOne(side, after, before);
    if ('clash' in step) return step;
    side = step.side;
  }
  return { side };
}

function takeOutOne(ours: Side, base: Side, theirs: Side): { side: Side } | { clash: string } {
  if (sameSide(ours, base)) return { side: theirs };
  if (sameSide(ours, theirs) || sameSide(base, theirs)) return { side: ours };
  const [a, o, b] = [ours.version, base.version, theirs.version];
  if (a.kind !== 'file' || o.kind !== 'file' || b.kind !== 'file') {
    const other = [a, o, b].find((version) => version.kind !== 'file') as Version;
    return { clash: `can't be merged: one side is ${other.kind}` };
  }
  const mode = a.mode === o.mode || a.mode === b.mode ? b.mode : b.mode === o.mode ? a.mode : null;
  if (mode === null) return { clash: 'clash: mode' };
  const merged = mergeText(bytesOf(base), bytesOf(ours), bytesOf(theirs));
  if ('clash' in merged) return { clash: clashText(merged) };
  return {
    side: { version: { kind: 'file', mode, size: merged.bytes.length, content: '' }, bytes: merged.bytes },
  };
}

function bytesOf(side: Side): Uint8Array {
  return side.bytes ?? new Uint8Array();
}

function sameSide(a: Side, b: Side): boolean {
  if (a.version.kind !== 'file' || b.version.kind !== 'file') return sameVersion(a.version, b.version);
  if (a.version.mode !== b.version.mode) return false;
  return a.bytes === undefined || b.bytes === undefined
    ? a.version.content === b.version.content
    : Buffer.compare(a.bytes, b.bytes) === 0;
}

/** Clashing places that a text lists before it says `…`. */
const LISTED = 5;

export function clashText(merge: Exclude<TextMerge, { bytes: Uint8Array }>): string {
  if (merge.clash !== 'lines') return `clash: ${merge.clash}`;
  const places = merge.hunks.slice(0, LISTED).map(({ startLine, endLine }) => {
    if (endLine < startLine) return `after line ${endLine}`;
    return endLine === startLine ? `line ${startLine}` : `lines ${startLine}–${endLine}`;
  });
  return `clash: ${places.join(', ')}${merge.hunks.length > LISTED ? ', …' : ''}`;
}
