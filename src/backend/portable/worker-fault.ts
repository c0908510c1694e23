/** Why a worker thread ended. Pure. */
import { TakebackError } from '../../errors.ts';
import { errnoOf } from './faults.ts';

/** Node starts no worker thread in a process whose working directory was deleted. */
export function workerFault(error: Error): TakebackError {
  const syscall = (error as NodeJS.ErrnoException).syscall;
  if (errnoOf(error) === 'ENOENT' && syscall === 'uv_cwd') {
    return new TakebackError(
      'ERR_UNSUPPORTED',
      "the portable backend can't start while the process's working directory is deleted. Change to another one first.",
      { cause: error },
    );
  }
  return new TakebackError('ERR_INTERNAL', `a worker thread failed: ${error.message}`, { cause: error });
}
