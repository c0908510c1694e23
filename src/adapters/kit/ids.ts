/**
 * Ids of boundaries and calls, made of what a host has. Pure, but for random ids where a host has none.
 *
 * A message without an id gets one of its text and its place among the user's messages, so that the same conversation
 * gives the same id again: after a restart, after an approval, in the next step. A host that trims its history moves the
 * place down; the turn goes on all the same.
 */
import { createHash, randomUUID } from 'node:crypto';

/** Longest id that is taken as it is: the engine's limit, less the number that a repeated id gets. */
const MAX_ID = 1000;

/** What a host knows of a user message. */
export interface Message {
  readonly id?: string | undefined;
  /** Where there is no id: the message's text, and the number of user messages up to this one. */
  readonly text?: string | undefined;
  readonly ordinal?: number | undefined;
  /** For people: shown in the timeline. */
  readonly label?: string | undefined;
}

/** Messages of a chat, as most hosts have them: a role, and text or parts of which some are text. */
export interface ChatMessage {
  readonly role: string;
  readonly content?: unknown;
}

const MAX_LABEL = 80;

/** The last user message of a chat; for a chat without one, the chat itself. `id` where the host knows it. */
export function lastUserMessage(messages: readonly ChatMessage[], id?: string): Message {
  const users = messages.filter(({ role }) => role === 'user');
  const text = textOf(users.at(-1)?.content);
  const [first = ''] = text.trim().split('\n');
  const label = first.length > MAX_LABEL ? `${first.slice(0, MAX_LABEL - 1)}…` : first;
  return { ...(id === undefined ? { text, ordinal: users.length } : { id }), ...(label === '' ? {} : { label }) };
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  const texts = content.map((part: unknown) => (Object(part) as { text?: unknown }).text);
  return texts.filter((text) => typeof text === 'string').join('\n');
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);

/** An id as the engine takes it. Two ids never meet. */
export function safeId(id: string): string {
  const asIs = id !== '' && id.length <= MAX_ID && !id.includes('\0') && !id.startsWith('sha256:');
  return asIs ? id : `sha256:${createHash('sha256').update(id).digest('hex')}`;
}

/** The boundary of a message; a new one each time where nothing is known of it. */
export function boundaryIdOf({ id, text, ordinal }: Message): string {
  if (id !== undefined) return safeId(id);
  if (text === undefined && ordinal === undefined) return `turn-${randomUUID()}`;
  return `user-${ordinal ?? 0}-${digest(text ?? '')}`;
}

export function callIdOf(tool: string | undefined): string {
  return safeId(`${tool ?? 'call'}-${randomUUID()}`);
}

/** The id for the n-th use of an id that may be used once only. */
export function numbered(id: string, n: number): string {
  return n === 1 ? id : `${id}#${n}`;
}

const DERIVED = /^user-(\d+)-([0-9a-f]{16})$/;

/** True for an id that was made of a message's text and place. */
export function isDerived(id: string): boolean {
  return DERIVED.test(id);
}

/** True where a message with the id `asked` belongs to the turn that began at `newest`. */
export function goesOn(newest: string, asked: string): boolean {
  const first = newest.replace(/#\d+$/, '');
  if (first === asked || newest === asked) return true;
  const [, then, text] = DERIVED.exec(first) ?? [];
  const [, now, same] = DERIVED.exec(asked) ?? [];
  return text !== undefined && text === same && Number(now) < Number(then);
}
