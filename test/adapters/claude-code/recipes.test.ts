/** The recipes of docs/hosts.md for Claude Code and the Agent SDK, as they stand there. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { recipe, runRecipe } from '../../kit/recipe.ts';
import { Space } from '../../kit/space.ts';
import { Script, UNHEARD } from './kit.ts';

const TOP = fileURLToPath(new URL('../../..', import.meta.url));

test('Claude Code: install, a session through the very commands that the settings name, log, undo, redo, uninstall', async () => {
  await using space = new Space();
  const env = { ...space.env, XDG_STATE_HOME: join(space.base, 'state'), CLAUDE_PROJECT_DIR: space.root };
  mkdirSync(join(space.root, 'node_modules/.bin'), { recursive: true });
  symlinkSync(TOP, join(space.root, 'node_modules/takeback'));
  // As npm links it; npm also makes it executable.
  const bin = join(space.root, 'node_modules/.bin/takeback');
  writeFileSync(bin, `#!/bin/sh\nexec node "${TOP}dist/cli/main.js" "$@"\n`, { mode: 0o755 });
  space.write('a.txt', 'one\n');
  space.write('.gitignore', 'node_modules\n');
  const [install = { code: '' }, after = { code: '' }] = recipe('Claude Code');

  expect(space.sh(install.code, { env })).toContain('+    "PreToolUse": [');
  const settings = join(space.root, '.claude/settings.local.json');
  const { hooks } = JSON.parse(readFileSync(settings, 'utf8')) as {
    hooks: Record<string, { hooks: { command: string }[] }[]>;
  };
  const script = new Script(space.root);
  const fire = (event: Readonly<Record<string, unknown>>): void => {
    const command = hooks[String(event.hook_event_name)]?.[0]?.hooks[0]?.command ?? '';
    const { status, signal, stdout, stderr } = spawnSync('sh', ['-c', command], {
      input: JSON.stringify(event),
      cwd: space.root,
      env,
      encoding: 'utf8',
    });
    expect({ status, signal, stdout, stderr }).toEqual(UNHEARD);
  };
  fire(script.prompt('p1', 'Change a.txt'));
  fire(script.pre('Bash', 'toolu_1', { command: 'echo two > a.txt' }));
  space.write('a.txt', 'two\n');
  fire(script.post('Bash', 'toolu_1', { command: 'echo two > a.txt' }));
  fire(script.stop());
  fire(script.end());

  const [log = '', undo = '', redo = '', uninstall = ''] = after.code.trim().split('\n');
  expect(space.sh(log, { env })).toContain('Change a.txt');
  expect(space.sh(undo, { env })).toContain('Undid the last turn. Files restored: 1.');
  expect(space.read('a.txt')).toBe('one\n');
  expect(space.sh(redo, { env })).toContain('Redid the last turn.');
  expect(space.read('a.txt')).toBe('two\n');
  space.sh(uninstall, { env });
  expect(existsSync(join(space.root, '.claude'))).toBe(false);
  // Five runs of npx and five of the hook, each a start of Node or two.
}, 240_000);

/** Calls hooks in the order in which the SDK does, around one tool. */
const SDK = `
import { appendFileSync } from 'node:fs';
export async function* query({ prompt, options: { hooks } }) {
  const base = { session_id: 'sdk-1', transcript_path: '', cwd: process.cwd(), prompt_id: 'p1' };
  const fire = async (name, fields) => {
    const input = { ...base, hook_event_name: name, ...fields };
    for (const { hooks: list } of hooks[name] ?? [])
      for (const hook of list) await hook(input, fields.tool_use_id, { signal: new AbortController().signal });
  };
  yield { type: 'system', subtype: 'init', session_id: 'sdk-1' };
  await fire('UserPromptSubmit', { prompt });
  const tool = { tool_name: 'Bash', tool_input: { command: 'x' }, tool_use_id: 'toolu_1' };
  await fire('PreToolUse', tool);
  appendFileSync('readme.md', 'by the agent');
  await fire('PostToolUse', { ...tool, tool_response: {} });
  await fire('Stop', { stop_hook_active: false });
  yield { type: 'result', subtype: 'success' };
}`;

test('Claude Agent SDK: a query is recorded and undone', async () => {
  await using space = new Space();
  space.write('readme.md', 'mine\n');
  const [{ code } = { code: '' }] = recipe('Claude Agent SDK');
  const run = await runRecipe(code, {
    stubs: { '@anthropic-ai/claude-agent-sdk': SDK },
    cwd: space.root,
    env: { XDG_STATE_HOME: join(space.base, 'state') },
  });
  expect([run.stdout, run.stderr]).toEqual(['Undid the last turn. Files restored: 1.\n', '']);
  expect(space.read('readme.md')).toBe('mine\n');
});
