/**
 * `takeback/adapters/testkit`: what an adapter owes its users, as a list of cases without a test runner.
 *
 * {@link adapterSuite} gives named functions that reject with an `AssertionError`; give each to a test of any runner. A
 * case makes a folder of its own, has the host under test run turns in it, and looks at the files. Not covered: what a
 * host shows, and its own transcript.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** What the model of a turn asks for. `path` is relative to the root. */
export type ScriptedCall =
  | { readonly tool: 'edit'; readonly path: string; readonly content: string }
  | { readonly tool: 'shell'; readonly command: string }
  /** A tool that fails; it writes the file first where the host has such a tool. */
  | { readonly tool: 'fail'; readonly path: string; readonly content: string };

/** One model step: calls that are asked for together. */
export type ScriptedStep = readonly ScriptedCall[];

/** Where a case runs. Give both folders to the adapter. */
export interface Setting {
  readonly root: string;
  readonly dataDir: string;
  /** The tools, for a host that has none of its own: each does what its call says, in the root. */
  runTool(call: ScriptedCall): Promise<string>;
}

/** A host with the adapter under test mounted. */
export interface HostUnderTest {
  /** One user message, and the steps with which the model answers it. Resolves when the turn is over, failed tools included. */
  turn(steps: readonly ScriptedStep[]): Promise<void>;
  /** The user's commands: what the adapter offers. */
  undo(): Promise<unknown>;
  redo(): Promise<unknown>;
  close(): Promise<void>;
}

export interface SuiteOptions {
  readonly name: string;
  /** Starts a host, with one thread, in the setting's root. */
  start(setting: Setting): Promise<HostUnderTest>;
  /** The host's failing tool leaves no file behind. Default false. */
  readonly failsWithoutWriting?: boolean;
}

export interface SuiteCase {
  /** A claim about the adapter; begins with the suite's name. */
  readonly name: string;
  run(): Promise<void>;
}

const BEFORE: Readonly<Record<string, string>> = {
  'src/app.txt': 'one\n',
  'old.txt': 'old\n',
  'mine.txt': 'mine\n',
};

const TURN: readonly ScriptedStep[] = [
  [{ tool: 'edit', path: 'src/app.txt', content: 'two\n' }],
  [{ tool: 'shell', command: 'mkdir -p out && echo built > out/app.txt && rm old.txt' }],
  [
    { tool: 'edit', path: 'left.txt', content: 'left\n' },
    { tool: 'shell', command: 'echo right > right.txt' },
  ],
  [{ tool: 'fail', path: 'half.txt', content: 'half\n' }],
];

const AFTER: Readonly<Record<string, string | null>> = {
  'src/app.txt': 'two\n',
  'old.txt': null,
  'mine.txt': 'mine\n',
  'out/app.txt': 'built\n',
  'left.txt': 'left\n',
  'right.txt': 'right\n',
};

const UNDONE: Readonly<Record<string, string | null>> = {
  ...BEFORE,
  out: null,
  'out/app.txt': null,
  'left.txt': null,
  'right.txt': null,
  'half.txt': null,
};

/** The cases that every adapter passes. */
export function adapterSuite(options: SuiteOptions): SuiteCase[] {
  const half = options.failsWithoutWriting === true ? null : 'half\n';
  const cases: Record<string, (place: Place) => Promise<void>> = {
    'undo takes back an edit, a shell command, two parallel calls and a failing tool; redo brings them back': (place) =>
      undoAndRedo(place, half),
    'undo keeps what somebody else did': keepsForeignEdits,
    'each undo takes back one turn': eachTurn,
    'a turn that changed nothing is passed over': passesOver,
    'a workspace that can’t be recorded stops no tool': goesOn,
  };
  return Object.entries(cases).map(([claim, check]) => ({
    name: `${options.name}: ${claim}`,
    run: () => inPlace(options, check),
  }));
}

/** A folder, and hosts that are started in it. */
interface Place {
  readonly root: string;
  start(overrides?: Partial<Setting>): Promise<HostUnderTest>;
}

async function inPlace({ start }: SuiteOptions, check: (place: Place) => Promise<void>): Promise<void> {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-adapter-')));
  const root = join(base, 'project');
  for (const [path, content] of Object.entries(BEFORE)) write(root, path, content);
  const setting: Setting = { root, dataDir: join(base, 'data'), runTool: (call) => runTool(root, call) };
  const started: HostUnderTest[] = [];
  try {
    await check({
      root,
      start: async (overrides) => {
        const host = await start({ ...setting, ...overrides });
        started.push(host);
        return host;
      },
    });
  } finally {
    for (const host of started) await host.close();
    rmSync(base, { recursive: true, force: true });
  }
}

async function undoAndRedo({ root, start }: Place, half: string | null): Promise<void> {
  const host = await start();
  await host.turn(TURN);
  holds(root, { ...AFTER, 'half.txt': half }, 'the tools ran');
  await host.undo();
  holds(root, UNDONE, 'undo took back the turn, and nothing else');
  await host.redo();
  holds(root, { ...AFTER, 'half.txt': half }, 'redo brought it back');
}

async function keepsForeignEdits({ root, start }: Place): Promise<void> {
  const host = await start();
  write(root, 'mine.txt', 'edited before\n');
  await host.turn(TURN);
  write(root, 'mine.txt', 'edited after\n');
  write(root, 'left.txt', 'edited by somebody\n');
  write(root, 'added.txt', 'added\n');
  await host.undo();
  const kept = { 'mine.txt': 'edited after\n', 'left.txt': 'edited by somebody\n', 'added.txt': 'added\n' };
  holds(root, { ...UNDONE, ...kept }, 'undo kept what somebody else did');
}

async function eachTurn({ root, start }: Place): Promise<void> {
  const host = await start();
  await host.turn([[{ tool: 'edit', path: 'src/app.txt', content: 'two\n' }]]);
  await host.turn([[{ tool: 'shell', command: 'echo three > src/app.txt' }]]);
  await host.undo();
  holds(root, { 'src/app.txt': 'two\n' }, 'the first undo took back the second turn');
  await host.undo();
  holds(root, BEFORE, 'the second undo took back the first turn');
  await host.turn([[{ tool: 'edit', path: 'src/app.txt', content: 'again\n' }]]);
  await host.redo();
  holds(root, { 'src/app.txt': 'again\n' }, 'a new turn cleared redo');
  await host.undo();
  holds(root, BEFORE, 'the new turn can be undone');
}

async function passesOver({ root, start }: Place): Promise<void> {
  const host = await start();
  await host.turn([[{ tool: 'edit', path: 'src/app.txt', content: 'two\n' }]]);
  await host.turn([[{ tool: 'shell', command: 'true' }]]);
  await host.turn([]);
  await host.undo();
  holds(root, BEFORE, 'undo took back the newest turn that changed files');
}

async function goesOn({ root, start }: Place): Promise<void> {
  const host = await start({ dataDir: join(root, 'mine.txt', 'data') });
  await host.turn(TURN);
  holds(root, AFTER, 'the tools ran');
  await host.undo();
  holds(root, AFTER, 'nothing was recorded, and nothing taken back');
}

function holds(root: string, expected: Readonly<Record<string, string | null>>, claim: string): void {
  const found = Object.keys(expected).map((path) => [path, read(root, path)]);
  assert.deepEqual(Object.fromEntries(found), expected, claim);
}

function read(root: string, path: string): string | null {
  const file = join(root, path);
  return existsSync(file) ? readFileSync(file, 'utf8') : null;
}

function write(root: string, path: string, content: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}

async function runTool(root: string, call: ScriptedCall): Promise<string> {
  if (call.tool === 'shell') {
    const { stdout } = await promisify(execFile)('sh', ['-c', call.command], { cwd: root });
    return stdout;
  }
  write(root, call.path, call.content);
  if (call.tool === 'fail') throw new Error(`the tool failed at ${call.path}`);
  return `wrote ${call.path}`;
}
