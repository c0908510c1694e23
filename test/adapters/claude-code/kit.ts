/**
 * Hook events as Claude Code sends them, and the hook process that takes them. Field names and types follow the Agent SDK's
 * declarations (0.3.x); the values are ours.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { BackendKind } from '../../../src/backend/backend.ts';
import type { HookProblem } from '../../../src/cli/hook/problems.ts';
import { readProblems } from '../../../src/cli/hook/problems.ts';
import type { Space } from '../../kit/space.ts';

export const HOOK_FILE = fileURLToPath(new URL('../../../dist/cli/hook.cjs', import.meta.url));
export const MAIN_FILE = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));
export const SESSION = '5f0c6c1e-6e1b-4a9e-9f6e-0d6d3c1f7a11';

export type HookEvent = Readonly<Record<string, unknown>>;

/** Events of one session, in the order in which its methods are called; each call makes one event. */
export class Script {
  readonly #cwd: string;
  readonly #session: string;
  #prompt = 'b1a0b6c2-0000-4000-8000-000000000001';

  constructor(cwd: string, session: string = SESSION) {
    this.#cwd = cwd;
    this.#session = session;
  }

  event(name: string, fields: HookEvent = {}): HookEvent {
    return {
      session_id: this.#session,
      transcript_path: `${this.#cwd}/../transcript.jsonl`,
      cwd: this.#cwd,
      permission_mode: 'acceptEdits',
      prompt_id: this.#prompt,
      hook_event_name: name,
      ...fields,
    };
  }

  prompt(id: string, prompt: string): HookEvent {
    this.#prompt = id;
    return this.event('UserPromptSubmit', { prompt, source: 'user' });
  }

  pre(tool: string, id: string, input: HookEvent, more: HookEvent = {}): HookEvent {
    return this.event('PreToolUse', { tool_name: tool, tool_input: input, tool_use_id: id, ...more });
  }

  post(tool: string, id: string, input: HookEvent, more: HookEvent = {}): HookEvent {
    const fields = { tool_name: tool, tool_input: input, tool_response: { success: true }, tool_use_id: id };
    return this.event('PostToolUse', { ...fields, duration_ms: 3, ...more });
  }

  failure(tool: string, id: string, input: HookEvent): HookEvent {
    const fields = { tool_name: tool, tool_input: input, tool_use_id: id, error: 'Exit code 1', is_interrupt: false };
    return this.event('PostToolUseFailure', fields);
  }

  stop(more: HookEvent = {}): HookEvent {
    return this.event('Stop', { stop_hook_active: false, last_assistant_message: 'Done.', ...more });
  }

  end(): HookEvent {
    return this.event('SessionEnd', { reason: 'prompt_input_exit' });
  }
}

export interface HookRun {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Hook processes of one space and backend. */
export class Hooks {
  readonly #space: Space;
  readonly #backend: BackendKind;

  constructor(space: Space, backend: BackendKind) {
    this.#space = space;
    this.#backend = backend;
  }

  get #args(): string[] {
    return [HOOK_FILE, 'claude-code', '--data-dir', this.#space.dataDir, '--backend', this.#backend];
  }

  #env(env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
    return { ...this.#space.env, CLAUDE_PROJECT_DIR: this.#space.root, ...env };
  }

  /** Sends one event, or text that is none, and waits for the end of the process. */
  send(event: HookEvent | string | Buffer, env?: NodeJS.ProcessEnv): HookRun {
    const input = typeof event === 'string' || Buffer.isBuffer(event) ? event : JSON.stringify(event);
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, this.#args, {
      input,
      cwd: this.#space.base,
      env: this.#env(env),
      encoding: 'utf8',
    });
    return { status, signal, stdout, stderr };
  }

  /** Starts the process and leaves its standard input open. */
  start(): ChildProcess {
    return spawn(process.execPath, this.#args, { cwd: this.#space.base, env: this.#env(), stdio: 'pipe' });
  }

  /** Events at the same time, each a process of its own. */
  async together(...events: readonly HookEvent[]): Promise<void> {
    await Promise.all(
      events.map(async (event) => {
        const child = this.start();
        child.stdin?.end(JSON.stringify(event));
        const [code] = (await once(child, 'close')) as [number];
        if (code !== 0) throw new Error(`a hook ended with ${code}`);
      }),
    );
  }

  problems(): HookProblem[] {
    return readProblems(this.#space.dataDir, 100);
  }

  /** The command, in the root. */
  takeback(...argv: string[]): HookRun & { json(): never } {
    const { status, signal, stdout, stderr } = spawnSync(
      process.execPath,
      [MAIN_FILE, '--data-dir', this.#space.dataDir, '--backend', this.#backend, ...argv],
      { cwd: this.#space.root, env: this.#env(), encoding: 'utf8' },
    );
    return { status, signal, stdout, stderr, json: () => JSON.parse(stdout) as never };
  }
}

/** What a hook owes its host whatever happened: it goes on, and nothing is said that it would read. */
export const UNHEARD: HookRun = { status: 0, signal: null, stdout: '', stderr: '' };
