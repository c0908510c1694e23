import type { RelPath } from './types.ts';

/** Stable, machine-readable failure classes. Append only; never rename or reuse. */
export type ErrorCode =
  | 'ERR_INVALID_ARGUMENT' // an argument is of the wrong form; the message names it and the remedy
  | 'ERR_DUPLICATE_BOUNDARY' // the session already has a boundary of that id
  | 'ERR_DUPLICATE_CALL' // the session already has an open call of that id
  | 'ERR_UNKNOWN_CALL' // the session has no open call of that id
  | 'ERR_DUPLICATE_SESSION' // the session manager already has a session of that id
  | 'ERR_UNKNOWN_SESSION' // the session manager has no session of that id
  | 'ERR_ROOT_MISMATCH' // a position or plan of another workspace
  | 'ERR_OUTSIDE_ROOT' // a path resolves above the root
  | 'ERR_EMPTY_PATHS' // `paths` was given and is empty
  | 'ERR_BINDING_MISMATCH' // addon and package were built apart
  | 'ERR_BACKEND_UNAVAILABLE' // the backend that was asked for can't run here
  | 'ERR_CLOSED' // the workspace or handle was closed
  | 'ERR_CANCELLED' // the caller's signal was aborted
  | 'ERR_BLOB_MISSING' // the store holds no blob of that name
  | 'ERR_BLOB_CORRUPT' // a blob's bytes do not hash to its name
  | 'ERR_STORE_CORRUPT' // the store can't be read as a whole
  | 'ERR_STORE_NEWER' // the store was made by a newer version; it is left untouched
  | 'ERR_TOO_MANY_ENTRIES' // more than limits.maxEntries
  | 'ERR_ROOT_CHANGED' // another inode stands at the root's path, or the root is gone
  | 'ERR_NO_SPACE' // ENOSPC or EDQUOT
  | 'ERR_BUSY' // another process held the lock too long
  | 'ERR_UNSUPPORTED' // this file system or OS can't do it
  | 'ERR_IO' // any other fault of the operating system; see cause
  | 'ERR_INTERNAL'; // a bug of ours (a panic in the addon, say)

/** Codes that blame what the caller passed, and not the machine or the store. */
export const MISUSE: ReadonlySet<ErrorCode> = new Set([
  'ERR_INVALID_ARGUMENT',
  'ERR_DUPLICATE_BOUNDARY',
  'ERR_DUPLICATE_CALL',
  'ERR_UNKNOWN_CALL',
  'ERR_ROOT_MISMATCH',
  'ERR_OUTSIDE_ROOT',
  'ERR_EMPTY_PATHS',
]);

/** A caller's mistake or a broken environment. What happened to one file is a receipt entry instead. */
export class TakebackError extends Error {
  override readonly name = 'TakebackError';
  readonly code: ErrorCode;
  readonly path: RelPath | undefined;

  constructor(code: ErrorCode, message: string, detail: { path?: RelPath | undefined; cause?: unknown } = {}) {
    super(message, 'cause' in detail ? { cause: detail.cause } : undefined);
    this.code = code;
    this.path = detail.path;
  }
}
