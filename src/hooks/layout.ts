/**
 * Where hooks and tools put their files below a workspace: `.takeback/tool_results/` and `.takeback/plans/`. Names only.
 * The engine never looks into `.takeback` of a root.
 */
import { join } from 'node:path';
import { z } from 'zod';

export const TOOL_RESULTS = 'tool_results';
export const PLANS = 'plans';
export const DEFAULT_DIR_NAME = '.takeback';

/** One name of a folder: it goes into paths that a model reads and writes back, and never into git's own folder. */
export const dirNameSchema: z.ZodString = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be one name of at most 64 letters, digits, `.`, `_` and `-`')
  .refine((name) => !/^(\.+|\.git|git~\d+)$/i.test(name), 'must not be `.`, `..` or a name of git’s own');

/**
 * The folder of all offloaded outputs below `workDir`, for `SessionManager`.
 *
 * @param dirName what `offloadHook` was given; default `.takeback`
 */
export function toolResultsDir(workDir: string, dirName: string = DEFAULT_DIR_NAME): string {
  return join(workDir, dirName, TOOL_RESULTS);
}
