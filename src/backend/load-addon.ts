/**
 * Loads the addon. That it isn't there is an answer. An addon that is there and can't be loaded, or that was built apart
 * from this package, is an error: `open.ts` decides what follows.
 */
import { createRequire } from 'node:module';
import { TakebackError } from '../errors.ts';
import type { Addon } from './addon.ts';

/** Number of docs/addon.md that this package speaks; `native/src/binding/mod.rs` has the addon's. */
const CONTRACT = 5;
const GENERATED_LOADER = '../../native/index.cjs';

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

const requireFrom = createRequire(import.meta.url);
const LIBC: Partial<Record<NodeJS.Platform, string>> = { linux: '-gnu', win32: '-msvc' };

/**
 * The generated loader finds out first which libc this is, which costs a hook process 3 ms. Where the most common file of
 * the platform is there and loads, that is the same answer. A file that does not load is left to the generated loader.
 */
function load(id: string): unknown {
  if (id !== GENERATED_LOADER || process.env.NAPI_RS_NATIVE_LIBRARY_PATH || process.env.NAPI_RS_FORCE_WASI)
    return requireFrom(id);
  try {
    return requireFrom(`../../native/takeback.${process.platform}-${process.arch}${LIBC[process.platform] ?? ''}.node`);
  } catch {
    return requireFrom(id);
  }
}

/**
 * Loads the addon, once a process.
 *
 * @param from how it is required; a test's seam
 * @throws {TakebackError} `ERR_BACKEND_UNAVAILABLE` where it is there and fails to load, `ERR_BINDING_MISMATCH` where
 *   it was built for another version of this package
 */
export function loadAddon(from: (id: string) => unknown = load): LoadedAddon {
  let addon: Addon;
  try {
    addon = from(GENERATED_LOADER) as Addon;
  } catch (error) {
    if (isMissing(error)) return { missing: error as Error };
    const reason = chainOf(error).at(-1)?.message ?? String(error);
    throw new TakebackError(
      'ERR_BACKEND_UNAVAILABLE',
      `the addon is there but can't be loaded: ${reason}. Reinstall takeback, or set TAKEBACK_BACKEND=portable.`,
      { cause: error },
    );
  }
  const expected = (from('../../package.json') as { version: string }).version;
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
