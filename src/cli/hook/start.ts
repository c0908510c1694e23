/**
 * Where the rest of the built hook file starts (`hook-body.cjs`; `cached.ts` loads it, once `early.ts` has begun what it could).
 * It holds the engine for the addon alone; where the portable backend is to serve (asked for, or no addon), the event goes to
 * the package's ordinary modules, whose workers are files of their own.
 */
import type { Early } from './early.ts';
import { hook, record } from './main.ts';

/** What `cached.ts` asks of it afterwards. */
export interface Started {
  /** The action that this process recorded. */
  kind: string | null;
}

/**
 * @param args what follows `hook` on the command line
 * @param ordinary `dist/cli/hook/main.js`: code from a cache can't import by itself
 */
export function start(
  args: readonly string[],
  early: Early,
  ordinary: () => Promise<Pick<typeof import('./main.ts'), 'record'>>,
): Started {
  const started: Started = { kind: null };
  // One event needs one thread of libuv's pool at a time; it would start four. No process is started from here.
  process.env.UV_THREADPOOL_SIZE = '1';
  const recordHere: typeof record = async (line, action, begun) => {
    if (early.addon === null) return (await ordinary()).record(line, action, begun);
    const problem = await record(line, action, begun);
    started.kind = action.kind;
    return problem;
  };
  void hook(args, { early, record: recordHere, end: (code) => end(early, code) });
  return started;
}

/** Node takes a tenth of its start to end in good order, and nothing is left that needs it. */
function end({ addon }: Early, code: number): never {
  if (addon?.endProcess !== undefined) {
    process.emit('exit', code);
    addon.endProcess(code);
  }
  process.exit(code);
}
