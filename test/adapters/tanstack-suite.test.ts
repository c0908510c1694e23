/** The cases that every adapter passes, in the real `chat()` of `@tanstack/ai`. */
import { type AnyTool, toolDefinition } from '@tanstack/ai';
import { test } from 'vitest';
import { z } from 'zod';
import { snapshots } from '../../src/adapters/tanstack.ts';
import { adapterSuite, type ScriptedCall, type Setting } from '../../src/adapters/testkit.ts';
import { describeBackends } from '../kit/backends.ts';
import { runChat } from './tanstack-kit.ts';

function toolsOf({ runTool }: Setting): AnyTool[] {
  const inputSchema = z.object({
    path: z.string().optional(),
    content: z.string().optional(),
    command: z.string().optional(),
  });
  return (['edit', 'shell', 'fail'] as const).map(
    (name) =>
      toolDefinition({ name, description: name, inputSchema }).server((args) =>
        runTool({ tool: name, ...args } as ScriptedCall),
      ) as unknown as AnyTool,
  );
}

describeBackends('the adapter suite in TanStack AI', (backend) => {
  const start = async (setting: Setting) => {
    const { root, dataDir } = setting;
    const history = snapshots({ root, dataDir, backend, durability: 'fast' });
    const threadId = 'fix-login';
    let turns = 0;
    return {
      turn: async (steps: readonly (readonly ScriptedCall[])[]) => {
        turns += 1;
        const asked = steps.map((step, s) =>
          step.map(({ tool, ...args }, c) => ({ id: `t${turns}-s${s}-c${c}`, tool, args })),
        );
        await runChat({
          messages: [{ role: 'user', content: 'Go on.', id: `m${turns}` }],
          steps: [...asked, 'Done.'],
          tools: toolsOf(setting),
          middleware: [history.middleware],
          threadId,
        });
      },
      undo: async () => (await history.session({ threadId })).undo(),
      redo: async () => (await history.session({ threadId })).redo(),
      close: () => history.close(),
    };
  };
  for (const { name, run } of adapterSuite({ name: 'TanStack AI', start })) test(name, run);
});
