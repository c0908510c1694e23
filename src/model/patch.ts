/**
 * Git-format patch of one path, from two versions and their bytes. Pure.
 *
 * Works on latin1 strings, one char a byte, so that a text in any encoding comes through whole. `git apply` takes each
 * patch; binary files only where the caller lends `binary` (a deflate and git's object names), else they are marked as
 * differing. Git knows no modes but the owner's execute bit. Not covered: copies, folders, and versions without bytes
 * (`special`, `uncovered`), which give no patch.
 */
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import type { RelPath, Version } from '../types.ts';
import { isText, similarity } from './moves.ts';
import { binaryBody } from './patch-binary.ts';
import { diffLines, hunksOf, splitLines } from './patch-lines.ts';

export interface PatchSide {
  readonly version: Version;
  /** The content, where `version` is a file. */
  readonly bytes?: Uint8Array;
}

/** What a binary patch needs, and this file may not import. */
export interface BinaryTools {
  /** zlib format. */
  deflate(bytes: Uint8Array): Uint8Array;
  /** Hex object name of a blob in the repository that is to take the patch. */
  blobId(bytes: Uint8Array): string;
}

export interface PatchOptions {
  /** Milliseconds for the line diff; then everything between the common ends is replaced. Default 200. */
  readonly timeoutMs?: number;
  readonly binary?: BinaryTools;
  /** The old path of a move: the patch is a rename. */
  readonly from?: RelPath | undefined;
}

export interface PathPatch {
  readonly bytes: Buffer;
  /** Text lines; 0 for a binary file. */
  readonly added: number;
  readonly deleted: number;
  readonly binary: boolean;
}

/** One side of a git diff: mode and blob, or nothing there. */
interface Blob {
  readonly mode: string;
  readonly bytes: Buffer;
}

interface Part {
  readonly text: string;
  readonly added: number;
  readonly deleted: number;
  readonly binary: boolean;
}

/**
 * The patch from `before` to `after`, or null where git's format has none: folders, nothing but permission bits that git
 * doesn't know, or a side whose bytes aren't kept.
 *
 * @throws {TakebackError} `ERR_INTERNAL` for a file without bytes
 */
export function patchOf(
  path: RelPath,
  before: PatchSide,
  after: PatchSide,
  options: PatchOptions = {},
): PathPatch | null {
  const old = blobOf(path, before);
  const now = blobOf(path, after);
  if (old === 'unknown' || now === 'unknown') return null;
  const turned = old !== null && now !== null && (old.mode === LINK) !== (now.mode === LINK);
  const pairs: [Blob | null, Blob | null][] = turned
    ? [
        [old, null],
        [null, now],
      ]
    : [[old, now]];
  const parts = pairs.map(([a, b]) => partOf(path, { a, b }, options)).filter((part) => part !== null);
  if (parts.length === 0) return null;
  return {
    bytes: Buffer.from(parts.map((part) => part.text).join(''), 'latin1'),
    added: parts.reduce((sum, part) => sum + part.added, 0),
    deleted: parts.reduce((sum, part) => sum + part.deleted, 0),
    binary: parts.some((part) => part.binary),
  };
}

/**
 * The same of files too large to be compared: that they differ, without their bytes. `git apply` takes no such patch of
 * content; modes and names it takes.
 */
export function largePatch(change: {
  readonly path: RelPath;
  readonly before: Version;
  readonly after: Version;
  readonly from?: RelPath | undefined;
}): PathPatch | null {
  const { path, from } = change;
  const [a, b] = [change.before, change.after].map((version) => blobOf(path, { version, bytes: EMPTY }));
  if (a === undefined || b === undefined || a === 'unknown' || b === 'unknown') return null;
  const contents = [change.before, change.after].map((version) => (version.kind === 'file' ? version.content : null));
  const same = contents[0] === contents[1];
  if (same && a?.mode === b?.mode && from === undefined) return null;
  const nameA = quoteName('a/', from ?? path);
  const nameB = quoteName('b/', path);
  const lines = [`diff --git ${nameA} ${nameB}`, ...modeLines(a, b)];
  if (from !== undefined) lines.push(...renameLines(from, path, same ? 100 : 0));
  if (!same) {
    const labels = [a === null ? '/dev/null' : nameA, b === null ? '/dev/null' : nameB];
    lines.push(`Binary files ${labels[0]} and ${labels[1]} differ`);
  }
  return { bytes: Buffer.from(`${lines.join('\n')}\n`, 'latin1'), added: 0, deleted: 0, binary: true };
}

const LINK = '120000';

function blobOf(path: RelPath, { version, bytes }: PatchSide): Blob | null | 'unknown' {
  switch (version.kind) {
    case 'absent':
    case 'dir':
      return null;
    case 'symlink':
      return { mode: LINK, bytes: encodeName(version.target) };
    case 'file':
      if (bytes === undefined) throw new TakebackError('ERR_INTERNAL', `a patch lacks the bytes of ${path}`, { path });
      return { mode: gitMode(version), bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
    default:
      return 'unknown';
  }
}

function gitMode(version: Extract<Version, { kind: 'file' }>): string {
  return (version.mode & 0o100) !== 0 ? '100755' : '100644';
}

function partOf(path: RelPath, sides: { a: Blob | null; b: Blob | null }, options: PatchOptions): Part | null {
  const { a, b } = sides;
  const same = (a?.bytes ?? EMPTY).equals(b?.bytes ?? EMPTY);
  const { from } = options;
  if (a?.mode === b?.mode && same && from === undefined) return null;
  const nameA = quoteName('a/', from ?? path);
  const nameB = quoteName('b/', path);
  const lines = [`diff --git ${nameA} ${nameB}`, ...modeLines(a, b)];
  if (from !== undefined) lines.push(...renameLines(from, path, similarity(a?.bytes ?? EMPTY, b?.bytes ?? EMPTY)));
  if (options.binary !== undefined && !same) lines.push(indexLine(sides, options.binary));
  const header = `${lines.join('\n')}\n`;
  if (same) return { text: header, added: 0, deleted: 0, binary: false };
  const labels = { a: a === null ? '/dev/null' : nameA, b: b === null ? '/dev/null' : nameB };
  if (isBinary(a) || isBinary(b)) {
    const body =
      options.binary === undefined
        ? `Binary files ${labels.a} and ${labels.b} differ\n`
        : binaryBody(a?.bytes ?? EMPTY, b?.bytes ?? EMPTY, options.binary.deflate);
    return { text: header + body, added: 0, deleted: 0, binary: true };
  }
  const old = splitLines((a?.bytes ?? EMPTY).toString('latin1'));
  const now = splitLines((b?.bytes ?? EMPTY).toString('latin1'));
  const edits = diffLines(old, now, { timeout: options.timeoutMs ?? 200 });
  // A tab ends a label with a space in it, so that nobody takes what follows the space for a date.
  const tab = (label: string): string => (label !== '/dev/null' && label.includes(' ') ? '\t' : '');
  const files = `--- ${labels.a}${tab(labels.a)}\n+++ ${labels.b}${tab(labels.b)}\n`;
  return {
    text: header + files + hunksOf(old, now, edits),
    added: edits.reduce((sum, edit) => sum + edit.newEnd - edit.newStart, 0),
    deleted: edits.reduce((sum, edit) => sum + edit.oldEnd - edit.oldStart, 0),
    binary: false,
  };
}

const EMPTY: Buffer = Buffer.alloc(0);

function modeLines(a: Blob | null, b: Blob | null): string[] {
  if (a === null) return b === null ? [] : [`new file mode ${b.mode}`];
  if (b === null) return [`deleted file mode ${a.mode}`];
  return a.mode === b.mode ? [] : [`old mode ${a.mode}`, `new mode ${b.mode}`];
}

function renameLines(from: RelPath, to: RelPath, percent: number): string[] {
  return [`similarity index ${percent}%`, `rename from ${quoteName('', from)}`, `rename to ${quoteName('', to)}`];
}

function indexLine({ a, b }: { a: Blob | null; b: Blob | null }, tools: BinaryTools): string {
  const ids = [a, b].map((blob) => (blob === null ? null : tools.blobId(blob.bytes)));
  const zeros = '0'.repeat((ids[0] ?? ids[1] ?? '').length);
  const mode = a !== null && a.mode === b?.mode ? ` ${a.mode}` : '';
  return `index ${ids[0] ?? zeros}..${ids[1] ?? zeros}${mode}`;
}

function isBinary(blob: Blob | null): boolean {
  return blob !== null && !isText(blob.bytes);
}

const ESCAPES: ReadonlyMap<number, string> = new Map([
  [0x07, '\\a'],
  [0x08, '\\b'],
  [0x09, '\\t'],
  [0x0a, '\\n'],
  [0x0b, '\\v'],
  [0x0c, '\\f'],
  [0x0d, '\\r'],
  [0x22, '\\"'],
  [0x5c, '\\\\'],
]);

/** As git with core.quotePath: in quotes, with C escapes, where a byte is a control, a quote, a backslash or not ASCII. */
function quoteName(prefix: string, path: RelPath): string {
  let plain = true;
  let out = '';
  for (const byte of encodeName(prefix + path)) {
    const escaped =
      ESCAPES.get(byte) ?? (byte < 0x20 || byte >= 0x7f ? `\\${byte.toString(8).padStart(3, '0')}` : undefined);
    if (escaped !== undefined) plain = false;
    out += escaped ?? String.fromCharCode(byte);
  }
  return plain ? out : `"${out}"`;
}
