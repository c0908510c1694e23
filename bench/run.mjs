/**
 * The bench: `npm run bench [-- --backend native|portable] [--size 10k,nested,100k] [--rounds N] [--only TEXT] [--save]`,
 * `npm run bench -- --large [--size nested,100k,1m]` (`large.mjs`),
 * `npm run bench -- --readme` (writes the README's table from the newest saved run), and `npm run bench -- --gates` (`gates.mjs`).
 *
 * Times what a host waits for (`rows.mjs`) on generated trees (`tree.mjs`), checks each answer, and sets it beside floors
 * (`floors.mjs`) and peers (`peers.mjs`) of the same rounds (`stage.mjs`). Quote the ratios; milliseconds are this machine's.
 */
import { pbkdf2 } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openWorkspace } from '../dist/index.js';
import { buildFloors } from './floors.mjs';
import { runGates } from './gates.mjs';
import { LARGE, runLarge } from './large.mjs';
import { gitPeers, gitStatus } from './peers.mjs';
import {
  borrowRow,
  bracketRow,
  callRows,
  captureRows,
  firstRow,
  longestBlock,
  planRow,
  storeSizes,
  undoRow,
  warmUp,
  watchRows,
} from './rows.mjs';
import { available, measure, quantile, Stage, TICK_MS } from './stage.mjs';
import { printed, withTable } from './table.mjs';
import { makeTree, SIZES } from './tree.mjs';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const RUNS = join(TOP, 'bench', 'runs');
const ROUNDS = 11;
/** Rows of seconds. */
const SLOW_ROUNDS = 3;

const { values: flags } = parseArgs({
  options: {
    backend: { type: 'string' },
    size: { type: 'string' },
    large: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string' },
    save: { type: 'boolean' },
    readme: { type: 'boolean' },
    gates: { type: 'boolean' },
  },
});

/** Begin of a call while libuv's pool has more to do than it has threads, by that of an idle one. */
async function busyRatio(stage, session) {
  const begin = async () => {
    const id = stage.nextId();
    const started = performance.now();
    available(await session.beginCall(id));
    const ms = performance.now() - started;
    available(await session.endCall(id));
    return ms;
  };
  const times = { idle: [], busy: [] };
  for (let round = 0; round < 7; round += 1) {
    times.idle.push(await begin());
    const tasks = Array.from({ length: 8 }, () => new Promise((done) => pbkdf2('a', 'b', 60_000, 32, 'sha512', done)));
    times.busy.push(await begin());
    await Promise.all(tasks);
  }
  return quantile(times.busy, 0.5) / quantile(times.idle, 0.5);
}

async function warmFacts(stage, session) {
  return {
    busyRatio: await busyRatio(stage, session),
    blockedMs: quantile(await longestBlock(stage, session), 0.5),
    store: await storeSizes(stage),
  };
}

async function runRows(stage, { rounds, wanted, facts }) {
  const rows = [];
  const add = async (row, times) => {
    if (wanted(row.name)) rows.push(await measure(row, times));
  };
  const first = firstRow(stage);
  const borrowed = borrowRow(stage);
  await add(first, Math.min(rounds, SLOW_ROUNDS));
  const { workspace, session } = await stage.open();
  try {
    await warmUp(stage, session);
    for (const row of [...callRows(stage, session), ...captureRows(stage, session)]) await add(row, rounds);
    await add(bracketRow(stage, session), rounds);
    await add(planRow(stage, session), Math.min(rounds, 2 * SLOW_ROUNDS));
    await add(undoRow(stage, session), Math.min(rounds, 2 * SLOW_ROUNDS));
    if (stage.backend === 'native') await watched(stage, (row) => add(row, rounds));
    return { size: stage.size, backend: stage.backend, rows, ...(facts ? await warmFacts(stage, session) : {}) };
  } finally {
    await workspace.close();
    first.clean();
    if (stage.backend === 'native' && stage.peers !== null) await add(borrowed, rounds);
    borrowed.clean();
  }
}

async function watched(stage, add) {
  const { workspace, session } = await stage.open({ watch: true });
  try {
    await warmUp(stage, session);
    const { capabilities } = available(await workspace.capabilities());
    if (!capabilities.watch.on) console.log(`watch mode: ${capabilities.watch.why}`);
    else for (const row of watchRows(stage, session)) await add(row);
  } finally {
    await workspace.close();
  }
}

async function nativeServes(scratch) {
  const workspace = await openWorkspace({ root: scratch, dataDir: join(scratch, 'probe') });
  const { capabilities } = available(await workspace.capabilities());
  await workspace.close();
  return capabilities.backend === 'native';
}

/** Makes a tree with its floors and peers, hands out stages on it, and takes all away. */
async function onTree(size, work) {
  const scratch = mkdtempSync(join(tmpdir(), 'takeback-bench-'));
  try {
    const root = join(scratch, 'tree');
    mkdirSync(root);
    const tree = makeTree(root, size);
    const peers = flags.large ? gitStatus(root) : gitPeers(root, scratch);
    const parts = { root, scratch, tree, floors: buildFloors(TOP, root), peers };
    await pause(TICK_MS);
    const both = flags.large ? ['native'] : ['native', 'portable'];
    const backends = flags.backend === undefined ? both : [flags.backend];
    const able = (await nativeServes(scratch)) ? backends : backends.filter((backend) => backend !== 'native');
    await work((backend) => Object.assign(new Stage({ ...parts, backend }), { size }), able);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The machine by what matters, not by its name. */
function machine() {
  const { model } = cpus()[0];
  const memoryGiB = Math.round(totalmem() / 1024 ** 3);
  return { cpu: model, cores: cpus().length, memoryGiB, platform: process.platform, node: process.version };
}

function save(runs) {
  const on = machine();
  const slug = `${on.cpu} ${on.cores} cores`
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
  const folder = join(RUNS, `${new Date().toISOString().slice(0, 10)}-${slug}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'results.json'), `${JSON.stringify({ machine: on, runs }, null, 2)}\n`);
  console.log(`\nsaved to ${folder.slice(TOP.length)}`);
}

function writeReadme() {
  const newest = readdirSync(RUNS).sort().at(-1);
  const run = JSON.parse(readFileSync(join(RUNS, newest, 'results.json'), 'utf8'));
  const file = join(TOP, 'README.md');
  writeFileSync(file, withTable(readFileSync(file, 'utf8'), run));
  console.log(`README.md has the table of ${newest}`);
}

async function bench() {
  const wanted = (name) => flags.only === undefined || name.includes(flags.only);
  const rounds = flags.rounds === undefined ? ROUNDS : Number(flags.rounds);
  const runs = [];
  const sizes = flags.size?.split(',') ?? (flags.large ? LARGE : ['10k']);
  for (const size of sizes) {
    if (!(size in SIZES)) throw new Error(`--size ${size}: one of ${Object.keys(SIZES).join(', ')}`);
    await onTree(size, async (stageOf, backends) => {
      for (const backend of backends) {
        const times = backend === 'portable' ? Math.min(rounds, SLOW_ROUNDS) : rounds;
        const stage = stageOf(backend);
        const ordinary = { rounds: times, wanted, facts: flags.only === undefined };
        runs.push(await (flags.large ? runLarge(stage) : runRows(stage, ordinary)));
        console.log(`\n${printed(runs.at(-1)).join('\n')}`);
      }
    });
  }
  if (flags.save) save(runs);
}

async function gates() {
  await onTree('10k', async (stageOf, backends) => {
    if (!backends.includes('native')) console.log('gates: the addon is missing; nothing to decide');
    else if (!(await runGates(stageOf))) process.exitCode = 1;
  });
}

if (flags.readme) writeReadme();
else if (flags.gates) await gates();
else await bench();
