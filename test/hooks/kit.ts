/** A registry of plain functions, calls with ids, and a logger that keeps what it hears. */
import type { HookContext, ToolCall, ToolDefinition, ToolRegistry, ToolResult } from '../../src/index.ts';

export type ToolFunction = (args: never, ctx: HookContext | undefined) => string | Promise<string>;

/** As a host has it: a tool that throws is a result with `isError`. */
export function registryOf(tools: Record<string, ToolFunction>): ToolRegistry {
  return {
    list: (): ToolDefinition[] => Object.keys(tools).map((name) => ({ name })),
    async execute(call: ToolCall, ctx?: HookContext): Promise<ToolResult> {
      try {
        const tool = tools[call.name];
        if (tool === undefined) throw new Error(`no tool ${call.name}`);
        return { toolCallId: call.id, output: await tool(call.arguments as never, ctx), isError: false };
      } catch (error) {
        return { toolCallId: call.id, output: (error as Error).message, isError: true };
      }
    },
  };
}

export function toolCall(id: string, name: string, args: unknown = {}): ToolCall {
  return { id, name, arguments: args };
}

export class Heard {
  readonly lines: string[] = [];
  warn(message: string): void {
    this.lines.push(message);
  }
}

/** What the process was warned of while `work` ran. */
export async function warningsDuring(work: () => Promise<unknown>): Promise<string[]> {
  const warnings: string[] = [];
  const listener = (warning: Error): void => {
    if (warning.name === 'TakebackWarning') warnings.push(warning.message);
  };
  process.on('warning', listener);
  try {
    await work();
    // Warnings are emitted in the next tick.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('warning', listener);
  }
  return warnings;
}
