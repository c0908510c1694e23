/**
 * What the command needs of the process that runs it: streams, environment, and the engine. A seam, so that tests run
 * every command in process against a fake. Types and exit codes only.
 */
import type { Workspace } from '../api.ts';
import type { OpenOptions } from '../schemas.ts';

/** Exit codes of every command but `run`, which ends with its command's own. */
export const Exit = {
  /** All that was asked for is done. */
  done: 0,
  /** Nothing was done: unavailable, failed, or nothing to do. */
  failed: 1,
  /** The command line was wrong. */
  usage: 2,
  /** Done in part: paths were refused or failed. */
  partial: 3,
} as const;

/** A stream that lines are written to. */
export interface Output {
  write(chunk: string | Uint8Array): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

export interface Host {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Somebody can be asked: standard input and standard error are a terminal. */
  readonly interactive: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute. */
  readonly cwd: string;
  readonly now: () => number;
  open(options: OpenOptions): Promise<Workspace>;
  /** Asks on the terminal; false for no or for an interrupt. */
  confirm(question: string): Promise<boolean>;
  /** Lets some of the choices be picked on the terminal: their places in the list; null for an interrupt. */
  choose(question: string, choices: readonly string[]): Promise<readonly number[] | null>;
}

/** Options that every command takes. */
export interface CommonOptions {
  readonly root?: string;
  readonly dataDir?: string;
  readonly session?: string;
  readonly backend?: 'auto' | 'native' | 'portable';
  readonly json?: boolean;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly onConflict?: 'refuse' | 'overwrite' | 'merge';
}
