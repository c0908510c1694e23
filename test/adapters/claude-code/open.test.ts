/** Hooks fail open: whatever comes, the host hears nothing but success, and `doctor` hears what went wrong. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
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
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { BackendKind } from '../../../src/backend/backend.ts';
import { noteProblem, readProblems } from '../../../src/cli/hook/problems.ts';
import { workspaceDir } from '../../../src/data-dir.ts';
import { availableBackends, describeBackends } from '../../kit/backends.ts';
import { Space } from '../../kit/space.ts';
import { HOOK_FILE, Hooks, MAIN_FILE, Script, UNHEARD } from './kit.ts';

// Each event is a process, and some tests send dozens.
vi.setConfig({ testTimeout: 240_000 });

/** Where the backend has no say. */
const ANY = availableBackends[0] as BackendKind;
const P1 = 'b1a0b6c2-0000-4000-8000-000000000001';

/** Input, and what `doctor` is told of it. */
const BAD: readonly (readonly [label: string, input: string, detail: RegExp])[] = [
  ['nothing', '', /^standard input was empty$/],
  ['half an object', '{"session_id":"s","hook_event_name":"PreToolUse"', /^the event is not JSON/],
  ['text', 'hello\n', /^the event is not JSON: "hello/],
  ['a list', '[]', /^a hook event must be a JSON object, got a list$/],
  ['null', 'null', /^a hook event must be a JSON object, got null$/],
  ['no event name', '{}', /^hook_event_name must be a non-empty string, got nothing$/],
  ['an event name of another type', '{"hook_event_name":7}', /^hook_event_name .* got a number$/],
  ['no session', '{"hook_event_name":"Stop","cwd":"/"}', /^session_id must be a non-empty string/],
  ['a session that is a list', '{"hook_event_name":"Stop","session_id":["x"],"cwd":"/"}', /^session_id .* got a list$/],
  ['no folder', '{"hook_event_name":"Stop","session_id":"s"}', /^cwd must be a non-empty string/],
  [
    'a call without an id',
    '{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/","tool_name":"Bash","tool_input":{}}',
    /^tool_use_id must be a non-empty string, got nothing$/,
  ],
  [
    'a call whose tool is an object',
    '{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/","tool_name":{},"tool_use_id":"t"}',
    /^tool_name must be a non-empty string, got a object$/,
  ],
  [
    'an id with a NUL',
    '{"hook_event_name":"UserPromptSubmit","session_id":"a\\u0000b","cwd":"/"}',
    /^session_id must not hold a NUL/,
  ],
  [
    'an id that is too long',
    `{"hook_event_name":"UserPromptSubmit","session_id":"${'x'.repeat(1025)}","cwd":"/"}`,
    /^session_id must have at most 1024 characters$/,
  ],
];

test.each(BAD)('input that is no event (%s) is noted, and blocks nothing', async (_label, input, detail) => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  expect(hooks.send(input)).toEqual(UNHEARD);
  const problems = hooks.problems();
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatchObject({
    host: 'claude-code',
    reason: 'bad-input',
    detail: expect.stringMatching(detail),
  });
  expect(existsSync(join(space.dataDir, 'workspaces')), 'no store was made').toBe(false);
});

test('an event that is not known is success', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const script = new Script(space.root);
  for (const name of [
    'SubagentStart',
    'SubagentStop',
    'Notification',
    'PreCompact',
    'constructor',
    '__proto__',
    'Later',
  ])
    expect(hooks.send(script.event(name)), name).toEqual(UNHEARD);
  expect(hooks.problems()).toEqual([]);
});

test('standard input of more than 64 MiB is not read to its end', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const run = hooks.send(Buffer.concat([Buffer.from('{"a":"'), Buffer.alloc(65 * 1024 * 1024, 0x78)]));
  expect(run).toEqual(UNHEARD);
  expect(hooks.problems()).toMatchObject([{ reason: 'bad-input', detail: 'the event has more than 67108864 bytes' }]);
});

test('an event is recorded although standard input is never closed', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const child = hooks.start();
  child.stdin?.write(JSON.stringify(new Script(space.root).event('Notification')));
  expect(await once(child, 'close')).toEqual([0, null]);
  expect(hooks.problems()).toEqual([]);
});

test('an event that fills what is read at once is recorded although standard input is never closed', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const event = new Script(space.root).event('Notification');
  const bare = Buffer.byteLength(JSON.stringify({ ...event, more: '' }));
  const child = hooks.start();
  child.stdin?.write(JSON.stringify({ ...event, more: '}'.repeat(65_536 - bare) }));
  expect(await once(child, 'close')).toEqual([0, null]);
  expect(hooks.problems()).toEqual([]);
});

test('a byte order mark before an event is passed over', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const event = JSON.stringify(new Script(space.root).event('Notification'));
  expect(hooks.send(`\ufeff${event}`)).toEqual(UNHEARD);
  expect(hooks.problems()).toEqual([]);
});

test('a host that sends half an event and waits is not waited for', async () => {
  await using space = new Space();
  const hooks = new Hooks(space, ANY);
  const child = hooks.start();
  child.stdin?.write('{"session_id":');
  // Killed by itself: Node can't end while a thread reads. No exit code, so nothing that a host would block for.
  expect(await once(child, 'close')).toEqual([null, 'SIGKILL']);
  expect(hooks.problems()).toMatchObject([{ reason: 'too-late' }]);
});

test('a wrong command line says so and ends with 2; a wrong variable does not', async () => {
  await using space = new Space();
  for (const argv of [
    [],
    ['cursor'],
    ['claude-code', 'more'],
    ['claude-code', '--data-dir'],
    ['claude-code', '--backend', 'x'],
  ]) {
    for (const start of [[HOOK_FILE], [MAIN_FILE, 'hook']]) {
      const run = spawnSync(process.execPath, [...start, ...argv], { env: space.env, encoding: 'utf8', input: '{}' });
      expect(run.status, argv.join(' ')).toBe(2);
      expect(run.stderr).toMatch(/^takeback hook: .*\n$/);
    }
  }
  const hooks = new Hooks(space, ANY);
  const child = spawnSync(process.execPath, [HOOK_FILE, 'claude-code', '--data-dir', space.dataDir], {
    env: { ...space.env, TAKEBACK_BACKEND: 'fast' },
    input: JSON.stringify(new Script(space.root).prompt(P1, 'x')),
    encoding: 'utf8',
  });
  expect([child.status, child.stdout, child.stderr]).toEqual([0, '', '']);
  expect(hooks.problems()).toMatchObject([
    { reason: 'ERR_INVALID_ARGUMENT', detail: expect.stringContaining('"fast"') },
  ]);
});

test('Codex speaks the same shape: turn_id is the boundary', async () => {
  await using space = new Space();
  const { prompt_id: _, ...event } = new Script(space.root, 'codex-session').prompt(P1, 'x');
  const run = spawnSync(process.execPath, [MAIN_FILE, 'hook', 'codex', '--data-dir', space.dataDir], {
    env: space.env,
    input: JSON.stringify({ ...event, turn_id: 'turn-7' }),
    encoding: 'utf8',
  });
  expect([run.status, run.stdout, run.stderr]).toEqual([0, '', '']);
  const hooks = new Hooks(space, ANY);
  expect(hooks.takeback('status', '--json').json()).toMatchObject({ newest: { boundaryId: 'turn-7' } });
});

describeBackends('hooks fail open', (backend) => {
  const record = (hooks: Hooks, script: Script): void => {
    expect(hooks.send(script.prompt(P1, 'x'))).toEqual(UNHEARD);
    expect(hooks.send(script.pre('Bash', 'toolu_1', { command: 'x' }))).toEqual(UNHEARD);
    expect(hooks.send(script.post('Bash', 'toolu_1', { command: 'x' }))).toEqual(UNHEARD);
  };

  test('where the store is of a newer version: noted, and the store untouched', async () => {
    await using space = new Space();
    const hooks = new Hooks(space, backend);
    const workspace = await space.open(backend);
    await workspace.session({ threadId: 's' }).capture('b');
    await workspace.close();
    const file = join(workspaceDir(space.dataDir, space.root), 'timeline.db');
    const bytes = readFileSync(file);
    bytes.writeUInt32BE(9999, 60);
    writeFileSync(file, bytes);
    record(hooks, new Script(space.root));
    expect(hooks.problems().map(({ event, reason }) => [event, reason])).toEqual([
      ['UserPromptSubmit', 'store-newer'],
      ['PreToolUse', 'store-newer'],
      ['PostToolUse', 'store-newer'],
    ]);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test('where the root is a home folder, is gone, or is a file', async () => {
    await using space = new Space();
    const hooks = new Hooks(space, backend);
    writeFileSync(join(space.base, 'file'), '');
    for (const [folder, reason] of [
      [join(space.base, 'home'), 'protected-root'],
      [join(space.base, 'gone'), 'root-missing'],
      [join(space.base, 'file'), 'not-a-directory'],
    ] as const) {
      expect(hooks.send(new Script(folder).prompt(P1, 'x'), { CLAUDE_PROJECT_DIR: folder })).toEqual(UNHEARD);
      expect(hooks.problems().at(-1)?.reason).toBe(reason);
    }
  });

  test.skipIf(process.getuid?.() === 0)('where the data directory can not be written (not as root)', async () => {
    await using space = new Space();
    mkdirSync(space.dataDir);
    chmodSync(space.dataDir, 0o500);
    const hooks = new Hooks(space, backend);
    record(hooks, new Script(space.root));
    expect(hooks.problems()).toEqual([]);
  });

  test('where the data directory is a file', async () => {
    await using space = new Space();
    writeFileSync(space.dataDir, 'not a folder');
    record(new Hooks(space, backend), new Script(space.root));
    expect(readFileSync(space.dataDir, 'utf8')).toBe('not a folder');
  });

  test('where the state folder, in which the cache of code lies, is a file', async () => {
    await using space = new Space();
    const state = join(space.base, 'state-file');
    writeFileSync(state, 'not a folder');
    const [hooks, script] = [new Hooks(space, backend), new Script(space.root)];
    const events = [
      script.prompt(P1, 'x'),
      script.pre('Bash', 'c1', { command: 'true' }),
      script.post('Bash', 'c1', { command: 'true' }),
    ];
    for (const event of events) expect(hooks.send(event, { XDG_STATE_HOME: state })).toEqual(UNHEARD);
    expect(hooks.problems()).toEqual([]);
  });
});

test('problems are kept in a file of the user alone, bounded, never through a link', async () => {
  await using space = new Space();
  const problem = { at: 1, host: 'claude-code', reason: 'fault', detail: 'x'.repeat(10_000) };
  for (let i = 0; i < 400; i += 1) expect(noteProblem(space.dataDir, { ...problem, at: i })).toBe(true);
  const file = join(space.dataDir, 'hook-problems.jsonl');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(file).size).toBeLessThanOrEqual(64 * 1024);
  const kept = readProblems(space.dataDir, 1000);
  expect(kept.at(-1)?.at).toBe(399);
  expect(kept.length).toBeGreaterThan(40);
  expect(kept.every(({ detail }) => detail.length === 500)).toBe(true);

  const elsewhere = join(space.base, 'elsewhere');
  writeFileSync(join(space.base, 'victim'), 'mine');
  mkdirSync(elsewhere);
  symlinkSync('../victim', join(elsewhere, 'hook-problems.jsonl'));
  expect(noteProblem(elsewhere, problem)).toBe(false);
  expect(readFileSync(join(space.base, 'victim'), 'utf8')).toBe('mine');
});

test.skipIf(ANY !== 'native')(
  'code is cached in the state folder of the user, and a cache that others can write is not run',
  async () => {
    await using space = new Space();
    const hooks = new Hooks(space, 'native');
    const state = join(space.base, 'state');
    const env = { XDG_STATE_HOME: state };
    const script = new Script(space.root);
    const folder = join(state, 'takeback', 'hook-cache');
    hooks.send(script.prompt(P1, 'x'), env);
    expect(existsSync(folder), 'not by a prompt: it runs too little of what a call needs').toBe(false);
    hooks.send(script.pre('Bash', 'toolu_1', { command: 'x' }), env);
    const names = readdirSync(folder).sort();
    expect(names.map((name) => name.replace(/-[0-9a-f]{16}-v.*/, ''))).toEqual(['hook-body.cjs', 'hook-early.cjs']);
    const files = names.map((name) => join(folder, name));
    expect([folder, ...files].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600, 0o600]);

    const inodes = () => files.map((file) => statSync(file).ino);
    const begun = inodes();
    expect(hooks.send(script.post('Bash', 'toolu_1', { command: 'x' }), env)).toEqual(UNHEARD);
    const ended = inodes();
    expect(ended, 'with what the end of a call runs').not.toEqual(begun);
    hooks.send(script.pre('Bash', 'toolu_2', { command: 'x' }), env);
    hooks.send(script.post('Bash', 'toolu_2', { command: 'x' }), env);
    expect(inodes(), 'taken as they are').toEqual(ended);

    for (const [at, file] of files.entries()) {
      chmodSync(file, 0o666);
      hooks.send(script.pre('Bash', `toolu_3${at}`, { command: 'x' }), env);
      expect(statSync(file).ino, 'made anew').not.toBe(ended[at]);
      writeFileSync(file, 'not a cache');
      expect(hooks.send(script.pre('Bash', `toolu_4${at}`, { command: 'x' }), env)).toEqual(UNHEARD);
      expect(readFileSync(file).length).toBeGreaterThan(1000);
      writeFileSync(file, '');
      expect(hooks.send(script.pre('Bash', `toolu_5${at}`, { command: 'x' }), env)).toEqual(UNHEARD);
      expect(readFileSync(file).length).toBeGreaterThan(1000);
    }
    expect(hooks.problems()).toEqual([]);
  },
);
