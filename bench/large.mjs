/**
 * The rows that depend on how many files there are (`npm run bench -- --large`): looks at a warm tree, the first look of a
 * process with the index from disk, and what an open tree costs in memory. On 20,000 files with 200 nested rule files, 100,000
 * and 1,000,000 files; the last takes minutes to make, and 5 GB of disk.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { bracketRow, callRows, captureRows } from './rows.mjs';
import { available, measure, TICK_MS } from './stage.mjs';

export const LARGE = ['nested', '100k', '1m'];
const ROUNDS = { nested: 11, '100k': 7, '1m': 3 };

/** Opens the workspace and begins a call: what a new process pays before its first tool. */
function coldRow(stage, dataDir, { against }) {
  let opened;
  return {
    name: 'open and first begin of a process',
    work: async () => {
      opened = await stage.reopen(dataDir);
      available(await opened.session.beginCall(stage.nextId()));
    },
    after: async () => {
      available(await opened.session.endCall(`id-${stage.calls}`));
      await opened.workspace.close();
    },
    against,
  };
}

/** Resident bytes of an open tree by the entries that a walk finds. */
function bytesAnEntry(stage, dataDir) {
  if (stage.floors === null) return undefined;
  const script = join(import.meta.dirname, 'memory.mjs');
  const grown = execFileSync(process.execPath, [script, stage.root, dataDir, stage.backend], { encoding: 'utf8' });
  return Number(grown) / stage.floors.run('scan').count;
}

export async function runLarge(stage) {
  const rounds = ROUNDS[stage.size];
  const { workspace, session, dataDir } = await stage.open();
  const rows = [];
  try {
    const started = performance.now();
    available(await session.capture('start'));
    const firstMs = performance.now() - started;
    await pause(TICK_MS);
    available(await session.capture('settled'));
    const [begin, end] = callRows(stage, session);
    const [nothing] = captureRows(stage, session);
    for (const row of [begin, end, nothing, bracketRow(stage, session)]) rows.push(await measure(row, rounds));
    await workspace.close();
    rows.push(await measure(coldRow(stage, dataDir, begin), rounds));
    return { size: stage.size, backend: stage.backend, rows, firstMs, bytesAnEntry: bytesAnEntry(stage, dataDir) };
  } finally {
    await workspace.close();
  }
}
