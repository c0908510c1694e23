/**
 * Questions on a terminal: yes or no, and a list of choices. Whatever ends the input (Ctrl-C, Escape, Ctrl-D, a terminal that
 * went away) is an answer: nothing is chosen. Owns that; drawing is `@clack/prompts`.
 */
import type { Readable, Writable } from 'node:stream';
import { confirm, isCancel, multiselect } from '@clack/prompts';

export interface Terminal {
  readonly input: Readable;
  readonly output: Writable;
}

interface Key {
  readonly ctrl?: boolean;
  readonly name?: string;
}

/** False for no, and where the input ended. */
export async function askYesNo(terminal: Terminal, message: string): Promise<boolean> {
  const ask = (signal: AbortSignal) => confirm({ message, initialValue: false, ...terminal, signal });
  return (await untilEnd(terminal.input, ask)) === true;
}

/** Places in the list; null where the input ended. */
export async function askChoices(
  terminal: Terminal,
  message: string,
  choices: readonly string[],
): Promise<readonly number[] | null> {
  const options = choices.map((label, value) => ({ value, label }));
  const ask = (signal: AbortSignal) => multiselect({ message, options, required: false, ...terminal, signal });
  const picked = await untilEnd(terminal.input, ask);
  return isCancel(picked) ? null : picked;
}

/** The prompt alone would wait for ever for an input that ended, and Node would leave in the middle of it. */
async function untilEnd<T>(input: Readable, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const key = (_text: unknown, pressed: Key | undefined): void => {
    if (pressed?.ctrl === true && pressed.name === 'd') end();
  };
  input.on('keypress', key).on('end', end).on('error', end);
  try {
    return await ask(ended.signal);
  } finally {
    input.off('keypress', key).off('end', end).off('error', end);
  }
}
