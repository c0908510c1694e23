/**
 * The real program, where TAKEBACK_CLAUDE names it (the binary of `@anthropic-ai/claude-agent-sdk-linux-x64`): its hooks, against
 * a scripted Messages server on loopback, with a key that is none and a home of its own.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../../src/backend/backend.ts';
import { availableBackends } from '../../kit/backends.ts';
import { Space } from '../../kit/space.ts';
import { Hooks } from './kit.ts';
import { modelServer, toolUse } from './model-server.ts';

const CLAUDE = process.env.TAKEBACK_CLAUDE ?? '';

/** Both tools at once, then the end. */
function serve(root: string): Server {
  const write = toolUse('toolu_write', 'Write', { file_path: join(root, 'made.md'), content: 'made\n' });
  const shell = toolUse('toolu_shell', 'Bash', { command: 'echo changed > kept.txt', description: 'Change a file' });
  return modelServer((answered) => (answered === 0 ? [write, shell] : undefined));
}

test.skipIf(CLAUDE === '')(
  'Claude Code itself is recorded by the hooks that install wrote, and undone (TAKEBACK_CLAUDE)',
  async () => {
    await using space = new Space();
    space.write('kept.txt', 'mine\n');
    const hooks = new Hooks(space, availableBackends[0] as BackendKind);
    expect(hooks.takeback('install', 'claude-code', '--local').status).toBe(0);
    const server = serve(space.root).listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const argv = ['-p', 'Change the files', '--allowedTools', 'Write,Bash', '--permission-mode', 'acceptEdits'];
      const child = spawn(CLAUDE, argv, {
        cwd: space.root,
        env: {
          ...space.env,
          ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`,
          ANTHROPIC_API_KEY: 'sk-ant-none',
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let said = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += String(chunk)));
      const [code] = (await once(child, 'close')) as [number | null];
      expect([code, said.trim()]).toEqual([0, 'Done.']);
    } finally {
      server.close();
    }
    expect([space.read('made.md'), space.read('kept.txt')]).toEqual(['made\n', 'changed\n']);
    expect(hooks.problems()).toEqual([]);
    const log = hooks.takeback('log', '--calls', '--json').json() as { items: { type: string; callId?: string }[] };
    expect(log.items.flatMap(({ callId }) => callId ?? []).sort()).toEqual(['toolu_shell', 'toolu_write']);
    expect(log.items).toMatchObject([
      { type: 'boundary', label: 'Change the files' },
      { state: 'ended' },
      { state: 'ended' },
    ]);
    expect(hooks.takeback('undo').status).toBe(0);
    expect([space.exists('made.md'), space.read('kept.txt')]).toEqual([false, 'mine\n']);
  },
  120_000,
);
