/** A tree with its session, floors and peers, and how one row is measured on it. */
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { openWorkspace } from '../dist/index.js';
import { randomFrom, text } from './tree.mjs';

/** Well over the 10 ms after which a stat key proves a file unchanged; ctime can't be set back, so the bench waits, as an agent would have. */
export const TICK_MS = 50;

export function check(what, found, expected) {
  if (found !== expected) throw new Error(`${what}: ${found}, expected ${expected}`);
}

export function available(result) {
  if (!result.available) throw new Error(`${result.reason}: ${result.detail}`);
  return result;
}

export function quantile(numbers, part) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

export class Stage {
  constructor({ root, scratch, backend, tree, floors, peers }) {
    Object.assign(this, {
      root,
      scratch,
      backend,
      tree,
      floors,
      peers,
      random: randomFrom(7),
      edits: 0,
      calls: 0,
      opened: 0,
    });
  }

  /** A workspace of its own, in a data directory of its own. Without syncs: they time the disk, which no peer's run does. */
  async open(options = {}) {
    this.opened += 1;
    const dataDir = join(this.scratch, `${this.backend}-${this.opened}`);
    const own = { root: this.root, dataDir, backend: this.backend, durability: 'fast' };
    const workspace = await openWorkspace({ ...own, ...options });
    return { workspace, session: workspace.session({ threadId: 'bench' }), dataDir };
  }

  /** A workspace on a data directory that there is. */
  async reopen(dataDir) {
    const workspace = await openWorkspace({ root: this.root, dataDir, backend: this.backend, durability: 'fast' });
    return { workspace, session: workspace.session({ threadId: 'bench' }) };
  }

  /** New bytes in the first `count` files. */
  async edit(count) {
    const names = this.tree.names.slice(0, count);
    for (const name of names) writeFileSync(join(this.root, name), text(this.random, 500 + this.random(5_500)));
    await pause(TICK_MS);
    return names;
  }

  nextId() {
    this.calls += 1;
    return `id-${this.calls}`;
  }
}

export function bytesBelow(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath ?? entry.path, entry.name)).size, 0);
}

async function least(times, row) {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < times; i += 1) {
    await row.before?.();
    const started = performance.now();
    const spent = await row.work();
    // What times itself answers its milliseconds.
    best = Math.min(best, typeof spent === 'number' ? spent : performance.now() - started);
    await row.after?.();
  }
  return best;
}

/**
 * Runs a row beside what it is compared with, all once in each round, so that all see the same noise: a ratio is the
 * median of the rounds' ratios.
 */
export async function measure(row, rounds) {
  const own = [];
  const others = new Map(Object.keys(row.against ?? {}).map((name) => [name, []]));
  await row.start?.();
  for (let round = 0; round <= rounds; round += 1) {
    await row.round?.();
    const ms = await least(row.least ?? 1, row);
    const theirs = Object.entries(row.against ?? {}).map(([name, run]) => [name, run()]);
    // The first warms up.
    if (round === 0) continue;
    own.push(ms);
    for (const [name, value] of theirs) others.get(name).push(value);
  }
  const against = {};
  for (const [name, values] of others) {
    const ratios = own.map((ms, at) => ms / values[at]);
    const spread = Math.max(...values) / Math.min(...values);
    against[name] = { p50Ms: quantile(values, 0.5), ratio: quantile(ratios, 0.5), spread };
  }
  const times = { p50Ms: quantile(own, 0.5), p99Ms: quantile(own, 0.99), minMs: Math.min(...own) };
  return { name: row.name, rounds, ...times, against };
}
