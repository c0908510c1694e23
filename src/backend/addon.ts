/**
 * What the addon exports, as types (docs/addon.md), and the one way to call it: {@link settle} turns tagged outcomes
 * into values and `TakebackError`s, and abort signals and progress callbacks into what the addon takes.
 */
import { type ErrorCode, TakebackError } from '../errors.ts';
import { asRelPath, decodeName } from '../rel-path.ts';
import type { Progress, WorkOptions } from '../types.ts';

/** What every asynchronous function of the addon resolves to; none rejects. */
export type Tagged<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string; readonly path?: Buffer };

type Answer<T> = Promise<Tagged<T>>;

export interface CancelToken {
  cancel(): void;
}

/** `total` is -1 where it is not known. */
export type ReportProgress = (phase: Progress['phase'], done: number, total: number) => void;

export interface AddonSegments {
  put(bytes: Uint8Array): Answer<Buffer>;
  read(hash: Buffer): Answer<Buffer>;
  has(hashes: Buffer): Answer<Buffer>;
  sync(): Answer<void>;
  stats(): Answer<{ segments: number; blobs: number; bytes: number }>;
  verify(token: CancelToken | null, progress: ReportProgress | null): Answer<Buffer>;
  collect(
    live: Buffer,
    token: CancelToken | null,
    progress: ReportProgress | null,
  ): Answer<{ freedBytes: number; keptBytes: number }>;
  close(): Answer<void>;
}

export interface AddonTree {
  load(): Answer<Buffer | null>;
  reset(manifest: Buffer | null, at: Buffer | null): Answer<void>;
  catchUp(rows: Buffer, at: Buffer): Answer<void>;
  rules(): Answer<Buffer | null>;
  setRules(snapshot: Uint8Array): Answer<void>;
  /** Empty: events tell where to look. Else why not. */
  watch(): Answer<string>;
  scan(options: Buffer, token: CancelToken | null, progress: ReportProgress | null): Answer<Buffer>;
  ingest(set: number, options: Buffer, token: CancelToken | null, progress: ReportProgress | null): Answer<Buffer>;
  look(set: number, paths: Buffer): Answer<void>;
  changes(set: number): Answer<Buffer>;
  moves(set: number): Answer<Buffer>;
  uncovered(set: number): Answer<Buffer>;
  manifest(set: number): Answer<Buffer>;
  commit(set: number, at: Buffer): Answer<void>;
  discard(set: number): Answer<void>;
  versions(paths: Buffer): Answer<Buffer>;
  list(folder: Buffer): Answer<Buffer>;
  included(paths: Buffer): Answer<Buffer>;
  close(): Answer<void>;
}

export interface AddonHands {
  peek(paths: Buffer, included: Buffer, token: CancelToken | null, progress: ReportProgress | null): Answer<Buffer>;
  apply(request: Buffer, token: CancelToken | null, progress: ReportProgress | null): Answer<Buffer>;
  recover(request: Buffer): Answer<Buffer>;
  finish(journal: Buffer): Answer<void>;
  abilities(): Answer<Buffer>;
  emptyTrash(trash: Buffer): Answer<Buffer>;
  close(): Answer<void>;
}

export interface AddonDatabase {
  exec(sql: string): Answer<void>;
  query(sql: string, params: Buffer): Answer<Buffer>;
  transaction(statements: Buffer): Answer<Buffer>;
  close(): Answer<void>;
}

export interface Addon {
  contract(): number;
  version(): string;
  /** Ends the process where it stands. Missing in an addon that was built before it was there. */
  endProcess?(code: number): never;
  /** Whether a read of standard input would answer at once. Missing as `endProcess`. */
  inputWaits?(): boolean;
  readonly CancelToken: new () => CancelToken;
  openSegments(dir: Buffer, seed: bigint): Answer<AddonSegments>;
  openTree(segments: AddonSegments, options: Buffer): Answer<AddonTree>;
  openHands(segments: AddonSegments, options: Buffer): Answer<AddonHands>;
  /** Missing as `endProcess`. */
  openAhead?(
    dir: Buffer,
    seed: bigint,
    options: Buffer,
  ): {
    segments: AddonSegments;
    tree: AddonTree;
    loaded: Answer<{ at?: Buffer | null; rules?: Buffer | null }>;
    scan: Answer<Buffer>;
  };
  openDatabase(file: Buffer, busyTimeoutMs: number): Answer<AddonDatabase>;
}

/**
 * The value of a tagged outcome.
 *
 * @throws {TakebackError} of the outcome's code
 */
export async function settle<T>(answer: Answer<T>): Promise<T> {
  const outcome = await answer;
  if (outcome.ok) return outcome.value;
  const { code, message, path } = outcome;
  throw new TakebackError(code, message, path === undefined ? {} : { path: asRelPath(decodeName(path)) });
}

/**
 * Calls what can be cancelled and tells how far it is. A signal that is aborted before rejects at once; one that is
 * aborted later makes the addon stop where it may. No progress is reported once the answer is there.
 *
 * @throws {TakebackError} of the outcome's code; `ERR_CANCELLED`
 */
export async function settleWork<T>(
  addon: Addon,
  options: WorkOptions | undefined,
  call: (token: CancelToken | null, progress: ReportProgress | null) => Answer<T>,
): Promise<T> {
  const { signal, onProgress } = options ?? {};
  if (signal?.aborted) throw new TakebackError('ERR_CANCELLED', 'the work was cancelled', { cause: signal.reason });
  const token = signal === undefined ? null : new addon.CancelToken();
  const abort = (): void => token?.cancel();
  let settled = false;
  const progress: ReportProgress | null =
    onProgress === undefined
      ? null
      : (phase, done, total) => {
          if (!settled) onProgress(total < 0 ? { phase, done } : { phase, done, total });
        };
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await settle(call(token, progress));
  } finally {
    settled = true;
    signal?.removeEventListener('abort', abort);
  }
}

/** Closes a handle of the addon. A second close is fine. */
export async function settleClose(handle: { close(): Answer<void> }): Promise<void> {
  const outcome = await handle.close();
  if (!outcome.ok && outcome.code !== 'ERR_CLOSED') await settle(Promise.resolve(outcome));
}
