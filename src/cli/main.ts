#!/usr/bin/env node
/**
 * The `takeback` command: the real process as the host of `program.ts`. `hook` goes to a file of its own, before anything
 * else is loaded: it runs around every tool call of an agent.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Host } from './host.ts';

async function command(): Promise<void> {
  const { main } = await import('./program.ts');
  const host: Host = {
    stdout: process.stdout,
    stderr: process.stderr,
    interactive: process.stdin.isTTY === true && process.stderr.isTTY === true,
    env: process.env,
    cwd: process.cwd(),
    now: () => Date.now(),
    open: async (options) => (await import('../workspace.ts')).openWorkspace(options),
    confirm: async (question) => {
      const { confirm } = await import('@clack/prompts');
      return (await confirm({ message: question, output: process.stderr, initialValue: false })) === true;
    },
    choose: async (question, choices) => {
      const { isCancel, multiselect } = await import('@clack/prompts');
      const options = choices.map((label, value) => ({ value, label }));
      const picked = await multiselect({ message: question, options, required: false, output: process.stderr });
      return isCancel(picked) ? null : picked;
    },
  };
  // A reader that went away (`takeback log | head`) is no fault of ours.
  process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
    if (fault.code !== 'EPIPE') throw fault;
  });
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  process.exitCode = await main(host, process.argv.slice(2), version);
}

if (process.argv[2] === 'hook' && !process.argv.includes('--help')) createRequire(import.meta.url)('./hook.cjs');
else await command();
