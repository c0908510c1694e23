/**
 * The real program, where TAKEBACK_CLAUDE names it (the binary of `@anthropic-ai/claude-agent-sdk-linux-x64`): its hooks, against
 * a scripted Messages server on loopback, with a key that is none and a home of its own.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../../src/backend/backend.ts';
import { availableBackends } from '../../kit/backends.ts';
import { Space } from '../../kit/space.ts';
import { Hooks } from './kit.ts';

const CLAUDE = process.env.TAKEBACK_CLAUDE ?? '';

interface Block {
  readonly start: object;
  readonly deltas: readonly object[];
}

function toolUse(id: string, name: string, input: object): Block {
  return {
    start: { type: 'tool_use', id, name, input: {} },
    deltas: [{ type: 'input_json_delta', partial_json: JSON.stringify(input) }],
  };
}

function says(text: string): Block {
  return { start: { type: 'text', text: '' }, deltas: [{ type: 'text_delta', text }] };
}

/** One answer of the model, as the stream of events that the Messages API sends. */
function answer(response: ServerResponse, blocks: readonly Block[], reason: 'tool_use' | 'end_turn'): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (type: string, data: object): void => {
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'mock', content: [], stop_reason: null };
  send('message_start', { message: { ...message, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } });
  for (const [index, { start, deltas }] of blocks.entries()) {
    send('content_block_start', { index, content_block: start });
    for (const delta of deltas) send('content_block_delta', { index, delta });
    send('content_block_stop', { index });
  }
  send('message_delta', { delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 1 } });
  send('message_stop', {});
  response.end();
}

/** First turn of a conversation with tools: both tools at once. After their results: the end. Anything else: a word. */
function serve(root: string): Server {
  return createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const body = (text === '' ? {} : JSON.parse(text)) as { tools?: { name: string }[]; stream?: boolean };
    const withTools = body.tools?.some(({ name }) => name === 'Write') ?? false;
    if (!request.url?.startsWith('/v1/messages') || body.stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const message = { id: 'm', type: 'message', role: 'assistant', model: 'mock', stop_reason: 'end_turn' };
      response.end(
        JSON.stringify({
          ...message,
          content: [{ type: 'text', text: 'ok' }],
          usage: { input_tokens: 1, output_tokens: 1 },
        }),
      );
    } else if (withTools && !text.includes('tool_result')) {
      const write = toolUse('toolu_write', 'Write', { file_path: join(root, 'made.md'), content: 'made\n' });
      const shell = toolUse('toolu_shell', 'Bash', {
        command: 'echo changed > kept.txt',
        description: 'Change a file',
      });
      answer(response, [write, shell], 'tool_use');
    } else answer(response, [says('Done.')], 'end_turn');
  });
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
