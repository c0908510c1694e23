/**
 * What a tool call is to the hooks, and what a hook and a registry are. Interfaces only; `registry.ts` runs them.
 *
 * The registry's host gives the ids: unique among the calls of its session, if offloaded outputs and checkpoints are to be
 * found by them.
 */

/** One call that a model asks for. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** As the model gave them, parsed or not: hooks that need them must look. */
  readonly arguments: unknown;
}

/** What goes back to the model. */
export interface ToolResult {
  readonly toolCallId: string;
  readonly output: string;
  readonly isError: boolean;
}

/** A tool as a model is told of it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string | undefined;
  readonly schema?: unknown;
}

/**
 * What travels with one execution, from hook to hook and to the tool: a signal where the host can cancel, and whatever hooks
 * add under keys of their own.
 */
export interface HookContext {
  readonly signal?: AbortSignal | undefined;
  readonly [key: string | symbol]: unknown;
}

/**
 * Runs tools by name.
 *
 * `execute` answers a tool that failed as a result with `isError: true`. Where it rejects all the same, hooks see such a
 * result, and the caller the rejection.
 */
export interface ToolRegistry {
  list(): readonly ToolDefinition[];
  execute(call: ToolCall, ctx?: HookContext): Promise<ToolResult>;
}

/** Stands around each execution. Both methods may be missing; one hook serves calls that run at the same time. */
export interface ToolHook {
  /**
   * Before the tool. Answers the context for what comes after it, or nothing to leave it as it is. A throw ends the
   * execution: the tool is not run.
   */
  beforeExecute?(
    call: ToolCall,
    ctx: HookContext,
    // biome-ignore lint/suspicious/noConfusingVoidType: a method without a return statement is a hook too
  ): HookContext | undefined | void | Promise<HookContext | undefined | void>;
  /** After the tool. Answers the result that goes on; nothing leaves it as it is. */
  afterExecute?(
    call: ToolCall,
    result: ToolResult,
    ctx: HookContext,
    // biome-ignore lint/suspicious/noConfusingVoidType: a method without a return statement is a hook too
  ): ToolResult | undefined | void | Promise<ToolResult | undefined | void>;
}
