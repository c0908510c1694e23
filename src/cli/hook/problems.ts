/**
 * What hooks could not record, kept for `doctor`: one JSON line each in `hook-problems.jsonl` of the data directory (0600),
 * bounded. Hooks must not disturb the agent, so this is where their faults are heard.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../../data-dir.ts';

export interface HookProblem {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly host: string;
  /** Name of the hook event, where it could be read. */
  readonly event?: string;
  /** The engine's reason, a `TakebackError`'s code, `bad-input`, `too-late` or `fault`. */
  readonly reason: string;
  readonly detail: string;
}

export const PROBLEMS_FILE = 'hook-problems.jsonl';
/** Over this the older half goes. */
const LIMIT_BYTES = 64 * 1024;
const LONGEST_DETAIL = 500;
const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_RDWR, O_WRONLY, O_EXCL } = constants;

/** Notes a problem. Answers false where it could not be written: the caller has nobody else to tell. */
export function noteProblem(dataDir: string, problem: HookProblem): boolean {
  const line = `${JSON.stringify({ ...problem, detail: problem.detail.slice(0, LONGEST_DETAIL) })}\n`;
  const file = join(dataDir, PROBLEMS_FILE);
  try {
    makeFolders(dataDir);
    const fd = openSync(file, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
    try {
      writeSync(fd, line);
      if (fstatSync(fd).size > LIMIT_BYTES) halve(file, fd);
    } finally {
      closeSync(fd);
    }
    return true;
  } catch {
    return false;
  }
}

/** A line that another process appends meanwhile may be lost: these are notes, not records. */
function halve(file: string, fd: number): void {
  const kept = Buffer.alloc(LIMIT_BYTES / 2);
  const read = readSync(fd, kept, 0, kept.length, fstatSync(fd).size - kept.length);
  const text = kept.subarray(kept.indexOf(0x0a) + 1, read);
  const temporary = `${file}.${process.pid}`;
  const to = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    writeSync(to, text);
  } finally {
    closeSync(to);
  }
  renameSync(temporary, file);
}

/** The newest problems, oldest first. Empty where there are none; lines that can't be read are left out. */
export function readProblems(dataDir: string, limit: number): HookProblem[] {
  let text: string;
  try {
    text = readFileSync(join(dataDir, PROBLEMS_FILE), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return text
    .split('\n')
    .flatMap((line) => {
      const problem = parsed(line);
      return problem === null ? [] : [problem];
    })
    .slice(-limit);
}

function parsed(line: string): HookProblem | null {
  try {
    const value = JSON.parse(line) as Partial<HookProblem> | null;
    if (typeof value?.at !== 'number' || typeof value.reason !== 'string' || typeof value.detail !== 'string')
      return null;
    return { ...value, host: String(value.host) } as HookProblem;
  } catch {
    return null;
  }
}
