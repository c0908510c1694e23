/**
 * A host and an engine for tests of the command: nothing on disk but a folder that counts as recorded, every call of the
 * engine noted, answers as the test sets them.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HistoryResult, Session, SessionInfo, TimelineItem, Workspace } from '../../src/api.ts';
import type { Host } from '../../src/cli/host.ts';
import { main } from '../../src/cli/program.ts';
import { workspaceDir } from '../../src/data-dir.ts';
import { asRelPath } from '../../src/rel-path.ts';
import type { OpenOptions } from '../../src/schemas.ts';
import type { ChangeSummary, Plan, PlanEntry, PlanHunk, Receipt, Result } from '../../src/types.ts';

export const HASH = 'ab'.repeat(16);

export function change(path: string, kind: ChangeSummary['kind'] = 'modified'): ChangeSummary {
  const file = { kind: 'file', mode: 0o644, size: 3, content: HASH } as const;
  const absent = { kind: 'absent' } as const;
  return {
    path: asRelPath(path),
    kind,
    before: kind === 'created' ? absent : file,
    after: kind === 'deleted' ? absent : file,
  };
}

export function entry(path: string, action: PlanEntry['action'], reason?: PlanEntry['reason']): PlanEntry {
  return { path: asRelPath(path), action, ...(reason === undefined ? {} : { reason }) };
}

export function receipt(parts: Partial<Receipt> = {}): Receipt {
  return {
    operationId: '0'.repeat(32),
    boundaryId: 'b1',
    outcome: 'done',
    restored: [],
    refused: [],
    skipped: [],
    failed: [],
    irreversible: [],
    uncovered: [],
    notes: [],
    ...parts,
  };
}

export function boundary(
  boundaryId: string,
  at: number,
  parts: { modified?: number; undone?: boolean; reverted?: boolean } = {},
): TimelineItem {
  const { modified = 1, undone = false, reverted = false } = parts;
  return {
    type: 'boundary',
    boundaryId,
    position: `position-of-${boundaryId}`,
    at,
    files: { created: 0, modified, deleted: 0 },
    undone,
    reverted,
  };
}

export function sessionInfo(threadId: string): SessionInfo {
  return { threadId, createdAt: 1, boundaries: 2, openCalls: 0 };
}

type Answers = { [K in keyof Session]?: Session[K] } & { workspace?: Partial<Workspace> };

export interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The engine's methods in the order in which they were called, with what they were given. */
  readonly calls: readonly (readonly [string, ...unknown[]])[];
  readonly questions: readonly string[];
}

const plan: Plan = {
  boundaryId: 'b1',
  token: 'token-1',
  entries: [entry('a.txt', 'restore')],
  irreversible: [],
  uncovered: [],
  notes: [],
};

/** Two hunks of a.txt, the first with a control character in it. */
export const HUNKS: readonly PlanHunk[] = [
  {
    id: `2,1-2,1@${'0'.repeat(16)}-${'1'.repeat(16)}:a.txt`,
    ...{ oldStart: 2, oldLines: 1, newStart: 2, newLines: 1 },
    lines: ['-agent\x1b[2J', '+2'],
  },
  {
    id: `4,0-5,2@${'0'.repeat(16)}-${'1'.repeat(16)}:a.txt`,
    ...{ oldStart: 4, oldLines: 0, newStart: 5, newLines: 2 },
    lines: ['+5', '+6'],
  },
];

/** A plan with them, and with a file that has none. */
export const planOfHunks: Session['plan'] = async (_boundary, { hunks } = {}) => ({
  available: true,
  ...plan,
  entries: [{ ...entry('a.txt', 'restore'), ...(hunks === true ? { hunks: HUNKS } : {}) }, entry('bin', 'delete')],
});

const DEFAULTS: Answers = {
  capture: async (boundaryId) => ({
    available: true,
    boundaryId,
    position: 'p',
    complete: true,
    scannedFiles: 2,
    storedFiles: 1,
    storedBytes: 10,
    uncovered: [],
    problems: [],
    tookMs: 1,
  }),
  beginCall: async (callId) => ({ available: true, callId, invocation: 1, scannedFiles: 2, problems: [], tookMs: 1 }),
  endCall: async (callId) => ({
    available: true,
    callId,
    invocation: 1,
    changes: [change('a.txt')],
    problems: [],
    tookMs: 1,
  }),
  timeline: async () => ({ available: true, items: [boundary('b1', 1000)] }),
  turnChanges: async () => ({ available: true, changes: [change('a.txt')] }),
  plan: async () => ({ available: true, ...plan }),
  restore: async () => ({ available: true, ...receipt({ restored: [entry('a.txt', 'restore')] }) }),
  undo: async (options = {}) => plannedOrDone(options),
  redo: async (options = {}) => plannedOrDone(options),
  revert: async (options) => plannedOrDone(options),
  revertTurn: async (_boundary, options = {}) => plannedOrDone(options),
  revertCall: async (_call, options = {}) => plannedOrDone(options),
  unrevert: async (options = {}) => plannedOrDone(options),
  drop: async () => ({ available: true, freedBytes: 2048 }),
  diff: async () => ({
    available: true,
    files: [change('a.txt')],
    patch: 'diff --git a/a.txt b/a.txt\n',
    patchBytes: Buffer.from('diff --git a/a.txt b/a.txt\n'),
    stats: { files: 1, linesAdded: 1, linesDeleted: 0 },
  }),
};

function plannedOrDone({ dryRun }: { readonly dryRun?: boolean | undefined }): Result<HistoryResult> {
  if (dryRun !== true) return history({ restored: [entry('a.txt', 'restore')] });
  return { available: true, message: 'Nothing was written.', outcome: 'nothing', plan };
}

export function history(parts: Partial<Receipt>): Result<HistoryResult> {
  const made = receipt(parts);
  return { available: true, message: `Files restored: ${made.restored.length}.`, outcome: made.outcome, receipt: made };
}

export interface Setup {
  readonly answers?: Answers;
  readonly interactive?: boolean;
  readonly confirm?: boolean;
  /** Places in the list of choices. */
  readonly choose?: readonly number[];
  readonly terminal?: boolean;
  readonly env?: Record<string, string>;
  /** Nothing was recorded for the root yet. */
  readonly fresh?: boolean;
  readonly opened?: (options: OpenOptions) => void;
  /** The folder that the command runs in, below the root. */
  readonly below?: string;
  /** Gets the root before the command runs. */
  readonly root?: (root: string) => void;
}

/** Runs one command line against the fake. */
export async function takeback(argv: readonly string[], setup: Setup = {}): Promise<Run> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-cli-')));
  const root = join(folder, 'root');
  const dataDir = join(folder, 'data');
  mkdirSync(join(root, setup.below ?? ''), { recursive: true });
  const store = workspaceDir(dataDir, root);
  mkdirSync(store, { recursive: true });
  if (setup.fresh !== true) writeFileSync(join(store, 'timeline.db'), '');
  setup.root?.(root);
  const out: string[] = [];
  const err: string[] = [];
  const calls: [string, ...unknown[]][] = [];
  const questions: string[] = [];
  const host: Host = {
    stdout: { write: (chunk) => out.push(Buffer.from(chunk).toString()), isTTY: setup.terminal },
    stderr: { write: (chunk) => err.push(Buffer.from(chunk).toString()) },
    interactive: setup.interactive ?? false,
    env: { ...setup.env },
    cwd: join(root, setup.below ?? ''),
    now: () => Date.UTC(2026, 10, 30),
    open: async (options) => {
      setup.opened?.(options);
      return fakeWorkspace(root, dataDir, setup.answers ?? {}, calls);
    },
    confirm: async (question) => {
      questions.push(question);
      return setup.confirm ?? true;
    },
    choose: async (question, choices) => {
      questions.push(question, ...choices);
      return setup.choose ?? null;
    },
  };
  try {
    const code = await main(host, ['--data-dir', dataDir, ...argv], '0.0.0');
    return { code, stdout: out.join(''), stderr: err.join(''), calls, questions };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function fakeWorkspace(root: string, dataDir: string, answers: Answers, calls: [string, ...unknown[]][]): Workspace {
  const methods: Answers = { ...DEFAULTS, ...answers };
  const noted = (name: string, given: unknown[]): void => {
    calls.push([name, ...given]);
  };
  const session = (options: { threadId: string }): Session =>
    new Proxy({} as Session, {
      get: (_target, name: string) => {
        if (name === 'threadId') return options.threadId;
        // Not a promise: a session is returned from async functions.
        if (name === 'tenantId' || name === 'then') return undefined;
        return (...given: unknown[]) => {
          noted(name, given);
          const method = methods[name as keyof Session] as ((...given: unknown[]) => unknown) | undefined;
          if (method === undefined) throw new Error(`the fake has no ${name}`);
          return method(...given);
        };
      },
    });
  return {
    available: true,
    reason: undefined,
    detail: undefined,
    root,
    dataDir,
    recovered: [],
    session: (options: { threadId: string }) => {
      noted('session', [options]);
      return session(options);
    },
    sessions: async () => ({ available: true, sessions: [sessionInfo('default')] }),
    close: async () => noted('close', []),
    ...methods.workspace,
  } as unknown as Workspace;
}
