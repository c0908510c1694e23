/**
 * Commands that record: `run`, `capture`, `begin`, `end`.
 *
 * `run` brackets one command as a turn of its own. Its messages go to standard error, so that standard output stays the
 * command's; with `--json` it is the other way round, and the command's output goes to standard error.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { EndCallResult, Session } from '../api.ts';
import type { CaptureResult, SideEffect } from '../types.ts';
import { changeLines, changeTotal } from './changes.ts';
import { type Context, NotAvailable, need, UsageError } from './context.ts';
import { Exit } from './host.ts';
import { newId } from './ids.ts';
import { openCalls, RUN_TOOL } from './look.ts';
import { count, duration, oneLine, printable, size } from './text.ts';

interface CaptureFlags {
  readonly label?: string;
  readonly boundary?: string;
}

async function takeCapture(
  context: Context,
  session: Session,
  { boundary, label }: CaptureFlags,
): Promise<CaptureResult> {
  const id = boundary ?? newId(context.host.now());
  return need(
    await context.work((work) => session.capture(id, { ...work, ...(label === undefined ? {} : { label }) })),
  );
}

/** Secrets and the like that a capture left out, in one line. */
function uncoveredText({ uncovered }: CaptureResult): string[] {
  if (uncovered.length === 0) return [];
  const reasons = new Map<string, number>();
  for (const { reason } of uncovered) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  const parts = [...reasons].map(([reason, n]) => `${n.toLocaleString('en-US')} ${reason}`);
  return [`Not covered: ${parts.join(', ')}. Their bytes are not kept.`];
}

/** `capture [boundary]` */
export async function capture(context: Context, boundary: string | undefined, flags: CaptureFlags): Promise<number> {
  const { screen } = context;
  const session = await context.session('record');
  const result = await takeCapture(context, session, boundary === undefined ? flags : { ...flags, boundary });
  screen.object(result);
  const stored =
    result.storedFiles === 0 ? 'nothing new' : `${count(result.storedFiles, 'file')}, ${size(result.storedBytes)}`;
  screen.line(`Boundary ${screen.style('bold', oneLine(result.boundaryId))}`);
  screen.line(`${count(result.scannedFiles, 'file')} covered, stored: ${stored}, in ${duration(result.tookMs)}.`);
  screen.lines(uncoveredText(result));
  for (const problem of result.problems) {
    screen.note(`Problem: ${printable(problem.path)}: ${problem.kind}: ${oneLine(problem.detail)}`);
  }
  if (result.complete) return Exit.done;
  screen.note('The capture is not complete: some files were left for lack of time.');
  return Exit.partial;
}

interface BeginFlags {
  readonly tool?: string;
  readonly paths?: readonly string[];
  readonly parent?: string;
}

/** `begin [call]`: opens a call that outlives this process. */
export async function begin(context: Context, call: string | undefined, flags: BeginFlags): Promise<number> {
  const session = await context.session('read');
  const callId = call ?? `call-${newId(context.host.now())}`;
  const result = need(
    await session.beginCall(callId, {
      detached: true,
      ...(flags.tool === undefined ? {} : { tool: flags.tool }),
      ...(flags.parent === undefined ? {} : { parentCallId: flags.parent }),
      ...(flags.paths === undefined ? {} : { paths: flags.paths.map((path) => context.path(path)) }),
    }),
  );
  context.screen.object(result);
  context.screen.line(
    `Call ${oneLine(result.callId)} is open. End it with \`takeback end ${oneLine(result.callId)}\`.`,
  );
  return Exit.done;
}

interface EndFlags {
  readonly all?: boolean;
  readonly error?: boolean;
  readonly sideEffect?: SideEffect;
}

/** `end [call]`, `end --all` */
export async function end(context: Context, call: string | undefined, flags: EndFlags): Promise<number> {
  if ((call === undefined) === (flags.all !== true)) {
    throw new UsageError('Name one call, or say --all: `takeback end CALL` or `takeback end --all`.');
  }
  const session = await context.session('read');
  const calls = call === undefined ? await openCalls(session) : [call];
  const results: EndCallResult[] = [];
  for (const id of calls) {
    const ended = await session.endCall(id, {
      ...(flags.error === undefined ? {} : { isError: flags.error }),
      ...(flags.sideEffect === undefined ? {} : { sideEffect: flags.sideEffect }),
    });
    results.push(need(ended));
  }
  const { screen } = context;
  screen.object({ available: true, calls: results });
  if (results.length === 0) screen.line('No call is open.');
  for (const result of results) {
    screen.line(`Call ${oneLine(result.callId)} ended. ${changeTotal(result.changes)}`);
    screen.lines(changeLines(screen, result.changes));
  }
  return Exit.done;
}

interface Ending {
  /** As a shell tells it: 128 + n for a signal, 127 where there is no such command. */
  readonly code: number;
  readonly fault?: string;
}

/** Signals that are sent to us alone are the command's. One from the terminal reaches it without our help. */
function passSignals(child: ChildProcess, fromTerminal: boolean): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
  const listeners = signals.map((signal) => {
    const listener = (): void => {
      const byTerminal = fromTerminal && (signal === 'SIGINT' || signal === 'SIGQUIT');
      if (!byTerminal) child.kill(signal);
    };
    process.on(signal, listener);
    return [signal, listener] as const;
  });
  return () => {
    for (const [signal, listener] of listeners) process.removeListener(signal, listener);
  };
}

function startFault(program: string, { code, message }: NodeJS.ErrnoException): string {
  const name = oneLine(program);
  if (code === 'ENOENT') return `there is no command ${name}`;
  if (code === 'EACCES') return `${name} may not be executed`;
  return `${name}: ${message}`;
}

function spawnCommand(context: Context, [program = '', ...args]: readonly string[]): Promise<Ending> {
  return new Promise((done) => {
    const child = spawn(program, args, {
      cwd: context.host.cwd,
      stdio: context.options.json === true ? ['inherit', 2, 'inherit'] : 'inherit',
    });
    const release = passSignals(child, process.stdin.isTTY === true);
    child.once('error', (fault: NodeJS.ErrnoException) => {
      release();
      done({ code: fault.code === 'ENOENT' ? 127 : 126, fault: startFault(program, fault) });
    });
    child.once('exit', (code, signal) => {
      release();
      done({ code: code ?? 128 + (signal === null ? 0 : constants.signals[signal]) });
    });
  });
}

/** `run -- COMMAND…`: a boundary, then the command as one call. The exit code is the command's. */
export async function run(context: Context, command: readonly string[], flags: CaptureFlags): Promise<number> {
  const { screen, host } = context;
  if (command.length === 0)
    throw new UsageError('No command was given. Write it after two dashes: `takeback run -- make test`.');
  const session = await context.session('record');
  const label = flags.label ?? command.join(' ').slice(0, 200);
  const boundary = await takeCapture(context, session, { ...flags, label });
  const callId = `run-${newId(host.now())}`;
  need(await session.beginCall(callId, { tool: RUN_TOOL }));
  screen.note(`takeback: boundary ${oneLine(boundary.boundaryId)}`);
  const ending = await spawnCommand(context, command);
  if (ending.fault !== undefined) screen.note(`takeback: the command did not start: ${ending.fault}`);
  const ended = await endRun(context, session, { callId, isError: ending.code !== 0 });
  screen.object({
    available: true,
    boundaryId: boundary.boundaryId,
    callId,
    exitCode: ending.code,
    recorded: ended !== undefined,
    changes: ended?.changes ?? [],
  });
  if (ended === undefined) return ending.code === 0 ? Exit.failed : ending.code;
  screen.note(`takeback: ${changeTotal(ended.changes)}`);
  for (const line of changeLines(screen, ended.changes)) screen.note(line);
  if (ended.changes.length > 0) screen.note('takeback: `takeback undo` takes this back.');
  return ending.code;
}

/** The end of the call, or undefined where it could not be recorded: then that is said, and the code must not be 0. */
async function endRun(
  context: Context,
  session: Session,
  { callId, isError }: { callId: string; isError: boolean },
): Promise<EndCallResult | undefined> {
  try {
    return need(await session.endCall(callId, { sideEffect: 'process_exec', isError }));
  } catch (fault) {
    const what = fault instanceof NotAvailable ? fault.answer.detail : String(fault);
    context.screen.note(`takeback: the command ran, but its end could not be recorded: ${oneLine(what)}`);
    return undefined;
  }
}
