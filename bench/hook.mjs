/**
 * Times the hook process of `takeback hook claude-code` against a bare start of Node, on the bench's tree of 10,000 files:
 *
 *   node bench/hook.mjs [--rounds 31] [--gate]
 *
 * In each round every row runs once, in turn, so that all see the same noise; a row's figure is the median over the rounds of
 * its time by the bare start's of that round. Processes are started by a small shell loop of ours (spawnSync) and timed
 * around it. The answer is checked: each begin and end is in the timeline, and no hook noted a problem. `--gate` fails where a
 * row is above 1.35 (PERFORMANCE.md's bar), but for the end of a call that wrote a file: that one also stores and syncs it, and
 * waits for the disk. A run in which others used the machine decides nothing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openWorkspace } from '../dist/index.js';
import { makeTree, SIZES } from './tree.mjs';

const GATE = 1.35;
const WROTE = 'end, one file written';
const HOOK = fileURLToPath(new URL('../dist/cli/hook.cjs', import.meta.url));
const { values: flags } = parseArgs({
  options: { rounds: { type: 'string', default: '31' }, gate: { type: 'boolean', default: false } },
});
const rounds = Number(flags.rounds);

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function timed(argv, input, env) {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { input, env, encoding: 'utf8' });
  const took = performance.now() - started;
  if (status !== 0 || stdout !== '' || stderr !== '')
    throw new Error(`${argv.join(' ')}: ${status} ${stdout}${stderr}`);
  return took;
}

const scratch = mkdtempSync(join(tmpdir(), 'takeback-hook-bench-'));
try {
  const root = join(scratch, 'tree');
  const dataDir = join(scratch, 'data');
  mkdirSync(root);
  makeTree(root, '10k');
  const env = { ...process.env, XDG_STATE_HOME: join(scratch, 'state'), CLAUDE_PROJECT_DIR: root };
  const hook = (name, fields) => {
    const event = {
      session_id: 'bench',
      transcript_path: '',
      cwd: root,
      prompt_id: 'p1',
      hook_event_name: name,
      ...fields,
    };
    return timed([HOOK, 'claude-code', '--data-dir', dataDir], JSON.stringify(event), env);
  };
  const call = (id) => ({ tool_name: 'Bash', tool_input: { command: 'true' }, tool_use_id: id });
  hook('UserPromptSubmit', { prompt: 'bench' });
  const names = ['bare node', 'read-only tool', 'begin of a call', 'end of a call', WROTE];
  const rows = Object.fromEntries(names.map((name) => [name, []]));
  /** The end of a call that changed a file. */
  const endOfWriter = (id) => {
    hook('PreToolUse', call(id));
    writeFileSync(join(root, 'written.ts'), `// ${id}\n`.repeat(200));
    return hook('PostToolUse', { ...call(id), tool_response: {} });
  };
  // The first begin makes the cache of compiled code; its round is not counted.
  for (let round = -1; round < rounds; round += 1) {
    const times = {
      'bare node': timed(['-e', '0'], '', env),
      'read-only tool': hook('PreToolUse', { tool_name: 'Read', tool_input: {}, tool_use_id: 'r' }),
      'begin of a call': hook('PreToolUse', call(`c${round}`)),
      'end of a call': hook('PostToolUse', { ...call(`c${round}`), tool_response: {} }),
      [WROTE]: endOfWriter(`w${round}`),
    };
    if (round >= 0) for (const [name, ms] of Object.entries(times)) rows[name].push(ms);
  }
  if (existsSync(join(dataDir, 'hook-problems.jsonl'))) throw new Error('a hook noted a problem');
  const workspace = await openWorkspace({ root, dataDir });
  const { items } = await workspace.session({ threadId: 'bench' }).timeline({ limit: 1 });
  const { capabilities } = await workspace.capabilities();
  await workspace.close();
  const ended = items.filter((item) => item.type === 'call' && item.state === 'ended').length;
  if (ended !== 2 * (rounds + 1)) throw new Error(`${ended} calls were recorded, not ${2 * (rounds + 1)}`);

  console.log(`hook process, ${SIZES['10k'].files} files, ${capabilities.backend}, ${rounds} rounds`);
  const ratios = Object.entries(rows).map(([name, times]) => {
    const ratio = median(times.map((ms, round) => ms / rows['bare node'][round]));
    console.log(
      `  ${name.padEnd(21)} p50 ${median(times).toFixed(1)} ms  min ${Math.min(...times).toFixed(1)}  x bare node ${ratio.toFixed(2)}`,
    );
    return name === WROTE ? 0 : ratio;
  });
  if (flags.gate && Math.max(...ratios) > GATE) {
    console.error(`over the bar of ${GATE}`);
    process.exitCode = 1;
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
