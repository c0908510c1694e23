/**
 * How a hook that goes on in spite of a fault tells of it: to the caller's logger, else as a warning of the process, which
 * Node prints on stderr. Never to nobody.
 */
import { z } from 'zod';
import type { Logger } from '../types.ts';

/** All that is needed of a logger here; `console` is one. */
export type WarnLogger = Pick<Logger, 'warn'>;

/** A logger as an option. */
export const warnLoggerSchema = z.custom<WarnLogger>(
  (v) => typeof (v as WarnLogger | null)?.warn === 'function',
  'must have a method warn',
);

/** Makes the function that tells. A logger that throws is told of, too, and the tool goes on. */
export function reporter(who: string, logger: WarnLogger | undefined): (what: string, cause: unknown) => void {
  return (what, cause) => {
    const message = `${who}: ${what}: ${cause instanceof Error ? cause.message : String(cause)}`;
    if (logger === undefined) return process.emitWarning(message, 'TakebackWarning');
    try {
      logger.warn(message, { cause });
    } catch (error) {
      process.emitWarning(`${message} (the logger failed: ${String(error)})`, 'TakebackWarning');
    }
  };
}
