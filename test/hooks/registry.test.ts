/** The order of hooks, and what they can do to a call. */
import { describe, expect, test } from 'vitest';
import { auditHook, HookRegistry, type ToolHook, type ToolRegistry } from '../../src/index.ts';
import { registryOf, toolCall } from './kit.ts';

/** Writes down what runs; throws where it is told to. */
function noted(log: string[], name: string, fails: 'before' | 'after' | null = null): ToolHook {
  return {
    beforeExecute() {
      log.push(`before ${name}`);
      if (fails === 'before') throw new Error(`${name} says no`);
    },
    afterExecute(_call, result) {
      log.push(`after ${name}`);
      if (fails === 'after') throw new Error(`${name} broke`);
      return { ...result, output: `${result.output}+${name}` };
    },
  };
}

function withLog(hooks: (log: string[]) => ToolHook[]): { log: string[]; registry: HookRegistry } {
  const log: string[] = [];
  const inner = registryOf({
    echo: ({ text }: { text: string }) => {
      log.push('tool');
      return text;
    },
  });
  return { log, registry: new HookRegistry(inner, ...hooks(log)) };
}

describe('order', () => {
  test('beforeExecute forward, the tool, afterExecute in reverse; each after can change the result', async () => {
    const { log, registry } = withLog((l) => [noted(l, 'a'), noted(l, 'b'), noted(l, 'c')]);
    const result = await registry.execute(toolCall('1', 'echo', { text: 'hi' }));
    expect(log).toEqual(['before a', 'before b', 'before c', 'tool', 'after c', 'after b', 'after a']);
    expect(result).toEqual({ toolCallId: '1', output: 'hi+c+b+a', isError: false });
  });

  test('a hook may have one half only, answer nothing, or be asynchronous', async () => {
    const log: string[] = [];
    const { registry } = withLog(() => [
      { beforeExecute: async () => void log.push('only before') },
      { afterExecute: async (_call, result) => ({ ...result, output: `${result.output}!` }) },
      { afterExecute: () => void log.push('only looks') },
      {},
    ]);
    expect((await registry.execute(toolCall('1', 'echo', { text: 'hi' }))).output).toBe('hi!');
    expect(log).toEqual(['only before', 'only looks']);
  });

  test('calls that overlap have each their own order and context', async () => {
    const seen: string[] = [];
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const inner = registryOf({
      slow: async () => {
        await gate;
        return 'slow';
      },
      fast: () => 'fast',
    });
    const registry = new HookRegistry(inner, {
      beforeExecute: (call, ctx) => ({ ...ctx, mark: `mark of ${call.id}` }),
      afterExecute: (call, _result, ctx) => void seen.push(`${call.id}: ${String(ctx.mark)}`),
    });
    const slow = registry.execute(toolCall('1', 'slow'));
    const fast = await registry.execute(toolCall('2', 'fast'));
    open();
    expect([fast.output, (await slow).output]).toEqual(['fast', 'slow']);
    expect(seen).toEqual(['2: mark of 2', '1: mark of 1']);
  });
});

describe('no hooks', () => {
  test('the inner registry’s very list, promise and arguments', () => {
    const list = [{ name: 'x' }];
    const answer = Promise.resolve({ toolCallId: '1', output: 'o', isError: false });
    const given: unknown[] = [];
    const inner: ToolRegistry = {
      list: () => list,
      execute: (...args) => {
        given.push(...args);
        return answer;
      },
    };
    const registry = new HookRegistry(inner);
    const call = toolCall('1', 'x');
    const ctx = {};
    expect(registry.execute(call, ctx)).toBe(answer);
    expect(given[0]).toBe(call);
    expect(given[1]).toBe(ctx);
    expect(registry.list()).toBe(list);
  });

  test('a throw of the inner registry comes through as it is', () => {
    const fault = new Error('boom');
    const inner: ToolRegistry = {
      list: () => [],
      execute: () => {
        throw fault;
      },
    };
    expect(() => new HookRegistry(inner).execute(toolCall('1', 'x'))).toThrow(fault);
  });

  test('with hooks the list is the inner one too', () => {
    const { registry } = withLog((l) => [noted(l, 'a')]);
    expect(registry.list()).toEqual([{ name: 'echo' }]);
  });
});

describe('faults', () => {
  test('a beforeExecute that throws short-circuits: isError, the tool is not run, after for exactly those before it', async () => {
    const { log, registry } = withLog((l) => [noted(l, 'a'), {}, noted(l, 'b', 'before'), noted(l, 'c')]);
    const result = await registry.execute(toolCall('1', 'echo', { text: 'hi' }));
    expect(log).toEqual(['before a', 'before b', 'after a']);
    expect(result).toEqual({ toolCallId: '1', output: 'The tool was not run: b says no+a', isError: true });
  });

  test('the first beforeExecute throws: nothing else runs', async () => {
    const { log, registry } = withLog((l) => [noted(l, 'a', 'before'), noted(l, 'b')]);
    const result = await registry.execute(toolCall('1', 'echo', { text: 'hi' }));
    expect(log).toEqual(['before a']);
    expect(result).toEqual({ toolCallId: '1', output: 'The tool was not run: a says no', isError: true });
  });

  test('an afterExecute that throws withholds the result, says that the tool ran, and the hooks further out still run', async () => {
    const { log, registry } = withLog((l) => [noted(l, 'a'), noted(l, 'b', 'after'), noted(l, 'c')]);
    const result = await registry.execute(toolCall('1', 'echo', { text: 'secret' }));
    expect(log).toEqual(['before a', 'before b', 'before c', 'tool', 'after c', 'after b', 'after a']);
    expect(result).toEqual({
      toolCallId: '1',
      output: 'The tool ran, but its result is withheld: a hook failed after it: b broke+a',
      isError: true,
    });
  });

  test('where the inner registry throws, each after sees an error result, and the caller the throw', async () => {
    const fault = new Error('aborted');
    const seen: unknown[] = [];
    const inner: ToolRegistry = { list: () => [], execute: () => Promise.reject(fault) };
    const registry = new HookRegistry(inner, { afterExecute: (_call, result) => void seen.push(result) });
    await expect(registry.execute(toolCall('1', 'x'))).rejects.toBe(fault);
    expect(seen).toEqual([{ toolCallId: '1', output: 'aborted', isError: true }]);
  });

  test('a tool that failed is a result like any other: hooks see it', async () => {
    const registry = new HookRegistry(registryOf({}), {
      afterExecute: (_call, result) => ({ ...result, output: `seen: ${result.output}` }),
    });
    expect(await registry.execute(toolCall('1', 'none'))).toEqual({
      toolCallId: '1',
      output: 'seen: no tool none',
      isError: true,
    });
  });

  test.each([
    ['a registry without execute', { list: () => [] }, []],
    ['no registry', undefined, []],
    ['a hook that is none', registryOf({}), ['hook']],
    ['a hook whose method is none', registryOf({}), [{ beforeExecute: 1 }]],
  ])('%s is refused when it is given', (_name, registry, hooks) => {
    expect(() => new HookRegistry(registry as never, ...(hooks as never[]))).toThrowError(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }),
    );
  });
});

describe('context', () => {
  test('a new one of a before goes to later befores, the tool and every after; the signal is in it', async () => {
    const seen: unknown[] = [];
    const { signal } = new AbortController();
    const inner = registryOf({
      look: (_args, ctx) => {
        seen.push(['tool', ctx?.n, ctx?.signal === signal]);
        return '';
      },
    });
    const adds: ToolHook = {
      beforeExecute: (_call, ctx) => ({ ...ctx, n: ((ctx.n as number | undefined) ?? 0) + 1 }),
      afterExecute: (_call, _result, ctx) => void seen.push(['after', ctx.n, ctx.signal === signal]),
    };
    await new HookRegistry(inner, adds, adds).execute(toolCall('1', 'look'), { signal });
    expect(seen).toEqual([
      ['tool', 2, true],
      ['after', 2, true],
      ['after', 2, true],
    ]);
  });

  test('a before that changes nothing leaves the very context', async () => {
    const ctx = {};
    let inside: unknown;
    const inner = registryOf({
      look: (_args, given) => {
        inside = given;
        return '';
      },
    });
    await new HookRegistry(inner, { beforeExecute: () => undefined }).execute(toolCall('1', 'look'), ctx);
    expect(inside).toBe(ctx);
  });
});

describe('audit hook', () => {
  test('a logger that is none is refused', () => {
    expect(() => auditHook({} as never)).toThrowError(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });

  test('logs start and end of each call, and changes neither', async () => {
    const lines: unknown[] = [];
    const audit = auditHook({ info: (message, data) => lines.push([message, data]) });
    const registry = new HookRegistry(registryOf({ echo: () => 'hi' }), audit);
    expect((await registry.execute(toolCall('1', 'echo'))).output).toBe('hi');
    await registry.execute(toolCall('2', 'none'));
    expect(lines).toEqual([
      ['tool start', { name: 'echo', id: '1' }],
      ['tool done', { name: 'echo', id: '1', isError: false }],
      ['tool start', { name: 'none', id: '2' }],
      ['tool done', { name: 'none', id: '2', isError: true }],
    ]);
  });
});
