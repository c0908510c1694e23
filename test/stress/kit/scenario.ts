/**
 * What is interrupted, and what must hold afterwards. A scene is a workspace with a turn behind it and a command that is to run; the
 * command runs in a process of its own under `at-call`, and may die, fail or lose power at any call of the file system.
 *
 * Owns the commands, the tree and the checks: every path whole (old or new) before anybody recovers, then exactly the tree of
 * before or of after, no temp file, no journal, a sound store, recovery twice = once, the command itself on a second try, and at
 * last the way back to the start: no byte of the turn or before it is lost.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BackendKind } from '../../../src/backend/backend.ts';
import { workspaceDir } from '../../../src/data-dir.ts';
import type { OpenOptions, Workspace } from '../../../src/index.ts';
import { HOOK_FILE, Script, SESSION } from '../../adapters/claude-code/kit.ts';
import { Space } from '../../kit/space.ts';
import { got } from '../../kit/story.ts';
import { contents, snapshot } from '../../kit/tree.ts';

const COMMAND = fileURLToPath(new URL('command.mjs', import.meta.url));

type Step = readonly [method: string, ...args: unknown[]];

export interface Command {
  readonly name: string;
  /** After the turn, before the command. */
  readonly prepare?: (workspace: Workspace, space: Space) => Promise<void>;
  readonly steps?: readonly Step[];
  /** Whose command it is. Default: the session that did the turn. */
  readonly threadId?: string;
  /** For a second try of one that was done in part. Default: the steps. */
  readonly again?: readonly Step[];
  /** Instead of steps: a hook event, sent to the hook's own process. */
  readonly event?: (script: Script) => unknown;
  /** False: nothing of it is left to the session `SESSION` afterwards. */
  readonly changesTree?: boolean;
}

const session = (workspace: Workspace, threadId = SESSION) => workspace.session({ threadId });

/** What a turn does: a change of every kind, over several folders. */
const TURN = `printf '%020000d' 2 >a.tmp; mv a.tmp a; printf 'new x' >dir/x; rm gone; mkdir -p made/deep; echo n >made/deep/n
ln -sfn b link; chmod 700 b; rmdir box; rm kind; mkdir kind; echo k >kind/k; rm -r old`;

const SETUP = `printf '%020000d' 1 >a; printf '#!/bin/sh\\n' >b; chmod 755 b; mkdir -p dir box old/deep; printf 'old x' >dir/x
echo y >dir/y; echo gone >gone; ln -s a link; echo kind >kind; echo o >old/deep/o; echo user >keep`;

const undone = async (workspace: Workspace): Promise<void> => {
  got(await session(workspace).undo());
};

export const COMMANDS: readonly Command[] = [
  { name: 'capture', steps: [['capture', 'next']], prepare: async (_, space) => void space.sh('echo more >more') },
  { name: 'beginCall', steps: [['beginCall', 'c2', { detached: true }]] },
  {
    name: 'endCall',
    prepare: async (workspace, space) => {
      got(await session(workspace).beginCall('c2', { detached: true }));
      space.sh('echo more >more; echo z >dir/y');
    },
    steps: [['endCall', 'c2']],
  },
  { name: 'restore', steps: [['restore', 'start']], changesTree: true },
  { name: 'undo', steps: [['undo']], again: [['undo', { boundaryId: 'start' }]], changesTree: true },
  { name: 'redo', prepare: undone, steps: [['redo']], changesTree: true },
  {
    name: 'revert',
    steps: [['revert', { messageId: 'start' }]],
    again: [['unrevert'], ['revert', { messageId: 'start' }]],
    changesTree: true,
  },
  {
    name: 'unrevert',
    prepare: async (workspace) => void got(await session(workspace).revert({ messageId: 'start' })),
    steps: [['unrevert']],
    changesTree: true,
  },
  {
    name: 'gc',
    prepare: async (workspace, space) => {
      await undone(workspace);
      got(await session(workspace).redo());
      const other = session(workspace, 'other');
      got(await other.capture('o'));
      got(await other.call('c', {}, () => space.sh('printf %030000d 7 >big; rm big')).then(({ end }) => end));
      got(await other.drop());
    },
    steps: [['gc']],
  },
  {
    name: 'drop',
    prepare: async (workspace, space) => {
      const other = session(workspace, 'other');
      got(await other.capture('o'));
      got(await other.call('c', {}, () => space.sh('printf %030000d 7 >big')).then(({ end }) => end));
      space.sh('rm big');
    },
    threadId: 'other',
    steps: [['drop']],
  },
  {
    name: 'hook begin',
    event: (script) => script.pre('Bash', 'h1', { command: 'true' }),
  },
  {
    name: 'hook end',
    prepare: async (workspace, space) => {
      got(await session(workspace).beginCall('h1', { tool: 'Bash', detached: true }));
      space.sh('echo more >more');
    },
    event: (script) => script.post('Bash', 'h1', { command: 'true' }),
  },
];

export type Tree = Readonly<Record<string, string>>;

export interface Ran {
  readonly code: number | null;
  // biome-ignore lint/suspicious/noExplicitAny: lines of JSON, as command.mjs prints them
  readonly lines: readonly any[];
  /** The calls that `at-call` noted: number, name, path. */
  readonly calls: readonly string[];
  readonly errors: string;
}

export interface Scene extends AsyncDisposable {
  readonly space: Space;
  readonly backend: BackendKind;
  readonly command: Command;
  before: Tree;
  readonly start: Tree;
}

const isTemp = (path: string): boolean => /(^|\/)\.takeback-[0-9a-f]{32}-\d+\.tmp$/.test(path);

export function treeOf(space: Space): Tree {
  return contents(snapshot(space.root, (path) => path === '.takeback'));
}

export interface SceneOptions {
  readonly parent?: string;
  readonly durability?: 'full' | 'fast';
}

/** The turn is done, the command is not. */
export async function scene(backend: BackendKind, command: Command, options: SceneOptions = {}): Promise<Scene> {
  const space = new Space(options.parent === undefined ? {} : { parent: options.parent });
  space.sh(SETUP);
  const start = treeOf(space);
  const workspace = await space.open(backend, { durability: options.durability ?? 'fast' });
  got(await session(workspace).capture('start'));
  got(
    await session(workspace)
      .call('c1', {}, () => space.sh(TURN))
      .then(({ end }) => end),
  );
  space.sh('echo edited >keep; echo own >own');
  await command.prepare?.(workspace, space);
  await workspace.close();
  const before = treeOf(space);
  return { space, backend, command, before, start, [Symbol.asyncDispose]: () => space[Symbol.asyncDispose]() };
}

/** Runs the scene's command under `at-call`. */
export async function run(
  at: Scene,
  how: { program: string; action: string; writes?: boolean; durability?: 'full' | 'fast'; log?: string },
): Promise<Ran> {
  const { space, backend, command } = at;
  const open: OpenOptions = {
    root: space.root,
    dataDir: space.dataDir,
    backend,
    durability: how.durability ?? 'fast',
  };
  const log = how.log ?? join(space.base, 'calls');
  const program =
    command.event === undefined
      ? [COMMAND, JSON.stringify({ open, threadId: command.threadId ?? SESSION, steps: command.steps })]
      : [HOOK_FILE, 'claude-code', '--data-dir', space.dataDir, '--backend', backend];
  const options = [...(how.writes === true ? ['--writes'] : []), ...(command.event === undefined ? [] : ['--at-once'])];
  const child = spawn(
    how.program,
    [
      ...options,
      '--below',
      space.root,
      '--below',
      space.dataDir,
      '--log',
      log,
      how.action,
      process.execPath,
      ...program,
    ],
    { env: { ...space.env, CLAUDE_PROJECT_DIR: space.root }, stdio: 'pipe' },
  );
  let out = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  child.stdin.on('error', () => undefined);
  child.stdin.end(command.event === undefined ? '' : JSON.stringify(command.event(new Script(space.root))));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  const lines = out
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line));
  return { code, lines, errors, calls: readFileSync(log, 'utf8').split('\n').filter(Boolean) };
}

/** Faults of a tree in which somebody stopped at any moment: paths that are neither what they were nor what they become. */
export function tornPaths(at: Scene, after: Tree): string[] {
  const now = treeOf(at.space);
  const torn = Object.keys(now).filter(
    (path) => !isTemp(path) && now[path] !== at.before[path] && now[path] !== after[path] && !folderOnItsWay(now, path),
  );
  // What the operation does not touch has to be there; what it does may be out for a moment.
  const lost = Object.keys(at.before).filter((path) => now[path] === undefined && at.before[path] === after[path]);
  return [...torn, ...lost];
}

/** A folder is made writable while it is worked in; its own mode comes last. */
function folderOnItsWay(tree: Tree, path: string): boolean {
  return tree[path]?.startsWith('dir ') === true;
}

export interface Settled {
  readonly faults: string[];
  readonly end: 'before' | 'after' | 'neither';
}

/** Opens what was interrupted, twice, and says what is wrong with it. */
export async function settle(
  at: Scene,
  after: Tree,
  options: { backend: BackendKind; recover: 'rollback' | 'complete'; durability?: 'full' | 'fast' },
): Promise<Settled> {
  const { space } = at;
  const faults = tornPaths(at, after).map((path) => `${path} is torn or lost`);
  const { backend, ...open } = options;
  let workspace = await space.open(backend, open);
  const tree = treeOf(space);
  const end = same(tree, at.before) ? 'before' : same(tree, after) ? 'after' : 'neither';
  const temps = Object.keys(snapshotNames(space)).filter(isTemp);
  if (temps.length > 0) faults.push(`temp files are left: ${temps}`);
  const journal = readdirSync(join(workspaceDir(space.dataDir, space.root), 'journal'));
  if (journal.length > 0) faults.push(`the journal is not empty: ${journal}`);
  const verified = got(await workspace.verify());
  if (!verified.ok) faults.push(`verify: ${JSON.stringify(verified.problems)}`);
  await workspace.close();
  workspace = await space.open(backend, open);
  if (workspace.recovered.length > 0) faults.push(`recovered again: ${JSON.stringify(workspace.recovered)}`);
  if (!same(treeOf(space), tree)) faults.push('a second recovery changed the tree');
  await workspace.close();
  return { faults, end };
}

function snapshotNames(space: Space): Tree {
  return contents(snapshot(space.root));
}

export function same(a: Tree, b: Tree): boolean {
  return difference(a, b).length === 0;
}

export function difference(a: Tree, b: Tree): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((path) => a[path] !== b[path]).sort();
}

interface Retry {
  readonly backend: BackendKind;
  readonly done: boolean;
  readonly part?: boolean;
  /** Paths that a call's end named as ones that it could not look at: what changed there since is nobody's (LIMITS). */
  readonly unseen?: readonly string[];
  readonly program: string;
  readonly durability?: 'full' | 'fast';
}

/** The command on a second try, without interruption, and then all the way back. Says what is wrong. */
export async function retry(at: Scene, after: Tree, options: Retry): Promise<string[]> {
  const { space, command } = at;
  const faults: string[] = [];
  const { backend, done, part, unseen = [], program, ...open } = options;
  if (command.event !== undefined) {
    const again = await run(at, { program, action: 'count', ...open });
    if (again.code !== 0) faults.push(`a second hook ended with ${again.code}: ${again.errors}`);
  }
  const workspace = await space.open(backend, open);
  try {
    if (!done) {
      const again = await secondTry(workspace, command, part === true);
      if (again !== null) faults.push(`a second try: ${again}`);
      const differs = difference(treeOf(space), after);
      if (differs.length > 0) faults.push(`after a second try other than it should be: ${differs}`);
    }
    const back = await session(workspace).restore('start', { onConflict: 'overwrite' });
    if (!back.available) faults.push(`the way back: ${back.reason}: ${back.detail}`);
    if (back.available) {
      const { keep, own, more, ...now } = treeOf(space);
      const { keep: edited, ...start } = at.start;
      const told = (path: string): boolean =>
        unseen.some((folder) => folder === '' || `${path}/`.startsWith(`${folder}/`));
      const differs = difference(now, start).filter((path) => !told(path));
      if (differs.length > 0 || edited === undefined || keep !== at.before.keep || own !== at.before.own)
        faults.push(`the way back leads elsewhere: ${differs} ${JSON.stringify([back.failed, back.refused])}`);
    }
    const gone = await workspace.gc();
    if (!gone.available) faults.push(`gc: ${gone.reason}`);
    const verified = got(await workspace.verify());
    if (!verified.ok) faults.push(`verify at the end: ${JSON.stringify(verified.problems)}`);
  } finally {
    await workspace.close();
  }
  return faults;
}

async function secondTry(workspace: Workspace, command: Command, part: boolean): Promise<string | null> {
  const on = session(workspace, command.threadId);
  for (const [method, ...args] of (part ? command.again : undefined) ?? command.steps ?? []) {
    const target = (method in on ? on : workspace) as unknown as Record<string, (...a: unknown[]) => Promise<Answer>>;
    const answer = await target[method]?.(...args).catch(recordedBefore);
    if (answer?.available !== true) return `${method}: ${answer?.reason}: ${answer?.detail}`;
  }
  return null;
}

/** What a command answers that was recorded already, when it died right after its commit: a caller's mistake by then. */
const RECORDED = new Set(['ERR_DUPLICATE_BOUNDARY', 'ERR_DUPLICATE_CALL', 'ERR_UNKNOWN_CALL']);

function recordedBefore(error: { code?: string }): Answer {
  if (RECORDED.has(error.code ?? '')) return { available: true };
  throw error;
}

interface Answer {
  readonly available: boolean;
  readonly reason?: string;
  readonly detail?: string;
}
