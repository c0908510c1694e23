/**
 * The sights of an index, and the look at all of them that a turn's scan begins with: on two threads where there is much to
 * look at. What it answers of a folder is that its plain names are as they were; all else the scan looks at by itself.
 *
 * The second thread (`glance-worker.ts`) only saves time: where it can't be started, dies, or hangs, what it has not answered is
 * looked at by the scan. Numbers of sights are never given again; once most are void, all is made anew.
 */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Go } from './glance-worker.ts';
import type { IndexTree, Node } from './index.ts';
import { type Board, boardBytes, boardOf, glance, type Sight, Slot, Verdict } from './sight.ts';

/** Names that a second thread is worth being told of. Guessed: to wake it takes as long as some hundred stats. */
const MANY_NAMES = 2_000;
/** A second thread that takes longer than the first by this, milliseconds, is given up. */
const PATIENCE_MS = 10_000;

/** A folder of the index, and what a scan does about it where its sight is as it was. */
export interface Seen {
  readonly sight: Sight;
  /** Names that the sight lacks. */
  readonly rest: readonly Node[];
  readonly folders: readonly Node[];
  /** How many files are in the sight. */
  readonly files: number;
}

export class Glances {
  #index: IndexTree | null = null;
  #sights: Sight[] = [];
  #seen: Seen[] = [];
  #owners: Node[] = [];
  #names = 0;
  #capacity = 0;
  #buffer = new SharedArrayBuffer(boardBytes(0));
  #board: Board = boardOf(this.#buffer, 0);
  #worker: Worker | null = null;
  /** Sights that the second thread was told of. */
  #told = 0;
  #alone = availableParallelism() < 2;
  /** A look was made, and its verdicts hold for the scan under way. */
  #fresh = false;

  /** Looks at all sights of an index. `check` may throw: then nothing is answered. */
  look(index: IndexTree, check: () => void): void {
    this.#fresh = false;
    this.#waitForOther();
    if (index !== this.#index || this.#isMostlyVoid()) this.#begin(index);
    this.#grow();
    const { control, alive, verdicts } = this.#board;
    for (const [id, owner] of this.#owners.entries()) alive[id] = owner.sight === id ? 1 : 0;
    verdicts.fill(Verdict.unknown);
    Atomics.store(control, Slot.count, this.#sights.length);
    Atomics.store(control, Slot.next, 0);
    this.#tellOther();
    try {
      glance(this.#board, this.#sights, check);
    } finally {
      // Whatever is left is nobody's, should `check` have thrown.
      Atomics.store(control, Slot.next, this.#sights.length);
    }
    this.#waitForOther();
    this.#fresh = true;
  }

  /** The plain names of a folder are as they were. */
  isSame({ sight }: Node): boolean {
    return this.#fresh && sight >= 0 && this.#board.verdicts[sight] === Verdict.same;
  }

  seen({ sight }: Node): Seen | undefined {
    return this.#seen[sight];
  }

  /** Has the next look look at a folder of the index. */
  add(node: Node, seen: Seen): void {
    node.sight = this.#sights.length;
    this.#sights.push(seen.sight);
    this.#seen.push(seen);
    this.#owners.push(node);
    this.#names += seen.sight.names.length;
  }

  /** After the scan: what is found later says nothing of what was found then. */
  end(): void {
    this.#fresh = false;
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#alone = true;
  }

  #isMostlyVoid(): boolean {
    const there = this.#owners.reduce((sum, owner, id) => sum + (owner.sight === id ? 1 : 0), 0);
    return this.#sights.length > 64 && there * 2 < this.#sights.length;
  }

  #begin(index: IndexTree): void {
    for (const [id, owner] of this.#owners.entries()) if (owner.sight === id) owner.sight = -1;
    [this.#index, this.#sights, this.#seen, this.#owners, this.#names, this.#told] = [index, [], [], [], 0, 0];
  }

  #grow(): void {
    if (this.#sights.length <= this.#capacity) return;
    this.#capacity = Math.max(256, this.#sights.length * 2);
    this.#buffer = new SharedArrayBuffer(boardBytes(this.#capacity));
    this.#board = boardOf(this.#buffer, this.#capacity);
  }

  #tellOther(): void {
    if (this.#alone || this.#names < MANY_NAMES) return;
    this.#worker ??= this.#start();
    const added = this.#sights.slice(this.#told).map((sight, i) => [this.#told + i, sight] as const);
    this.#told = this.#sights.length;
    this.#worker?.postMessage({ buffer: this.#buffer, capacity: this.#capacity, added } satisfies Go);
  }

  /** Only from the build: sources have no file for it. */
  #start(): Worker | null {
    this.#told = 0;
    if (import.meta.url.endsWith('.ts')) return null;
    try {
      const worker = new Worker(new URL('./glance-worker.js', import.meta.url), {
        name: 'takeback-glance',
        execArgv: [],
      });
      worker.unref();
      worker.on('error', () => this.close());
      return worker;
    } catch {
      this.#alone = true;
      return null;
    }
  }

  /** What is inside may still write verdicts. One that is outside finds nothing left to take. */
  #waitForOther(): void {
    const { control } = this.#board;
    if (Atomics.load(control, Slot.inside) === 0) return;
    if (Atomics.wait(control, Slot.inside, 1, PATIENCE_MS) !== 'timed-out') return;
    this.close();
    this.#capacity = 0;
    this.#grow();
    this.#fresh = false;
  }
}
