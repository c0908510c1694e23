/**
 * The plugin's commands: what they do to the files is the engine's, what they do to the conversation is done here.
 *
 * `undo` takes the turn out of the transcript and `redo` puts it back; `revert` hides what came after a message and
 * `unrevert` shows it again. A new turn drops what was taken out. Where no file could be restored, the conversation stays
 * as it is.
 */
import { z } from 'zod';
import type { HistoryResult } from '../../api.ts';
import type { Result } from '../../types.ts';
import { endOfMessage, idsUpTo, type ListedTurn, startOfTurn, type TakenOut } from './conversation.ts';
import type { Command, ConversationApi } from './host.ts';
import { pathsOf } from './options.ts';
import type { Thread } from './threads.ts';

const BUSY = 'Wait until the turn ends, then try again.';

/** A step record can be passed as it is. */
const diffInput = z.object({ from: z.string().optional(), to: z.string().optional() }).optional();
const revertInput = z.object({ messageId: z.string() });

export function commandsOf(thread: Thread, takenOut: TakenOut): Readonly<Record<string, Command>> {
  const idle = async (session: ConversationApi, run: (at: Place) => Promise<string>): Promise<string> => {
    if (session.snapshot().status !== 'idle') return BUSY;
    // The host says that no turn runs: a call that is still open was left by one that was cut off.
    await thread.endLeftovers();
    return run({ thread, session, takenOut });
  };
  return {
    undo: {
      description: 'Undo the last turn: put the files back as they were before it, and take it out of the conversation',
      run: (_input, { session }) => idle(session, undo),
    },
    redo: {
      description: 'Redo what the last undo took back: the files, and the turn of the conversation',
      run: (_input, { session }) => idle(session, redo),
    },
    revert: {
      description: 'Go back to a message: the files as they were then, and the conversation up to it',
      input: revertInput,
      run: async (input, { session }) => idle(session, (at) => revert(at, revertInput.parse(input).messageId)),
    },
    unrevert: {
      description: 'Bring back the files and the messages that the last revert took away',
      run: (_input, { session }) => idle(session, unrevert),
    },
    diff: {
      description: 'Show what changed since the last turn began, or between two positions',
      input: diffInput,
      run: async (input) => diff(thread, diffInput.parse(input) ?? {}),
    },
  };
}

interface Place {
  readonly thread: Thread;
  readonly session: ConversationApi;
  readonly takenOut: TakenOut;
}

/** What was done: a boundary where something was, else only the text that says why not. */
function doneBy(result: Result<HistoryResult>): { message: string; boundaryId: string | null } {
  if (!result.available) return { message: result.detail, boundaryId: null };
  const settled = result.outcome !== 'nothing';
  return { message: result.message, boundaryId: settled ? (result.receipt?.boundaryId ?? null) : null };
}

async function undo({ thread, session, takenOut }: Place): Promise<string> {
  const { message, boundaryId } = doneBy(await thread.session.undo());
  if (boundaryId === null) return message;
  const messages = await session.transcript();
  const start = startOfTurn(messages, boundaryId, await newestTurns(thread));
  if (start < 0) return message;
  await session.replaceTranscript(messages.slice(0, start));
  await takenOut.pushUndone({ boundaryId, messages: messages.slice(start) });
  return message;
}

async function redo({ thread, session, takenOut }: Place): Promise<string> {
  const { message, boundaryId } = doneBy(await thread.session.redo());
  if (boundaryId === null) return message;
  const last = await takenOut.newestUndone();
  if (last?.boundaryId !== boundaryId) return message;
  await session.replaceTranscript([...(await session.transcript()), ...last.messages]);
  await takenOut.popUndone();
  return message;
}

async function revert({ thread, session, takenOut }: Place, messageId: string): Promise<string> {
  const messages = await session.transcript();
  const at = messages.findIndex(({ id }) => id === messageId);
  const { message, boundaryId } = doneBy(await revertToFirst(thread, at < 0 ? [messageId] : idsUpTo(messages, at)));
  if (boundaryId === null || at < 0) return message;
  const end = endOfMessage(messages, at);
  await session.replaceTranscript(messages.slice(0, end));
  await takenOut.hide(messages.slice(end));
  return message;
}

/** Goes back to the first of the ids that the timeline knows. What is said of the first stands where it knows none. */
async function revertToFirst(thread: Thread, ids: readonly string[]): Promise<Result<HistoryResult>> {
  let answer: Result<HistoryResult> | undefined;
  for (const messageId of ids) {
    const result = await thread.session.revert({ messageId });
    if (result.available || result.reason !== 'unknown-boundary') return result;
    answer ??= result;
  }
  return answer as Result<HistoryResult>;
}

async function unrevert({ thread, session, takenOut }: Place): Promise<string> {
  const { message, boundaryId } = doneBy(await thread.session.unrevert());
  if (boundaryId === null) return message;
  const hidden = await takenOut.hidden();
  if (hidden.length === 0) return message;
  await session.replaceTranscript([...(await session.transcript()), ...hidden]);
  await takenOut.hide([]);
  return message;
}

/** Turns that are looked at to find one that the transcript doesn't name. */
const TURNS = 64;

async function newestTurns(thread: Thread): Promise<ListedTurn[]> {
  const timeline = await thread.session.timeline({ limit: TURNS, lines: false });
  return timeline.available ? timeline.items.filter((item) => item.type === 'boundary') : [];
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
  const timeline = await thread.session.timeline({ limit: 1, lines: false });
  const turn = timeline.available ? timeline.items.find((item) => item.type === 'boundary') : undefined;
  return turn?.type === 'boundary' ? turn.position : null;
}
