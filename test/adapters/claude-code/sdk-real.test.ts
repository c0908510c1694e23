/**
 * The recipe of docs/hosts.md in the real Agent SDK, where TAKEBACK_AGENT_SDK names a folder outside this repository in which
 * `npm install @anthropic-ai/claude-agent-sdk` was run: against a scripted Messages server on loopback, with a key that is none
 * and a home of its own. Two calls at once, then a failing one; undo takes back exactly what they did.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { recipe, runRecipe } from '../../kit/recipe.ts';
import { Space } from '../../kit/space.ts';
import { modelServer, toolUse } from './model-server.ts';

const INSTALLED = process.env.TAKEBACK_AGENT_SDK ?? '';
const SDK = '@anthropic-ai/claude-agent-sdk';

test.skipIf(INSTALLED === '')(
  'the Agent SDK itself is recorded by the recipe, and undone (TAKEBACK_AGENT_SDK)',
  async () => {
    await using space = new Space();
    space.write('kept.txt', 'mine\n');
    const made = join(space.root, 'made.md');
    const server = modelServer((answered) => {
      if (answered === 0)
        return [
          toolUse('toolu_write', 'Write', { file_path: made, content: 'made\n' }),
          toolUse('toolu_shell', 'Bash', { command: 'echo changed > kept.txt', description: 'Change a file' }),
        ];
      if (answered > 2) return undefined;
      // While no call is open, what changes is the user's.
      space.write('user.txt', 'by the user\n');
      const command = 'echo half > half.txt; exit 3';
      return [toolUse('toolu_fails', 'Bash', { command, description: 'Fail half way' })];
    }).listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const [{ code } = { code: '' }] = recipe('Claude Agent SDK');
      const told = 'const undone = await session.undo();';
      expect(code).toContain(told);
      const looked = `
        const { readFileSync } = await import('node:fs');
        const files = ['made.md', 'kept.txt', 'half.txt'].map((name) => readFileSync(name, 'utf8'));
        const { items } = await session.timeline({ limit: 20 });
        const calls = items.filter(({ type }) => type === 'call').map(({ callId, tool, state, isError }) => [callId, tool, state, isError]);
        console.log(JSON.stringify({ files, calls: calls.sort() }));
        ${told}`;
      const run = await runRecipe(code.replace(told, looked), {
        linked: { [SDK]: join(INSTALLED, 'node_modules', SDK) },
        cwd: space.root,
        env: {
          HOME: join(space.base, 'home'),
          XDG_STATE_HOME: join(space.base, 'state'),
          ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`,
          ANTHROPIC_API_KEY: 'sk-ant-none',
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        },
      });
      expect(run.stderr).toBe('');
      const [before = '', undone] = run.stdout.trim().split('\n');
      expect(JSON.parse(before)).toEqual({
        files: ['made\n', 'changed\n', 'half\n'],
        calls: [
          ['toolu_fails', 'Bash', 'ended', true],
          ['toolu_shell', 'Bash', 'ended', false],
          ['toolu_write', 'Write', 'ended', false],
        ],
      });
      expect(undone).toContain('Undid the last turn.');
      expect([
        space.exists('made.md'),
        space.read('kept.txt'),
        space.exists('half.txt'),
        space.read('user.txt'),
      ]).toEqual([false, 'mine\n', false, 'by the user\n']);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },
  120_000,
);
