/**
 * Where the built hook file starts (`hook-body.cjs`; `cached.ts` loads it). It holds the engine for the addon alone; where
 * the portable backend is to serve (asked for, or no addon), the event goes to the package's ordinary modules, whose
 * workers are files of their own.
 */
import { loadAddon } from '../../backend/load-addon.ts';
import { backendFor, type CommandLine, hook, record } from './main.ts';

/** Between this file and `cached.ts`. */
export interface Shared {
  /** The action that this process recorded. */
  kind: string | null;
  /** `dist/cli/hook/main.js`: code from a cache can't import by itself. Set before any event is there. */
  ordinary: () => Promise<typeof import('./main.ts')>;
}

export const shared: Shared = {
  kind: null,
  ordinary: () => {
    throw new Error('hook-body.cjs is started by hook.cjs');
  },
};

function addonServes(line: CommandLine): boolean {
  try {
    return backendFor(line) !== 'portable' && 'addon' in loadAddon();
  } catch {
    // Whoever opens the backend says what is wrong.
    return false;
  }
}

/** Node takes a tenth of its start to end in good order. Where an event was recorded, nothing is left that needs it. */
function end(code: number): never {
  const loaded = shared.kind === null ? { missing: null } : loadAddon();
  if ('addon' in loaded && loaded.addon.endProcess !== undefined) {
    process.emit('exit', code);
    loaded.addon.endProcess(code);
  }
  process.exit(code);
}

// One event needs one thread of libuv's pool at a time; it would start four. No process is started from here.
process.env.UV_THREADPOOL_SIZE = '1';
const args = process.argv.slice(2);
const recordHere: typeof record = async (line, action) => {
  if (!addonServes(line)) return (await shared.ordinary()).record(line, action);
  const problem = await record(line, action);
  shared.kind = action.kind;
  return problem;
};
void hook(args[0] === 'hook' ? args.slice(1) : args, recordHere, end);
