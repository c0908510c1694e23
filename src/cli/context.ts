/**
 * One run of one command: which root and store it means, the open workspace, and how faults become a sentence and an
 * exit code. Owns the life of the workspace: opened at most once, closed when the command ends.
 *
 * Commands that only read never make a store: where nothing was recorded yet they answer `no-checkpoint`.
 */
import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Session, SessionInfo, Workspace } from '../api.ts';
import { defaultDataDir, workspaceDir } from '../data-dir.ts';
import { MISUSE, TakebackError } from '../errors.ts';
import type { Result, Unavailable, UnavailableReason, WorkOptions } from '../types.ts';
import { type CommonOptions, Exit, type Host } from './host.ts';
import { Screen } from './screen.ts';
import { oneLine } from './text.ts';

/** An answer that ends the command: unavailable, with the engine's reason. */
export class NotAvailable extends Error {
  readonly answer: Unavailable;

  constructor(answer: Unavailable) {
    super(answer.detail);
    this.answer = answer;
  }
}

/** A command line that can't be carried out; the message names the input and the remedy. */
export class UsageError extends Error {}

/** The value of a result, or the end of the command. */
export function need<T>(result: Result<T>): { readonly available: true } & T {
  if (!result.available) throw new NotAvailable(result);
  return result;
}

const DEFAULT_SESSION = 'default';

export class Context {
  readonly host: Host;
  readonly options: CommonOptions;
  readonly screen: Screen;
  /** Absolute. */
  readonly dataDir: string;
  /** Absolute; real where it exists. */
  readonly root: string;
  #opening: Promise<Workspace> | undefined;
  readonly #abort = new AbortController();

  constructor(host: Host, options: CommonOptions) {
    this.host = host;
    this.options = options;
    this.screen = new Screen(host, options.json === true);
    this.dataDir = options.dataDir === undefined ? hostDataDir(host) : resolve(host.cwd, options.dataDir);
    this.root = options.root === undefined ? findRoot(host.cwd, this.dataDir) : real(resolve(host.cwd, options.root));
  }

  /** True where something was recorded for the root. */
  get recorded(): boolean {
    return existsSync(join(workspaceDir(this.dataDir, this.root), 'timeline.db'));
  }

  /**
   * The workspace of the root. `record`: made where it is new.
   *
   * @throws {NotAvailable} where it can't be opened, or `read` is asked of a root without a timeline
   */
  async workspace(purpose: 'read' | 'record'): Promise<Workspace> {
    if (purpose === 'read' && existsSync(this.root) && !this.recorded) {
      throw new NotAvailable({
        available: false,
        reason: 'no-checkpoint',
        detail: `Nothing is recorded for ${oneLine(this.root)} in ${oneLine(this.dataDir)}.`,
      });
    }
    const opening = this.tryWorkspace();
    const workspace = await opening;
    if (!workspace.available) {
      // A command that lives on opens it anew when it asks again.
      if (this.#opening === opening) this.#opening = undefined;
      await workspace.close();
      const reason = workspace.reason ?? 'unsupported';
      throw new NotAvailable({ available: false, reason, detail: workspace.detail ?? reason });
    }
    return workspace;
  }

  /** The workspace, available or not; opened once, also for several that ask at once. */
  tryWorkspace(dataDir: string = this.dataDir): Promise<Workspace> {
    this.#opening ??= this.#open(dataDir).catch((fault: unknown) => {
      this.#opening = undefined;
      throw fault;
    });
    return this.#opening;
  }

  async #open(dataDir: string): Promise<Workspace> {
    const { backend } = this.options;
    const workspace = await this.host.open({
      root: this.root,
      dataDir,
      ...(backend === undefined ? {} : { backend }),
    });
    for (const operation of workspace.recovered) {
      this.screen.note(
        `Recovered an operation that had not ended (${operation.operationId.slice(0, 8)}, ${operation.mode}).`,
      );
    }
    return workspace;
  }

  /**
   * The session that is meant: the one named; else, to look at turns and to take them back, that of the newest boundary
   * (an agent's hooks name sessions as the agent does, and nobody types that); else `default`.
   */
  async session(purpose: 'read' | 'record', unnamed: 'newest' | 'default' = 'default'): Promise<Session> {
    const workspace = await this.workspace(purpose);
    if (purpose === 'read' && this.options.session !== undefined) await needSession(workspace, this.options.session);
    const { session = await this.#unnamed(workspace, unnamed), onConflict } = this.options;
    return workspace.session({ threadId: session, ...(onConflict === undefined ? {} : { onConflict }) });
  }

  async #unnamed(workspace: Workspace, which: 'newest' | 'default'): Promise<string> {
    if (which === 'default') return DEFAULT_SESSION;
    const { sessions } = need(await workspace.sessions());
    const newest = sessions
      .filter(({ tenantId, newestBoundaryAt }) => tenantId === undefined && newestBoundaryAt !== undefined)
      .reduce<SessionInfo | undefined>(
        (a, b) => ((a?.newestBoundaryAt ?? -1) > (b.newestBoundaryAt ?? -1) ? a : b),
        undefined,
      );
    return newest?.threadId ?? DEFAULT_SESSION;
  }

  /** Runs a piece of work with a progress bar, and with a signal that an interrupt aborts. */
  async work<T>(run: (options: Required<WorkOptions>) => Promise<T>): Promise<T> {
    const bar = this.screen.bar();
    try {
      return await run({ signal: this.#abort.signal, onProgress: bar.onProgress });
    } finally {
      bar.stop();
    }
  }

  /** Aborts the work that runs. */
  interrupt(): void {
    this.#abort.abort();
  }

  /** A path of the command line, relative to the current folder, as an absolute one. */
  path(input: string): string {
    if (input === '') throw new UsageError('A path is empty. Give a path inside the root.');
    return resolve(real(this.host.cwd), input);
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close();
  }
}

/** A session that was named must be one: a name with a slip is not a session without turns. */
export async function needSession(workspace: Workspace, threadId: string): Promise<SessionInfo> {
  const { sessions } = need(await workspace.sessions());
  const found = sessions.find((session) => session.threadId === threadId && session.tenantId === undefined);
  if (found !== undefined) return found;
  throw new NotAvailable({
    available: false,
    reason: 'no-checkpoint',
    detail: `There is no session ${oneLine(threadId)} here: \`takeback sessions\` lists those that are.`,
  });
}

function hostDataDir(host: Host): string {
  return defaultDataDir({ env: host.env, platform: process.platform, home: homedir() });
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** The nearest folder, from `cwd` up, that has a timeline in the data directory; else `cwd`. */
function findRoot(cwd: string, dataDir: string): string {
  const start = real(cwd);
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(workspaceDir(dataDir, folder), 'timeline.db'))) return folder;
    if (dirname(folder) === folder) return start;
  }
}

/** What to type next, where the engine's sentence can't know it. */
const HINTS: Partial<Record<UnavailableReason, string>> = {
  'no-checkpoint': 'Start with `takeback run -- COMMAND` or `takeback capture`.',
  'unknown-boundary': '`takeback log` lists the boundaries, `takeback log --calls` the calls too.',
  'calls-in-flight': '`takeback end --all` ends the calls that were left open.',
  'store-corrupt': '`takeback doctor` and `takeback verify` tell more.',
  'protected-root': 'Give a project folder with --root.',
  'stale-plan': 'Files changed since the plan was shown: run the command again.',
};

/** Says what went wrong, on standard error and as the object of `--json`, and answers the exit code. */
export function reportFault(screen: Screen, fault: unknown): number {
  if (fault instanceof NotAvailable) {
    const hint = HINTS[fault.answer.reason];
    screen.note(`takeback: ${oneLine(fault.answer.detail)} (${fault.answer.reason})${hint ? `\n${hint}` : ''}`);
    screen.object(fault.answer);
    return Exit.failed;
  }
  if (fault instanceof UsageError) {
    screen.note(`takeback: ${oneLine(fault.message)}`);
    screen.object({ error: { code: 'ERR_USAGE', message: fault.message } });
    return Exit.usage;
  }
  if (fault instanceof TakebackError) {
    screen.note(`takeback: ${oneLine(fault.message)} (${fault.code})`);
    const { code, message, path } = fault;
    screen.object({ error: { code, message, ...(path === undefined ? {} : { path }) } });
    return MISUSE.has(code) ? Exit.usage : Exit.failed;
  }
  const message = fault instanceof Error ? fault.message : String(fault);
  const stack = fault instanceof Error ? (fault.stack ?? message) : message;
  screen.note(`takeback: a bug of takeback, please report it:\n${stack}`);
  screen.object({ error: { code: 'ERR_INTERNAL', message } });
  return Exit.failed;
}

/** Runs a command from start to end and answers the exit code. */
export async function runCommand(
  host: Host,
  options: CommonOptions,
  command: (context: Context) => Promise<number>,
): Promise<number> {
  const context = new Context(host, options);
  const interrupt = (): void => context.interrupt();
  process.once('SIGINT', interrupt);
  try {
    return await command(context);
  } catch (fault) {
    return reportFault(context.screen, fault);
  } finally {
    process.removeListener('SIGINT', interrupt);
    await context.close();
  }
}
