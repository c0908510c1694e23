/**
 * The bench: `npm run bench [-- --backend native|portable] [--save] [--quick]`.
 *
 * Times what a host waits for (first capture, warm begin of a call, undo of 1,000 files) on a tree of 10,000 files, checks
 * each answer, and sets the warm begin against a floor: a bare two-thread walk in Rust (`native/examples/floor.rs`).
 * Quote the ratio; milliseconds are this machine's. Ctime can't be set back, so the bench waits one clock tick after it
 * wrote, as an agent would have.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Bench } from 'tinybench';
import { openWorkspace } from '../dist/index.js';
import { FILES, makeTree, randomFrom, text } from './tree.mjs';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const UNDO_FILES = 1_000;
/** Well over the 10 ms after which a stat key proves a file unchanged. */
const TICK_MS = 50;

const { values: flags } = parseArgs({
  options: { backend: { type: 'string' }, save: { type: 'boolean' }, quick: { type: 'boolean' } },
});
const ROUNDS = flags.quick ? { first: 2, warm: 10, undo: 2 } : { first: 5, warm: 40, undo: 7 };

function check(what, found, expected) {
  if (found !== expected) throw new Error(`${what}: ${found}, expected ${expected}`);
}

function available(result) {
  if (!result.available) throw new Error(`${result.reason}: ${result.detail}`);
  return result;
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/** Builds the floor before anything is timed; null where there is no cargo. */
function buildFloor() {
  const args = ['build', '--release', '--quiet', '--locked', '--package', 'takeback-native', '--example', 'floor'];
  try {
    execFileSync('cargo', args, { cwd: TOP, stdio: ['ignore', 'inherit', 'inherit'] });
    return join(TOP, 'target', 'release', 'examples', 'floor');
  } catch (fault) {
    if (fault.code === 'ENOENT') return null;
    throw fault;
  }
}

/** Microseconds of each round of the bare walk. */
function floor(program, root) {
  return JSON.parse(execFileSync(program, [root], { encoding: 'utf8' })).micros;
}

async function run(name, { rounds, work, before, after }) {
  const bench = new Bench({ name, iterations: rounds, time: 0, warmup: false, throws: true, retainSamples: true });
  bench.add(name, work, { beforeEach: before, afterEach: after });
  const [task] = await bench.run();
  if (task.result.state !== 'completed') throw new Error(`${name}: ${task.result.state}`);
  const { latency } = task.result;
  return { name, rounds, p50Ms: latency.p50, minMs: latency.min, maxMs: latency.max };
}

async function firstCapture({ root, scratch, backend }) {
  let workspace;
  let made = 0;
  const dirs = [];
  const result = await run(`first capture, ${FILES} files`, {
    rounds: ROUNDS.first,
    before: async () => {
      dirs.push(join(scratch, `first-${made}`));
      made += 1;
      workspace = await openWorkspace({ root, dataDir: dirs.at(-1), backend });
    },
    work: async () => {
      const answer = available(await workspace.session({ threadId: 'bench' }).capture('b'));
      check('files covered', answer.scannedFiles, FILES);
    },
    after: () => workspace.close(),
  });
  // Deleted at the end: a file system searches past inodes that were just freed, and would slow the next round down.
  const clean = () => {
    for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
  };
  return { result, clean };
}

async function warmCalls(session) {
  let call = 0;
  const end = async () => available(await session.endCall(`c${call}`));
  const begin = async () => {
    call += 1;
    const answer = available(await session.beginCall(`c${call}`));
    check('files looked at', answer.scannedFiles, FILES);
  };
  const atBegin = await run(`begin of a call, ${FILES} files, warm`, { rounds: ROUNDS.warm, work: begin, after: end });
  const atEnd = await run(`end of a call, ${FILES} files, nothing changed`, {
    rounds: ROUNDS.warm,
    before: begin,
    work: async () => check('changes', (await end()).changes.length, 0),
  });
  return [atBegin, atEnd];
}

async function undoMany(session, { root, names }) {
  const random = randomFrom(7);
  let round = 0;
  const edit = async () => {
    round += 1;
    available(await session.capture(`undo-${round}`));
    available(await session.beginCall(`edit-${round}`));
    for (const name of names.slice(0, UNDO_FILES)) writeFileSync(join(root, name), text(random, 500 + random(5_500)));
    await pause(TICK_MS);
    check('files changed', available(await session.endCall(`edit-${round}`)).changes.length, UNDO_FILES);
  };
  return run(`undo of ${UNDO_FILES} files`, {
    rounds: ROUNDS.undo,
    before: edit,
    work: async () => {
      const answer = available(await session.undo());
      check('files restored', answer.receipt.restored.length, UNDO_FILES);
    },
  });
}

async function benchBackend(backend, { root, scratch, names, program }) {
  const first = await firstCapture({ root, scratch, backend });
  const workspace = await openWorkspace({ root, dataDir: join(scratch, `warm-${backend}`), backend });
  try {
    const session = workspace.session({ threadId: 'bench' });
    available(await session.capture('start'));
    await pause(TICK_MS);
    const floors = program === null ? [] : floor(program, root);
    const calls = await warmCalls(session);
    if (program !== null) floors.push(...floor(program, root));
    const floorMs = program === null ? null : median(floors) / 1000;
    const [begin] = calls;
    const results = [first.result, ...calls, await undoMany(session, { root, names })];
    return { backend, floorMs, ratioOfBeginToFloor: floorMs === null ? null : begin.p50Ms / floorMs, results };
  } finally {
    await workspace.close();
    first.clean();
  }
}

function print({ backend, floorMs, ratioOfBeginToFloor, results }) {
  console.log(`\n${backend}`);
  for (const { name, rounds, p50Ms, minMs, maxMs } of results) {
    console.log(
      `  ${name.padEnd(48)} p50 ${p50Ms.toFixed(1)} ms  (${minMs.toFixed(1)} to ${maxMs.toFixed(1)}, ${rounds} rounds)`,
    );
  }
  if (floorMs === null) console.log('  no cargo: no floor to compare with');
  else {
    console.log(`  ${'floor: bare walk, 2 threads'.padEnd(48)} p50 ${floorMs.toFixed(1)} ms`);
    console.log(`  begin of a call / floor: ${ratioOfBeginToFloor.toFixed(2)}`);
  }
}

/** The machine by what matters, not by its name. */
function machine() {
  const { model } = cpus()[0];
  return {
    cpu: model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    platform: process.platform,
    node: process.version,
  };
}

function save(runs) {
  const on = machine();
  const slug = `${on.cpu} ${on.cores} cores`
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
  const folder = join(TOP, 'bench', 'runs', `${new Date().toISOString().slice(0, 10)}-${slug}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'results.json'), `${JSON.stringify({ machine: on, files: FILES, runs }, null, 2)}\n`);
  console.log(`\nsaved to ${folder.slice(TOP.length)}`);
}

async function nativeServes(scratch) {
  const workspace = await openWorkspace({ root: scratch, dataDir: join(scratch, 'probe') });
  const { capabilities } = available(await workspace.capabilities());
  await workspace.close();
  return capabilities.backend === 'native';
}

const scratch = mkdtempSync(join(tmpdir(), 'takeback-bench-'));
try {
  const program = buildFloor();
  const root = join(scratch, 'tree');
  mkdirSync(root);
  const names = makeTree(root);
  await pause(TICK_MS);
  const all = (await nativeServes(scratch)) ? ['native', 'portable'] : ['portable'];
  const runs = [];
  for (const backend of flags.backend === undefined ? all : [flags.backend]) {
    runs.push(await benchBackend(backend, { root, scratch, names, program }));
    print(runs.at(-1));
  }
  if (flags.save) save(runs);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
