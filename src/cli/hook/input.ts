/**
 * Reads one JSON value from standard input: at most {@link LIMIT_BYTES}, and no longer than the caller waits.
 *
 * Ends as soon as what came is a whole JSON value, so that a host that never closes the pipe costs nothing. Reads by
 * descriptor: the stream of `process.stdin` alone costs several milliseconds.
 */
import { read } from 'node:fs';

export const LIMIT_BYTES: number = 64 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const CLOSING = new Set([0x7d, 0x5d, 0x0a, 0x0d, 0x20]);

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

function tryParse(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

/** @throws {InputError} where it is empty, too long, or not JSON */
export async function readJson(): Promise<unknown> {
  const parts: Buffer[] = [];
  let total = 0;
  /** Parsing again costs as much as all that came: only where that has doubled since the last try. */
  let triedAt = 0;
  for (;;) {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    const count = await next(buffer);
    if (count === 0) break;
    total += count;
    if (total > LIMIT_BYTES) throw new InputError(`the event has more than ${LIMIT_BYTES} bytes`);
    parts.push(buffer.subarray(0, count));
    const mayEnd = count < CHUNK_BYTES && CLOSING.has(buffer[count - 1] as number);
    if (!mayEnd || total < 2 * triedAt) continue;
    triedAt = total;
    const whole = tryParse(Buffer.concat(parts).toString('utf8'));
    if (whole !== null) return whole.value;
  }
  const text = Buffer.concat(parts).toString('utf8');
  if (text.trim() === '') throw new InputError('standard input was empty');
  const whole = tryParse(text);
  if (whole === null) throw new InputError(`the event is not JSON: ${JSON.stringify(text.slice(0, 80))}`);
  return whole.value;
}
