/**
 * Requests to a worker thread and their answers, over postMessage.
 *
 * Requests run in the order in which they were made, one at a time. A caller's abort is a flag in shared memory that
 * synchronous work looks at between files; progress comes at most twenty times a second. Errors cross as
 * `{ code, message, path }`. The worker keeps the process alive only while a request is pending.
 */
import type { MessagePort, Transferable, Worker } from 'node:worker_threads';
import { type ErrorCode, TakebackError } from '../../errors.ts';
import { asRelPath } from '../../rel-path.ts';
import type { Progress, WorkOptions } from '../../types.ts';
import { asStoreError, errnoOf, type WorkHooks } from './faults.ts';
import { workerFault } from './worker-fault.ts';

interface Request {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
  /** One 32-bit flag; not 0: the caller has had enough. */
  readonly cancel: SharedArrayBuffer | null;
  readonly wantsProgress: boolean;
}

interface Fault {
  readonly code: ErrorCode;
  readonly message: string;
  readonly path?: string | undefined;
}

type Message =
  | { readonly id: number; readonly kind: 'done'; readonly value: unknown }
  | { readonly id: number; readonly kind: 'failed'; readonly fault: Fault }
  | { readonly id: number; readonly kind: 'progress'; readonly progress: Progress };

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: TakebackError) => void;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  readonly forget: () => void;
}

const PROGRESS_GAP_MS = 50;

/** An answer whose buffers move instead of being copied. */
export class Moved {
  readonly value: unknown;
  readonly transfer: readonly Transferable[];

  constructor(value: unknown, transfer: readonly Transferable[]) {
    this.value = value;
    this.transfer = transfer;
  }
}

/** A copy with a buffer of its own, so that cloning or moving it doesn't touch what it was a view of. */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const own = new Uint8Array(bytes.length);
  own.set(bytes);
  return own;
}

export class RpcClient {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #ended: TakebackError | null = null;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', (message: Message) => this.#receive(message));
    worker.on('error', (error) => this.#end(workerFault(error)));
    worker.on('exit', () => this.#end(new TakebackError('ERR_CLOSED', 'the backend was closed')));
    worker.unref();
  }

  call(
    method: string,
    args: readonly unknown[],
    options: WorkOptions & { transfer?: readonly Transferable[] } = {},
  ): Promise<unknown> {
    const { signal, onProgress, transfer = [] } = options;
    if (this.#ended !== null) return Promise.reject(this.#ended);
    if (signal?.aborted) return Promise.reject(new TakebackError('ERR_CANCELLED', 'cancelled before it began'));
    const id = this.#nextId++;
    const cancel = signal === undefined ? null : new SharedArrayBuffer(4);
    const abort = (): void => {
      if (cancel !== null) Atomics.store(new Int32Array(cancel), 0, 1);
    };
    signal?.addEventListener('abort', abort, { once: true });
    return new Promise((resolve, reject) => {
      const forget = (): void => signal?.removeEventListener('abort', abort);
      this.#waiting.set(id, { resolve, reject, onProgress, forget });
      if (this.#waiting.size === 1) this.#worker.ref();
      const request: Request = { id, method, args, cancel, wantsProgress: onProgress !== undefined };
      this.#worker.postMessage(request, transfer);
    });
  }

  #receive(message: Message): void {
    const waiting = this.#waiting.get(message.id);
    if (waiting === undefined) return;
    if (message.kind === 'progress') {
      waiting.onProgress?.(message.progress);
      return;
    }
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    waiting.forget();
    if (message.kind === 'done') waiting.resolve(message.value);
    else waiting.reject(asError(message.fault));
  }

  #end(error: TakebackError): void {
    this.#ended ??= error;
    for (const waiting of this.#waiting.values()) {
      waiting.forget();
      waiting.reject(error);
    }
    this.#waiting.clear();
  }

  /** Ends the worker; what is pending rejects with `ERR_CLOSED`. */
  async close(): Promise<void> {
    this.#end(new TakebackError('ERR_CLOSED', 'the backend was closed'));
    await this.#worker.terminate();
  }
}

function asError({ code, message, path }: Fault): TakebackError {
  return new TakebackError(code, message, { path: path === undefined ? undefined : asRelPath(path) });
}

function asFault(error: unknown): Fault {
  const known =
    error instanceof TakebackError || errnoOf(error) === undefined
      ? error
      : asStoreError(error, 'the operating system refused');
  if (known instanceof TakebackError) return { code: known.code, message: known.message, path: known.path };
  return { code: 'ERR_INTERNAL', message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

export type Handler = (args: readonly unknown[], hooks: WorkHooks) => unknown;

/** The worker's side: answers requests with these handlers, one after the other. */
export function serve(port: MessagePort, handlers: Readonly<Record<string, Handler>>): void {
  let last: Promise<void> = Promise.resolve();
  port.on('message', (request: Request) => {
    last = last.then(() => answer(port, handlers, request));
  });
}

function hooksOf(port: MessagePort, request: Request): WorkHooks {
  const flag = request.cancel === null ? null : new Int32Array(request.cancel);
  let nextAt = 0;
  return {
    cancelled: () => flag !== null && Atomics.load(flag, 0) !== 0,
    progress: (progress) => {
      if (!request.wantsProgress) return;
      const now = performance.now();
      if (now < nextAt) return;
      nextAt = now + PROGRESS_GAP_MS;
      port.postMessage({ id: request.id, kind: 'progress', progress } satisfies Message);
    },
  };
}

async function answer(port: MessagePort, handlers: Readonly<Record<string, Handler>>, request: Request): Promise<void> {
  const { id, method, args } = request;
  try {
    const hooks = hooksOf(port, request);
    if (hooks.cancelled()) throw new TakebackError('ERR_CANCELLED', 'cancelled before it began');
    const handler = handlers[method];
    if (handler === undefined) throw new TakebackError('ERR_INTERNAL', `the worker knows no ${method}`);
    const result = await handler(args, hooks);
    const { value, transfer } = result instanceof Moved ? result : { value: result, transfer: [] };
    port.postMessage({ id, kind: 'done', value } satisfies Message, transfer as Transferable[]);
  } catch (error) {
    port.postMessage({ id, kind: 'failed', fault: asFault(error) } satisfies Message);
  }
}
