/** The real OpenCode program as a server, with a scripted model on loopback. One process serves many projects. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly args: Record<string, unknown>;
}

/** One answer of the model: calls, or text. */
export type ModelStep = readonly ModelCall[] | string;

interface MessageOf {
  readonly info: { readonly role: string };
  readonly parts: readonly { readonly type: string; readonly text?: string; readonly ignored?: boolean }[];
}

/** Speaks as a model that may be asked with tools; what is asked without them (a title) gets a text. */
class Model {
  steps: ModelStep[] = [];
  asked = 0;
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { tools = [] } = JSON.parse(Buffer.concat(chunks).toString() || '{}') as { tools?: unknown[] };
        if (tools.length > 0) this.asked += 1;
        answer(response, tools.length === 0 ? 'A title' : (this.steps.shift() ?? 'Done.'));
      });
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function answer(response: ServerResponse, step: ModelStep): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (delta: object, reason: string | null = null): void => {
    const choices = [{ index: 0, delta, finish_reason: reason }];
    const chunk = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  if (typeof step === 'string') {
    send({ role: 'assistant', content: step });
    send({}, 'stop');
  } else {
    const calls = step.map(({ id, name, args }, index) => ({
      ...{ index, id, type: 'function' },
      function: { name, arguments: JSON.stringify(args) },
    }));
    send({ role: 'assistant', tool_calls: calls });
    send({}, 'tool_calls');
  }
  response.end('data: [DONE]\n\n');
}

/** A project that the program serves: a folder with a plugin, and one session. */
export class Project {
  readonly root: string;
  readonly #program: OpenCodeProgram;
  #session: string | undefined;

  constructor(program: OpenCodeProgram, root: string) {
    this.#program = program;
    this.root = root;
  }

  async session(): Promise<string> {
    if (this.#session === undefined) {
      const { id } = (await this.#ask('POST', '/session', {})).body as { id: string };
      this.#session = id;
    }
    return this.#session;
  }

  /** One user message; resolves when the model has answered it. */
  async turn(steps: readonly ModelStep[]): Promise<void> {
    this.#program.model.steps = [...steps];
    const parts = [{ type: 'text', text: 'Go on.' }];
    const { status, body } = await this.#ask('POST', `/session/${await this.session()}/message`, { parts });
    if (status !== 200) throw new Error(`OpenCode answered ${status}: ${JSON.stringify(body)}`);
  }

  async abort(): Promise<void> {
    await this.#ask('POST', `/session/${await this.session()}/abort`, {});
  }

  /** Runs a command of the user's; answers the note that it left, or null. */
  async command(command: string): Promise<string | null> {
    const before = (await this.messages()).length;
    await this.#ask('POST', `/session/${await this.session()}/command`, { command, arguments: '' });
    const [note] = (await this.messages()).slice(before);
    return note?.parts.find(({ ignored }) => ignored === true)?.text ?? null;
  }

  async messages(): Promise<MessageOf[]> {
    return (await this.#ask('GET', `/session/${await this.session()}/message`)).body as MessageOf[];
  }

  /** Deletes the session, as the user does. */
  async forget(): Promise<void> {
    await this.#ask('DELETE', `/session/${await this.session()}`);
  }

  /** Ends this project's instance in the program, and its plugin with it. */
  async dispose(): Promise<void> {
    await this.#ask('POST', '/instance/dispose', {});
  }

  async #ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
    const response = await fetch(`${this.#program.url}${path}?directory=${encodeURIComponent(this.root)}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  }
}

export class OpenCodeProgram {
  readonly model = new Model();
  readonly base = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-opencode-')));
  readonly #binary: string;
  #process: ChildProcess | undefined;
  #url = '';

  constructor(binary: string) {
    this.#binary = binary;
  }

  get url(): string {
    return this.#url;
  }

  async start(): Promise<void> {
    const baseURL = await this.model.listen();
    const provider = {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL, apiKey: 'none' },
      models: { scripted: { tool_call: true, limit: { context: 100_000, output: 4_000 } } },
    };
    const config = {
      ...{ autoupdate: false, share: 'disabled', permission: 'allow', snapshot: false },
      ...{ model: 'script/scripted', small_model: 'script/scripted', provider: { script: provider } },
    };
    const at = (name: string): string => join(this.base, name);
    this.#process = spawn(this.#binary, ['serve', '--hostname', '127.0.0.1', '--port', '0'], {
      cwd: this.base,
      env: {
        ...{ PATH: process.env.PATH, HOME: at('home'), XDG_STATE_HOME: at('state'), XDG_DATA_HOME: at('share') },
        ...{ XDG_CONFIG_HOME: at('config'), XDG_CACHE_HOME: at('cache') },
        ...{ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_CONFIG_CONTENT: JSON.stringify(config) },
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#url = await listening(this.#process);
  }

  /** A project with a plugin, and the files of OpenCode's that are given, in its folder. */
  project(root: string, plugin: string, files: Readonly<Record<string, string>> = {}): Project {
    for (const [path, content] of Object.entries({ 'plugin/takeback.js': plugin, ...files })) {
      const file = join(root, '.opencode', path);
      mkdirSync(join(file, '..'), { recursive: true });
      writeFileSync(file, content);
    }
    return new Project(this, root);
  }

  async close(): Promise<void> {
    const child = this.#process;
    if (child !== undefined && child.exitCode === null) {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    }
    this.model.close();
    rmSync(this.base, { recursive: true, force: true });
  }
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    const hear = (chunk: Buffer): void => {
      said += chunk.toString();
      const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
      if (url !== undefined) resolve(url);
    };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`OpenCode ended with ${code}: ${said}`)));
  });
}
