/**
 * An agent as a program: the official SDK over stdin and stdout, with checkpoints of the built package. Its sessions outlive
 * it, so that `session/load` works in the next process. A prompt is a list of tool calls, `[[id, tool, argument, sideEffect?], …]`
 * as JSON text; a list in the list runs its calls at once. The agent owns its turns, and brackets the calls itself.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { agent, ndJsonStream, RequestError } from '@agentclientprotocol/sdk/unstable';
import { workspaceCheckpoints } from '../../dist/adapters/acp.js';

const { dataDir, backend, sessions: file } = JSON.parse(process.argv[2]);
const sessions = new Map(Object.entries(JSON.parse(readFileSync(file, 'utf8'))));
const keep = (id, cwd) => {
  sessions.set(id, cwd);
  writeFileSync(file, JSON.stringify(Object.fromEntries(sessions)));
};

const app = agent({ name: 'test-agent' });
const checkpoints = workspaceCheckpoints(app, { RequestError, dataDir, backend, durability: 'fast' });

const tools = {
  edit: (cwd, [path, content]) => writeFileSync(join(cwd, path), content),
  shell: (cwd, command) => {
    if (spawnSync('bash', ['-c', command], { cwd }).status !== 0) throw new Error(`the shell failed: ${command}`);
  },
};

async function run(sessionId, [id, tool, argument, sideEffect]) {
  const session = checkpoints.session(sessionId);
  await session.callBegin(id, { tool });
  let isError = false;
  try {
    await tools[tool](sessions.get(sessionId), argument);
  } catch {
    isError = true;
  } finally {
    await session.callEnd(id, { isError, ...(sideEffect && { sideEffect }) });
  }
}

app
  .onRequest('initialize', () => ({ protocolVersion: 1, agentCapabilities: { loadSession: true } }))
  .onRequest('session/new', ({ params }) => {
    const sessionId = `session-${sessions.size + 1}`;
    keep(sessionId, params.cwd);
    return { sessionId };
  })
  .onRequest('session/load', ({ params }) => {
    keep(params.sessionId, params.cwd);
    return {};
  })
  .onRequest('session/prompt', async ({ params: { sessionId, prompt, _meta } }) => {
    await checkpoints.session(sessionId).capture(_meta.messageId);
    for (const step of JSON.parse(prompt[0].text)) {
      await Promise.all((Array.isArray(step[0]) ? step : [step]).map((call) => run(sessionId, call)));
    }
    return { stopReason: 'end_turn' };
  })
  .onRequest('session/close', () => ({}));

const connection = app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
await connection.closed;
await checkpoints.close();
