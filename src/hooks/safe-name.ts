/**
 * Ids as names of files: any string becomes a name that is valid everywhere, and two ids never get one name, also where the
 * file system folds case or Unicode forms.
 *
 * A short id of lower-case letters, digits, `-` and `_` is its own name. Any other keeps what is readable of it and gets `~`
 * and 32 hex digits, SHA-256 of its UTF-16 code units cut to 128 bits; no plain name has a `~`.
 */
import { createHash } from 'node:crypto';

const PLAIN = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Names that Windows keeps for devices, with any ending. */
const DEVICE = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])$/;
const READABLE = 40;
const HASHED = /^[A-Za-z0-9_-]{0,40}~[0-9a-f]{32}$/;

/** The name for an id. No dot, no separator, at most 73 characters; never empty. */
export function safeName(id: string): string {
  if (PLAIN.test(id) && !DEVICE.test(id)) return id;
  const readable = id.slice(0, READABLE).replace(/[^A-Za-z0-9_-]/g, '_');
  const hash = createHash('sha256').update(Buffer.from(id, 'utf16le')).digest('hex').slice(0, 32);
  return `${readable}~${hash}`;
}

/** Whether a name can be one that {@link safeName} gave. */
export function isSafeName(name: string): boolean {
  return (PLAIN.test(name) && !DEVICE.test(name)) || HASHED.test(name);
}
