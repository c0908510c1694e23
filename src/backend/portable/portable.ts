/**
 * The portable backend: the contract of `backend.ts` on `node:fs`, for where the addon can't load.
 *
 * Everything that touches files runs in one worker thread per backend (`worker.ts`), synchronously there, so that the JS
 * thread stays free; a database has a worker of its own. This file is the asynchronous face: it sends requests and
 * hands out handles. The worker is started at the first request.
 */
import { Worker } from 'node:worker_threads';
import { TakebackError } from '../../errors.ts';
import type { Change, Hash, RelPath, UncoveredPath, Version, WorkOptions } from '../../types.ts';
import type {
  Abilities,
  ApplyOutcome,
  ApplyRequest,
  Backend,
  DatabaseOptions,
  IngestOptions,
  IngestResult,
  MovedPath,
  Peek,
  Position,
  RecoverOutcome,
  RecoverRequest,
  ScanOptions,
  ScanResult,
  Segments,
  SegmentsOptions,
  SqlDriver,
  Tree,
  TreeOptions,
} from '../backend.ts';
import { ownBytes, RpcClient } from './rpc.ts';
import { openPortableDatabase, SqlThread } from './sqlite.ts';
import type { TreeOpenRequest } from './worker.ts';

/** The built worker: the sibling file, or its build where this file runs from the sources (tests). */
function workerUrl(): URL {
  return import.meta.url.endsWith('.ts')
    ? new URL('../../../dist/backend/portable/worker.js', import.meta.url)
    : new URL('./worker.js', import.meta.url);
}

type Call = <T>(method: string, args: readonly unknown[], options?: Parameters<RpcClient['call']>[2]) => Promise<T>;

class PortableSegments implements Segments {
  readonly id: number;
  readonly owner: Call;

  constructor(id: number, owner: Call) {
    this.id = id;
    this.owner = owner;
  }

  put(bytes: Uint8Array): Promise<Hash> {
    const own = ownBytes(bytes);
    return this.owner('segments.put', [this.id, own], { transfer: [own.buffer] });
  }
  read(hash: Hash): Promise<Uint8Array> {
    return this.owner('segments.read', [this.id, hash]);
  }
  has(hashes: readonly Hash[]): Promise<boolean[]> {
    return this.owner('segments.has', [this.id, hashes]);
  }
  sync(): Promise<void> {
    return this.owner('segments.sync', [this.id]);
  }
  stats(): Promise<{ segments: number; blobs: number; bytes: number }> {
    return this.owner('segments.stats', [this.id]);
  }
  verify(options?: WorkOptions): ReturnType<Segments['verify']> {
    return this.owner('segments.verify', [this.id], options);
  }
  collect(live: readonly Hash[], options?: WorkOptions): ReturnType<Segments['collect']> {
    return this.owner('segments.collect', [this.id, live], options);
  }
  close(): Promise<void> {
    return this.owner('segments.close', [this.id]);
  }
}

class PortableTree implements Tree {
  readonly #id: number;
  readonly #call: Call;

  constructor(id: number, call: Call) {
    this.#id = id;
    this.#call = call;
  }

  #ask<T>(method: string, args: readonly unknown[] = [], options?: WorkOptions): Promise<T> {
    return this.#call(`tree.${method}`, [this.#id, ...args], {
      signal: options?.signal,
      onProgress: options?.onProgress,
    });
  }

  load(): Promise<Position | null> {
    return this.#ask('load');
  }
  reset(manifest: Hash | null, at: Position | null): Promise<void> {
    return this.#ask('reset', [manifest, at]);
  }
  catchUp(rows: readonly Pick<Change, 'path' | 'after'>[], at: Position): Promise<void> {
    return this.#ask('catchUp', [rows.map(({ path, after }) => ({ path, after })), at]);
  }
  rules(): Promise<Uint8Array | null> {
    return this.#ask('rules');
  }
  setRules(snapshot: Uint8Array): Promise<void> {
    return this.#ask('setRules', [ownBytes(snapshot)]);
  }
  /** Node's own watcher of folders loses events on Linux without a word. */
  async watch(): Promise<string> {
    return 'the portable backend looks everywhere each time';
  }
  scan(options: ScanOptions = {}): Promise<ScanResult> {
    const { renewRules, hold, only, rehash } = options;
    return this.#ask('scan', [{ renewRules, hold, only, rehash }], options);
  }
  ingest(set: number, options: IngestOptions = {}): Promise<IngestResult> {
    const { deadlineMs, first, hashOnly, stored } = options;
    return this.#ask('ingest', [set, { deadlineMs, first, hashOnly, stored }], options);
  }
  look(set: number, paths: readonly RelPath[]): Promise<void> {
    return this.#ask('look', [set, paths]);
  }
  changes(set: number): Promise<Change[]> {
    return this.#ask('changes', [set]);
  }
  moves(set: number): Promise<MovedPath[]> {
    return this.#ask('moves', [set]);
  }
  uncovered(set: number): Promise<UncoveredPath[]> {
    return this.#ask('uncovered', [set]);
  }
  manifest(set: number): Promise<{ hash: Hash; entries: number }> {
    return this.#ask('manifest', [set]);
  }
  commit(set: number, at: Position): Promise<void> {
    return this.#ask('commit', [set, at]);
  }
  discard(set: number): Promise<void> {
    return this.#ask('discard', [set]);
  }
  versions(paths: readonly RelPath[]): Promise<Version[]> {
    return this.#ask('versions', [paths]);
  }
  list(folder: RelPath): Promise<RelPath[]> {
    return this.#ask('list', [folder]);
  }
  peek(paths: readonly RelPath[], options?: WorkOptions): Promise<Peek[]> {
    return this.#ask('peek', [paths], options);
  }
  apply(request: ApplyRequest, options?: WorkOptions): Promise<ApplyOutcome[]> {
    return this.#ask('apply', [request], options);
  }
  recover(request: RecoverRequest): Promise<RecoverOutcome> {
    return this.#ask('recover', [request]);
  }
  finish(journal: string): Promise<void> {
    return this.#ask('finish', [journal]);
  }
  abilities(): Promise<Abilities> {
    return this.#ask('abilities');
  }
  emptyTrash(trashDir: string): ReturnType<Tree['emptyTrash']> {
    return this.#ask('emptyTrash', [trashDir]);
  }
  close(): Promise<void> {
    return this.#ask('close');
  }
}

export class PortableBackend implements Backend {
  readonly kind = 'portable';
  readonly #sql = new SqlThread();
  #client: RpcClient | null = null;
  #closed = false;

  readonly #call: Call = <T>(
    method: string,
    args: readonly unknown[],
    options?: Parameters<RpcClient['call']>[2],
  ): Promise<T> => {
    if (this.#closed) return Promise.reject(new TakebackError('ERR_CLOSED', 'the backend was closed'));
    return this.#start().call(method, args, options) as Promise<T>;
  };

  #start(): RpcClient {
    // Flags of the process, such as --input-type, are for its own entry and would stop the worker's.
    this.#client ??= new RpcClient(new Worker(workerUrl(), { name: 'takeback-portable', execArgv: [] }));
    return this.#client;
  }

  async openSegments({ dir, seed }: SegmentsOptions): Promise<Segments> {
    return new PortableSegments(await this.#call<number>('segments.open', [dir, seed]), this.#call);
  }

  async openTree(options: TreeOptions): Promise<Tree> {
    const { root, indexFile, storeId, segments, skip, maxFileBytes, maxEntries, scratchDir, resolver } = options;
    if (!(segments instanceof PortableSegments) || segments.owner !== this.#call) {
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'segments must come from the same backend as the tree');
    }
    const settings = { root, indexFile, storeId, skip, maxFileBytes, maxEntries, scratchDir };
    const request: TreeOpenRequest = { ...settings, segments: segments.id, resolver };
    return new PortableTree(await this.#call<number>('tree.open', [request]), this.#call);
  }

  openDatabase(options: DatabaseOptions): Promise<SqlDriver> {
    // Whoever opens a store wants its tree next: that thread starts up meanwhile.
    if (!this.#closed) this.#start();
    return openPortableDatabase(options, this.#sql);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#client?.close();
    this.#client = null;
  }
}
