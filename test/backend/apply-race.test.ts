/** Another thread writes at a random moment of an apply. Bounded rounds; the tables of every moment are in apply.test.ts. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, test } from 'vitest';
import type { RelPath, Version } from '../../src/types.ts';
import { Bench, quiet, stepping } from './hands-kit.ts';

const ROUNDS = 80;
const ABSENT: Version = { kind: 'absent' };

/** Waits for a round, then for a moment, writes `foreign <round>` at the path in the given way, and says that it did. */
const WRITER = `
const { workerData } = require('node:worker_threads');
const fs = require('node:fs');
const { control, path, how } = workerData;
const state = new Int32Array(control);
for (let round = 1; ; round++) {
  while (Atomics.load(state, 0) < round) Atomics.wait(state, 0, round - 1, 100);
  if (Atomics.load(state, 0) > 1e6) break;
  let fd = -1;
  if (how === 'held') try { fd = fs.openSync(path, 'r+'); } catch {}
  Atomics.store(state, 2, round);
  const until = process.hrtime.bigint() + BigInt(Atomics.load(state, 1)) * 1000n;
  while (process.hrtime.bigint() < until);
  const text = 'foreign ' + round + ' '.repeat(8);
  try {
    if (how === 'rename') {
      fs.writeFileSync(path + '.foreign', text);
      fs.renameSync(path + '.foreign', path);
    } else if (how === 'truncate') fs.writeFileSync(path, text);
    else if (fd >= 0) fs.writeSync(fd, text, 0);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  if (fd >= 0) fs.closeSync(fd);
  Atomics.store(state, 3, round);
  Atomics.notify(state, 3);
}`;

class Writer {
  readonly #state = new Int32Array(new SharedArrayBuffer(16));
  readonly #worker: Worker;
  #round = 0;

  constructor(path: string, how: string) {
    this.#worker = new Worker(WRITER, { eval: true, workerData: { control: this.#state.buffer, path, how } });
  }

  /** Starts a round; the other thread writes about `delayUs` after. Answers the round. */
  async start(delayUs: number): Promise<number> {
    Atomics.store(this.#state, 1, delayUs);
    Atomics.store(this.#state, 0, ++this.#round);
    Atomics.notify(this.#state, 0);
    while (Atomics.load(this.#state, 2) < this.#round) await new Promise((resolve) => setImmediate(resolve));
    return this.#round;
  }

  end(): void {
    while (Atomics.load(this.#state, 3) < this.#round) Atomics.wait(this.#state, 3, this.#round - 1, 100);
  }

  async stop(): Promise<void> {
    Atomics.store(this.#state, 0, 2e6);
    Atomics.notify(this.#state, 0);
    await this.#worker.terminate();
  }
}

describe('apply against another thread', () => {
  const writers: Writer[] = [];
  afterAll(() => Promise.all(writers.map((writer) => writer.stop())));

  for (const how of ['rename', 'truncate', 'held']) {
    for (const act of ['replace', 'delete', 'create']) {
      if (how === 'held' && act === 'create') continue;
      test(`${how} × ${act}: no foreign byte is lost`, async () => {
        using bench = await Bench.make(
          {},
          stepping(() => {}),
        );
        const writer = new Writer(bench.path('p'), how);
        writers.push(writer);
        const old = bench.file('old');
        const target = act === 'delete' ? ABSENT : bench.file('ours');
        let seen = 0;
        for (let i = 0; i < ROUNDS; i++) {
          rmSync(bench.path('p'), { force: true });
          rmSync(bench.trash, { recursive: true, force: true });
          if (act !== 'create') writeFileSync(bench.path('p'), 'old', { mode: 0o644 });
          const round = await writer.start((i * 97) % 2500);
          const [outcome] = bench.apply([{ path: 'p' as RelPath, expect: act === 'create' ? ABSENT : old, target }]);
          writer.end();
          bench.hands.finish(bench.journal);
          const texts = [
            ...readdirSync(bench.root).map((name) => readFileSync(bench.path(name), 'utf8')),
            ...readdirSync(bench.trash).map((name) => readFileSync(join(bench.trash, name), 'utf8')),
          ];
          const wrote = texts.some((text) => text.includes(`foreign ${round} `));
          if (outcome?.status === 'refused') seen += 1;
          // A writer that met the gap of a deletion, or held nothing, wrote nothing.
          if (how === 'rename') expect(wrote, `round ${round}: ${JSON.stringify(outcome)}`).toBe(true);
          if (how === 'rename')
            expect(bench.hands.peek(['p' as RelPath], quiet)[0]?.version).toMatchObject({
              kind: 'file',
              size: `foreign ${round}`.length + 8,
            });
          if (how === 'held') expect(wrote, `round ${round}: ${JSON.stringify(outcome)}`).toBe(true);
          if (how === 'truncate' && act !== 'delete')
            expect(wrote, `round ${round}: ${JSON.stringify(outcome)}`).toBe(true);
        }
        console.info(`${how} × ${act}: refused ${seen} of ${ROUNDS}`);
      });
    }
  }
});
