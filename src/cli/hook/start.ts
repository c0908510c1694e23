/**
 * Where `dist/cli/hook.cjs` starts. That file holds the engine for the addon alone; where the portable backend is to serve
 * (asked for, or no addon), the event goes to the package's ordinary modules, whose workers are files of their own.
 */
import { loadAddon } from '../../backend/load-addon.ts';
import { backendFor, type CommandLine, hook, record } from './main.ts';

function addonServes(line: CommandLine): boolean {
  try {
    return backendFor(line) !== 'portable' && 'addon' in loadAddon();
  } catch {
    // Whoever opens the backend says what is wrong.
    return false;
  }
}

const args = process.argv.slice(2);
void hook(args[0] === 'hook' ? args.slice(1) : args, async (line, action) => {
  // Not bundled: dist/cli/hook/main.js.
  const how = addonServes(line) ? record : (await import('./main.ts')).record;
  return how(line, action);
});
