/** The recipes of docs/hosts.md for programs, AI SDK, OpenCode, TanStack AI and hosts of one's own, run as they stand. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test, vi } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { type Block, recipe, runRecipe } from '../kit/recipe.ts';
import { Space } from '../kit/space.ts';

const TOP = fileURLToPath(new URL('../..', import.meta.url));

/** A model of `ai` that writes a page and says so. */
const AI_MODEL = `
import { MockLanguageModelV4 } from 'ai/test';
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const input = JSON.stringify({ path: 'login.html', content: '<form></form>' });
const answers = [
  { content: [{ type: 'tool-call', toolCallId: 'call-1', toolName: 'write', input }], reason: 'tool-calls' },
  { content: [{ type: 'text', text: 'Added.' }], reason: 'stop' },
];
export const model = new MockLanguageModelV4({
  doGenerate: async () => {
    const { content, reason } = answers.shift();
    return { content, finishReason: { unified: reason, raw: reason }, usage, warnings: [] };
  },
});
`;

/** The same for \`@tanstack/ai\`. */
const TANSTACK_MODEL = `
import { EventType } from '@tanstack/ai';
let steps = 0;
async function* chatStream({ threadId, runId }) {
  const run = { threadId, runId, model: 'm', timestamp: 1 };
  steps += 1;
  yield { type: EventType.RUN_STARTED, ...run };
  if (steps === 1) {
    const call = { toolCallId: 'call-1', parentMessageId: 'assistant-1', model: 'm', timestamp: 1 };
    yield { type: EventType.TOOL_CALL_START, toolCallName: 'write', toolName: 'write', ...call };
    yield { type: EventType.TOOL_CALL_ARGS, delta: '{"path":"login.html","content":"<form></form>"}', ...call };
    yield { type: EventType.TOOL_CALL_END, ...call };
  }
  const finishReason = steps === 1 ? 'tool_calls' : 'stop';
  yield { type: EventType.RUN_FINISHED, finishReason, metadata: { tanstack: { finishReason } }, ...run };
}
export const adapter = { kind: 'text', name: 'script', model: 'm', '~types': {}, chatStream };
`;

function block(heading: string, language: string): string {
  const found = recipe(heading).find((one: Block) => one.language === language);
  if (found === undefined) throw new Error(`no ${language} block under ${heading}`);
  return found.code;
}

/** A user's shell: the store in the temp folder, the folder of the project as the current one. */
function envOf(space: Space, backend: BackendKind): Record<string, string> {
  return { XDG_STATE_HOME: join(space.base, 'state'), HOME: join(space.base, 'home'), TAKEBACK_BACKEND: backend };
}

/** A recipe starts a process or several. */
vi.setConfig({ testTimeout: 240_000 });

describeBackends('recipes', (backend) => {
  const run = async (code: string, options: Parameters<typeof runRecipe>[1] = {}): Promise<[Space, string[]]> => {
    const space = new Space();
    const { stdout } = await runRecipe(code, { cwd: space.root, env: envOf(space, backend), ...options });
    return [space, stdout.trimEnd().split('\n')];
  };

  test('Any program: a turn, told by the program', async () => {
    const [space, lines] = await run(block('Any program', 'js'));
    await using _ = space;
    expect(lines).toEqual(["written [ 'created login.js' ]", 'Undid the last turn. Files restored: 1.']);
    expect(space.exists('login.js')).toBe(false);
  });

  test('Any program: a turn, by the command', async () => {
    await using space = new Space();
    const bin = join(space.base, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'takeback'), `#!/bin/sh\nexec "${process.execPath}" "${TOP}dist/cli/main.js" "$@"\n`);
    chmodSync(join(bin, 'takeback'), 0o755);
    const { stdout } = await promisify(execFile)('bash', ['-ec', block('Any program', 'bash')], {
      cwd: space.root,
      env: { ...envOf(space, backend), PATH: `${bin}:${process.env.PATH}` },
    });
    expect(stdout).toContain('1 file (+1 -0 lines)');
    expect(stdout).toContain('Undid the last turn. Files restored: 1.');
    expect(space.exists('login.js')).toBe(false);
  });

  test('Vercel AI SDK', async () => {
    const [space, lines] = await run(block('Vercel AI SDK', 'js'), {
      packages: ['ai', 'zod'],
      files: { 'model.mjs': AI_MODEL },
    });
    await using _ = space;
    expect(lines).toEqual(['Added.', 'Undid the last turn. Files restored: 1.']);
    expect(space.exists('login.html')).toBe(false);
  });

  test('TanStack AI', async () => {
    const [space, lines] = await run(block('TanStack AI', 'js'), {
      packages: ['@tanstack/ai', 'zod'],
      files: { 'model.mjs': TANSTACK_MODEL },
    });
    await using _ = space;
    expect(lines).toEqual([
      'tanstack/snapshots:file-changed',
      'tanstack/snapshots:step',
      'Undid the last turn. Files restored: 1.',
    ]);
    expect(space.exists('login.html')).toBe(false);
  });

  test('OpenCode: the plugin, driven as the program drives it', async () => {
    const drive = `
import { writeFileSync } from 'node:fs';
const said = [];
const prompt = async ({ body }) => { said.push(body.parts[0].text); return {}; };
const directory = process.cwd();
const hooks = await Takeback({ directory, worktree: '/', client: { session: { prompt } } });
const call = { tool: 'write', sessionID: 'ses', callID: 'call-1' };
const args = { filePath: directory + '/login.html' };
await hooks['chat.message']({ sessionID: 'ses' }, { message: { id: 'msg-1' }, parts: [{ type: 'text', text: 'Go.' }] });
await hooks['tool.execute.before'](call, { args });
writeFileSync(args.filePath, '<form></form>');
await hooks['tool.execute.after'](call, {});
await hooks['command.execute.before']({ command: 'takeback-undo', sessionID: 'ses' }, { parts: [] }).catch(() => {});
console.log(said.join());
await hooks.dispose();
`;
    const [space, lines] = await run(`${block('OpenCode', 'js')}${drive}`);
    await using _ = space;
    expect(lines).toEqual(['Undid the last turn. Files restored: 1.']);
    expect(space.exists('login.html')).toBe(false);
  });

  test('A host of your own', async () => {
    const [space, lines] = await run(block('A host of your own', 'js'));
    await using _ = space;
    expect(lines).toEqual(['Undid the last turn. Files restored: 1.', 'Redid the last turn.']);
    expect(space.read('login.js')).toBe('export {};\n');
  });
});
