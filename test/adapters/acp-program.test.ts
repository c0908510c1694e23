/** The ACP method on the official SDK, both ends: the oracle over an in-process pair, and an agent program over real pipes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type ClientContext, client, ndJsonStream } from '@agentclientprotocol/sdk/unstable';
import { afterEach, expect, test } from 'vitest';
import { checkpointClient } from '../../src/adapters/acp.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { recipe, runRecipe } from '../kit/recipe.ts';
import { Space } from '../kit/space.ts';
import { differing, snapshot } from '../kit/tree.ts';
import { acpDriver, INITIALIZE, refusal } from './harn/drivers.ts';
import { play, scenes } from './harn/oracle.ts';

describeBackends('the oracle, through ACP', (kind) => {
  test.each(scenes().filter(({ ordinaryUser }) => !ordinaryUser))('$claim', async (scene) => {
    await using space = new Space();
    const driver = await acpDriver(space, kind);
    await play(scene, space, driver).finally(() => driver.close());
  });
});

const AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));

class Program {
  readonly process: ChildProcess;
  readonly context: ClientContext;

  private constructor(process: ChildProcess, context: ClientContext) {
    this.process = process;
    this.context = context;
  }

  static async start(space: Space, kind: BackendKind): Promise<Program> {
    const sessions = join(space.base, 'sessions.json');
    if (!existsSync(sessions)) writeFileSync(sessions, '{}');
    const options = { dataDir: space.dataDir, backend: kind, sessions };
    const child = spawn(process.execPath, [AGENT, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'inherit'] });
    const stream = ndJsonStream(
      Writable.toWeb(child.stdin as NonNullable<typeof child.stdin>),
      Readable.toWeb(child.stdout as NonNullable<typeof child.stdout>) as ReadableStream<Uint8Array>,
    );
    const connection = client({ name: 'test-client' }).connect(stream);
    await connection.agent.request('initialize', INITIALIZE);
    return new Program(child, connection.agent);
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => this.process.once('exit', () => resolve()));
    this.process.kill('SIGKILL');
    await ended;
  }
}

describeBackends('an agent program over real pipes', (kind) => {
  let program: Program | undefined;
  afterEach(() => program?.kill());

  const prompt = (id: string, messageId: string, steps: unknown): Promise<unknown> =>
    (program as Program).context.request('session/prompt', {
      sessionId: id,
      prompt: [{ type: 'text', text: JSON.stringify(steps) }],
      _meta: { messageId },
    });

  test('a turn with edit, shell, parallel and failing tools: a client’s restore takes back exactly that, after a kill too', async () => {
    await using space = new Space();
    space.sh('echo 0 > edited.txt; mkdir src; echo 0 > src/gone.txt; echo 0 > user.txt');
    const start = snapshot(space.root);
    program = await Program.start(space, kind);
    const { sessionId } = await program.context.request('session/new', { cwd: space.root, mcpServers: [] });
    await prompt(sessionId, 'm1', [
      ['edit', 'edit', ['edited.txt', '1']],
      ['shell', 'shell', 'rm -r src; mkdir out; echo 1 > out/a', 'network'],
      [
        ['p1', 'edit', ['one.txt', '1']],
        ['p2', 'shell', 'echo 1 > two.txt'],
      ],
      ['failed', 'shell', 'echo 1 > half-written.txt; exit 3'],
    ]);
    expect(differing(start, snapshot(space.root))).toEqual([
      'edited.txt',
      'half-written.txt',
      'one.txt',
      'out',
      'out/a',
      'src',
      'src/gone.txt',
      'two.txt',
    ]);
    space.write('user.txt', 'the user’s');
    await program.kill();
    program = await Program.start(space, kind);
    const checkpoints = checkpointClient(program.context, sessionId);
    expect(await refusal(checkpoints.plan('m1'))).toMatchObject({ code: -32002, data: { sessionId } });
    await program.context.request('session/load', { sessionId, cwd: space.root, mcpServers: [] });
    const receipt = await checkpoints.restore('m1');
    expect(receipt).toMatchObject({
      available: true,
      outcome: 'done',
      refused: [],
      failed: [],
      irreversible: [{ call_id: 'shell', side_effect: 'network' }],
    });
    expect(differing(start, snapshot(space.root))).toEqual(['user.txt']);
  });

  test('a client that owns the turn brackets the calls itself, and close drops', async () => {
    await using space = new Space();
    space.write('a.txt', '0');
    program = await Program.start(space, kind);
    const { sessionId } = await program.context.request('session/new', { cwd: space.root, mcpServers: [] });
    const checkpoints = checkpointClient(program.context, sessionId);
    expect(await checkpoints.capture('m1')).toMatchObject({ available: true, scanned_files: 1 });
    expect(await checkpoints.callBegin('c1', { tool: 'edit', paths: ['a.txt'] })).toMatchObject({ available: true });
    space.write('a.txt', '1');
    expect(await checkpoints.callEnd('c1', { sideEffect: 'workspace_write' })).toMatchObject({
      changes: [{ path: 'a.txt', kind: 'modified' }],
    });
    const plan = await checkpoints.plan('m1');
    const planToken = plan.available ? plan.plan_token : '';
    expect(await checkpoints.restore('m1', { planToken, paths: ['a.txt'] })).toMatchObject({ outcome: 'done' });
    expect(space.read('a.txt')).toBe('0');
    expect(await program.context.request('session/close', { sessionId })).toMatchObject({
      _meta: { takeback: { drop: { dropped: true } } },
    });
    await program.context.request('session/load', { sessionId, cwd: space.root, mcpServers: [] });
    expect(await checkpoints.plan('m1')).toMatchObject({ available: false, reason: 'no_checkpoint' });
  });
});

test('the recipe runs as it stands', async () => {
  await using space = new Space();
  const [program, editor] = recipe('ACP');
  const project = join(space.base, 'project');
  const top = fileURLToPath(new URL('../..', import.meta.url));
  mkdirSync(join(project, 'node_modules/@agentclientprotocol'), { recursive: true });
  symlinkSync(top, join(project, 'node_modules/takeback'));
  symlinkSync(
    join(top, 'node_modules/@agentclientprotocol/sdk'),
    join(project, 'node_modules/@agentclientprotocol/sdk'),
  );
  writeFileSync(join(project, 'agent.mjs'), program?.code ?? '');
  const ran = await runRecipe(editor?.code ?? '', {
    packages: ['@agentclientprotocol/sdk'],
    cwd: project,
    args: [space.root],
    env: { XDG_STATE_HOME: space.dataDir },
  });
  expect(ran).toEqual({ stdout: 'delete notes.txt\ndone\n', stderr: '' });
  expect(space.exists('notes.txt')).toBe(false);
});
