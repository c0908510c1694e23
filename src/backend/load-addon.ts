/**
 * Loads the addon. That it isn't there is an answer. An addon that is there and can't be loaded, or that was built apart
 * from this package, is an error: `open.ts` decides what follows.
 */
import { createRequire } from 'node:module';
import { TakebackError } from '../errors.ts';
import type { Addon } from './addon.ts';

/** Number of docs/addon.md that this package speaks; `native/src/binding/mod.rs` has the addon's. */
const CONTRACT = 3;

export type LoadedAddon = { readonly addon: Addon } | { readonly missing: Error };

/** An error and what caused it, outermost first. */
function chainOf(error: unknown): Error[] {
  const chain: Error[] = [];
  for (let next = error; next instanceof Error && !chain.includes(next); next = next.cause) chain.push(next);
  return chain;
}

/**
 * The generated loader tries file after file and ends with one error whose chain of causes holds each attempt's. All of
 * them must say that there is nothing to load.
 */
function isMissing(error: unknown): boolean {
  const [outer, ...attempts] = chainOf(error);
  if (outer === undefined) return false;
  const absent = (e: Error): boolean =>
    (e as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND' || /^Unsupported (OS|architecture)/.test(e.message);
  return attempts.length === 0 ? absent(outer) : attempts.every(absent);
}

/**
 * Loads the addon, once a process.
 *
 * @param load how; a test's seam
 * @throws {TakebackError} `ERR_BACKEND_UNAVAILABLE` where it is there and fails to load, `ERR_BINDING_MISMATCH` where
 *   it was built for another version of this package
 */
export function loadAddon(load: (id: string) => unknown = createRequire(import.meta.url)): LoadedAddon {
  let addon: Addon;
  try {
    addon = load('../../native/index.cjs') as Addon;
  } catch (error) {
    if (isMissing(error)) return { missing: error as Error };
    const reason = chainOf(error).at(-1)?.message ?? String(error);
    throw new TakebackError(
      'ERR_BACKEND_UNAVAILABLE',
      `the addon is there but can't be loaded: ${reason}. Reinstall takeback, or set TAKEBACK_BACKEND=portable.`,
      { cause: error },
    );
  }
  const expected = (load('../../package.json') as { version: string }).version;
  const contract = addon.contract?.();
  const version = addon.version?.();
  if (contract !== CONTRACT || version !== expected) {
    throw new TakebackError(
      'ERR_BINDING_MISMATCH',
      `the addon is of version ${version} (contract ${contract}), the package of ${expected} (contract ${CONTRACT}). Reinstall takeback, or build both again.`,
    );
  }
  return { addon };
}
