/** `install claude-code` and `uninstall`: what stands in the settings file before and after, byte for byte. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test, vi } from 'vitest';
import { INSTALLED_EVENTS, ourCommands, withHooks, withoutHooks } from '../../src/cli/claude-settings.ts';
import { readJsonText } from '../../src/cli/json-text.ts';
import { HOOK_FILE } from '../adapters/claude-code/kit.ts';
import { Space } from '../kit/space.ts';

// Each event is a process, and some tests send dozens.
vi.setConfig({ testTimeout: 240_000 });

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const COMMAND = '"/usr/bin/node" "/opt/takeback/dist/cli/hook.cjs" claude-code';

/** Settings as people have them: order, odd spaces, other hooks, keys that nobody knows. */
const LIVED_IN = `{
    "zzz": [1,2 , 3],
    "permissions": { "allow": ["Bash(npm run:*)"] },
    "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "./guard.sh" } ] }
        ],
        "Notification": []
    },
    "model":"opus"
}
`;

class Settings {
  readonly space: Space = new Space();

  get project(): string {
    return this.space.root;
  }

  file(scope: 'user' | 'project' | 'local'): string {
    return scope === 'user'
      ? join(this.space.base, 'home/.claude/settings.json')
      : join(this.project, '.claude', scope === 'project' ? 'settings.json' : 'settings.local.json');
  }

  put(scope: 'user' | 'project' | 'local', text: string, mode = 0o644): void {
    mkdirSync(dirname(this.file(scope)), { recursive: true });
    writeFileSync(this.file(scope), text, { mode });
  }

  run(...argv: string[]): { status: number | null; stdout: string; stderr: string } {
    return spawnSync(process.execPath, [MAIN, '--data-dir', this.space.dataDir, ...argv], {
      cwd: this.project,
      env: this.space.env,
      encoding: 'utf8',
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.space[Symbol.asyncDispose]();
  }
}

describe('a settings file', () => {
  test.each(['local', 'project', 'user'] as const)('--%s is made with its folder, and both go again', async (scope) => {
    await using at = new Settings();
    const installed = at.run('install', 'claude-code', `--${scope}`);
    expect(installed.status, installed.stderr).toBe(0);
    const { hooks } = JSON.parse(readFileSync(at.file(scope), 'utf8')) as { hooks: Record<string, unknown> };
    expect(Object.keys(hooks)).toEqual([...INSTALLED_EVENTS]);
    const [command = ''] = ourCommands(readFileSync(at.file(scope), 'utf8'));
    expect(command).toContain(`"${HOOK_FILE}" claude-code`);
    expect(command).toContain(`--data-dir "${at.space.dataDir}"`);
    expect(command.startsWith(scope === 'project' ? 'node ' : `"${process.execPath}" `)).toBe(true);
    const gone = at.run('uninstall', 'claude-code', `--${scope}`);
    expect(gone.status, gone.stderr).toBe(0);
    expect(existsSync(dirname(at.file(scope)))).toBe(false);
  });

  test('keeps all else, shows the change first, and comes back byte for byte', async () => {
    await using at = new Settings();
    at.put('local', LIVED_IN, 0o640);
    const shown = at.run('install', 'claude-code', '--dry-run');
    expect(shown.status).toBe(0);
    expect(shown.stdout).toContain('+        "UserPromptSubmit": [');
    expect(shown.stdout.match(/^-.*$/gm)?.length, 'a comma behind the last of a list').toBe(3);
    expect(readFileSync(at.file('local'), 'utf8')).toBe(LIVED_IN);

    expect(at.run('install', 'claude-code').status).toBe(0);
    const text = readFileSync(at.file('local'), 'utf8');
    const before = JSON.parse(LIVED_IN) as { hooks: { PreToolUse: unknown[] } };
    const after = JSON.parse(text) as typeof before;
    expect({ ...after, hooks: before.hooks }).toEqual(before);
    expect(after.hooks.PreToolUse[0]).toEqual(before.hooks.PreToolUse[0]);
    expect(text).toContain('"zzz": [1,2 , 3],\n');
    expect(text).toContain(
      '            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "./guard.sh" } ] }',
    );
    expect(statSync(at.file('local')).mode & 0o777).toBe(0o640);
    expect(readdirSync(dirname(at.file('local')))).toEqual(['settings.local.json']);

    const again = at.run('install', 'claude-code');
    expect([again.status, again.stdout]).toEqual([0, `Nothing to change in ${at.file('local')}.\n`]);
    expect(readFileSync(at.file('local'), 'utf8')).toBe(text);

    expect(at.run('uninstall', 'claude-code').status).toBe(0);
    expect(readFileSync(at.file('local'), 'utf8')).toBe(LIVED_IN);
    expect(at.run('uninstall', 'claude-code').stdout).toBe(`Nothing to change in ${at.file('local')}.\n`);
  });

  test('what changed since the install stays when the hooks go', async () => {
    await using at = new Settings();
    at.put('local', LIVED_IN);
    at.run('install', 'claude-code');
    const changed = readFileSync(at.file('local'), 'utf8').replace('"model":"opus"', '"model":"sonnet", "new": true');
    writeFileSync(at.file('local'), changed);
    expect(at.run('uninstall', 'claude-code').status).toBe(0);
    expect(JSON.parse(readFileSync(at.file('local'), 'utf8'))).toEqual({
      ...(JSON.parse(LIVED_IN) as object),
      model: 'sonnet',
      new: true,
    });
  });

  test.each([
    ['a comment', '{\n  // mine\n  "a": 1\n}', 'line 2, column 3: a comment, which JSON does not have'],
    ['half an object', '{"a": 1', 'line 1, column 8: a comma or } was expected'],
    ['a trailing comma', '{"a": 1,}', 'line 1, column 9: a value was expected'],
    ['a list', '[]', 'it must hold a JSON object'],
    ['hooks of another type', '{"hooks": []}', '"hooks" must be an object'],
    ['an event of another type', '{"hooks": {"Stop": {}}}', '"hooks.Stop" must be a list'],
    ['a name twice', '{"hooks": {}, "hooks": {}}', 'line 1, column 26: the name "hooks" stands there twice'],
  ])('that is %s is left as it is, and named', async (_label, text, message) => {
    await using at = new Settings();
    at.put('local', text);
    const run = at.run('install', 'claude-code', '--json');
    expect(run.status).toBe(2);
    expect(run.stderr).toContain(`${at.file('local')}: ${message}`);
    expect(JSON.parse(run.stdout)).toMatchObject({ error: { code: 'ERR_USAGE' } });
    expect(readFileSync(at.file('local'), 'utf8')).toBe(text);
  });

  test('that is not UTF-8, or a folder, or a link that leads nowhere, is left as it is', async () => {
    await using at = new Settings();
    mkdirSync(join(at.project, '.claude'));
    writeFileSync(at.file('local'), Buffer.from([0x7b, 0xff, 0x7d]));
    expect(at.run('install', 'claude-code').stderr).toContain('is not UTF-8');
    expect(readFileSync(at.file('local'))).toEqual(Buffer.from([0x7b, 0xff, 0x7d]));
    mkdirSync(at.file('project'));
    expect(at.run('install', 'claude-code', '--project').stderr).toContain('is not a file');
    mkdirSync(join(at.space.base, 'home/.claude'));
    symlinkSync('nowhere', at.file('user'));
    expect(at.run('install', 'claude-code', '--user').stderr).toContain('a link that leads nowhere');
  });

  test('that is a link is written where it leads only with --yes; the link stays', async () => {
    await using at = new Settings();
    const real = join(at.space.base, 'dotfiles.json');
    writeFileSync(real, '{}\n');
    mkdirSync(join(at.space.base, 'home/.claude'));
    symlinkSync('../../dotfiles.json', at.file('user'));
    const refused = at.run('install', 'claude-code', '--user');
    expect([refused.status, readFileSync(real, 'utf8')]).toEqual([2, '{}\n']);
    expect(refused.stderr).toContain(`leads to ${real}. Say --yes`);
    expect(at.run('install', 'claude-code', '--user', '--yes').status).toBe(0);
    expect(ourCommands(readFileSync(real, 'utf8'))).toHaveLength(1);
    expect(readFileSync(at.file('user'), 'utf8')).toBe(readFileSync(real, 'utf8'));
    expect(at.run('uninstall', 'claude-code', '--user', '--yes').status).toBe(0);
    expect(readFileSync(real, 'utf8')).toBe('{}\n');
  });

  test('of a project folder that is a link is the same', async () => {
    await using at = new Settings();
    mkdirSync(join(at.space.base, 'other'));
    symlinkSync(join(at.space.base, 'other'), join(at.project, '.claude'));
    expect(at.run('install', 'claude-code').status).toBe(2);
    expect(readdirSync(join(at.space.base, 'other'))).toEqual([]);
  });

  test.each([
    ['two scopes', ['--user', '--local']],
    ['another host', ['cursor']],
  ])('is not written for a command line with %s', async (_label, argv) => {
    await using at = new Settings();
    expect(at.run('install', ...(argv[0] === 'cursor' ? argv : ['claude-code', ...argv])).status).toBe(2);
    expect(existsSync(join(at.project, '.claude'))).toBe(false);
  });
});

describe('the text of settings', () => {
  test.each([
    ['nothing', ''],
    ['an empty object', '{}'],
    ['an object with a space', '{ }\n'],
    ['CRLF and tabs', '{\r\n\t"a": {\r\n\t\t"b": null\r\n\t}\r\n}\r\n'],
    ['a byte order mark', '\ufeff{"a": "\\u00e9\\n"}'],
    ['empty hooks', '{"hooks": {}}'],
    ['an empty event', '{"hooks": {"PreToolUse": [], "Stop": [{"hooks": []}]}}'],
    ['one line', '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]},"b":[{}]}'],
    ['numbers as written', '{"n": [1.50, 1e3, -0, 12345678901234567890]}'],
  ])('(%s) holds the hooks once, and without them what it held before', (_label, text) => {
    const once = withHooks(text, COMMAND);
    expect(withHooks(once, COMMAND)).toBe(once);
    expect(ourCommands(once)).toEqual([COMMAND]);
    const value = JSON.parse(once.replace('\ufeff', '')) as { hooks: Record<string, { hooks: unknown[] }[]> };
    for (const event of INSTALLED_EVENTS)
      expect(value.hooks[event]?.at(-1)?.hooks).toEqual([{ type: 'command', command: COMMAND, timeout: 30 }]);
    if (text.includes('\r\n')) expect(once.replaceAll('\r\n', '')).not.toContain('\n');

    const back = withoutHooks(once);
    const held = (json: string): object => {
      const found = (json.trim() === '' ? {} : readJsonText(json).value) as { hooks?: Record<string, unknown[]> };
      // Lists and objects that held nothing may go: they mean nothing.
      const hooks = Object.entries(found.hooks ?? {}).filter(([, list]) => list.length > 0);
      return { ...found, hooks: Object.fromEntries(hooks) };
    };
    expect(held(back)).toEqual(held(text));
    if (text.includes('1.50')) expect(back).toContain('[1.50, 1e3, -0, 12345678901234567890]');
  });

  test('hooks of another installation make way, and no event is recorded twice', () => {
    const old = withHooks(LIVED_IN, '"/old/node" "/old/dist/cli/hook.cjs" claude-code');
    const now = withHooks(old, COMMAND);
    expect(ourCommands(now)).toEqual([COMMAND]);
    expect(withoutHooks(now)).toBe(withoutHooks(old));
  });
});

test('doctor tells where hooks are installed, what they could not record, and what they run that is gone', async () => {
  await using at = new Settings();
  const none = JSON.parse(at.run('doctor', '--json').stdout) as { hooks: unknown; problems: unknown[] };
  expect(none.hooks).toEqual({ installed: [], problems: [] });
  at.run('install', 'claude-code', '--user');
  at.put('local', withHooks('', '"/no/such/node" "/no/such/hook.cjs" claude-code'));
  spawnSync(process.execPath, [HOOK_FILE, 'claude-code', '--data-dir', at.space.dataDir], {
    input: '{',
    env: at.space.env,
  });
  const run = at.run('doctor', '--json');
  const found = JSON.parse(run.stdout) as { hooks: { installed: { file: string }[] }; problems: { problem: string }[] };
  expect(found.hooks.installed.map(({ file }) => file)).toEqual([at.file('user'), at.file('local')]);
  expect(found.hooks).toMatchObject({
    problems: [{ host: 'claude-code', reason: 'bad-input', at: expect.any(Number) }],
  });
  const texts = found.problems.map(({ problem }) => problem).join('\n');
  expect(texts).toContain('/no/such/hook.cjs, which is not there');
  expect(texts).toContain('Hooks could not record 1 event');
  expect(run.status, 'a hook that can not run is an error').toBe(1);
  expect(at.run('doctor').stdout).toContain('the event is not JSON: "{" (bad-input)');
});

test('a settings folder that can not be written is told, and nothing is left behind', async () => {
  await using at = new Settings();
  at.put('local', '{}\n');
  chmodSync(dirname(at.file('local')), 0o500);
  if (process.getuid?.() === 0) return expect(at.run('install', 'claude-code').status, 'root may write').toBe(0);
  expect(at.run('install', 'claude-code').status).toBe(1);
  expect(readdirSync(dirname(at.file('local')))).toEqual(['settings.local.json']);
});
