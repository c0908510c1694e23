/**
 * `takeback/adapters/acp`: workspace checkpoints for agents and clients of the Agent Client Protocol.
 *
 * {@link workspaceCheckpoints} adds the extension method `session/workspace_checkpoint` (and its twin with a `_`, the prefix that
 * the protocol keeps for extensions) to an agent app of the official SDK. A request is one of Harn's methods on the session's
 * cwd, and so is its result. The host's own handlers are wrapped as it registers them: they tell which folder a session works
 * in, and when it ends or forks. {@link checkpointClient} is the other end. Not covered: additional directories of a session.
 */
import { realpath } from 'node:fs/promises';
import { MISUSE, TakebackError } from '../errors.ts';
import { type AcpParams, acpParams, forkAt } from './acp/params.ts';
import {
  type AcpAgentApp,
  type AcpHandler,
  type AcpHandlerContext,
  type Around,
  type AroundHandler,
  wrapHandlers,
} from './acp/wrap.ts';
import {
  type Answer,
  type CallBeginAnswer,
  type CallEndAnswer,
  type CaptureAnswer,
  type CheckpointAction,
  type CheckpointMethods,
  type CheckpointMethodsOptions,
  checkpointMethods,
  type DropAnswer,
  type ForkAnswer,
  type PlanAnswer,
  type RestoreAnswer,
  requestSchemas,
} from './harn.ts';

export type { AcpParams } from './acp/params.ts';
export { acpParamsSchemas } from './acp/params.ts';
export type { AcpAgentApp } from './acp/wrap.ts';

/** The method that Harn's document names. */
export const CHECKPOINT_METHOD = 'session/workspace_checkpoint';
/** The same under a name that the protocol keeps for extensions. */
export const CHECKPOINT_METHOD_TWIN = '_takeback/workspace_checkpoint';
/** Our key in `_meta`: of the agent's capabilities, of a fork, and of what closing, deleting and forking answer. */
export const META_KEY = 'takeback';

/** The SDK's error class: its connection answers the `code` only of this one. */
export type RequestErrorClass = new (code: number, message: string, data?: unknown) => Error;

export interface WorkspaceCheckpointsOptions extends Omit<CheckpointMethodsOptions, 'root'> {
  /** `RequestError` of the SDK entry that `app` comes from. */
  readonly RequestError: RequestErrorClass;
  /** What `session/close` does to the session's checkpoints. Default `drop`; `keep` for hosts whose closed sessions are loaded again. */
  readonly onClose?: 'drop' | 'keep' | undefined;
}

/** The actions on one session, on either end of a connection. Each rejects with an error of the SDK for wrong parameters. */
export interface CheckpointClient {
  capture(boundaryId: string, more?: Params<'label' | 'deadlineMs'>): Promise<Answer<CaptureAnswer>>;
  callBegin(
    callId: string,
    more?: Params<'tool' | 'stepId' | 'parentCallId' | 'paths'>,
  ): Promise<Answer<CallBeginAnswer>>;
  callEnd(callId: string, more?: Params<'sideEffect' | 'paths' | 'isError'>): Promise<Answer<CallEndAnswer>>;
  plan(boundaryId: string, more?: Params<'paths' | 'onConflict'>): Promise<Answer<PlanAnswer>>;
  restore(boundaryId: string, more?: Params<'paths' | 'onConflict' | 'planToken'>): Promise<Answer<RestoreAnswer>>;
  drop(): Promise<DropAnswer>;
}

type Params<K extends keyof AcpParams> = Pick<AcpParams, K>;

/** What sends a request to the agent: the SDK's `ClientContext`. */
export interface AcpRequester {
  request(method: string, params: unknown): Promise<unknown>;
}

/** What {@link workspaceCheckpoints} gives an agent. */
export interface WorkspaceCheckpoints {
  /** The actions on a session of this agent, for hosts that bracket their own tool calls. */
  session(sessionId: string): CheckpointClient;
  /**
   * Answers the params of one request as the method does. Throws `RequestError`: -32602 for wrong params, an unknown action or
   * misuse, -32002 for a session that isn't known here, -32800 where it was cancelled.
   */
  handle(params: unknown, options?: { signal?: AbortSignal }): Promise<unknown>;
  /** Harn's methods, for all else. */
  readonly methods: CheckpointMethods;
  /** Closes all workspaces; what is stored stays. */
  close(): Promise<void>;
}

/**
 * Adds checkpoints to an agent app. Call it before the app's handlers are registered: those that come later are wrapped, and
 * a session that none of them started is not known. `initialize` then advertises the method in `agentCapabilities._meta`,
 * `session/close` and `session/delete` drop, `session/fork` forks (at `_meta.takeback.boundaryId`, else at the newest boundary).
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function workspaceCheckpoints(app: AcpAgentApp, options: WorkspaceCheckpointsOptions): WorkspaceCheckpoints {
  const agent = new Agent(options);
  const { register } = wrapHandlers(app, agent.around);
  for (const method of [CHECKPOINT_METHOD, CHECKPOINT_METHOD_TWIN]) {
    register(
      method,
      (params: unknown) => params,
      ({ params, signal }: AcpHandlerContext) => agent.handle(params, { signal }),
    );
  }
  return agent;
}

/** The client's end: sends each action to the agent under the method's name. */
export function checkpointClient(agent: AcpRequester, sessionId: string): CheckpointClient {
  return clientOf((params) => agent.request(CHECKPOINT_METHOD, params), sessionId);
}

function clientOf(send: (params: AcpParams) => Promise<unknown>, sessionId: string): CheckpointClient {
  const act = async <T>(action: CheckpointAction, params: Omit<AcpParams, 'sessionId' | 'action'>): Promise<T> =>
    (await send({ ...params, sessionId, action })) as T;
  return {
    capture: (boundaryId, more) => act('capture', { ...more, boundaryId }),
    callBegin: (callId, more) => act('call_begin', { ...more, callId }),
    callEnd: (callId, more) => act('call_end', { ...more, callId }),
    plan: (boundaryId, more) => act('plan', { ...more, boundaryId }),
    restore: (boundaryId, more) => act('restore', { ...more, boundaryId }),
    drop: () => act('drop', {}),
  };
}

/** Codes of JSON-RPC and of the protocol. */
const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;
const RESOURCE_NOT_FOUND = -32002;
const REQUEST_CANCELLED = -32800;

class Agent implements WorkspaceCheckpoints {
  readonly methods: CheckpointMethods;
  readonly #RequestError: RequestErrorClass;
  /** Folder of each session that a handler of the host started. */
  readonly #cwds = new Map<string, string>();
  readonly around: Around;

  constructor({ RequestError, onClose = 'drop', ...options }: WorkspaceCheckpointsOptions) {
    if (typeof RequestError !== 'function')
      throw invalidOption('RequestError', 'give the class of that name of the SDK');
    if (onClose !== 'drop' && onClose !== 'keep') throw invalidOption('onClose', "must be 'drop' or 'keep'");
    this.methods = checkpointMethods(options);
    this.#RequestError = RequestError;
    this.around = new Map(
      Object.entries({
        initialize: async (context, handler) => advertised(await handler(context)),
        'session/new': (context, handler) => this.#start(context, handler, 'response'),
        'session/load': (context, handler) => this.#start(context, handler, 'params'),
        'session/resume': (context, handler) => this.#start(context, handler, 'params'),
        'session/close': (context, handler) => this.#end(context, handler, onClose === 'drop'),
        'session/delete': (context, handler) => this.#end(context, handler, true),
        'session/fork': (context, handler) => this.#fork(context, handler),
      } satisfies Record<string, AroundHandler>),
    );
  }

  session(sessionId: string): CheckpointClient {
    return clientOf((params) => this.handle(params), sessionId);
  }

  async handle(params: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<unknown> {
    return this.#answering(() => {
      const { action, request } = acpParams(params);
      const cwd = this.#cwds.get(request.session_id);
      if (cwd === undefined) throw this.#unknownSession(request.session_id);
      const method: (request: never, work: { signal?: AbortSignal }) => Promise<unknown> =
        this.methods[`checkpoint_${action}`];
      return method.call(this.methods, { ...request, root: cwd } as never, signal === undefined ? {} : { signal });
    });
  }

  close(): Promise<void> {
    return this.methods.close();
  }

  /** A session's id is in the answer of `session/new`, in the params of all else. */
  async #start(context: AcpHandlerContext, handler: AcpHandler, idIn: 'response' | 'params'): Promise<unknown> {
    const response = await handler(context);
    await this.#started(stringAt(idIn === 'response' ? response : context.params, 'sessionId'), context.params);
    return response;
  }

  async #started(sessionId: string | undefined, params: unknown): Promise<void> {
    const cwd = stringAt(params, 'cwd');
    if (sessionId === undefined || cwd === undefined) return;
    const before = this.#cwds.get(sessionId);
    this.#cwds.set(sessionId, cwd);
    // Loaded again in another folder: that one is the session's now.
    if (before !== undefined && before !== cwd) await this.methods.release(sessionId);
  }

  async #end(context: AcpHandlerContext, handler: AcpHandler, drop: boolean): Promise<unknown> {
    const response = await handler(context);
    const sessionId = stringAt(context.params, 'sessionId');
    const root = sessionId && this.#cwds.get(sessionId);
    if (sessionId === undefined || root === undefined) return response;
    this.#cwds.delete(sessionId);
    if (!drop) {
      await this.methods.release(sessionId);
      return response;
    }
    return withMeta(response, {
      drop: await told(() => this.methods.checkpoint_drop({ session_id: sessionId, root })),
    });
  }

  /** A wrong boundary is said before the host forks anything; what came of our half goes with the host's answer. */
  async #fork(context: AcpHandlerContext, handler: AcpHandler): Promise<unknown> {
    const at = await this.#answering(async () => forkAt(context.params, META_KEY));
    const response = await handler(context);
    const sessionId = stringAt(context.params, 'sessionId');
    const forkId = stringAt(response, 'sessionId');
    const cwd = stringAt(context.params, 'cwd');
    if (sessionId === undefined || forkId === undefined || cwd === undefined) return response;
    await this.#started(forkId, context.params);
    // A session that isn't active here can be forked too: its checkpoints are found where the fork works.
    const root = this.#cwds.get(sessionId) ?? cwd;
    const fork = await told(async (): Promise<Answer<ForkAnswer>> => {
      if (!(await sameFolder(root, cwd))) return ELSEWHERE;
      const boundary = at === undefined ? {} : { boundary_id: at };
      return this.methods.checkpoint_fork({ session_id: sessionId, root, fork_session_id: forkId, ...boundary });
    });
    if (!this.#cwds.has(sessionId)) await this.methods.release(sessionId);
    return withMeta(response, { fork });
  }

  async #answering<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw error instanceof TakebackError ? this.#requestError(error) : error;
    }
  }

  #requestError({ code, message, path }: TakebackError): Error {
    const data = { code, ...(path === undefined ? {} : { path }) };
    if (code === 'ERR_CANCELLED')
      return new this.#RequestError(REQUEST_CANCELLED, `Request cancelled: ${message}`, data);
    if (MISUSE.has(code)) return new this.#RequestError(INVALID_PARAMS, `Invalid params: ${message}`, data);
    return new this.#RequestError(INTERNAL_ERROR, `Internal error: ${message}`, data);
  }

  #unknownSession(sessionId: string): Error {
    const why =
      this.#cwds.size > 0
        ? 'start, load or resume it first'
        : 'no session was started here (an agent calls workspaceCheckpoints before it registers its handlers)';
    return new this.#RequestError(RESOURCE_NOT_FOUND, `Resource not found: the session is not known: ${why}`, {
      sessionId,
    });
  }
}

const ELSEWHERE: Answer<never> = {
  available: false,
  reason: 'unsupported',
  reason_code: 'unsupported',
  detail: 'the fork works in another folder: it starts without checkpoints',
};

function invalidOption(name: string, what: string): TakebackError {
  return new TakebackError('ERR_INVALID_ARGUMENT', `options.${name}: ${what}`);
}

/** What came of our half of a request that the host has answered: never thrown, the host's half is done. */
async function told(run: () => Promise<unknown>): Promise<unknown> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TakebackError)) throw error;
    return { available: false, reason: error.code, reason_code: error.code, detail: error.message };
  }
}

async function sameFolder(a: string, b: string): Promise<boolean> {
  const real = (path: string): Promise<string> => realpath(path).catch(() => path);
  return (await real(a)) === (await real(b));
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function stringAt(value: unknown, key: string): string | undefined {
  const found = fieldsOf(value)[key];
  return typeof found === 'string' ? found : undefined;
}

function withMeta(response: unknown, ours: Fields): unknown {
  const fields = fieldsOf(response);
  const meta = fieldsOf(fields._meta);
  return { ...fields, _meta: { ...meta, [META_KEY]: { ...fieldsOf(meta[META_KEY]), ...ours } } };
}

function advertised(response: unknown): unknown {
  const workspaceCheckpoint = {
    methods: [CHECKPOINT_METHOD, CHECKPOINT_METHOD_TWIN],
    actions: Object.keys(requestSchemas),
  };
  const fields = fieldsOf(response);
  // The draft of the protocol's second version says it shorter.
  const name = 'capabilities' in fields ? 'capabilities' : 'agentCapabilities';
  return { ...fields, [name]: withMeta(fields[name], { workspaceCheckpoint }) };
}
