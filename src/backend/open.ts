/**
 * Chooses the backend. `native` and `portable` are taken at their word; `auto` takes the addon where it is installed and
 * loads; an addon of another version is an error for both.
 * The caller decides what is asked for (an option, or TAKEBACK_BACKEND).
 */
import { TakebackError } from '../errors.ts';
import type { Backend, BackendKind } from './backend.ts';
import { type LoadedAddon, loadAddon } from './load-addon.ts';
import { NativeBackend } from './native.ts';

export interface OpenedBackend {
  readonly backend: Backend;
  /** One sentence for people: why it is this one. */
  readonly why: string;
}

/** The portable backend is imported only where it is used: a hook process with the addon never pays for it. */
async function portable(why: string): Promise<OpenedBackend> {
  const { PortableBackend } = await import('./portable/portable.ts');
  return { backend: new PortableBackend(), why };
}

/** For `auto`, an addon that can't be loaded (another libc, a damaged file) is a reason to say, and to fall back. */
function loadForAuto(): LoadedAddon | { readonly broken: string } {
  try {
    return loadAddon();
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_BACKEND_UNAVAILABLE') return { broken: error.message };
    throw error;
  }
}

/**
 * Opens the backend that is asked for.
 *
 * @throws {TakebackError} `ERR_BACKEND_UNAVAILABLE` where `native` is asked for and the addon isn't there or
 *   can't be loaded; `ERR_BINDING_MISMATCH` where it was built for another version; `ERR_INVALID_ARGUMENT`
 */
export async function openBackend(choice: 'auto' | BackendKind): Promise<OpenedBackend> {
  if (choice === 'portable') return portable('the portable backend was asked for');
  if (choice !== 'native' && choice !== 'auto') {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      `no such backend: ${JSON.stringify(choice)}. Give 'auto', 'native' or 'portable'.`,
    );
  }
  const loaded = choice === 'native' ? loadAddon() : loadForAuto();
  if ('broken' in loaded) return portable(loaded.broken);
  if ('addon' in loaded) {
    const why = choice === 'native' ? 'the native backend was asked for' : 'the addon is installed';
    return { backend: new NativeBackend(loaded.addon), why };
  }
  const here = `${process.platform}-${process.arch}`;
  if (choice === 'auto') return portable(`there is no addon for ${here} in this installation`);
  throw new TakebackError(
    'ERR_BACKEND_UNAVAILABLE',
    `the native backend was asked for, and there is no addon for ${here} in this installation. Build it (npm run build:native), or ask for 'auto'.`,
    { cause: loaded.missing },
  );
}
