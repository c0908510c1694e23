/**
 * What a hook process does first: the event is read, where it is there already, and where it asks for a look at the tree, the
 * addon begins that, on threads of its own, while the rest of the hook's code is loaded (`hook-early.cjs`; `cached.ts` loads it).
 *
 * Whatever is not as it is most of the time is left to `main.ts`, which knows what to say: nothing is thrown here, and a store
 * is only read.
 */
import { actionOf } from '../../adapters/claude-code/events.ts';
import type { Addon } from '../../backend/addon.ts';
import { loadAddon } from '../../backend/load-addon.ts';
import { NativeBackend } from '../../backend/native.ts';
import { type BegunAhead, beginAhead } from '../../engine/ahead.ts';
import { findLayout, resolveRoot } from '../../engine/root.ts';
import { backendFor, type CommandLine, looksAhead, parse, rootFor } from './command-line.ts';
import { type Input, readAtOnce } from './input.ts';

export interface Early {
  readonly input: Input;
  readonly begun: BegunAhead | null;
  /** Null: another backend is asked for, or it isn't there. */
  readonly addon: Addon | null;
}

export const MAX_ENTRIES = 2_000_000;

export const NOTHING_EARLY: Early = { input: { parts: [], whole: null }, begun: null, addon: null };

/** @param args what follows `hook` on the command line */
export async function beginEarly(args: readonly string[]): Promise<Early> {
  const served = addonFor(args);
  if (served === null) return NOTHING_EARLY;
  const { line, addon } = served;
  const input = readAtOnce(() => addon.inputWaits?.() ?? false);
  return { input, addon, begun: input.whole === null ? null : await begin(line, addon, input.whole.value) };
}

function addonFor(args: readonly string[]): { line: CommandLine; addon: Addon } | null {
  try {
    const line = parse(args);
    const loaded = backendFor(line) === 'portable' ? null : loadAddon();
    return loaded !== null && 'addon' in loaded ? { line, addon: loaded.addon } : null;
  } catch {
    return null;
  }
}

async function begin(line: CommandLine, addon: Addon, event: unknown): Promise<BegunAhead | null> {
  try {
    const action = actionOf(event);
    if (action.kind === 'ignore' || !looksAhead(action)) return null;
    const root = await resolveRoot(rootFor(line, action), false);
    const layout = await findLayout(root, line.dataDir);
    return await beginAhead(new NativeBackend(addon), layout, { maxEntries: MAX_ENTRIES });
  } catch {
    return null;
  }
}
