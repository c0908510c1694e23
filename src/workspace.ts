/**
 * Opens workspaces and holds what callers get: a handle on an engine. Two opens of one root in a process are two handles
 * on one engine; each `close` ends its own, and the last ends the engine.
 *
 * `openWorkspace` resolves also where it can't open: the handle then answers why from every method.
 */
import { existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import type {
  Capabilities,
  ExportResult,
  GcResult,
  RecoveredOperation,
  Session,
  SessionInfo,
  StatsResult,
  VerifyResult,
  Workspace,
} from './api.ts';
import { defaultDataDir, workspaceDir } from './data-dir.ts';
import { answer, UnavailableError, unavailableOf } from './engine/answers.ts';
import type { Engine } from './engine/engine.ts';
import type { EventMap } from './engine/events.ts';
import { exportTree } from './engine/export.ts';
import { capabilities, collectGarbage, sessionInfos, storeStats, verifyStore } from './engine/maintain.ts';
import { acquireEngine, releaseEngine } from './engine/registry.ts';
import { resolveRoot } from './engine/root.ts';
import { TakebackError } from './errors.ts';
import {
  check,
  type OpenOptions,
  openOptionsSchema,
  type PurgeOptions,
  purgeOptionsSchema,
  type SessionKeyOptions,
  type SessionOptions,
  sessionKeySchema,
  sessionOptionsSchema,
} from './schemas.ts';
import { SessionHandle } from './session.ts';
import type { Result, Unavailable, UnavailableReason, WorkOptions } from './types.ts';

const DAY = 30;
const GIB = 1024 ** 3;

/**
 * Opens the workspace of a root, with its store in the data directory.
 *
 * Resolves with `available: false` and a reason where the environment doesn't allow it (the root is missing, the data
 * directory can't be written, the store is newer or damaged …). The first open makes the data directory (0700); nothing
 * is written into the root.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form, `ERR_BACKEND_UNAVAILABLE` where the
 *   backend that was asked for by name can't run here, `ERR_BINDING_MISMATCH` for an addon of another version
 */
export async function openWorkspace(options: OpenOptions): Promise<Workspace> {
  const given = check(openOptionsSchema, options, 'options');
  const dataDir = given.dataDir ?? defaultDataDir();
  const backend = given.backend ?? backendFromEnvironment();
  try {
    const root = await resolveRoot(given.root, given.allowProtectedRoot ?? false);
    const engine = await acquireEngine({
      root,
      dataDir,
      backend,
      include: given.include,
      exclude: given.exclude,
      maxFileBytes: given.limits?.maxFileBytes,
      maxEntries: given.limits?.maxEntries ?? 2_000_000,
      maxFileEvents: given.maxFileEvents ?? 100,
      watch: given.watch,
      options: {
        captureDeadlineMs: given.limits?.captureDeadlineMs,
        retention: {
          maxAgeDays: given.retention?.maxAgeDays ?? DAY,
          maxBytes: given.retention?.maxBytes ?? 2 * GIB,
          maxBoundaries: given.retention?.maxBoundaries,
        },
        durability: given.durability ?? 'full',
        recover: given.recover ?? 'rollback',
        adoptRoot: given.adoptRoot ?? false,
        logger: given.logger,
      },
    });
    return new WorkspaceHandle(engine, { root: engine.layout.root, dataDir: engine.layout.dataDir });
  } catch (error) {
    const unavailable = unavailableOf(error);
    if (unavailable === null) throw error;
    return new WorkspaceHandle(unavailable, { root: given.root, dataDir });
  }
}

/**
 * Forgets a session and every byte that nobody else refers to, without an open workspace. Answers 0 bytes where nothing is
 * recorded of the root or the session; never makes a store. The tree is not touched.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for arguments of the wrong form
 */
export async function purgeSnapshots(
  options: PurgeOptions,
  key: SessionKeyOptions,
): Promise<Result<{ freedBytes: number }>> {
  const { root, dataDir = defaultDataDir() } = check(purgeOptionsSchema, options, 'options');
  const session = check(sessionKeySchema, key, 'key');
  if (!isAbsolute(root))
    throw new TakebackError('ERR_INVALID_ARGUMENT', `root must be an absolute path, got ${JSON.stringify(root)}`);
  const [realRoot, realData] = await Promise.all([realOr(root), realOr(dataDir)]);
  if (!existsSync(join(workspaceDir(realData, realRoot), 'timeline.db'))) return { available: true, freedBytes: 0 };
  const workspace = await openWorkspace({ root, dataDir, allowProtectedRoot: true });
  try {
    return await workspace.session(session).drop();
  } finally {
    await workspace.close();
  }
}

function realOr(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

/**
 * The backend that `TAKEBACK_BACKEND` asks for; `auto` where it is not set.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where it names none
 */
export function backendFromEnvironment(): 'auto' | 'native' | 'portable' {
  const value = process.env.TAKEBACK_BACKEND;
  if (value === undefined || value === '' || value === 'auto') return 'auto';
  if (value === 'native' || value === 'portable') return value;
  throw new TakebackError(
    'ERR_INVALID_ARGUMENT',
    `TAKEBACK_BACKEND must be auto, native or portable, got ${JSON.stringify(value)}`,
  );
}

class WorkspaceHandle implements Workspace {
  readonly root: string;
  readonly dataDir: string;
  #engine: Engine | Unavailable;
  #closed = false;

  constructor(engine: Engine | Unavailable, where: { root: string; dataDir: string }) {
    this.#engine = engine;
    this.root = where.root;
    this.dataDir = where.dataDir;
  }

  get available(): boolean {
    return !this.#closed && !('available' in this.#engine);
  }

  get reason(): UnavailableReason | undefined {
    return this.#unavailable?.reason;
  }

  get detail(): string | undefined {
    return this.#unavailable?.detail;
  }

  get recovered(): readonly RecoveredOperation[] {
    return 'available' in this.#engine ? [] : this.#engine.recovered;
  }

  get #unavailable(): Unavailable | undefined {
    if ('available' in this.#engine) return this.#engine;
    return this.#closed
      ? { available: false, reason: 'closed', detail: `the workspace was closed: ${this.root}` }
      : undefined;
  }

  /** The engine, for one piece of work; throws what makes it unavailable. */
  #use(): Engine {
    const unavailable = this.#unavailable;
    if (unavailable !== undefined) throw new UnavailableError(unavailable.reason, unavailable.detail);
    return this.#engine as Engine;
  }

  /** One public method: in the engine's queue. */
  #run<T extends object>(work: (engine: Engine) => Promise<T>): Promise<Result<T>> {
    return answer(() => {
      const engine = this.#use();
      return engine.queue.run(() => work(engine));
    });
  }

  session(options: SessionOptions): Session {
    const { threadId, tenantId, onConflict } = check(sessionOptionsSchema, options, 'options');
    return new SessionHandle(() => this.#use(), { threadId, tenantId, onConflict: onConflict ?? 'refuse' });
  }

  sessions(): Promise<Result<{ sessions: readonly SessionInfo[] }>> {
    return this.#run(async (engine) => ({ sessions: await sessionInfos(engine) }));
  }

  stats(): Promise<Result<StatsResult>> {
    return this.#run(storeStats);
  }

  verify(options: WorkOptions & { rehash?: boolean } = {}): Promise<Result<VerifyResult>> {
    return this.#run((engine) => verifyStore(engine, options));
  }

  gc(options: WorkOptions = {}): Promise<Result<GcResult>> {
    return this.#run((engine) => collectGarbage(engine, options));
  }

  recover(): Promise<Result<{ recovered: readonly RecoveredOperation[] }>> {
    return this.#run(async (engine) => {
      await engine.locked(async () => undefined);
      return { recovered: [...engine.recovered] };
    });
  }

  capabilities(): Promise<Result<{ capabilities: Capabilities }>> {
    return this.#run(async (engine) => ({ capabilities: await capabilities(engine) }));
  }

  export(position: string, targetDir: string): Promise<Result<ExportResult>> {
    return this.#run((engine) => exportTree(engine, position, targetDir));
  }

  on<K extends keyof EventMap>(event: K, listener: (event: EventMap[K]) => void): () => void {
    return 'available' in this.#engine ? () => undefined : this.#engine.events.on(event, listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (!('available' in this.#engine)) await releaseEngine(this.#engine);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
