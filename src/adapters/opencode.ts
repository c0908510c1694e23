/**
 * `takeback/adapters/opencode`: a plugin for OpenCode. Boundaries at user messages, calls around tools, subagents' calls
 * inside the call of their `task` tool, and the commands `/takeback-undo`, `/takeback-redo` and `/takeback-diff`.
 *
 * OpenCode tells the end of a tool only where it did not fail; a failure is told by an event, and what neither tells ends
 * with the turn. A command of a plugin always goes on to the model: ours is stopped by an error, after its answer was put
 * into the conversation as a note that the model doesn't see. Not covered: shell commands of the user (`!`), which are the
 * user's own, and sessions that OpenCode forks: they begin without a history of files.
 */
import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import {
  type Adapter,
  type AdapterOptions,
  defineAdapter,
  lastUserMessage,
  type Message,
  type Problem,
  type Recorder,
  type ToolTable,
} from './kit.ts';
import { commandsFor, type OpenCodeClient } from './opencode/commands.ts';
import { Lineage } from './opencode/lineage.ts';

export type { OpenCodeClient } from './opencode/commands.ts';

/** What OpenCode gives a plugin, as far as it is used. */
export interface OpenCodeInput {
  /** Where the instance runs. */
  readonly directory: string;
  /** The top of the git worktree; `/` where there is none. */
  readonly worktree?: string | undefined;
  readonly client?: OpenCodeClient | undefined;
}

interface ToolInput {
  readonly tool: string;
  readonly sessionID: string;
  readonly callID: string;
}

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly ignored?: boolean;
}

interface OpenCodeEvent {
  readonly type: string;
  readonly properties?: unknown;
}

/** The hooks of the plugin. */
export interface OpenCodeHooks {
  config(config: { command?: Record<string, unknown> }): Promise<void>;
  event(input: { event: OpenCodeEvent }): Promise<void>;
  'chat.message'(
    input: { readonly sessionID: string; readonly messageID?: string | undefined },
    output: { readonly message: { readonly id?: string }; readonly parts: readonly Part[] },
  ): Promise<void>;
  'command.execute.before'(
    input: { readonly command: string; readonly sessionID: string; readonly arguments?: string },
    output: { readonly parts: unknown[] },
  ): Promise<void>;
  'tool.execute.before'(input: ToolInput, output: { readonly args: unknown }): Promise<void>;
  'tool.execute.after'(input: ToolInput, output: unknown): Promise<void>;
  dispose(): Promise<void>;
}

export interface OpenCodeOptions extends Partial<AdapterOptions> {
  /**
   * How a command answers: `note` (default) puts a note into the conversation, without the model; `model` has the model
   * say it, and so lets it know that files went back.
   */
  readonly answer?: 'note' | 'model' | undefined;
}

/**
 * Makes the plugin. A file in `.opencode/plugin/` exports it: `export const Takeback = takeback()`.
 *
 * The root is the git worktree, else the folder in which OpenCode runs; `root` names another. OpenCode never fails
 * because of it: what can't be recorded goes to OpenCode's log, and that nothing is recorded is shown once.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form, when OpenCode loads it
 */
export function takeback(options: OpenCodeOptions = {}): (input: OpenCodeInput) => Promise<OpenCodeHooks> {
  return async (input) => {
    const { answer, ...rest } = options;
    const worktree = input.worktree === undefined || input.worktree === '/' ? input.directory : input.worktree;
    const adapter: Adapter<OpenCodeHooks> = defineAdapter<OpenCodeHooks>({
      name: 'opencode',
      tools: toolsIn(input.directory),
      mount: (recorder) => hooksOf(recorder, { input, answer, close: () => adapter.close() }),
    })({ root: worktree, onProblem: teller(input.client), ...rest });
    return adapter.host;
  };
}

const READS = { paths: [], sideEffect: 'read_only' } as const;
const FETCHES = { paths: [], sideEffect: 'network_read' } as const;

/** OpenCode's own tools. Those of MCP servers and plugins are not known: they own what changes while they run. */
function toolsIn(directory: string): ToolTable {
  const file = {
    paths: ({ filePath }: { filePath?: unknown }) =>
      typeof filePath === 'string' ? [realFile(resolve(directory, filePath))] : undefined,
    sideEffect: 'workspace_write',
  } as const;
  return {
    ...{ edit: file, write: file },
    ...{ read: READS, grep: READS, glob: READS, list: READS, todoread: READS, todowrite: READS, question: READS },
    ...{ webfetch: FETCHES, websearch: FETCHES, codesearch: FETCHES },
    ...{ bash: { sideEffect: 'process_exec' }, apply_patch: { sideEffect: 'workspace_write' } },
  };
}

/** The file that a write to `path` changes: links of its folders followed, as far as they are there. */
function realFile(path: string): string {
  const folder = dirname(path);
  if (folder === path) return path;
  try {
    return join(realpathSync(folder), basename(path));
  } catch {
    return join(realFile(folder), basename(path));
  }
}

/** Problems go to OpenCode's log; those that mean that nothing is recorded are shown, once for each reason. */
function teller(client: OpenCodeClient | undefined): ((problem: Problem) => void) | undefined {
  if (client?.app === undefined) return undefined;
  const shown = new Set<string>();
  return ({ during, reason, detail, ...extra }) => {
    const message = `${during}: ${detail}`;
    void client.app?.log({ body: { service: 'takeback', level: 'warn', message, extra } }).catch(() => undefined);
    if (during !== 'capture' || shown.has(reason)) return;
    shown.add(reason);
    const toast = { message: `takeback: ${detail}`, variant: 'warning' as const };
    // Without a terminal there is nobody to show it to; the log has it.
    void client.tui?.showToast({ body: toast }).catch(() => undefined);
  };
}

interface Mounted {
  readonly input: OpenCodeInput;
  readonly answer: 'note' | 'model' | undefined;
  close(): Promise<void>;
}

function hooksOf(recorder: Recorder, { input, answer, close }: Mounted): OpenCodeHooks {
  const lineage = new Lineage();
  const commands = commandsFor(recorder, { client: input.client, answer: answer ?? 'note' });
  /** A hook that throws would fail what OpenCode does. */
  const safely = async (during: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      recorder.problem({ threadId: 'unknown' }, during, error);
    }
  };
  return {
    config: async (config) => {
      config.command = { ...commands.definitions, ...config.command };
    },
    event: ({ event }) => safely('event', () => heard(recorder, lineage, event)),
    'chat.message': (message, output) =>
      safely('chat.message', async () => {
        // A message that the model doesn't see begins no turn: a note, of ours or of another plugin.
        const unseen = output.parts.length > 0 && output.parts.every(({ ignored }) => ignored === true);
        if (unseen || commands.isAnswer(message.sessionID)) return;
        await recorder.conversation(message.sessionID).message(messageOf(message, output));
      }),
    'command.execute.before': ({ command, sessionID }, { parts }) => commands.run(command, sessionID, parts),
    'tool.execute.before': ({ tool, sessionID, callID }, { args }) =>
      safely('tool.execute.before', () => {
        const parentCallId = lineage.parentCall(sessionID);
        const stepId = lineage.began({ sessionID, callID, tool });
        return recorder.conversation(sessionID).begin({ id: callID, tool, input: args, stepId, parentCallId });
      }),
    'tool.execute.after': ({ sessionID, callID }) =>
      safely('tool.execute.after', () => {
        lineage.ended({ sessionID, callID });
        return recorder.conversation(sessionID).end(callID);
      }),
    dispose: () => safely('dispose', close),
  };
}

function messageOf(
  { messageID }: Parameters<OpenCodeHooks['chat.message']>[0],
  { message, parts }: Parameters<OpenCodeHooks['chat.message']>[1],
): Message {
  const text = parts.find((part) => part.type === 'text')?.text ?? '';
  return lastUserMessage([{ role: 'user', content: text }], message.id ?? messageID);
}

interface EventFacts {
  readonly sessionID?: string;
  readonly info?: { readonly id?: string; readonly parentID?: string };
  readonly part?: {
    readonly type?: string;
    readonly sessionID?: string;
    readonly messageID?: string;
    readonly callID?: string;
    readonly state?: { readonly status?: string; readonly metadata?: { readonly sessionId?: string } };
  };
}

async function heard(recorder: Recorder, lineage: Lineage, { type, properties }: OpenCodeEvent): Promise<void> {
  const { info, part, sessionID } = Object(properties) as EventFacts;
  const about = sessionID ?? info?.id;
  if (type === 'message.part.updated' && part?.type === 'tool') return toolTold(recorder, lineage, part);
  if (about === undefined) return;
  if (type === 'session.created' && info?.parentID !== undefined) lineage.child(about, info.parentID);
  const conversation = recorder.conversation(about);
  if (type === 'session.idle') await conversation.turnEnded();
  if (type === 'session.error') await conversation.aborted();
  if (type === 'session.deleted') {
    lineage.forget(about);
    const dropped = await conversation.drop().catch((error: unknown) => error);
    const { available } = dropped as { available?: boolean };
    if (available !== true) recorder.problem({ threadId: about }, 'drop', dropped);
  }
}

/** A part of a message tells of a tool: which message asked for it, whose session a subagent has, and that it failed. */
async function toolTold(recorder: Recorder, lineage: Lineage, part: NonNullable<EventFacts['part']>): Promise<void> {
  const { sessionID, messageID, callID, state } = part;
  if (sessionID === undefined || callID === undefined) return;
  const call = { sessionID, callID };
  if (messageID !== undefined) lineage.asked(call, messageID);
  if (state?.metadata?.sessionId !== undefined) lineage.subagent(state.metadata.sessionId, call);
  if (state?.status !== 'error' && state?.status !== 'completed') return;
  lineage.ended(call);
  const conversation = recorder.conversation(sessionID);
  if (conversation.isOpen(callID)) await conversation.end(callID, { isError: state.status === 'error' });
}
