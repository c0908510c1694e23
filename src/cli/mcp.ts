/**
 * `takeback mcp`: the tools of `adapters/mcp.ts` over standard input and output, until the client closes them or an interrupt
 * comes. The one command that reads standard input: the protocol owns it, and standard output.
 *
 * The workspace is opened at the first call that needs it, and kept. One that can't be opened is tried again at the next call:
 * a server outlives the moment when its folder has nothing recorded yet.
 */

import { MCP_INSTRUCTIONS, registerTakebackTools } from '../adapters/mcp.ts';
import type { Workspace } from '../api.ts';
import type { Unavailable } from '../types.ts';
import { type Context, NotAvailable } from './context.ts';
import { Exit } from './host.ts';
import { oneLine } from './text.ts';

/** Serves until the connection ends. Requests that are still running then are cancelled: paths stay whole, old or new. */
export async function serve(context: Context, version: string): Promise<number> {
  const { McpServer } = await import('@modelcontextprotocol/server');
  const { StdioServerTransport, serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { screen, options } = context;
  const makeServer = (): InstanceType<typeof McpServer> => {
    const server = new McpServer({ name: 'takeback', version }, { instructions: MCP_INSTRUCTIONS });
    registerTakebackTools(server, {
      workspace: () => opened(context),
      ...(options.session === undefined ? {} : { session: { threadId: options.session } }),
    });
    return server;
  };
  if (context.host.interactive)
    screen.note('takeback: an MCP server on standard input and output; end it with Ctrl-C.');
  await context.work(async ({ signal }) => {
    const transport = new StdioServerTransport();
    const connection = serveStdio(makeServer, {
      transport,
      onerror: (fault) => screen.note(`takeback: ${oneLine(fault.message)}`),
    });
    const endOfConnection = transport.onclose;
    await new Promise<void>((resolve) => {
      transport.onclose = () => {
        endOfConnection?.();
        resolve();
      };
      signal?.addEventListener('abort', () => resolve(), { once: true });
    });
    await connection.close();
  });
  return Exit.done;
}

/** The workspace of the command, or why it isn't available now. */
async function opened(context: Context): Promise<Workspace | Unavailable> {
  try {
    return await context.workspace('read');
  } catch (fault) {
    if (fault instanceof NotAvailable) return fault.answer;
    throw fault;
  }
}
