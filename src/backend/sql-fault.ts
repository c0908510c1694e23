/** SQLite's own faults name no file; both drivers add it here. Imports `errors` only. */
import { type ErrorCode, TakebackError } from '../errors.ts';

/** What SQLite itself answers; all else says what it means. */
const OF_SQLITE: ReadonlySet<ErrorCode> = new Set(['ERR_IO', 'ERR_NO_SPACE', 'ERR_STORE_CORRUPT', 'ERR_BUSY']);

/**
 * The outcome of work on a database; a fault of SQLite gets the file's name in front, code and cause stay.
 *
 * @throws {TakebackError} as `work` does
 */
export async function atDatabase<T>(file: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof TakebackError) || !OF_SQLITE.has(error.code) || error.message.includes(file)) throw error;
    throw new TakebackError(error.code, `${file}: ${error.message}`, 'cause' in error ? { cause: error.cause } : {});
  }
}
