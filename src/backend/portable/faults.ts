/** What a fault of the operating system means to the store: one translation for every file of this folder. Pure. */
import { constants } from 'node:os';
import { TakebackError } from '../../errors.ts';
import type { Progress, RelPath } from '../../types.ts';

/** `code` of a Node system error, or `undefined`. Node has no word for a quota that is used up. */
export function errnoOf(error: unknown): string | undefined {
  const { code, errno } = (error as NodeJS.ErrnoException | undefined) ?? {};
  return code === 'UNKNOWN' && errno === -constants.errno.EDQUOT ? 'EDQUOT' : code;
}

/** A system fault as a `TakebackError`: `ERR_NO_SPACE` for a full disk or quota, else `ERR_IO`. Others pass through. */
export function asStoreError(error: unknown, what: string, path?: RelPath): unknown {
  const errno = errnoOf(error);
  if (error instanceof TakebackError || errno === undefined) return error;
  const code = errno === 'ENOSPC' || errno === 'EDQUOT' ? 'ERR_NO_SPACE' : 'ERR_IO';
  return new TakebackError(code, `${what}: ${(error as Error).message}`, { cause: error, path });
}

/** Runs `act`; its faults name `what` was being done. */
export function doing<T>(what: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw asStoreError(error, what);
  }
}

/** What long work asks its caller between two files. */
export interface WorkHooks {
  cancelled(): boolean;
  progress(progress: Progress): void;
}

/** @throws {TakebackError} `ERR_CANCELLED` where the caller has had enough */
export function checkCancelled(hooks: WorkHooks): void {
  if (hooks.cancelled()) throw new TakebackError('ERR_CANCELLED', 'cancelled');
}
