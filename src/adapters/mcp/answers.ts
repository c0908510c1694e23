/**
 * How an answer, or what went wrong, becomes the result of a tool: text and structured content that say the same. Lists and
 * patches are bounded here, and what was left out is always said.
 */
import { ZodError } from 'zod';
import { TakebackError } from '../../errors.ts';
import type { Result, Unavailable } from '../../types.ts';

export interface ToolResult {
  content: { type: 'text'; text: string }[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
  _meta?: Record<string, unknown>;
  /** Results of the SDK are open. */
  [key: string]: unknown;
}

/** What a tool found: for programs, and in lines for a model. */
export interface Found {
  readonly content: Record<string, unknown>;
  readonly lines: readonly string[];
}

/** Ends a tool with a reason code of ours or the engine's. */
export class ToolFault extends Error {
  readonly reason: string;

  constructor(reason: string, detail: string) {
    super(detail);
    this.reason = reason;
  }
}

/** The value of a result, or the end of the tool. */
export function need<T>(result: Result<T>): { readonly available: true } & T {
  if (!result.available) throw unavailable(result);
  return result;
}

/** What to do next, where the engine's sentence can't know it. */
const HINTS: Readonly<Record<string, string>> = {
  'no-checkpoint': 'Nothing was recorded: the host’s hooks, or `takeback run`, record.',
  'unknown-boundary': 'takeback_turns lists the boundaries.',
  'stale-plan': 'Files changed since: call takeback_plan again and read what it lists.',
  'calls-in-flight': 'Wait until the session’s other tool calls have ended, then try again.',
  busy: 'Another process works on this folder: try again.',
};

export function unavailable({ reason, detail }: Pick<Unavailable, 'reason' | 'detail'>): ToolFault {
  const hint = HINTS[reason];
  return new ToolFault(reason, hint === undefined ? detail : `${detail.replace(/\.?$/, '.')} ${hint}`);
}

export function answered({ content, lines }: Found): ToolResult {
  return { content: [{ type: 'text', text: lines.join('\n') }], structuredContent: content };
}

/**
 * A tool error: `reason: detail` as text, and `{ reason, detail }` in `_meta`. Without structured content, which clients check
 * against the schema of a success.
 */
export function faultResult(fault: unknown): ToolResult {
  const { reason, detail } = told(fault);
  return {
    content: [{ type: 'text', text: `${reason}: ${quiet(detail)}` }],
    isError: true,
    _meta: { 'takeback/error': { reason, detail } },
  };
}

function told(fault: unknown): { reason: string; detail: string } {
  if (fault instanceof ToolFault) return { reason: fault.reason, detail: fault.message };
  if (fault instanceof TakebackError) return { reason: fault.code, detail: fault.message };
  if (fault instanceof ZodError) {
    const issue = fault.issues[0];
    const where = issue === undefined || issue.path.length === 0 ? 'input' : issue.path.join('.');
    return { reason: 'ERR_INVALID_ARGUMENT', detail: `${where}: ${issue?.message ?? 'is of the wrong form'}` };
  }
  return { reason: 'ERR_INTERNAL', detail: fault instanceof Error ? fault.message : String(fault) };
}

/** A part of a list: `total` counts all of it, `nextOffset` is where the rest begins. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly nextOffset?: number;
}

export function page<T>(list: readonly T[], offset: number, max: number): Page<T> {
  const end = offset + max;
  return {
    items: list.slice(offset, end),
    total: list.length,
    ...(end < list.length ? { nextOffset: end } : {}),
  };
}

/** The line that says what a page leaves out. */
export function rest({ items, total, nextOffset }: Page<unknown>, noun: string): string[] {
  if (items.length === total) return [];
  const more = nextOffset === undefined ? '' : ` The rest: offset ${nextOffset}.`;
  return [`${items.length} of ${total} ${noun} are listed.${more}`];
}

/** A part of a text that ends at a line's end where it can, and never within a character. */
export function cutText(text: string, offset: number, max: number): { text: string; nextOffset?: number } {
  if (offset + max >= text.length) return { text: text.slice(offset) };
  const newline = text.lastIndexOf('\n', offset + max - 1);
  let end = newline < offset ? offset + max : newline + 1;
  const last = text.charCodeAt(end - 1);
  if (last >= 0xd800 && last <= 0xdbff) end = end - 1 > offset ? end - 1 : end + 1;
  return { text: text.slice(offset, end), nextOffset: end };
}

/** Controls but for line ends, bidirectional and invisible format characters, lone surrogates. */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udfff]/gu;

function escaped(char: string): string {
  return `\\u${(char.codePointAt(0) as number).toString(16).padStart(4, '0')}`;
}

/** A name of the folder's, or a text of others, in double quotes on one line: data to a model, and nothing hidden in it. */
export function quoted(name: string): string {
  return JSON.stringify(name).replaceAll(UNSAFE, escaped);
}

function quiet(text: string): string {
  return text.replaceAll('\n', ' ').replaceAll(UNSAFE, escaped);
}

export function time(at: number): string {
  return new Date(at).toISOString();
}
