/**
 * The plugin's commands: what they do to the files is the engine's, what they do to the conversation is done here.
 *
 * `undo` takes the turn out of the transcript and `redo` puts it back; what was taken out is kept in the plugin's state,
 * so that it outlives a restart. A new turn drops it. Where nothing could be restored, the conversation stays as it is.
 */
import { z } from 'zod';
import type { HistoryResult } from '../../api.ts';
import type { Result } from '../../types.ts';
import type { ChatMessage, Command, ConversationApi } from './host.ts';
import { pathsOf } from './options.ts';
import type { Thread } from './threads.ts';

/** Messages that an undo took out. */
export interface Removed {
  readonly boundaryId: string;
  readonly messages: readonly ChatMessage[];
}

const BUSY = 'Wait until the turn ends, then try again.';

/** A step record can be passed as it is. */
const diffInput = z.object({ from: z.string().optional(), to: z.string().optional() }).optional();

/** A stack that outlives the process. */
export interface RemovedStack {
  newest(): Promise<Removed | undefined>;
  push(removed: Removed): Promise<void>;
  pop(): Promise<void>;
}

export function commandsOf(thread: Thread, removed: RemovedStack): Readonly<Record<string, Command>> {
  const idle = async (session: ConversationApi, run: () => Promise<string>): Promise<string> => {
    if (session.snapshot().status !== 'idle') return BUSY;
    // The host says that no turn runs: a call that is still open was left by one that was cut off.
    await thread.endLeftovers();
    return run();
  };
  return {
    undo: {
      description: 'Undo the last turn: put the files back as they were before it, and take it out of the conversation',
      run: (_input, { session }) => idle(session, () => undo(thread, session, removed)),
    },
    redo: {
      description: 'Redo what the last undo took back: the files, and the turn of the conversation',
      run: (_input, { session }) => idle(session, () => redo(thread, session, removed)),
    },
    diff: {
      description: 'Show what changed since the last turn began, or between two positions',
      input: diffInput,
      run: async (input) => diff(thread, diffInput.parse(input) ?? {}),
    },
  };
}

/** What was done, or null where nothing was; then the text says why. */
function doneBy(result: Result<HistoryResult>): { message: string; boundaryId: string | null } {
  if (!result.available) return { message: result.detail, boundaryId: null };
  const settled = result.outcome !== 'nothing';
  return { message: result.message, boundaryId: settled ? (result.receipt?.boundaryId ?? null) : null };
}

async function undo(thread: Thread, session: ConversationApi, removed: RemovedStack): Promise<string> {
  const { message, boundaryId } = doneBy(await thread.session.undo());
  if (boundaryId === null) return message;
  const messages = await session.transcript();
  const start = await startOf(thread, messages, boundaryId);
  if (start < 0) return message;
  await session.replaceTranscript(messages.slice(0, start));
  await removed.push({ boundaryId, messages: messages.slice(start) });
  return message;
}

async function redo(thread: Thread, session: ConversationApi, removed: RemovedStack): Promise<string> {
  const { message, boundaryId } = doneBy(await thread.session.redo());
  if (boundaryId === null) return message;
  const last = await removed.newest();
  if (last?.boundaryId !== boundaryId) return message;
  await session.replaceTranscript([...(await session.transcript()), ...last.messages]);
  await removed.pop();
  return message;
}

/** Turns a page when a turn is looked for that the transcript doesn't name. */
const TURNS = 64;

/** Where a turn begins in the transcript: at the message that its boundary is named after, else counted from the end. */
async function startOf(thread: Thread, messages: readonly ChatMessage[], boundaryId: string): Promise<number> {
  const named = messages.findIndex(({ id }) => id === boundaryId);
  if (named >= 0) return named;
  const users = messages.flatMap(({ role }, at) => (role === 'user' ? [at] : []));
  return users.at(-(await turnsFrom(thread, boundaryId))) ?? -1;
}

/** How many turns of the transcript the undone one and those after it are. Those of an earlier undo have left it. */
async function turnsFrom(thread: Thread, boundaryId: string): Promise<number> {
  const timeline = await thread.session.timeline({ limit: TURNS });
  const turns = timeline.available ? timeline.items.filter((item) => item.type === 'boundary') : [];
  const at = turns.findIndex((turn) => turn.boundaryId === boundaryId);
  const next = turns.findIndex((turn, index) => index > at && turn.undone);
  return at < 0 ? 1 : (next < 0 ? turns.length : next) - at;
}

async function diff(
  thread: Thread,
  { from, to }: { from?: string | undefined; to?: string | undefined },
): Promise<unknown> {
  const start = from ?? (await newestPosition(thread));
  if (start === null) return { files: [], patch: '' };
  const result = await thread.session.diff(start, to);
  if (!result.available) return result.detail;
  return { files: pathsOf(result.files), patch: result.patch };
}

async function newestPosition(thread: Thread): Promise<string | null> {
  const timeline = await thread.session.timeline({ limit: 1 });
  const turn = timeline.available ? timeline.items.find((item) => item.type === 'boundary') : undefined;
  return turn?.type === 'boundary' ? turn.position : null;
}
