/**
 * Where turns and messages lie in a transcript, and what was taken out of it. Pure, but for the interface of what is
 * kept.
 */
import type { ChatMessage } from './host.ts';

/** Messages that an undo took out. */
export interface Removed {
  readonly boundaryId: string;
  readonly messages: readonly ChatMessage[];
}

/** What commands took out of the transcript. It outlives the process; a new turn empties it. */
export interface TakenOut {
  newestUndone(): Promise<Removed | undefined>;
  pushUndone(removed: Removed): Promise<void>;
  popUndone(): Promise<void>;
  /** What the standing revert hides. */
  hidden(): Promise<readonly ChatMessage[]>;
  hide(messages: readonly ChatMessage[]): Promise<void>;
}

/** A turn as the timeline lists it, oldest first. */
export interface ListedTurn {
  readonly boundaryId: string;
  readonly undone: boolean;
}

/**
 * Where a turn begins: at the message that its boundary is named after, else found by counting turns back from the end.
 * Those that an earlier undo took out are not in the transcript any more. -1 where it has no such turn.
 */
export function startOfTurn(
  messages: readonly ChatMessage[],
  boundaryId: string,
  turns: readonly ListedTurn[],
): number {
  const named = messages.findIndex(({ id }) => id === boundaryId);
  if (named >= 0) return named;
  const at = turns.findIndex((turn) => turn.boundaryId === boundaryId);
  const next = turns.findIndex((turn, index) => index > at && turn.undone);
  const count = at < 0 ? 1 : (next < 0 ? turns.length : next) - at;
  const users = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  return users.at(-count) ?? -1;
}

/** Where what comes after a message begins: the answers to its tool calls belong to it. */
export function endOfMessage(messages: readonly ChatMessage[], at: number): number {
  const calls = new Set(messages[at]?.toolCalls?.map(({ id }) => id));
  let end = at + 1;
  while (messages[end]?.role === 'tool' && calls.has(messages[end]?.toolCallId ?? '')) end += 1;
  return end;
}

/**
 * Ids that stand for the files as they were when a message was complete, best first: its own, and where it made no call
 * those of the messages before it, back to the last that made one.
 */
export function idsUpTo(messages: readonly ChatMessage[], at: number): string[] {
  const ids: string[] = [];
  for (let index = at; index >= 0; index -= 1) {
    const { id, role, toolCalls } = messages[index] as ChatMessage;
    if (role === 'tool') continue;
    if (id !== undefined) ids.push(id);
    if ((toolCalls?.length ?? 0) > 0) break;
  }
  return ids;
}
