/**
 * `takeback/adapters/harn`: the workspace checkpoints of Harn's `fs` capability, with its names and shapes.
 *
 * {@link checkpointMethods} answers the six methods of Harn's document in snake_case, and one of ours for forks. Requests are
 * checked here, run on a session of the engine (`harn/rooms.ts`), and answered in Harn's words (`harn/results.ts`). Calls of
 * one session may overlap. Not covered: Harn's conversation (`agent.fork_at`); a git worktree is not needed.
 */
import type { Workspace } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { check, conflictPolicySchema, type OpenOptions, openOptionsSchema, sessionKeySchema } from '../schemas.ts';
import type { ConflictPolicy, Result, Unavailable, WorkOptions } from '../types.ts';
import {
  type CallBeginRequest,
  type CallEndRequest,
  type CaptureRequest,
  callBeginRequestSchema,
  callEndRequestSchema,
  captureRequestSchema,
  type DropRequest,
  dropRequestSchema,
  type ForkRequest,
  forkRequestSchema,
  type PlanRequest,
  planRequestSchema,
  type RestoreRequest,
  restoreRequestSchema,
} from './harn/requests.ts';
import {
  type Answer,
  type CallBeginAnswer,
  type CallEndAnswer,
  type CaptureAnswer,
  callBeginAnswer,
  callEndAnswer,
  captureAnswer,
  type DropAnswer,
  type ForkAnswer,
  type PlanAnswer,
  planAnswer,
  type RestoreAnswer,
  restoreAnswer,
  unavailableAnswer,
} from './harn/results.ts';
import { type Asker, type Place, Rooms } from './harn/rooms.ts';

export type {
  CallBeginRequest,
  CallEndRequest,
  CaptureRequest,
  CheckpointAction,
  DropRequest,
  ForkRequest,
  PlanRequest,
  RestoreRequest,
} from './harn/requests.ts';
export {
  callBeginRequestSchema,
  callEndRequestSchema,
  captureRequestSchema,
  dropRequestSchema,
  forkRequestSchema,
  planRequestSchema,
  requestSchemas,
  restoreRequestSchema,
} from './harn/requests.ts';
export type {
  Answer,
  CallBeginAnswer,
  CallEndAnswer,
  CaptureAnswer,
  ChangeAnswer,
  DropAnswer,
  EntryAnswer,
  ForkAnswer,
  IrreversibleAnswer,
  PlanAnswer,
  RestoreAnswer,
  UnavailableAnswer,
} from './harn/results.ts';
export type { Asker } from './harn/rooms.ts';

/** Options of {@link checkpointMethods}: those of `openWorkspace`, and what follows. */
export interface CheckpointMethodsOptions extends Omit<OpenOptions, 'root'> {
  /**
   * The folder that all sessions work in, absolute: a request may name no other. Or a function that tells the folder of a
   * session. Default: each session's first request names it as `root`.
   */
  readonly root?: string | ((asker: Asker) => string | undefined | Promise<string | undefined>) | undefined;
  /** The tenant of all sessions. Default: none. */
  readonly tenantId?: string | undefined;
  /** What plan and restore do with a file that somebody changed since, where the request doesn't say. Default `refuse`. */
  readonly onConflict?: ConflictPolicy | undefined;
  /** How a workspace is opened. Default: `openWorkspace`, on this machine. */
  readonly open?: ((options: OpenOptions) => Promise<Workspace>) | undefined;
}

/**
 * Harn's methods. Every answer is `{ available: true, … }` or `{ available: false, reason, reason_code, detail }`.
 *
 * All of them throw a {@link TakebackError} for misuse: `ERR_INVALID_ARGUMENT` for a request of the wrong form or a root that is
 * not the session's, `ERR_DUPLICATE_BOUNDARY`, `ERR_DUPLICATE_CALL`, `ERR_UNKNOWN_CALL`, `ERR_OUTSIDE_ROOT`, `ERR_EMPTY_PATHS`; and
 * `ERR_CANCELLED` for a signal that was aborted.
 */
export interface CheckpointMethods {
  /** Records a boundary: once for each user message, before the agent's first tool. */
  checkpoint_capture(request: CaptureRequest, work?: WorkOptions): Promise<Answer<CaptureAnswer>>;
  /** Looks at the tree before a tool or shell call. */
  checkpoint_call_begin(request: CallBeginRequest, work?: WorkOptions): Promise<Answer<CallBeginAnswer>>;
  /** Looks again: what changed in between is the call's. `side_effect` is the class of the tool's annotation. */
  checkpoint_call_end(request: CallEndRequest, work?: WorkOptions): Promise<Answer<CallEndAnswer>>;
  /** What a restore would do. Writes nothing. */
  checkpoint_plan(request: PlanRequest, work?: WorkOptions): Promise<Answer<PlanAnswer>>;
  /** Takes back what the session changed since the boundary, or only `paths` of it. */
  checkpoint_restore(request: RestoreRequest, work?: WorkOptions): Promise<Answer<RestoreAnswer>>;
  /** Forgets the session and every byte that nobody else refers to. Files stay as they are. */
  checkpoint_drop(request: DropRequest): Promise<DropAnswer>;
  /** Of ours: the file half of a fork. The fork inherits the boundaries up to `boundary_id`, and all that is owed. */
  checkpoint_fork(request: ForkRequest): Promise<Answer<ForkAnswer>>;
  /** Lets go of a session without forgetting it; its next request names the root again. */
  release(sessionId: string): Promise<void>;
  /** Closes all workspaces. Every method then answers `closed`. */
  close(): Promise<void>;
}

/**
 * Makes the methods. Sessions of one root share an open workspace; it closes with the last of them.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function checkpointMethods(options: CheckpointMethodsOptions = {}): CheckpointMethods {
  return new Methods(options);
}

const NO_CHECKPOINT: Unavailable = {
  available: false,
  reason: 'no-checkpoint',
  detail: 'the session has no checkpoint here: capture a boundary before anything else, or name its root',
};

/** Guessed: more calls than a host has open at once by far. The end of one that was forgotten is that of an unknown call. */
const FAILED_BEGINS = 1000;

class Methods implements CheckpointMethods {
  readonly #rooms: Rooms;
  /** Calls whose begin was not available: their end answers the same. The newest {@link FAILED_BEGINS}: some never end. */
  readonly #failedBegins = new Map<string, Unavailable>();

  constructor(options: CheckpointMethodsOptions) {
    const { root, tenantId, onConflict, open, ...rest } = options;
    check(sessionKeySchema.shape.tenantId, tenantId, 'options.tenantId');
    check(conflictPolicySchema.optional(), onConflict, 'options.onConflict');
    if (typeof root !== 'function') check(openOptionsSchema.shape.root.optional(), root, 'options.root');
    this.#rooms = new Rooms({
      open: check(openOptionsSchema.omit({ root: true }), rest, 'options'),
      openWorkspace: open,
      root,
      tenantId,
      onConflict,
    });
  }

  async checkpoint_capture(request: CaptureRequest, work: WorkOptions = {}): Promise<Answer<CaptureAnswer>> {
    const { boundary_id, label, deadline_ms, ...asker } = check(captureRequestSchema, request, 'request');
    const rootless = (): never => {
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'request.root: name the folder that the session works in');
    };
    const result = await this.#rooms.use(asker, rootless, ({ session }) =>
      session.capture(boundary_id, { ...given({ label, deadlineMs: deadline_ms }), ...given({ ...work }) }),
    );
    return answered(result, captureAnswer);
  }

  async checkpoint_call_begin(request: CallBeginRequest, work: WorkOptions = {}): Promise<Answer<CallBeginAnswer>> {
    const { call_id, tool, step_id, parent_call_id, paths, ...asker } = check(
      callBeginRequestSchema,
      request,
      'request',
    );
    const options = { tool, stepId: step_id, parentCallId: parent_call_id, paths, signal: work.signal };
    const result = await this.#use(asker, ({ session }) => session.beginCall(call_id, given(options)));
    const name = callName(asker, call_id);
    this.#failedBegins.delete(name);
    if (!result.available) this.#failedBegins.set(name, result);
    const [oldest] = this.#failedBegins.keys();
    if (oldest !== undefined && this.#failedBegins.size > FAILED_BEGINS) this.#failedBegins.delete(oldest);
    return answered(result, callBeginAnswer);
  }

  async checkpoint_call_end(request: CallEndRequest, work: WorkOptions = {}): Promise<Answer<CallEndAnswer>> {
    const { call_id, side_effect, paths, is_error, ...asker } = check(callEndRequestSchema, request, 'request');
    const name = callName(asker, call_id);
    const failed = this.#failedBegins.get(name);
    if (failed !== undefined) {
      this.#failedBegins.delete(name);
      return unavailableAnswer(failed);
    }
    const options = { sideEffect: side_effect, paths, isError: is_error, signal: work.signal };
    const result = await this.#use(asker, ({ session }) => session.endCall(call_id, given(options)));
    return answered(result, callEndAnswer);
  }

  async checkpoint_plan(request: PlanRequest, work: WorkOptions = {}): Promise<Answer<PlanAnswer>> {
    const { boundary_id, paths, on_conflict, ...asker } = check(planRequestSchema, request, 'request');
    refuseEmpty(paths);
    const options = { ...given({ paths, onConflict: on_conflict }), ...given({ ...work }) };
    return answered(await this.#use(asker, ({ session }) => session.plan(boundary_id, options)), planAnswer);
  }

  async checkpoint_restore(request: RestoreRequest, work: WorkOptions = {}): Promise<Answer<RestoreAnswer>> {
    const { boundary_id, paths, on_conflict, plan_token, ...asker } = check(restoreRequestSchema, request, 'request');
    refuseEmpty(paths);
    const chosen = given({ paths, onConflict: on_conflict, planToken: plan_token });
    const options = { ...chosen, ...given({ ...work }) };
    return answered(await this.#use(asker, ({ session }) => session.restore(boundary_id, options)), restoreAnswer);
  }

  async checkpoint_drop(request: DropRequest): Promise<DropAnswer> {
    const asker = check(dropRequestSchema, request, 'request');
    const { session_id } = asker;
    const result = await this.#use(asker, async ({ workspace, session }): Promise<Result<Dropped>> => {
      const known = await this.#info(workspace, session_id);
      if (!known.available) return known;
      const dropped = await session.drop();
      return dropped.available ? { ...dropped, known: known.info !== undefined } : dropped;
    });
    if (!result.available) return { ...unavailableAnswer(result), dropped: false, error: result.detail };
    for (const name of this.#failedBegins.keys()) {
      if (name.startsWith(callName(asker, ''))) this.#failedBegins.delete(name);
    }
    await this.#rooms.release(session_id);
    return { available: true, dropped: result.known, freed_bytes: result.freedBytes };
  }

  async checkpoint_fork(request: ForkRequest): Promise<Answer<ForkAnswer>> {
    const { fork_session_id, boundary_id, ...asker } = check(forkRequestSchema, request, 'request');
    const result = await this.#use(asker, async ({ workspace, session }): Promise<Result<ForkAnswer>> => {
      const at = boundary_id ?? (await this.#newestBoundary(workspace, asker.session_id));
      if (typeof at !== 'string') return at;
      const { tenantId } = this.#rooms;
      const forked = await session.fork({ threadId: fork_session_id, ...given({ tenantId }) }, { at });
      return forked.available ? { available: true, session_id: fork_session_id, boundary_id: at } : forked;
    });
    return answered(result, ({ session_id, boundary_id: at }) => ({ session_id, boundary_id: at }));
  }

  async release(sessionId: string): Promise<void> {
    await this.#rooms.release(check(sessionKeySchema.shape.threadId, sessionId, 'sessionId'));
  }

  close(): Promise<void> {
    return this.#rooms.close();
  }

  #use<T>(asker: Asker, run: (place: Place) => Promise<Result<T>>): Promise<Result<T>> {
    return this.#rooms.use(asker, () => NO_CHECKPOINT, run);
  }

  async #info(workspace: Workspace, threadId: string): Promise<Result<{ info: SessionFacts | undefined }>> {
    const result = await workspace.sessions();
    if (!result.available) return result;
    const { tenantId } = this.#rooms;
    const info = result.sessions.find((one) => one.threadId === threadId && one.tenantId === tenantId);
    return { available: true, info };
  }

  async #newestBoundary(workspace: Workspace, threadId: string): Promise<string | Unavailable> {
    const result = await this.#info(workspace, threadId);
    return result.available ? (result.info?.newestBoundaryId ?? NO_CHECKPOINT) : result;
  }
}

interface Dropped {
  readonly freedBytes: number;
  readonly known: boolean;
}

interface SessionFacts {
  readonly newestBoundaryId?: string;
}

/** Ids hold no NUL. */
const callName = ({ session_id }: Asker, callId: string): string => `${session_id}\0${callId}`;

/** Said before a workspace is looked for: an empty list is a mistake whatever is there. */
function refuseEmpty(paths: readonly string[] | undefined): void {
  if (paths?.length === 0) {
    throw new TakebackError('ERR_EMPTY_PATHS', 'request.paths is empty: name at least one path, or leave it out');
  }
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Without what was left out. */
function given<T extends object>(values: T): Given<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Given<T>;
}

function answered<T, A>(result: Result<T>, make: (value: T) => A): Answer<A> {
  return result.available ? { available: true, ...make(result) } : unavailableAnswer(result);
}
