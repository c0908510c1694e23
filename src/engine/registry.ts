/**
 * The engines that are open in this process, one a root and data directory. The only module state of the package, and
 * needed: two engines on one SQLite file in one process would drop each other's POSIX locks.
 */
import { resolve } from 'node:path';
import { TakebackError } from '../errors.ts';
import type { Engine } from './engine.ts';
import { type OpenEngine, openEngine } from './open.ts';

interface Shared {
  readonly engine: Promise<Engine>;
  handles: number;
}

const shared = new Map<string, Shared>();
const keyOf = new WeakMap<Engine, string>();
/** Engines that are closing: an open of the same root waits for them. */
const closing = new Map<string, Promise<void>>();

/** Opens, or joins what is open. The first open's limits, retention and durability hold for all handles, any open's watch too. */
export async function acquireEngine(request: OpenEngine): Promise<Engine> {
  const key = `${request.root}\0${resolve(request.dataDir)}`;
  await closing.get(key);
  const open = shared.get(key);
  if (open !== undefined) {
    open.handles += 1;
    const engine = await open.engine;
    if (request.backend !== 'auto' && request.backend !== engine.backend.kind) {
      await releaseEngine(engine);
      throw new TakebackError(
        'ERR_INVALID_ARGUMENT',
        `this workspace is open in this process with the ${engine.backend.kind} backend; close it before you open it with ${request.backend}`,
      );
    }
    if (request.watch === true) await engine.watch();
    return engine;
  }
  const entry: Shared = { engine: openEngine(request), handles: 1 };
  shared.set(key, entry);
  try {
    const engine = await entry.engine;
    keyOf.set(engine, key);
    return engine;
  } catch (error) {
    shared.delete(key);
    throw error;
  }
}

export async function releaseEngine(engine: Engine): Promise<void> {
  const key = keyOf.get(engine);
  const entry = key === undefined ? undefined : shared.get(key);
  if (key === undefined || entry === undefined) return;
  entry.handles -= 1;
  if (entry.handles > 0) return;
  shared.delete(key);
  const closed = engine.close().finally(() => closing.delete(key));
  closing.set(
    key,
    closed.catch(() => undefined),
  );
  await closed;
}
