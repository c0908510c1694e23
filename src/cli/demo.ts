/**
 * `demo`: a real tree, a turn of real shell commands, undone, redone and undone again, each time proved by a hash of the
 * whole tree that the engine has no part in; and `.git` hashed too. Works on a copy in a temp folder, with a store of
 * its own there; both are removed at the end.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Session, Workspace } from '../api.ts';
import type { ChangeSummary } from '../types.ts';
import { changeLines, changeTotal } from './changes.ts';
import { type Context, NotAvailable, need, UsageError } from './context.ts';
import { copyTree, hashGit, hashTree, listFiles, makeRepository } from './demo-tree.ts';
import { type Step, scriptTurn } from './demo-turn.ts';
import { Exit } from './host.ts';
import { count, duration, oneLine, table } from './text.ts';

interface Proof {
  readonly claim: string;
  readonly holds: boolean;
}

interface Timing {
  readonly step: string;
  readonly ms: number;
}

/** The tree and what was found out about it so far. */
interface Stage {
  readonly context: Context;
  readonly session: Session;
  readonly root: string;
  readonly timings: Timing[];
  readonly proofs: Proof[];
  readonly gitHash: string | null;
}

/** This package's own checkout: two folders above the built module. */
function ownCheckout(): string {
  return fileURLToPath(new URL('../../', import.meta.url));
}

function sourceOf(context: Context, path: string | undefined): string {
  const source = path === undefined ? ownCheckout() : resolve(context.host.cwd, path);
  if (statSync(source, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new UsageError(`There is no folder ${source}. Give an existing one with --path.`);
  }
  return source;
}

async function timed<T>(stage: Stage, step: string, run: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const value = await run();
  stage.timings.push({ step, ms: performance.now() - startedAt });
  return value;
}

function prove(stage: Stage, claim: string, holds: boolean): void {
  const { screen } = stage.context;
  stage.proofs.push({ claim, holds });
  screen.line(`  ${holds ? screen.style('green', 'proved') : screen.style('red', 'FAILED')}: ${claim}`);
}

function proveGit(stage: Stage): void {
  if (stage.gitHash !== null) prove(stage, '.git is untouched', hashGit(stage.root) === stage.gitHash);
}

function shellStep(root: string, step: Step): Promise<void> {
  return new Promise((done, fail) => {
    const child = spawn('sh', ['-c', step.command], { cwd: root, stdio: ['pipe', 'ignore', 'pipe'] });
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => {
      complaint += chunk.toString();
    });
    // A command that reads no input may have ended before it is written.
    child.stdin.on('error', () => {});
    child.once('error', fail);
    child.once('close', (code) => {
      if (code === 0) done();
      else fail(new Error(`the demo's own command failed (${code}): ${step.command}: ${complaint.trim()}`));
    });
    child.stdin.end(step.input ?? '');
  });
}

async function play(stage: Stage, steps: readonly Step[]): Promise<void> {
  const { session, root, context } = stage;
  let begins = 0;
  let ends = 0;
  for (const [i, step] of steps.entries()) {
    const callId = `call-${i + 1}`;
    const startedAt = performance.now();
    need(await session.beginCall(callId, { tool: 'sh' }));
    begins += performance.now() - startedAt;
    await shellStep(root, step);
    const ranAt = performance.now();
    const { changes } = need(await session.endCall(callId, { sideEffect: 'workspace_write' }));
    ends += performance.now() - ranAt;
    context.screen.line(`  ${step.what.padEnd(30)} ${count(changes.length, 'path')}`);
  }
  stage.timings.push(
    { step: `begin of a call, mean of ${steps.length}`, ms: begins / steps.length },
    { step: `end of a call, mean of ${steps.length}`, ms: ends / steps.length },
  );
}

/** Undo or redo, whole or a failed proof. */
async function takeBack(stage: Stage, what: 'undo' | 'redo', label: string): Promise<void> {
  const { session, context } = stage;
  const result = need(await timed(stage, label, () => (what === 'undo' ? session.undo() : session.redo())));
  context.screen.line(`${label}: ${oneLine(result.message)}`);
  if (result.outcome !== 'done') prove(stage, `${label} is done whole`, false);
}

async function perform(stage: Stage): Promise<readonly ChangeSummary[]> {
  const { context, session, root } = stage;
  const { screen } = context;
  const before = hashTree(root);
  const steps = scriptTurn(root, listFiles(root));
  await timed(stage, `first capture of ${count(before.entries, 'entry', 'entries')}`, async () =>
    need(await context.work((work) => session.capture('demo', { ...work, label: 'the demo' }))),
  );
  screen.line('A turn of shell commands:');
  await play(stage, steps);
  const after = hashTree(root);
  prove(stage, 'the turn changed the tree', after.hash !== before.hash);
  const { changes } = need(await session.turnChanges('demo'));
  screen.line(`What the turn did: ${changeTotal(changes)}`);
  screen.lines(changeLines(screen, changes));
  await takeBack(stage, 'undo', 'undo');
  prove(stage, 'the tree is as it was before the turn', hashTree(root).hash === before.hash);
  proveGit(stage);
  await takeBack(stage, 'redo', 'redo');
  prove(stage, 'the tree is as the turn left it', hashTree(root).hash === after.hash);
  proveGit(stage);
  await takeBack(stage, 'undo', 'second undo');
  prove(stage, 'the tree is as it was before the turn', hashTree(root).hash === before.hash);
  proveGit(stage);
  return changes;
}

async function onStage(context: Context, folder: string, source: string): Promise<number> {
  const { screen, host, options } = context;
  const root = join(folder, 'tree');
  const copied = copyTree(source, root);
  screen.line(`Copied ${count(copied, 'file')} of ${oneLine(source)} (without node_modules, target, dist, coverage).`);
  let hasGit = hashGit(root) !== null;
  if (!hasGit) {
    hasGit = makeRepository(root);
    screen.line(
      hasGit
        ? 'It has no .git folder: made a repository in the copy.'
        : 'No .git folder and no git here: shown without one.',
    );
  }
  const { backend } = options;
  const workspace = await host.open({
    root,
    dataDir: join(folder, 'data'),
    ...(backend === undefined ? {} : { backend }),
  });
  try {
    if (!workspace.available) {
      const reason = workspace.reason ?? 'unsupported';
      throw new NotAvailable({ available: false, reason, detail: workspace.detail ?? reason });
    }
    return await show(context, workspace, { root, source });
  } finally {
    await workspace.close();
  }
}

async function show(
  context: Context,
  workspace: Workspace,
  { root, source }: { root: string; source: string },
): Promise<number> {
  const { screen } = context;
  const { capabilities } = need(await workspace.capabilities());
  screen.line(`Backend ${screen.style('bold', capabilities.backend)}: ${oneLine(capabilities.why)}`);
  const session = workspace.session({ threadId: 'demo' });
  const stage: Stage = { context, session, root, timings: [], proofs: [], gitHash: hashGit(root) };
  const changes = await perform(stage);
  const ok = stage.proofs.every((proof) => proof.holds);
  screen.line(`Times on the ${capabilities.backend} backend:`);
  screen.lines(table(stage.timings.map(({ step, ms }) => [`  ${step}`, duration(ms)])));
  screen.line(
    ok ? screen.style('green', `All ${stage.proofs.length} proofs hold.`) : screen.style('red', 'A proof failed.'),
  );
  screen.object({
    available: true,
    ok,
    backend: capabilities.backend,
    why: capabilities.why,
    source,
    git: stage.gitHash !== null,
    changes,
    proofs: stage.proofs,
    timings: stage.timings,
  });
  return ok ? Exit.done : Exit.failed;
}

/** `demo [--path DIR]` */
export async function demo(context: Context, flags: { path?: string }): Promise<number> {
  const source = sourceOf(context, flags.path);
  const folder = mkdtempSync(join(tmpdir(), 'takeback-demo-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const interrupted = (): void => {
    remove();
    process.exit(130);
  };
  process.once('SIGINT', interrupted);
  try {
    return await onStage(context, folder, source);
  } finally {
    process.removeListener('SIGINT', interrupted);
    remove();
  }
}
