/** A small host that drives the plugin in the order in which OpenCode does, as its real program was seen to. */
import type { OpenCodeClient, OpenCodeHooks, OpenCodeInput } from '../../src/adapters/opencode.ts';

export interface FakeCall {
  readonly id: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  run(): Promise<unknown> | unknown;
}

type Plugin = (input: OpenCodeInput) => Promise<OpenCodeHooks>;

export class FakeOpenCode {
  readonly logged: string[] = [];
  readonly shown: string[] = [];
  /** What the user sees of a session: notes, and prompts that went to the model. */
  readonly seen: { readonly kind: 'note' | 'prompt'; readonly text: string }[] = [];
  readonly config: { command?: Record<string, unknown> } = {};
  readonly #hooks: OpenCodeHooks;
  #messages = 0;

  private constructor(hooks: OpenCodeHooks) {
    this.#hooks = hooks;
  }

  static async open(plugin: Plugin, input: OpenCodeInput, options: { client?: boolean } = {}): Promise<FakeOpenCode> {
    let host: FakeOpenCode | undefined;
    const client: OpenCodeClient = {
      app: { log: async ({ body }) => host?.logged.push(body.message) },
      tui: { showToast: async ({ body }) => host?.shown.push(body.message) },
      session: {
        prompt: async ({ path, body }) => {
          await host?.user(path.id, body.parts);
          return {};
        },
      },
    };
    host = new FakeOpenCode(await plugin({ ...input, ...(options.client === false ? {} : { client }) }));
    await host.#hooks.config(host.config);
    return host;
  }

  event(type: string, properties: unknown): Promise<void> {
    return this.#hooks.event({ event: { type, properties } });
  }

  /** A message of the user's, or a note. */
  async user(sessionID: string, parts: readonly { type: string; text: string; ignored?: boolean }[]): Promise<void> {
    this.#messages += 1;
    const note = parts.every(({ ignored }) => ignored === true);
    this.seen.push({ kind: note ? 'note' : 'prompt', text: parts[0]?.text ?? '' });
    await this.#hooks['chat.message']({ sessionID }, { message: { id: `msg_${this.#messages}` }, parts });
  }

  /** A turn of a session: calls of one step run at once. */
  async turn(sessionID: string, steps: readonly (readonly FakeCall[])[], end = 'session.idle'): Promise<void> {
    await this.user(sessionID, [{ type: 'text', text: 'Go on.' }]);
    for (const [index, step] of steps.entries()) {
      const messageID = `msg_${this.#messages}_${index}`;
      await Promise.all(step.map((call) => this.call(sessionID, messageID, call)));
    }
    await this.event(end, { sessionID });
  }

  /** As OpenCode does: no `after` where the tool failed, but an event. */
  async call(sessionID: string, messageID: string, { id: callID, tool, args, run }: FakeCall): Promise<void> {
    const told = (state: object) =>
      this.event('message.part.updated', {
        sessionID,
        part: { type: 'tool', sessionID, messageID, callID, tool, state },
      });
    await told({ status: 'pending' });
    await this.#hooks['tool.execute.before']({ tool, sessionID, callID }, { args });
    await told({ status: 'running' });
    try {
      await run();
    } catch {
      return told({ status: 'error' });
    }
    await this.#hooks['tool.execute.after']({ tool, sessionID, callID }, { title: '', output: '', metadata: {} });
    await told({ status: 'completed' });
  }

  /** Answers the error that ended the command, if one did. */
  async command(sessionID: string, command: string): Promise<string | undefined> {
    const parts: { type: string; text: string }[] = [{ type: 'text', text: 'the template' }];
    try {
      await this.#hooks['command.execute.before']({ command, sessionID, arguments: '' }, { parts });
    } catch (error) {
      return (error as Error).message;
    }
    await this.user(sessionID, parts);
    return undefined;
  }

  close(): Promise<void> {
    return this.#hooks.dispose();
  }
}
