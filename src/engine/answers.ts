/**
 * How a fault becomes an answer. Inside the engine an unavailable state unwinds as an `UnavailableError`; at the public
 * surface `answer` turns it, and the environment's faults, into `{ available: false, reason, detail }`. Misuse stays an
 * exception. Imports `errors` and `types`.
 */
import { type ErrorCode, TakebackError } from '../errors.ts';
import type { Result, Unavailable, UnavailableReason } from '../types.ts';

/** Unwinds to the public surface; never leaves it. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly answer: Unavailable;

  constructor(reason: UnavailableReason, detail: string) {
    super(detail);
    this.answer = { available: false, reason, detail };
  }
}

/** Faults of the environment, which are values at the surface. All other codes are a caller's mistake, and thrown. */
const REASON_OF: Partial<Record<ErrorCode, UnavailableReason>> = {
  ERR_NO_SPACE: 'no-space',
  ERR_BUSY: 'busy',
  ERR_TOO_MANY_ENTRIES: 'too-many-entries',
  ERR_ROOT_CHANGED: 'root-changed',
  ERR_STORE_CORRUPT: 'store-corrupt',
  ERR_STORE_NEWER: 'store-newer',
  ERR_BLOB_MISSING: 'store-corrupt',
  ERR_BLOB_CORRUPT: 'store-corrupt',
  ERR_UNSUPPORTED: 'unsupported',
  ERR_CLOSED: 'closed',
};

const PERMISSION = new Set(['EACCES', 'EPERM', 'EROFS']);

/** The unavailable answer that a fault stands for, or null where it is to be thrown. */
export function unavailableOf(error: unknown): Unavailable | null {
  if (error instanceof UnavailableError) return error.answer;
  if (error instanceof TakebackError) {
    const reason = REASON_OF[error.code];
    const { path, message } = error;
    const detail = path === undefined || message.includes(path) ? message : `${message} (at ./${path})`;
    if (reason !== undefined) return { available: false, reason, detail };
    if (error.code === 'ERR_IO') return unavailableOf(error.cause) ?? fromErrno(error, detail) ?? ioFault(detail);
    return null;
  }
  return fromErrno(error, error instanceof Error ? error.message : String(error));
}

function fromErrno(error: unknown, detail: string): Unavailable | null {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string') return /permission denied|read-only file system/i.test(detail) ? denied(detail) : null;
  if (PERMISSION.has(code)) return denied(detail);
  if (code === 'ENOSPC' || code === 'EDQUOT') return { available: false, reason: 'no-space', detail };
  return null;
}

/** The system failed us in a way that we have no word for: a data directory that was removed, a disk that is dying. */
function ioFault(detail: string): Unavailable {
  return { available: false, reason: 'data-dir-unwritable', detail: `reading or writing failed: ${detail}` };
}

function denied(detail: string): Unavailable {
  return { available: false, reason: 'permission-denied', detail };
}

/** Runs one public method: its value with `available: true`, or why there is none. */
export async function answer<T extends object>(run: () => Promise<T>): Promise<Result<T>> {
  try {
    return { available: true, ...(await run()) };
  } catch (error) {
    const unavailable = unavailableOf(error);
    if (unavailable === null) throw error;
    return unavailable;
  }
}
