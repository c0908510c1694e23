/** The text of a plan file. Pure. */
import type { TodoItem } from './todos.ts';

const MARKERS: Readonly<Record<TodoItem['status'], string>> = {
  pending: '[ ]',
  in_progress: '[>]',
  completed: '[x]',
  cancelled: '[-]',
};

/** One line of it, whatever the text holds. */
function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be in a line
  return text.replace(/[\u0000-\u001f\u007f\u0085\u2028\u2029\s]+/g, ' ').trim();
}

const two = (n: number): string => String(n).padStart(2, '0');

/** `2026-05-22T15:30:00+08:00`: the local time, with its distance from UTC. */
export function localStamp(at: Date): string {
  const offset = -at.getTimezoneOffset();
  const sign = offset < 0 ? '-' : '+';
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${date}T${time}${sign}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
}

/** `20260522153000`: sorts by time, and is a name everywhere. */
export function fileStamp(at: Date): string {
  return localStamp(at).slice(0, 19).replace(/\D/g, '');
}

/** The whole plan file. */
export function planText(todos: readonly TodoItem[], { sessionId, at }: { sessionId: string; at: Date }): string {
  const tasks = todos.map(({ status, content }) => `- ${MARKERS[status]} ${oneLine(content)}\n`).join('');
  return `# Execution Plan\n\nsession: ${oneLine(sessionId)}\nupdated: ${localStamp(at)}\n\n## Task List\n\n${tasks}`;
}
