/** The audit hook: one line before and one after each execution. Also the smallest example of a hook. */
import { TakebackError } from '../errors.ts';
import type { Logger } from '../types.ts';
import type { ToolHook } from './tool.ts';

/**
 * Logs `tool start` with `{ name, id }` and `tool done` with `{ name, id, isError }`, and changes nothing.
 *
 * A call that can't be logged isn't run: a logger that throws stops it.
 *
 * @param logger `console` will do
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a logger without `info`
 */
export function auditHook(logger: Pick<Logger, 'info'>): ToolHook {
  if (typeof logger?.info !== 'function') {
    throw new TakebackError('ERR_INVALID_ARGUMENT', 'logger must have a method info(message, data); console has');
  }
  return {
    beforeExecute({ name, id }) {
      logger.info('tool start', { name, id });
    },
    afterExecute({ name, id }, { isError }) {
      logger.info('tool done', { name, id, isError });
    },
  };
}
