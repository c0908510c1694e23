/** A scripted model for the real AI SDK, and tools that change the files of a folder. */
import { simulateReadableStream, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';
import type { ScriptedCall, Setting } from '../../src/adapters/testkit.ts';

type GenerateResult = Awaited<ReturnType<MockLanguageModelV4['doGenerate']>>;
type StreamPart =
  Awaited<ReturnType<MockLanguageModelV4['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never;

export interface AskedCall {
  readonly id: string;
  readonly tool: string;
  readonly input: unknown;
  /** Run by the provider: the SDK runs nothing. */
  readonly atProvider?: boolean;
}

/** One step of the model: calls, or the closing text. */
export type Step = readonly AskedCall[] | string;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

const finishOf = (step: Step): { unified: 'stop' | 'tool-calls'; raw: string } =>
  typeof step === 'string' ? { unified: 'stop', raw: 'stop' } : { unified: 'tool-calls', raw: 'tool_calls' };

function contentOf(step: Step): GenerateResult['content'] {
  if (typeof step === 'string') return [{ type: 'text', text: step }];
  return step.flatMap(({ id, tool: toolName, input, atProvider = false }) => [
    {
      type: 'tool-call' as const,
      toolCallId: id,
      toolName,
      input: JSON.stringify(input),
      ...(atProvider ? { providerExecuted: true } : {}),
    },
    ...(atProvider ? [{ type: 'tool-result' as const, toolCallId: id, toolName, result: 'done there' }] : []),
  ]);
}

/** Says what the script says, step by step, to generations and to streams. */
export function scripted(steps: readonly Step[]): MockLanguageModelV4 {
  let at = 0;
  const next = (): Step => steps[at++] ?? 'Done.';
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const step = next();
      return { content: contentOf(step), finishReason: finishOf(step), usage, warnings: [] };
    },
    doStream: async () => {
      const step = next();
      const parts =
        typeof step === 'string'
          ? [
              { type: 'text-start', id: 't' },
              { type: 'text-delta', id: 't', delta: step },
              { type: 'text-end', id: 't' },
            ]
          : contentOf(step);
      const chunks = [
        { type: 'stream-start', warnings: [] },
        ...parts,
        { type: 'finish', finishReason: finishOf(step), usage },
      ] as StreamPart[];
      return { stream: simulateReadableStream({ chunks }) };
    },
  });
}

/** The tools of the adapter suite, as tools of the SDK. */
export function suiteTools({ runTool }: Pick<Setting, 'runTool'>) {
  const file = z.object({ path: z.string(), content: z.string() });
  const run = (call: ScriptedCall): Promise<string> => runTool(call);
  return {
    edit: tool({ inputSchema: file, execute: (input) => run({ tool: 'edit', ...input }) }),
    fail: tool({ inputSchema: file, execute: (input) => run({ tool: 'fail', ...input }) }),
    shell: tool({
      inputSchema: z.object({ command: z.string() }),
      execute: (input) => run({ tool: 'shell', ...input }),
    }),
  };
}

/** A scripted call as the model asks for it. */
export function asked(id: string, { tool: name, ...input }: ScriptedCall): AskedCall {
  return { id, tool: name, input };
}
