/**
 * The command line of `takeback hook`, and where an event that came by it belongs. Changes nothing.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { HookAction } from '../../adapters/claude-code/events.ts';
import { rootOf } from '../../adapters/claude-code/paths.ts';
import { defaultDataDir, workspaceDir } from '../../data-dir.ts';

/** Hosts whose events have the shape that `events.ts` reads, and the variable in which they give the project's folder. */
const HOSTS: Readonly<Record<string, { readonly projectDir?: string }>> = {
  'claude-code': { projectDir: 'CLAUDE_PROJECT_DIR' },
  codex: {},
};

export type Action = Exclude<HookAction, { kind: 'ignore' }>;
type Backend = 'auto' | 'native' | 'portable';

export interface CommandLine {
  readonly host: string;
  readonly dataDir: string;
  /** As it was given; undefined: TAKEBACK_BACKEND. */
  readonly backend: Backend | undefined;
}

export class UsageError extends Error {}

/** @throws {UsageError} */
export function parse(args: readonly string[]): CommandLine {
  const given: Record<string, string> = {};
  const names: string[] = [];
  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i] as string;
    if (arg !== '--data-dir' && arg !== '--backend') names.push(arg);
    else {
      const value = args[++i];
      if (value === undefined) throw new UsageError(`${arg} needs a value`);
      given[arg] = value;
    }
  }
  const [host = '', ...more] = names;
  if (!Object.hasOwn(HOSTS, host) || more.length > 0) {
    const what = host === '' ? 'no host was given' : `not a command line of hook: ${[host, ...more].join(' ')}`;
    throw new UsageError(`${what}. Write one of: ${Object.keys(HOSTS).join(', ')}.`);
  }
  const { '--data-dir': dataDir, '--backend': backend } = given;
  return {
    host,
    dataDir: dataDir === undefined ? defaultDataDir() : resolve(dataDir),
    backend: backend === undefined ? undefined : backendOf('--backend', backend),
  };
}

function backendOf(what: string, value: string): Backend {
  if (value === 'auto' || value === 'native' || value === 'portable') return value;
  throw new UsageError(`${what} must be auto, native or portable, got ${JSON.stringify(value)}`);
}

/** The backend that an event asks for. A wrong variable is no wrong command line: it must not make the host block. */
export function backendFor(line: CommandLine): Backend {
  return line.backend ?? backendOf('TAKEBACK_BACKEND', process.env.TAKEBACK_BACKEND || 'auto');
}

/** The root of an event, as its host tells it. */
export function rootFor({ host, dataDir }: CommandLine, { cwd }: Action): string {
  const variable = HOSTS[host]?.projectDir;
  return rootOf({ projectDir: variable === undefined ? undefined : process.env[variable], cwd, dataDir });
}

/** Whether anything was recorded of a root. */
export function hasStore(dataDir: string, root: string): boolean {
  return existsSync(join(workspaceDir(dataDir, root), 'timeline.db'));
}

/** Events that ask for a look at the tree as it stands, before anything else. */
export function looksAhead({ kind }: Action): boolean {
  return kind === 'begin' || kind === 'end' || kind === 'turn-end';
}
