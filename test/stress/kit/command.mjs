/**
 * A workspace of the built package in a process of its own, to be interrupted. Takes JSON: `{ open, threadId, steps }`. A step is
 * `[method, ...args]` of the session or the workspace, or `write` with a path and a text; each prints its answer as a JSON line.
 * Signal 0 to process 2147483632, sent before the workspace is opened, tells `at-call` to begin to count. Ends at the first
 * fault, which is its last line.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openWorkspace } from '../../../dist/index.js';

const { open, threadId, steps } = JSON.parse(process.argv[2]);
const say = (value) =>
  process.stdout.write(`${JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}` : v))}\n`);

try {
  process.kill(2147483632, 0);
} catch {
  // There is no such process.
}
try {
  const workspace = await openWorkspace(open);
  if (!workspace.available) {
    say({ step: 'open', available: false, reason: workspace.reason, detail: workspace.detail });
    process.exitCode = 3;
  } else {
    const session = workspace.session({ threadId });
    for (const [method, ...args] of steps) {
      if (method === 'write') writeFileSync(join(open.root, args[0]), args[1]);
      else say({ step: method, ...(await (method in session ? session : workspace)[method](...args)) });
    }
    await workspace.close();
  }
} catch (error) {
  say({ step: 'fault', code: error.code ?? null, message: error.message, path: error.path ?? null });
  process.exitCode = 1;
}
