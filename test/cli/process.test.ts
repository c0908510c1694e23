/**
 * The built command as a process of its own, on the real engine. Each test has a root and a data directory of its own.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hashTree } from '../../src/cli/demo-tree.ts';
import { describeBackends } from '../kit/backends.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

let folder: string;
let root: string;
let dataDir: string;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-process-')));
  root = join(folder, 'root');
  dataDir = join(folder, 'data');
  mkdirSync(join(root, 'src'), { recursive: true });
  writeFileSync(join(root, 'a.txt'), 'one\n');
  writeFileSync(join(root, 'src/b.txt'), 'two\n');
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The demo puts its temp folder below TMPDIR, so that a test sees whether it went away. */
const environment = (): NodeJS.ProcessEnv => ({ ...process.env, TMPDIR: folder, TAKEBACK_BACKEND: '' });

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function takeback(backend: string, ...argv: string[]): Ended {
  return spawnSync(process.execPath, [MAIN, '--data-dir', dataDir, '--backend', backend, ...argv], {
    cwd: root,
    encoding: 'utf8',
    env: environment(),
  });
}

function start(backend: string, ...argv: string[]): ChildProcess {
  return spawn(process.execPath, [MAIN, '--data-dir', dataDir, '--backend', backend, ...argv], {
    cwd: root,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Waits until a file is there; the command that makes it has then begun. */
async function appears(file: string, maker: ChildProcess): Promise<void> {
  while (!existsSync(file)) {
    if (maker.exitCode !== null) throw new Error(`the command ended with ${maker.exitCode} before it made ${file}`);
    await new Promise((wake) => setTimeout(wake, 10));
  }
}

describeBackends('the command', (backend) => {
  test('run, log, status, show, diff, undo, redo on one turn', () => {
    const before = hashTree(root).hash;
    const ran = takeback(
      backend,
      'run',
      '--label',
      'first',
      '--',
      'sh',
      '-c',
      'echo more >> a.txt; rm src/b.txt; echo new > c.txt; echo said',
    );
    expect([ran.status, ran.stdout]).toEqual([0, 'said\n']);
    expect(ran.stderr).toContain(
      '3 paths changed: 1 created, 1 modified, 1 deleted.\n  M a.txt\n  A c.txt\n  D src/b.txt\n',
    );
    const after = hashTree(root).hash;

    expect(takeback(backend, 'log').stdout).toContain('first');
    const status = JSON.parse(takeback(backend, 'status', '--json').stdout);
    expect(
      status.undo.plan.entries.map((entry: { path: string; action: string }) => [entry.path, entry.action]),
    ).toEqual([
      ['a.txt', 'restore'],
      ['c.txt', 'delete'],
      ['src/b.txt', 'recreate'],
    ]);
    expect(takeback(backend, 'show').stdout).toContain('+more\n');
    expect(takeback(backend, 'diff').stdout).toContain('diff --git a/c.txt b/c.txt\nnew file mode 100644\n');

    const undone = takeback(backend, 'undo');
    expect([undone.status, undone.stdout.split('\n')[0]]).toEqual([0, 'Undid the last turn. Files restored: 3.']);
    expect(hashTree(root).hash).toBe(before);
    expect(takeback(backend, 'redo').stdout).toContain('Redid the last turn.');
    expect(hashTree(root).hash).toBe(after);
    expect(takeback(backend, 'undo', '5').status).toBe(0);
    expect(hashTree(root).hash).toBe(before);
    expect(takeback(backend, 'undo')).toMatchObject({ status: 1, stdout: 'Nothing to undo.\n' });
  });

  test('undo 2 takes back two turns, and restore a boundary by name and path', () => {
    const before = hashTree(root).hash;
    takeback(backend, 'run', '--boundary', 'b1', '--', 'sh', '-c', 'echo 1 > one; echo 1 > a.txt');
    takeback(backend, 'run', '--boundary', 'b2', '--', 'sh', '-c', 'echo 2 > two');
    const partly = takeback(backend, 'restore', 'b1', 'one', '--json');
    expect(JSON.parse(partly.stdout)).toMatchObject({ outcome: 'done', restored: [{ path: 'one', action: 'delete' }] });
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('1\n');
    expect(takeback(backend, 'undo', '2').status).toBe(0);
    expect(hashTree(root).hash).toBe(before);
  });

  test('a file that somebody else changed is kept, named, and the exit code is 3', () => {
    takeback(backend, 'run', '--', 'sh', '-c', 'echo agent > a.txt; echo agent > src/b.txt');
    writeFileSync(join(root, 'a.txt'), 'mine\n');
    const undone = takeback(backend, 'undo');
    expect(undone.status).toBe(3);
    expect(undone.stdout).toContain('refuse   a.txt (changed-outside-session)');
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('mine\n');
    expect(readFileSync(join(root, 'src/b.txt'), 'utf8')).toBe('two\n');
  });

  test('a call is opened by one process and ended by another', () => {
    takeback(backend, 'capture', 'b1');
    expect(takeback(backend, 'begin', 'c1').status).toBe(0);
    writeFileSync(join(root, 'new.txt'), 'x');
    const ended = JSON.parse(takeback(backend, 'end', '--all', '--json').stdout);
    expect(ended.calls).toMatchObject([{ callId: 'c1', changes: [{ path: 'new.txt', kind: 'created' }] }]);
    expect(takeback(backend, 'undo').status).toBe(0);
    expect(existsSync(join(root, 'new.txt'))).toBe(false);
  });

  test('--json keeps the command’s own output off standard output', () => {
    const ran = takeback(backend, 'run', '--json', '--', 'sh', '-c', 'echo said; exit 4');
    expect(ran.status).toBe(4);
    expect(JSON.parse(ran.stdout)).toMatchObject({ available: true, exitCode: 4, recorded: true, changes: [] });
    expect(ran.stderr).toContain('said\n');
  });

  test('an interrupt reaches the command, and the call is ended', async () => {
    const script = 'trap "echo caught > caught; exit 3" INT; touch ready; while :; do sleep 0.05; done';
    const child = start(backend, 'run', '--', 'sh', '-c', script);
    await appears(join(root, 'ready'), child);
    child.kill('SIGINT');
    const [code] = await once(child, 'exit');
    expect(code).toBe(3);
    const log = JSON.parse(takeback(backend, 'log', '--calls', '--json').stdout);
    expect(log.items.at(-1)).toMatchObject({ type: 'call', state: 'ended', isError: true });
    expect(takeback(backend, 'undo').stdout).toContain('Files restored: 2.');
  });

  test('a run whose process was killed leaves a turn that can be undone', async () => {
    const child = start(backend, 'run', '--', 'sh', '-c', 'echo x > made; touch ready; sleep 0.3');
    await appears(join(root, 'ready'), child);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(takeback(backend, 'capture', 'after').status).toBe(0);
    const log = JSON.parse(takeback(backend, 'log', '--calls', '--json').stdout);
    expect(log.items.find((item: { type: string }) => item.type === 'call')).toMatchObject({ state: 'interrupted' });
  });

  test('bad input is a sentence and nothing written', () => {
    const outside = takeback(backend, 'restore', 'b1', '../x');
    expect(outside.status).toBe(1);
    expect(existsSync(join(dataDir, 'workspaces'))).toBe(false);
    takeback(backend, 'capture', 'b1');
    expect(takeback(backend, 'restore', 'b1', '../x')).toMatchObject({ status: 2 });
    expect(takeback(backend, 'restore', 'b1', '../x').stderr).toContain('outside the root');
    expect(takeback(backend, 'capture', 'b1')).toMatchObject({ status: 2 });
    expect(takeback(backend, 'restore', 'nope').stderr).toContain('unknown-boundary');
    expect(takeback(backend, 'capture', '--root', join(folder, 'missing')).stderr).toContain('root-missing');
    expect(takeback(backend, 'capture', '--root', join(root, 'a.txt')).stderr).toContain('not-a-directory');
  });

  test('the store has its care: stats, verify, gc, sessions, drop', () => {
    takeback(backend, 'run', '--', 'sh', '-c', 'echo x > x');
    expect(JSON.parse(takeback(backend, 'stats', '--json').stdout).counts).toMatchObject({ boundaries: 1, calls: 1 });
    expect(JSON.parse(takeback(backend, 'verify', '--rehash', '--json').stdout)).toMatchObject({
      ok: true,
      problems: [],
    });
    expect(takeback(backend, 'gc').status).toBe(0);
    expect(JSON.parse(takeback(backend, 'sessions', '--json').stdout).sessions).toMatchObject([
      { threadId: 'default', boundaries: 1 },
    ]);
    expect(JSON.parse(takeback(backend, 'recover', '--json').stdout)).toEqual({ available: true, recovered: [] });
    expect(takeback(backend, 'drop').status).toBe(0);
    expect(JSON.parse(takeback(backend, 'sessions', '--json').stdout).sessions).toEqual([]);
    expect(readFileSync(join(root, 'x'), 'utf8')).toBe('x\n');
  });

  test('doctor names the backend and leaves no store behind', () => {
    const looked = takeback(backend, 'doctor', '--json');
    expect(looked.status).toBe(0);
    expect(JSON.parse(looked.stdout)).toMatchObject({ recorded: false, root, capabilities: { backend, root } });
    expect(readdirSync(dataDir).filter((name) => name !== 'open-calls.db')).toEqual([]);
  });

  test('doctor reports a root that is missing, with a remedy', () => {
    const looked = takeback(backend, 'doctor', '--root', join(folder, 'missing'), '--json');
    expect(looked.status).toBe(1);
    expect(JSON.parse(looked.stdout).problems).toMatchObject([
      { level: 'error', remedy: 'Give an existing folder with --root.' },
    ]);
  });

  test('a data directory that others may enter is a warning', () => {
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o755);
    expect(JSON.parse(takeback(backend, 'doctor', '--json').stdout).problems).toContainEqual({
      level: 'warning',
      problem: `The data directory ${dataDir} can be entered by others (mode 755).`,
      remedy: `chmod 700 ${dataDir}`,
    });
  });

  test('demo proves undo and redo on a copy of a tree, and removes the copy', () => {
    symlinkSync('a.txt', join(root, 'link'));
    for (let i = 0; i < 30; i += 1) writeFileSync(join(root, `src/file-${i}.txt`), `some text ${i}\n`);
    const before = hashTree(root).hash;
    const shown = takeback(backend, 'demo', '--path', root, '--json');
    expect(shown.stderr).toBe('');
    expect(shown.status).toBe(0);
    const result = JSON.parse(shown.stdout);
    expect(result).toMatchObject({ ok: true, backend, git: true });
    expect(result.proofs.map((proof: { claim: string; holds: boolean }) => [proof.claim, proof.holds])).toEqual([
      ['the turn changed the tree', true],
      ['the tree is as it was before the turn', true],
      ['.git is untouched', true],
      ['the tree is as the turn left it', true],
      ['.git is untouched', true],
      ['the tree is as it was before the turn', true],
      ['.git is untouched', true],
    ]);
    expect(hashTree(root).hash).toBe(before);
    expect(readdirSync(folder).sort()).toEqual(['root']);
  });

  test.runIf(existsSync('/dev/full'))('an output that can not be written is told when the work is done', () => {
    expect(takeback(backend, 'run', '--boundary', 'b1', '--', 'sh', '-c', 'echo 2 >a.txt').status).toBe(0);
    const full = openSync('/dev/full', 'w');
    const ended = spawnSync(process.execPath, [MAIN, '--data-dir', dataDir, '--backend', backend, 'undo'], {
      ...{ cwd: root, encoding: 'utf8', env: environment() },
      stdio: ['ignore', full, 'pipe'],
    });
    closeSync(full);
    expect(ended.status).toBe(1);
    expect(ended.stderr).toMatch(/^takeback: the output can't be written: ENOSPC.*\n$/);
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('one\n');
  });
});
