/**
 * What a hook event of Claude Code asks of a session: pure mapping from the event's JSON to one action. The hook command and
 * the Agent SDK's in-process hooks share it, and so do hosts that speak the same shape (Codex: `turn_id` for `prompt_id`).
 *
 * Checked by hand: the hook command starts once a tool call, and the schema library alone would cost it a third of Node's
 * own start. An event or a tool that means nothing here is `ignore`, never an error. Not covered: where a path leads
 * (`paths.ts`).
 */
import type { SideEffect } from '../../types.ts';

/** A hook event that is not of the documented form; the message names the field. */
export class HookInputError extends Error {}

interface Origin {
  /** `session_id`: the thread of the session. */
  readonly threadId: string;
  /** Where the host stands now; absolute. */
  readonly cwd: string;
  /** Names the turn, where the host says it. */
  readonly promptId?: string;
}

export interface BeginAction extends Origin {
  readonly kind: 'begin';
  readonly callId: string;
  readonly tool: string;
  /** As the tool was given it; undefined: anything may change. */
  readonly file?: string;
  /** It changes no file itself: a subagent's calls do. */
  readonly container: boolean;
  /** It runs inside a subagent. */
  readonly inSubagent: boolean;
}

export interface EndAction extends Origin {
  readonly kind: 'end';
  readonly callId: string;
  readonly tool: string;
  /** For an edit tool that began with another root than this one: both must agree on whether it was recorded. */
  readonly file?: string;
  readonly isError: boolean;
  readonly sideEffect?: SideEffect;
}

export type HookAction =
  | (Origin & { readonly kind: 'boundary'; readonly label?: string })
  | BeginAction
  | EndAction
  /** `settled`: nothing of the turn runs any more, so calls that are still open never ended. */
  | (Origin & { readonly kind: 'turn-end'; readonly settled: boolean })
  | (Origin & { readonly kind: 'session-end' })
  | { readonly kind: 'ignore' };

const LONGEST_ID = 1024;
const LONGEST_LABEL = 80;

/**
 * Tools that change no file of the project, so that their calls own nothing: they aren't recorded at all, and cost a start
 * of Node. A tool that isn't known here is recorded, and owns what changes while it runs.
 */
const READING: ReadonlySet<string> = new Set([
  'Read',
  'Grep',
  'Glob',
  'LS',
  'LSP',
  'NotebookRead',
  'WebFetch',
  'WebSearch',
  'TodoRead',
  'TodoWrite',
  'TaskCreate',
  'TaskGet',
  'TaskList',
  'TaskUpdate',
  'TaskOutput',
  'TaskStop',
  'BashOutput',
  'KillShell',
  'AskUserQuestion',
  'EnterPlanMode',
  'ExitPlanMode',
  'ToolSearch',
  'ListMcpResourcesTool',
  'ReadMcpResourceTool',
]);

/** Tools that name the one file that they change, and the field that names it. */
const EDITING: ReadonlyMap<string, string> = new Map([
  ['Write', 'file_path'],
  ['Edit', 'file_path'],
  ['MultiEdit', 'file_path'],
  ['NotebookEdit', 'notebook_path'],
]);

/** Tools that start subagents; their name changed between versions. */
export const CONTAINERS: ReadonlySet<string> = new Set(['Agent', 'Task']);
const SHELLS: ReadonlySet<string> = new Set(['Bash', 'PowerShell', 'shell', 'local_shell', 'exec_command']);

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string' || value === '')
    throw new HookInputError(`${name} must be a non-empty string, got ${describe(value)}`);
  return value;
}

/** Ids go into the store as they are, never into a file name: `../` in one is three characters. */
function id(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (value.length > LONGEST_ID) throw new HookInputError(`${name} must have at most ${LONGEST_ID} characters`);
  if (value.includes('\0')) throw new HookInputError(`${name} must not hold a NUL character`);
  return value;
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  return typeof value === 'string' ? 'an empty string' : Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}

function originOf(fields: Fields): Origin {
  const origin = { threadId: id(fields, 'session_id'), cwd: text(fields, 'cwd') };
  const named = ['prompt_id', 'turn_id'].find((name) => fields[name] !== undefined && fields[name] !== null);
  return named === undefined ? origin : { ...origin, promptId: id(fields, named) };
}

/** The first line of the prompt, for the log. */
function labelOf(fields: Fields): { label?: string } {
  if (typeof fields.prompt !== 'string') return {};
  const line = fields.prompt.trimStart().split('\n', 1)[0] as string;
  const label = [...line].slice(0, LONGEST_LABEL).join('').trim();
  return label === '' ? {} : { label };
}

/** The file that an edit tool names; undefined for another tool, or where the input says nothing. */
function fileOf(tool: string, fields: Fields): { file?: string } {
  const name = EDITING.get(tool);
  const input = fields.tool_input;
  if (name === undefined || !isFields(input)) return {};
  const file = input[name];
  return typeof file === 'string' && file !== '' && !file.includes('\0') ? { file } : {};
}

function begin(fields: Fields): HookAction {
  const tool = text(fields, 'tool_name');
  if (READING.has(tool)) return { kind: 'ignore' };
  return {
    kind: 'begin',
    ...originOf(fields),
    callId: id(fields, 'tool_use_id'),
    tool: tool.slice(0, LONGEST_ID),
    ...fileOf(tool, fields),
    container: CONTAINERS.has(tool),
    inSubagent: typeof fields.agent_id === 'string',
  };
}

function end(fields: Fields, isError: boolean): HookAction {
  const tool = text(fields, 'tool_name');
  if (READING.has(tool)) return { kind: 'ignore' };
  const sideEffect = SHELLS.has(tool) ? 'process_exec' : EDITING.has(tool) ? 'workspace_write' : undefined;
  return {
    kind: 'end',
    ...originOf(fields),
    callId: id(fields, 'tool_use_id'),
    tool: tool.slice(0, LONGEST_ID),
    ...fileOf(tool, fields),
    isError,
    ...(sideEffect === undefined ? {} : { sideEffect }),
  };
}

/** Subagents may go on in the background when the main turn ends; their calls are then left open. */
function turnEnd(fields: Fields): HookAction {
  const running = fields.background_tasks;
  return { kind: 'turn-end', ...originOf(fields), settled: !(Array.isArray(running) && running.length > 0) };
}

const ACTIONS: Readonly<Record<string, (fields: Fields) => HookAction>> = {
  UserPromptSubmit: (fields) => ({ kind: 'boundary', ...originOf(fields), ...labelOf(fields) }),
  PreToolUse: begin,
  PostToolUse: (fields) => end(fields, false),
  PostToolUseFailure: (fields) => end(fields, true),
  PermissionDenied: (fields) => end(fields, true),
  Stop: turnEnd,
  StopFailure: turnEnd,
  SessionEnd: (fields) => ({ kind: 'session-end', ...originOf(fields) }),
};

/** The events that mean something here, as `hooks` of the settings name them. */
export const HOOK_EVENTS: readonly string[] = Object.keys(ACTIONS);

/**
 * The action of one hook event.
 *
 * @param input the event's JSON, parsed
 * @throws {HookInputError} where a field that is needed is missing or of another type
 * @see https://code.claude.com/docs/en/hooks
 */
export function actionOf(input: unknown): HookAction {
  if (!isFields(input)) throw new HookInputError(`a hook event must be a JSON object, got ${describe(input)}`);
  const event = text(input, 'hook_event_name');
  return (Object.hasOwn(ACTIONS, event) ? ACTIONS[event] : undefined)?.(input) ?? { kind: 'ignore' };
}
