/**
 * Another process that uses the built package. Takes one argument, JSON: `{ open, steps }`. A step is `[method, ...args]`:
 * `sh` and `write` work in the root, `ready` prints a line, `hold` waits to be killed, `on` names the session of what
 * follows, `repeat` runs steps until it is killed; every other method is the session's, or the workspace's.
 *
 * Prints one JSON line for each step; ends at the first fault, with code 1 and the fault as its last line.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openWorkspace } from '../../dist/index.js';

const { open, steps } = JSON.parse(process.argv[2]);
const say = (value) =>
  process.stdout.write(`${JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}` : v))}\n`);

const workspace = await openWorkspace(open);
say({ step: 'open', available: workspace.available, reason: workspace.reason, detail: workspace.detail });
let session = workspace.session({ threadId: 's1' });

const own = {
  ready: async () => say({ step: 'ready' }),
  hold: () => new Promise(() => setInterval(() => undefined, 1000)),
  on: async (threadId) => {
    session = workspace.session({ threadId });
  },
  sh: async (command) => {
    const { status, stderr } = spawnSync('bash', ['-c', command], { cwd: open.root, encoding: 'utf8' });
    if (status !== 0) throw new Error(`${command}: ${stderr}`);
  },
  write: async (path, content) => {
    mkdirSync(dirname(join(open.root, path)), { recursive: true });
    writeFileSync(join(open.root, path), content);
  },
  repeat: async (inner) => {
    for (let round = 0; ; round++) {
      for (const [method, ...args] of inner) {
        const filled = args.map((arg) => (typeof arg === 'string' ? arg.replaceAll('%', String(round)) : arg));
        await run(method, filled);
      }
    }
  },
};

async function run(method, args) {
  if (method in own) return own[method](...args);
  if (method in session) return session[method](...args);
  return workspace[method](...args);
}

try {
  for (const [method, ...args] of steps) {
    const result = await run(method, args);
    say({ step: method, result: result ?? null });
  }
  await workspace.close();
} catch (error) {
  say({ step: 'fault', code: error.code ?? null, message: error.message });
  process.exitCode = 1;
}
