/** SQLite's own faults name no file; both drivers add it here. Imports `errors` only. */
import { TakebackError } from '../errors.ts';

/** Both backends begin a fault of SQLite itself with this. */
const OF_SQLITE = 'SQLite: ';

/**
 * The outcome of work on a database; a fault of SQLite gets the file's name in front, code and cause stay.
 *
 * @throws {TakebackError} as `work` does
 */
export async function atDatabase<T>(file: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof TakebackError) || !error.message.startsWith(OF_SQLITE)) throw error;
    throw new TakebackError(error.code, `${file}: ${error.message}`, 'cause' in error ? { cause: error.cause } : {});
  }
}
