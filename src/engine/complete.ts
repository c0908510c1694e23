/**
 * Records operations whose process died, once recovery completed their files: from what was written down before (`intent.ts`)
 * and from what is on disk now. Under the lock, with the index at hand.
 *
 * What is on disk as the plan wanted it counts as done; an operation of which nothing is there is not recorded. The
 * receipt is the operation's own, with a note that says how it came about.
 */
import { applyEntries } from '../model/plan.ts';
import { buildReceipt } from '../model/receipt.ts';
import type { RandomId } from '../types.ts';
import type { Engine } from './engine.ts';
import { dropIntent, readIntent } from './intent.ts';
import { land } from './landing.ts';
import { outcomesOnDisk } from './outcomes.ts';

const NOTE = 'recovered: the process died in the middle of it, and it was completed later.';

/** Answers whether anything was recorded. The intent is gone then, or had no use. */
export async function recordCompleted(engine: Engine, operationId: RandomId): Promise<boolean> {
  const intent = await readIntent(engine, operationId);
  if (intent === null) {
    engine.options.logger?.warn('an operation was not recorded: what was written down of it is damaged', {
      operationId,
    });
    await dropIntent(engine, operationId);
    return false;
  }
  const { landing, plan, irreversible, notes } = intent;
  await engine.catchUp();
  const outcomes = await outcomesOnDisk(engine, applyEntries(plan));
  const touched = outcomes.filter(({ status }) => status === 'done').map(({ path }) => path);
  if (touched.length > 0) {
    const settled = buildReceipt({
      ...{ operationId, boundaryId: landing.boundaryId, plan, outcomes, irreversible },
      notes: [...notes, NOTE],
    });
    await land(engine, landing, { settled, touched });
  }
  await dropIntent(engine, operationId);
  return touched.length > 0;
}
