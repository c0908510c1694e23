/**
 * A registry around a registry: hooks before each execution in their order, after it in reverse, like the skins of an onion.
 *
 * Owns the order and nothing else: what a hook does with a fault of its own is the hook's to say. Keeps no state, so calls
 * may overlap. Does not cover tools that the host runs past the registry.
 */
import { TakebackError } from '../errors.ts';
import type { HookContext, ToolCall, ToolDefinition, ToolHook, ToolRegistry, ToolResult } from './tool.ts';

/**
 * Wraps `registry`. Without hooks it is the inner registry: same list, same promise, same throw.
 *
 * - A `beforeExecute` that throws stops the call: the tool is not run, the result has `isError: true` and says why, and
 *   `afterExecute` runs for exactly those hooks that were passed before it, last one first.
 * - Where the inner registry throws, every `afterExecute` sees it as an error result, and then the caller gets the throw.
 * - An `afterExecute` that throws withholds the result (it may be the hook that takes secrets out): an error result that says
 *   that the tool did run goes on in its place, and the hooks further out still see that. A hook whose own faults shall not
 *   matter catches them, as the ones of this package do.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a registry or a hook that is none
 */
export class HookRegistry implements ToolRegistry {
  readonly #inner: ToolRegistry;
  readonly #hooks: readonly ToolHook[];

  constructor(registry: ToolRegistry, ...hooks: ToolHook[]) {
    if (typeof registry?.list !== 'function' || typeof registry.execute !== 'function') {
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'registry must be an object with list() and execute(call, ctx)');
    }
    for (const [i, hook] of hooks.entries()) checkHook(hook, i);
    this.#inner = registry;
    this.#hooks = hooks;
  }

  list(): readonly ToolDefinition[] {
    return this.#inner.list();
  }

  execute(call: ToolCall, ctx?: HookContext): Promise<ToolResult> {
    return this.#hooks.length === 0 ? this.#inner.execute(call, ctx) : this.#run(call, ctx ?? {});
  }

  async #run(call: ToolCall, given: HookContext): Promise<ToolResult> {
    let ctx = given;
    for (const [i, hook] of this.#hooks.entries()) {
      try {
        ctx = (await hook.beforeExecute?.(call, ctx)) ?? ctx;
      } catch (error) {
        const result = failed(call, `The tool was not run: ${messageOf(error)}`);
        return this.#unwind(call, result, { ctx, passed: i });
      }
    }
    const passed = this.#hooks.length;
    let result: ToolResult;
    try {
      result = await this.#inner.execute(call, ctx);
    } catch (error) {
      await this.#unwind(call, failed(call, messageOf(error)), { ctx, passed });
      throw error;
    }
    return this.#unwind(call, result, { ctx, passed });
  }

  /** The after half, for the first `passed` hooks. */
  async #unwind(
    call: ToolCall,
    given: ToolResult,
    { ctx, passed }: { ctx: HookContext; passed: number },
  ): Promise<ToolResult> {
    let result = given;
    for (const hook of this.#hooks.slice(0, passed).reverse()) {
      try {
        result = (await hook.afterExecute?.(call, result, ctx)) ?? result;
      } catch (error) {
        const ran = passed === this.#hooks.length ? 'The tool ran, but its result is withheld: ' : '';
        result = failed(call, `${ran}a hook failed after it: ${messageOf(error)}`);
      }
    }
    return result;
  }
}

function checkHook(hook: unknown, index: number): void {
  const methods = typeof hook === 'object' && hook !== null ? (hook as Record<string, unknown>) : null;
  const fits = (name: string): boolean => methods?.[name] === undefined || typeof methods[name] === 'function';
  if (methods !== null && fits('beforeExecute') && fits('afterExecute')) return;
  throw new TakebackError(
    'ERR_INVALID_ARGUMENT',
    `hook ${index + 1} must be an object with the methods beforeExecute(call, ctx), afterExecute(call, result, ctx), or one of them`,
  );
}

function failed(call: ToolCall, output: string): ToolResult {
  return { toolCallId: call.id, output, isError: true };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
