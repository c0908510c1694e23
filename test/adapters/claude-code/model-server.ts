/** A scripted model behind the Messages API, on loopback, for the real program and the real SDK. */
import { createServer, type Server, type ServerResponse } from 'node:http';

/** A part of a model's answer. */
export interface Block {
  readonly start: object;
  readonly deltas: readonly object[];
}

export function toolUse(id: string, name: string, input: object): Block {
  return {
    start: { type: 'tool_use', id, name, input: {} },
    deltas: [{ type: 'input_json_delta', partial_json: JSON.stringify(input) }],
  };
}

export function says(text: string): Block {
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

/**
 * A Messages server. Requests of a conversation with tools are answered by `script`, each by the number of answers of tools that
 * it has had: what it gives is said, and runs; undefined ends the turn. What else a program asks gets a word.
 */
export function modelServer(script: (answered: number) => readonly Block[] | undefined): Server {
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
      return;
    }
    const blocks = withTools ? script(text.split('"type":"tool_result"').length - 1) : undefined;
    if (blocks === undefined) answer(response, [says('Done.')], 'end_turn');
    else answer(response, blocks, 'tool_use');
  });
}
