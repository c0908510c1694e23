/**
 * `takeback hook <host>`: one event of an agent host, as JSON on standard input, is recorded. Built into `dist/cli/hook.cjs`
 * (`cached.ts`, `start.ts`), that starts in little more than Node's own time; `cli/main.ts` hands over to it, and settings that
 * `install` writes start it directly.
 *
 * A hook never disturbs its agent: whatever happens to an event, the exit code is 0 and nothing is printed; what went wrong
 * is noted for `takeback doctor` (`problems.ts`). Only a wrong command line says so and exits with 2. (For a host exit code
 * 2 means: block the tool. A command line is written once, by hand or by `install`, and must not fail in silence.)
 *
 * Not covered: hosts whose events have another shape.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { actionOf, type HookAction, HookInputError } from '../../adapters/claude-code/events.ts';
import { rootOf } from '../../adapters/claude-code/paths.ts';
import { NotRecorded, perform } from '../../adapters/claude-code/perform.ts';
import { defaultDataDir, workspaceDir } from '../../data-dir.ts';
import { unavailableOf } from '../../engine/answers.ts';
import { TakebackError } from '../../errors.ts';
import { newId } from '../ids.ts';
import { InputError, readJson } from './input.ts';
import { type HookProblem, noteProblem } from './problems.ts';
import { EngineRecorder } from './recorder.ts';

/** Hosts whose events have the shape that `events.ts` reads, and the variable in which they give the project's folder. */
const HOSTS: Readonly<Record<string, { readonly projectDir?: string }>> = {
  'claude-code': { projectDir: 'CLAUDE_PROJECT_DIR' },
  codex: {},
};

type Backend = 'auto' | 'native' | 'portable';

export interface CommandLine {
  readonly host: string;
  readonly dataDir: string;
  /** As it was given; undefined: TAKEBACK_BACKEND. */
  readonly backend: Backend | undefined;
}

type Problem = Pick<HookProblem, 'reason' | 'detail'>;
type Action = Exclude<HookAction, { kind: 'ignore' }>;

/** An event and its store must be done by then, milliseconds: under the 30 seconds that `install` gives a hook. */
const TIME_LIMIT_MS = 25_000;
/** A host writes the event at once. */
const INPUT_LIMIT_MS = 5_000;

class UsageError extends Error {}

function parse(args: readonly string[]): CommandLine {
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

/** What went wrong, in the words of `doctor`. */
function problemOf(fault: unknown): Problem {
  if (fault instanceof HookInputError || fault instanceof InputError)
    return { reason: 'bad-input', detail: fault.message };
  if (fault instanceof NotRecorded) return { reason: fault.reason, detail: fault.message };
  const unavailable = unavailableOf(fault);
  if (unavailable !== null) return unavailable;
  if (fault instanceof TakebackError) return { reason: fault.code, detail: fault.message };
  if (fault instanceof UsageError) return { reason: 'ERR_INVALID_ARGUMENT', detail: fault.message };
  return { reason: 'fault', detail: fault instanceof Error ? (fault.stack ?? fault.message) : String(fault) };
}

/** Events that only end something mean nothing where nothing was recorded; they must not make a store. */
function meansNothing(action: Action, root: string, dataDir: string): boolean {
  if (action.kind === 'boundary' || action.kind === 'begin') return false;
  return !existsSync(join(workspaceDir(dataDir, root), 'timeline.db'));
}

/** Records the action of an event; answers what went wrong, or null. */
export async function record(line: CommandLine, action: Action): Promise<Problem | null> {
  try {
    const { host, dataDir } = line;
    const variable = HOSTS[host]?.projectDir;
    const projectDir = variable === undefined ? undefined : process.env[variable];
    const root = rootOf({ projectDir, cwd: action.cwd, dataDir });
    if (meansNothing(action, root, dataDir)) return null;
    const recorder = await EngineRecorder.open({
      root,
      dataDir,
      backend: backendFor(line),
      threadId: action.threadId,
      lookAhead: action.kind === 'begin' || action.kind === 'end' || action.kind === 'turn-end',
    });
    await perform(recorder, action, { newId: () => newId(Date.now()), detached: true });
    await recorder.finish();
    return null;
  } catch (fault) {
    return problemOf(fault);
  }
}

/** One event on its way; what is known of it when it fails. */
class Event {
  readonly #line: CommandLine;
  readonly #record: typeof record;
  #name: string | undefined;

  constructor(line: CommandLine, how: typeof record) {
    this.#line = line;
    this.#record = how;
  }

  note({ reason, detail }: Problem): void {
    const { host, dataDir } = this.#line;
    const event = this.#name === undefined ? {} : { event: this.#name };
    noteProblem(dataDir, { at: Date.now(), host, ...event, reason, detail });
  }

  async run(): Promise<void> {
    const input = await limited(readJson(), INPUT_LIMIT_MS, 'the host did not send the whole event');
    const name = (input as { hook_event_name?: unknown } | null)?.hook_event_name;
    if (typeof name === 'string') this.#name = name.slice(0, 100);
    const action = actionOf(input);
    if (action.kind === 'ignore') return;
    const problem = await this.#record(this.#line, action);
    if (problem !== null) this.note(problem);
  }
}

class TooLate extends Error {}

function limited<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new TooLate(`${what} within ${ms / 1000} seconds`)), ms);
    work.then(done, fail).finally(() => clearTimeout(timer));
  });
}

/**
 * Runs the command and ends the process.
 *
 * @param args what follows `hook` on the command line
 * @param how records an event; the built file chooses one by the backend
 * @param end ends the process; all that was to be kept is on its way to disk by then
 */
export async function hook(
  args: readonly string[],
  how: typeof record = record,
  end: (code: number) => never = process.exit,
): Promise<never> {
  let line: CommandLine;
  try {
    line = parse(args);
  } catch (fault) {
    process.stderr.write(`takeback hook: ${(fault as Error).message}\n`);
    process.exit(2);
  }
  const event = new Event(line, how);
  try {
    await limited(event.run(), TIME_LIMIT_MS, 'the event was not recorded');
  } catch (fault) {
    const late = fault instanceof TooLate;
    event.note(late ? { reason: 'too-late', detail: fault.message } : problemOf(fault));
    // Node would wait for the thread that still reads standard input, or writes.
    if (late) process.kill(process.pid, 'SIGKILL');
  }
  end(0);
}
