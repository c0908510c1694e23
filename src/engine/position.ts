/** A position as callers hold it: opaque, and naming its workspace. Imports `errors`. */
import { TakebackError } from '../errors.ts';

const FORM = /^tb1-([0-9a-f]{32})-(\d{1,15})$/;

export function encodePosition(storeId: string, seq: number): string {
  return `tb1-${storeId}-${seq}`;
}

/**
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where it is none, `ERR_ROOT_MISMATCH` where it is another workspace's
 */
export function decodePosition(position: string, storeId: string): number {
  const match = FORM.exec(position);
  if (match === null) {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `not a position: ${JSON.stringify(position)}. Pass one that capture, steps or timeline gave.`,
    );
  }
  if (match[1] !== storeId) {
    throw new TakebackError('ERR_ROOT_MISMATCH', `the position ${position} belongs to another workspace`);
  }
  return Number(match[2]);
}
