/**
 * Reads one JSON value from standard input: at most {@link LIMIT_BYTES}, and no longer than the caller waits.
 *
 * Ends as soon as what came is a whole JSON value, so that a host that never closes the pipe costs nothing. Reads by
 * descriptor: the stream of `process.stdin` alone costs several milliseconds, and where a read would not wait, so does the start
 * of Node's threads.
 */
import { read, readSync } from 'node:fs';

export const LIMIT_BYTES: number = 64 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const CLOSING = new Set([0x7d, 0x5d, 0x0a, 0x0d, 0x20]);
/** What parts of an event are parsed for nothing: this many bytes, and as many as came. */
const TRIES_BYTES = 8 * 1024 * 1024;

export class InputError extends Error {}

function next(buffer: Buffer): Promise<number> {
  return new Promise((done, fail) => {
    read(0, buffer, 0, buffer.length, null, (error, count) => {
      // Windows tells the end of a pipe this way.
      if (error?.code === 'EOF') done(0);
      else if (error?.code === 'EAGAIN') setTimeout(() => next(buffer).then(done, fail), 1);
      else if (error) fail(error);
      else done(count);
    });
  });
}

/** Some shells of Windows put a byte order mark before what they pipe. */
function textOf(parts: readonly Buffer[]): string {
  return Buffer.concat(parts)
    .toString('utf8')
    .replace(/^\ufeff/, '');
}

function tryParse(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

/** What is read of the event. */
export interface Input {
  readonly parts: readonly Buffer[];
  /** Null: more must come, or it is none. */
  readonly whole: { readonly value: unknown } | null;
}

/** Chunks that are read without a wait; what is larger comes in pieces in any case. */
const MOST_AT_ONCE = 16;

/**
 * Reads what of the event is there, without a wait.
 *
 * @param waits whether a read would answer at once
 */
export function readAtOnce(waits: () => boolean): Input {
  const parts: Buffer[] = [];
  try {
    while (parts.length < MOST_AT_ONCE && waits()) {
      const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
      const count = readSync(0, buffer, 0, buffer.length, null);
      if (count === 0) break;
      parts.push(buffer.subarray(0, count));
      const whole = CLOSING.has(buffer[count - 1] as number) ? tryParse(textOf(parts)) : null;
      if (whole !== null) return { parts, whole };
    }
  } catch {
    // Whoever goes on reading meets the fault again.
  }
  return { parts, whole: null };
}

/**
 * @param before what was read of it before
 * @throws {InputError} where it is empty, too long, or not JSON
 */
export async function readJson(before: readonly Buffer[]): Promise<unknown> {
  const parts = [...before];
  let total = parts.reduce((bytes, part) => bytes + part.length, 0);
  /** Parsing again costs as much as all that came: bytes that were parsed so far. */
  let tried = 0;
  for (;;) {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    const count = await next(buffer);
    if (count === 0) break;
    total += count;
    if (total > LIMIT_BYTES) throw new InputError(`the event has more than ${LIMIT_BYTES} bytes`);
    parts.push(buffer.subarray(0, count));
    if (!CLOSING.has(buffer[count - 1] as number) || tried > total + TRIES_BYTES) continue;
    tried += total;
    const whole = tryParse(textOf(parts));
    if (whole !== null) return whole.value;
  }
  const text = textOf(parts);
  if (text.trim() === '') throw new InputError('standard input was empty');
  const whole = tryParse(text);
  if (whole === null) throw new InputError(`the event is not JSON: ${JSON.stringify(text.slice(0, 80))}`);
  return whole.value;
}
