/**
 * The commands of the plugin. OpenCode has `/undo` and `/redo` of its own, which work on its own snapshots: ours have
 * other names. It offers no way to end a command before the model is asked, other than an error of the hook.
 */
import type { Conversation, Recorder } from '../kit.ts';

/** What is used of OpenCode's client. */
export interface OpenCodeClient {
  readonly session?: {
    prompt(options: {
      path: { id: string };
      body: { noReply: boolean; parts: { type: 'text'; text: string; ignored?: boolean }[] };
    }): Promise<{ readonly error?: unknown }>;
  };
  readonly app?: {
    log(options: {
      body: { service: string; level: 'warn'; message: string; extra?: Record<string, unknown> };
    }): Promise<unknown>;
  };
  readonly tui?: {
    showToast(options: { body: { message: string; variant: 'warning' } }): Promise<unknown>;
  };
}

interface Command {
  readonly description: string;
  run(conversation: Conversation): Promise<string>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  'takeback-undo': {
    description: 'Put the files back as they were before the last turn',
    run: async (conversation) => (await conversation.undo()).message,
  },
  'takeback-redo': {
    description: 'Redo what the last takeback-undo took back',
    run: async (conversation) => (await conversation.redo()).message,
  },
  'takeback-diff': {
    description: 'Show what changed since the last turn began',
    run: async (conversation) => {
      const diff = await conversation.diff();
      if (!diff.available) return diff.detail;
      return diff.patch === '' ? 'Nothing changed.' : diff.patch;
    },
  },
};

export interface Commands {
  /** For OpenCode's configuration. */
  readonly definitions: Readonly<Record<string, { template: string; description: string }>>;
  /** True once for the message that a command of ours made. */
  isAnswer(sessionID: string): boolean;
  /** Does nothing for a command of others. Throws what ends the command, where its answer was noted. */
  run(command: string, sessionID: string, parts: unknown[]): Promise<void>;
}

export function commandsFor(
  recorder: Recorder,
  { client, answer }: { client: OpenCodeClient | undefined; answer: 'note' | 'model' },
): Commands {
  const answering = new Set<string>();
  const note = async (id: string, text: string): Promise<boolean> => {
    if (client?.session === undefined) return false;
    try {
      const body = { noReply: true, parts: [{ type: 'text' as const, text, ignored: true }] };
      const { error } = await client.session.prompt({ path: { id }, body });
      if (error === undefined) return true;
      recorder.problem({ threadId: id }, 'note', error);
    } catch (error) {
      recorder.problem({ threadId: id }, 'note', error);
    }
    return false;
  };
  return {
    definitions: Object.fromEntries(
      Object.entries(COMMANDS).map(([name, { description }]) => [name, { template: `/${name}`, description }]),
    ),
    isAnswer: (sessionID) => answering.delete(sessionID),
    run: async (name, sessionID, parts) => {
      const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
      if (command === undefined) return;
      const text = await command.run(recorder.conversation(sessionID)).catch((error: unknown) => {
        recorder.problem({ threadId: sessionID }, name, error);
        return `takeback: ${error instanceof Error ? error.message : String(error)}`;
      });
      if (answer === 'note' && (await note(sessionID, text))) throw new Error(text);
      answering.add(sessionID);
      parts.splice(0, parts.length, { type: 'text', text: forModel(name, text) });
    },
  };
}

function forModel(name: string, text: string): string {
  return `The user ran /${name}, which answered:\n\n${text}\n\nFiles may have changed. Repeat the answer, and do nothing else.`;
}
