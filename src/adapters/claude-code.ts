/**
 * `takeback/adapters/claude-code`: in-process hooks for the Claude Agent SDK (`query({ options: { hooks } })`). Each prompt is a
 * boundary, each tool call that may change files a call; the mapping is that of `takeback hook claude-code`.
 *
 * The agent never waits for more than the recording and never fails because of it: what goes wrong is told as a problem.
 * Nothing of the SDK is imported. Not covered: files outside `root`, and what a background command does after its call.
 */
import { z } from 'zod';
import type { Session, Workspace } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { openWorkspace } from '../index.ts';
import { check, openOptionsSchema } from '../schemas.ts';
import { actionOf, HOOK_EVENTS, type HookAction } from './claude-code/events.ts';
import { NotRecorded, perform } from './claude-code/perform.ts';
import { SessionRecorder } from './claude-code/session-recorder.ts';

export { HOOK_EVENTS, HookInputError } from './claude-code/events.ts';

/** An event that could not be recorded; the agent went on. */
export interface ClaudeCodeProblem {
  /** `hook_event_name`, where it could be read. */
  readonly event: string | undefined;
  /** The engine's reason, a `TakebackError`'s code, or `bad-input`. */
  readonly reason: string;
  readonly detail: string;
}

/** Options of {@link claudeCodeHooks}: those of `openWorkspace`, and who hears of problems. */
export const claudeCodeHooksOptionsSchema = openOptionsSchema.extend({
  /** Default: a warning of the process (`process.emitWarning`). */
  onProblem: z
    .custom<(problem: ClaudeCodeProblem) => void>((v) => typeof v === 'function', 'onProblem must be a function')
    .optional(),
});

export type ClaudeCodeHooksOptions = z.input<typeof claudeCodeHooksOptionsSchema>;

/** As the SDK calls it. `{}` means: go on. */
export type HookCallback = (
  input: unknown,
  toolUseId: string | undefined,
  options: { signal: AbortSignal },
) => Promise<Record<string, never>>;

export interface ClaudeCodeHooks {
  /** For `options.hooks` of `query`: one list an event, to which hooks of your own can be added. */
  readonly hooks: Record<string, { hooks: HookCallback[] }[]>;
  /** The session of a `session_id`: undo, redo, plan and all else. */
  session(sessionId: string): Promise<Session>;
  /** Waits for events that are being recorded, and closes the workspace. */
  close(): Promise<void>;
}

/**
 * Hooks that record what an agent of the Agent SDK does below `root`. The workspace is opened at the first event.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function claudeCodeHooks(options: ClaudeCodeHooksOptions): ClaudeCodeHooks {
  const { onProblem = warn, ...open } = check(claudeCodeHooksOptionsSchema, options, 'options');
  const recording = new Recording(() => openWorkspace(open as Parameters<typeof openWorkspace>[0]));
  const callback: HookCallback = async (input) => {
    try {
      const action = actionOf(input);
      if (action.kind !== 'ignore') await recording.record(action);
    } catch (fault) {
      onProblem({ event: nameOf(input), ...problemOf(fault) });
    }
    return {};
  };
  return {
    hooks: Object.fromEntries(HOOK_EVENTS.map((event) => [event, [{ hooks: [callback] }]])),
    session: async (sessionId) => (await recording.workspace()).session({ threadId: sessionId }),
    close: () => recording.close(),
  };
}

function warn({ event, reason, detail }: ClaudeCodeProblem): void {
  process.emitWarning(`${event ?? 'a hook event'} was not recorded: ${detail} (${reason})`, 'TakebackWarning');
}

function nameOf(input: unknown): string | undefined {
  const name = (input as { hook_event_name?: unknown } | null | undefined)?.hook_event_name;
  return typeof name === 'string' ? name : undefined;
}

function problemOf(fault: unknown): { reason: string; detail: string } {
  if (fault instanceof NotRecorded) return { reason: fault.reason, detail: fault.message };
  if (fault instanceof TakebackError) return { reason: fault.code, detail: fault.message };
  return { reason: 'bad-input', detail: fault instanceof Error ? fault.message : String(fault) };
}

/** The workspace, opened once, and a recorder for each session. */
class Recording {
  readonly #open: () => Promise<Workspace>;
  readonly #sessions = new Map<string, SessionRecorder>();
  readonly #running = new Set<Promise<void>>();
  #opened: Promise<Workspace> | undefined;
  #turns = 0;

  constructor(open: () => Promise<Workspace>) {
    this.#open = open;
  }

  /** @throws {NotRecorded} where it can't be opened; the next event tries again */
  async workspace(): Promise<Workspace> {
    this.#opened ??= this.#open();
    const workspace = await this.#opened;
    if (workspace.available) return workspace;
    this.#opened = undefined;
    throw new NotRecorded(workspace.reason ?? 'unsupported', workspace.detail ?? 'the workspace can not be opened');
  }

  async record(action: Exclude<HookAction, { kind: 'ignore' }>): Promise<void> {
    const work = this.#perform(action);
    this.#running.add(work);
    await work.finally(() => this.#running.delete(work));
  }

  async #perform(action: Exclude<HookAction, { kind: 'ignore' }>): Promise<void> {
    const workspace = await this.workspace();
    let session = this.#sessions.get(action.threadId);
    if (session === undefined) {
      session = new SessionRecorder(workspace.root, workspace.session({ threadId: action.threadId }));
      this.#sessions.set(action.threadId, session);
    }
    const newId = (): string => `prompt-${Date.now().toString(36)}-${(this.#turns++).toString(36)}`;
    await perform(session, action, { newId, detached: false });
    if (action.kind === 'session-end') this.#sessions.delete(action.threadId);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#running);
    const opened = this.#opened;
    this.#opened = undefined;
    await (await opened)?.close();
  }
}
