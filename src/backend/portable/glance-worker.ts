/** Entry of the portable scan's second thread: takes sights off a board until there are none, whenever it is told to. */
import { parentPort } from 'node:worker_threads';
import { boardOf, glance, type Sight, Slot } from './sight.ts';

/** What the scan's thread says: the board, and sights that came since the message before, by number. */
export interface Go {
  readonly buffer: SharedArrayBuffer;
  readonly capacity: number;
  readonly added: readonly (readonly [number, Sight])[];
}

const sights: (Sight | undefined)[] = [];

parentPort?.on('message', ({ buffer, capacity, added }: Go) => {
  for (const [id, sight] of added) sights[id] = sight;
  const board = boardOf(buffer, capacity);
  Atomics.store(board.control, Slot.inside, 1);
  try {
    glance(board, sights, () => undefined);
  } finally {
    Atomics.store(board.control, Slot.inside, 0);
    Atomics.notify(board.control, Slot.inside);
  }
});
