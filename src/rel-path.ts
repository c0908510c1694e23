/**
 * Paths: bytes on disk ↔ strings in JavaScript, the normal form of a path that a caller names, and what is never written
 * to, whatever a store says.
 *
 * A byte that isn't part of valid UTF-8 stands as a lone surrogate U+DC80–U+DCFF (Python's PEP 383), which no valid
 * UTF-8 decodes to; so decode and encode are each other's inverse. Imports `errors` and `types` only.
 */
import { isAbsolute, relative, sep } from 'node:path';
import { TakebackError } from './errors.ts';
import type { RelPath } from './types.ts';

/** Length of the valid UTF-8 sequence that starts at `i`, or 0. Surrogates and overlong forms are invalid. */
function sequenceLength(utf8: InstanceType<typeof TextDecoder>, bytes: Uint8Array, i: number): number {
  const a = bytes[i] as number;
  const length =
    a < 0x80 ? 1 : a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
  if (length === 0 || i + length > bytes.length) return 0;
  try {
    utf8.decode(bytes.subarray(i, i + length));
    return length;
  } catch {
    return 0;
  }
}

/** Bytes of a name → string; bytes that aren't UTF-8 become lone surrogates. */
export function decodeName(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // What isn't UTF-8 comes out with U+FFFD; so does that letter itself, which the slow way reads as what it is.
  const text = buffer.toString('utf8');
  return text.includes('\ufffd') ? decodeStrictly(bytes) : text;
}

/** Makes its decoder anew: few names come here, and a hook that meets none starts without it. */
function decodeStrictly(bytes: Uint8Array): string {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    return utf8.decode(bytes);
  } catch {
    let out = '';
    for (let i = 0; i < bytes.length; ) {
      const length = sequenceLength(utf8, bytes, i);
      if (length === 0) {
        out += String.fromCharCode(0xdc00 + (bytes[i] as number));
        i += 1;
      } else {
        out += utf8.decode(bytes.subarray(i, i + length));
        i += length;
      }
    }
    return out;
  }
}

/**
 * String → bytes of a name; the inverse of {@link decodeName}. U+DC00 is the NUL of a damaged record (`timeline/records.ts`).
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a NUL, or a lone surrogate that stands for no byte
 */
export function encodeName(name: string): Buffer {
  if (isPlainName(name)) return Buffer.from(name, 'utf8');
  if (name.includes('\0'))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `a path holds a NUL character: ${JSON.stringify(name)}`);
  const parts: Buffer[] = [];
  for (const char of name) {
    const code = char.codePointAt(0) as number;
    if (code === 0xdc00 || (code >= 0xdc80 && code <= 0xdcff)) parts.push(Buffer.from([code - 0xdc00]));
    else if (code >= 0xd800 && code <= 0xdfff) {
      throw new TakebackError('ERR_INVALID_ARGUMENT', `a path holds a lone surrogate: ${JSON.stringify(name)}`);
    } else parts.push(Buffer.from(char, 'utf8'));
  }
  return Buffer.concat(parts);
}

/** True for a name whose bytes are its UTF-8. */
export function isPlainName(name: string): boolean {
  return name.isWellFormed() && !name.includes('\0');
}

/** Orders paths by their bytes, as the backends do. UTF-16 order differs from it above U+FFFF. */
export function comparePaths(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left === right) continue;
    // Only surrogates stand elsewhere among the bytes than their value tells.
    return isSurrogate(left) || isSurrogate(right) ? Buffer.compare(encodeName(a), encodeName(b)) : left - right;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** Marks a string that is known to be normal (from a backend or the store). */
export function asRelPath(path: string): RelPath {
  return path as RelPath;
}

/**
 * Normalises a path that a caller named: drops `.`, empty parts and a trailing slash, and nothing else. No trim, no
 * Unicode form, no pattern; a backslash is a character outside Windows. `..` is resolved within the path.
 *
 * @param root absolute path of the root, for absolute input; the caller's spelling and the real one may both be given
 * @throws {TakebackError} `ERR_OUTSIDE_ROOT`, or `ERR_INVALID_ARGUMENT` for an empty string or a NUL
 */
export function toRelPath(input: string, roots: readonly string[]): RelPath {
  if (typeof input !== 'string' || input === '') {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      'a path must be a non-empty string, relative to the root or absolute inside it',
    );
  }
  if (encodeName(input).includes(0))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `a path holds a lone surrogate: ${JSON.stringify(input)}`);
  let path = input;
  if (isAbsolute(input)) {
    const inside = roots
      .map((root) => relative(root, input))
      .find((r) => !isAbsolute(r) && r !== '..' && !r.startsWith(`..${sep}`));
    if (inside === undefined) throw outside(input);
    path = inside;
  }
  if (sep === '\\') path = path.replaceAll('\\', '/');
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (parts.pop() === undefined) throw outside(input);
    } else parts.push(part);
  }
  return parts.join('/') as RelPath;
}

function outside(input: string): TakebackError {
  return new TakebackError('ERR_OUTSIDE_ROOT', `path is outside the root: ${input}. Give a path inside the root.`, {
    path: input as RelPath,
  });
}

/** True where `path` is `folder` or lies below it. */
export function isWithin(path: RelPath, folder: RelPath): boolean {
  return folder === '' || path === folder || path.startsWith(`${folder}/`);
}

/** The folder that holds `path`; `''` for a name in the root. */
export function parentOf(path: RelPath): RelPath {
  const at = path.lastIndexOf('/');
  return (at < 0 ? '' : path.slice(0, at)) as RelPath;
}

const NAME_MAX = 255;

/** Device names of DOS: with any extension they are devices still. */
const DEVICE = /^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

/** Names that Windows reads as something else: another separator, a stream, a device, an end that it drops. */
function isOddOnWindows(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  return /[\u0000-\u001f\\:]|[. ]$/.test(name) || DEVICE.test(name);
}

/**
 * True for a path that is empty or absolute, or has an empty, `.` or `..` part, a NUL, or a name that is too long.
 *
 * @param windows judge by the rules of Windows too; default: where it is
 */
export function isBadPath(path: string, windows: boolean = process.platform === 'win32'): boolean {
  if (/[\0\udc00]/.test(path) || /(^|\/)\.{0,2}(\/|$)/.test(path)) return true;
  // A character is three bytes at most.
  if (!windows && path.length * 3 <= NAME_MAX) return false;
  return path.split('/').some((name) => {
    return encodeName(name).length > NAME_MAX || (windows && isOddOnWindows(name));
  });
}

/** HFS+ drops zero-width letters, NTFS trailing dots and spaces and what follows a colon; `git~1` is the 8.3 name. */
function isGitName(name: string): boolean {
  const [bare = ''] = name.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, '').split(':');
  const folded = bare.replace(/[A-Z]/g, (letter) => letter.toLowerCase()).replace(/[. ]+$/, '');
  return folded === '.git' || folded === 'git~1';
}

/** True where a part of the path is a `.git`, in a spelling that any file system folds to it. `native/src/path/names.rs` is its twin. */
export function touchesGit(path: RelPath): boolean {
  return path.split('/').some(isGitName);
}
