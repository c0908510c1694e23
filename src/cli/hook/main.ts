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
import { actionOf, HookInputError } from '../../adapters/claude-code/events.ts';
import { NotRecorded, perform } from '../../adapters/claude-code/perform.ts';
import type { BegunAhead } from '../../engine/ahead.ts';
import { unavailableOf } from '../../engine/answers.ts';
import { TakebackError } from '../../errors.ts';
import { newId } from '../ids.ts';
import {
  type Action,
  backendFor,
  type CommandLine,
  hasStore,
  looksAhead,
  parse,
  rootFor,
  UsageError,
} from './command-line.ts';
import type { Early } from './early.ts';
import { InputError, readJson } from './input.ts';
import { type HookProblem, noteProblem } from './problems.ts';
import { EngineRecorder } from './recorder.ts';

type Problem = Pick<HookProblem, 'reason' | 'detail'>;

/** An event and its store must be done by then, milliseconds: under the 30 seconds that `install` gives a hook. */
const TIME_LIMIT_MS = 25_000;
/** A host writes the event at once. */
const INPUT_LIMIT_MS = 5_000;

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
  return action.kind !== 'boundary' && action.kind !== 'begin' && !hasStore(dataDir, root);
}

/**
 * Records the action of an event; answers what went wrong, or null.
 *
 * @param begun what was begun for it (`early.ts`), of its root and data directory
 */
export async function record(line: CommandLine, action: Action, begun: BegunAhead | null): Promise<Problem | null> {
  try {
    const { dataDir } = line;
    const root = begun?.layout.root ?? rootFor(line, action);
    if (begun === null && meansNothing(action, root, dataDir)) return null;
    const recorder = await EngineRecorder.open({
      root,
      dataDir,
      backend: backendFor(line),
      threadId: action.threadId,
      lookAhead: looksAhead(action),
      begun,
    });
    await perform(recorder, action, { newId: () => newId(Date.now()), detached: true });
    await recorder.finish();
    return null;
  } catch (fault) {
    return problemOf(fault);
  }
}

export interface How {
  readonly early: Early;
  /** Records an event; the built file chooses one by the backend. */
  readonly record: typeof record;
  /** Ends the process; all that was to be kept is on its way to disk by then. */
  readonly end: (code: number) => never;
}

/** One event on its way; what is known of it when it fails. */
class Event {
  readonly #line: CommandLine;
  readonly #how: How;
  #name: string | undefined;

  constructor(line: CommandLine, how: How) {
    this.#line = line;
    this.#how = how;
  }

  note({ reason, detail }: Problem): void {
    const { host, dataDir } = this.#line;
    const event = this.#name === undefined ? {} : { event: this.#name };
    noteProblem(dataDir, { at: Date.now(), host, ...event, reason, detail });
  }

  async run(): Promise<void> {
    const { early, record: how } = this.#how;
    const input =
      early.input.whole === null
        ? await limited(readJson(early.input.parts), INPUT_LIMIT_MS, 'the host did not send the whole event')
        : early.input.whole.value;
    const name = (input as { hook_event_name?: unknown } | null)?.hook_event_name;
    if (typeof name === 'string') this.#name = name.slice(0, 100);
    const action = actionOf(input);
    if (action.kind === 'ignore') return;
    const problem = await how(this.#line, action, early.begun);
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
 */
export async function hook(args: readonly string[], how: How): Promise<never> {
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
  how.end(0);
}
