/**
 * Why one path was left as it was, and how a fault of the system becomes such a reason. Anything that is neither ours nor
 * the system's (a bug) is thrown on: it ends the whole operation, and its journal stays for recovery.
 */
import { TakebackError } from '../../errors.ts';
import type { EntryReason, Version } from '../../types.ts';
import type { ApplyStatus } from '../backend.ts';
import { errnoOf } from './faults.ts';
import { WalkError } from './resolve.ts';

export class Stop extends Error {
  readonly status: Exclude<ApplyStatus, 'done'>;
  readonly reason: EntryReason;
  readonly found: Version | undefined;

  constructor(
    status: Exclude<ApplyStatus, 'done'>,
    reason: EntryReason,
    { detail, found }: { detail?: string; found?: Version } = {},
  ) {
    super(detail ?? '');
    this.status = status;
    this.reason = reason;
    this.found = found;
  }
}

/** The guard found something else than it expected. */
export function refusedFor(found: Version, detail?: string): Stop {
  return new Stop('refused', 'changed-outside-session', { found, ...(detail === undefined ? {} : { detail }) });
}

function reasonOf(errno: string): EntryReason {
  switch (errno) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'no-space';
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'permission-denied';
    default:
      return 'io-error';
  }
}

/** A fault of one path as its `Stop`. Throws what is no such fault. */
export function asStop(error: unknown): Stop {
  if (error instanceof Stop) return error;
  if (error instanceof WalkError) {
    const denied = error.errno === 'EACCES' || error.errno === 'EPERM';
    return new Stop('failed', denied ? 'permission-denied' : 'walk-failed', { detail: error.message });
  }
  if (error instanceof TakebackError) {
    if (error.code === 'ERR_BLOB_MISSING') return new Stop('failed', 'blob-missing', { detail: error.message });
    if (error.code === 'ERR_BLOB_CORRUPT') return new Stop('failed', 'blob-corrupt', { detail: error.message });
    if (error.code === 'ERR_ROOT_CHANGED') return new Stop('failed', 'walk-failed', { detail: error.message });
    if (error.code === 'ERR_IO') return new Stop('failed', 'io-error', { detail: error.message });
    throw error;
  }
  const errno = errnoOf(error);
  if (errno === undefined || !/^(E[A-Z0-9]+|UNKNOWN)$/.test(errno)) throw error;
  return new Stop('failed', reasonOf(errno), { detail: (error as Error).message });
}
