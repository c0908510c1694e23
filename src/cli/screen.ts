/**
 * Where output goes. Owns the two streams, colour and the progress bar.
 *
 * With `--json` standard output holds one object and nothing else; what is said to people goes to standard error.
 * Colour is used only on a terminal, never where `NO_COLOR` is set to something or the terminal is dumb.
 */
import { styleText } from 'node:util';
import type { Progress } from '../types.ts';
import type { Host } from './host.ts';
import { count } from './text.ts';

type Style = 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold';

/** Work shorter than this shows no bar. */
const BAR_AFTER_MS = 500;
const BAR_EVERY_MS = 80;

export interface Bar {
  readonly onProgress: (progress: Progress) => void;
  stop(): void;
}

export class Screen {
  readonly json: boolean;
  readonly #host: Host;
  readonly #colour: boolean;

  constructor(host: Host, json: boolean) {
    this.#host = host;
    this.json = json;
    this.#colour = !json && host.stdout.isTTY === true && (host.env.NO_COLOR ?? '') === '' && host.env.TERM !== 'dumb';
  }

  /** A line for people, on standard output; nothing with `--json`. */
  line(text = ''): void {
    if (!this.json) this.#host.stdout.write(`${text}\n`);
  }

  lines(texts: readonly string[]): void {
    for (const text of texts) this.line(text);
  }

  /** A line beside the output proper: on standard error, with `--json` too. */
  note(text: string): void {
    this.#host.stderr.write(`${text}\n`);
  }

  /** The one object of `--json`. */
  object(value: unknown): void {
    if (this.json) this.#host.stdout.write(`${toJson(value)}\n`);
  }

  /** Bytes as they are, for another program to read. */
  bytes(bytes: Uint8Array): void {
    if (!this.json) this.#host.stdout.write(bytes);
  }

  get terminal(): boolean {
    return this.#host.stdout.isTTY === true;
  }

  style(style: Style, text: string): string {
    // Which stream it is, and whether it takes colour, was settled above.
    return this.#colour ? styleText(style, text, { validateStream: false }) : text;
  }

  /** A progress bar on standard error, from half a second on, where that is a terminal. */
  bar(): Bar {
    const { stderr, now } = this.#host;
    if (stderr.isTTY !== true) return { onProgress: () => {}, stop: () => {} };
    const startedAt = now();
    let drawnAt = 0;
    return {
      onProgress: (progress) => {
        const at = now();
        if (at - startedAt < BAR_AFTER_MS || at - drawnAt < BAR_EVERY_MS) return;
        drawnAt = at;
        stderr.write(`\r\x1b[K${barText(progress, stderr.columns ?? 80)}`);
      },
      stop: () => {
        if (drawnAt > 0) stderr.write('\r\x1b[K');
      },
    };
  }
}

function barText(progress: Progress, columns: number): string {
  const { phase, done, total } = progress;
  if (total === undefined || total === 0) return `${phase}: ${count(done, 'file')}`.slice(0, columns - 1);
  const width = Math.max(10, Math.min(30, columns - 40));
  const filled = Math.round((Math.min(done, total) / total) * width);
  const text = `${phase} [${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${done} of ${count(total, 'file')}`;
  return text.slice(0, columns - 1);
}

/**
 * A result as JSON. Bytes are left out; where they say more than the text beside them, the command adds them in base64
 * under a name of their own.
 */
export function toJson(value: unknown): string {
  return JSON.stringify(
    value,
    function (this: Record<string, unknown>, key, item: unknown) {
      // A Buffer has become an object by its own toJSON before it comes here: look at what it was.
      return this[key] instanceof Uint8Array ? undefined : item;
    },
    2,
  );
}
