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
  const terminal = { input: process.stdin, output: process.stderr };
  const host: Host = {
    stdout: process.stdout,
    stderr: process.stderr,
    interactive: process.stdin.isTTY === true && process.stderr.isTTY === true,
    env: process.env,
    cwd: process.cwd(),
    now: () => Date.now(),
    open: async (options) => (await import('../workspace.ts')).openWorkspace(options),
    confirm: async (question) => (await import('./ask.ts')).askYesNo(terminal, question),
    choose: async (question, choices) => (await import('./ask.ts')).askChoices(terminal, question, choices),
  };
  // A reader that went away (`takeback log | head`) is no fault of ours; a full disk is told when the work is done.
  let unsaid: Error | undefined;
  process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
    if (fault.code !== 'EPIPE') unsaid ??= fault;
  });
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  const code = await main(host, process.argv.slice(2), version);
  // The stream tells of a fault after the write that met it.
  await new Promise(setImmediate);
  if (unsaid !== undefined) process.stderr.write(`takeback: the output can't be written: ${unsaid.message}\n`);
  process.exitCode = unsaid === undefined ? code : code || 1;
}

if (process.argv[2] === 'hook' && !process.argv.includes('--help')) createRequire(import.meta.url)('./hook.cjs');
else await command();
