/**
 * The tools that write: restore, undo, redo. Each names what was looked at before: a plan by its token, a turn, an operation.
 */
import type { z } from 'zod';
import type { HistoryResult, Session } from '../../api.ts';
import type { Receipt } from '../../types.ts';
import { type Found, need, page, quoted, ToolFault } from './answers.ts';
import { aside, entryContent, entryLine, given } from './look.ts';
import { type Chosen, sessionOf } from './session.ts';
import type { redoInput, restoreInput, undoInput } from './shapes.ts';

type Input<S extends z.ZodType> = z.output<S>;

const LISTS = ['restored', 'refused', 'skipped', 'failed'] as const;

export async function restore(chosen: Chosen, input: Input<typeof restoreInput>, signal?: AbortSignal): Promise<Found> {
  const { boundaryId, planToken, paths, onConflict } = input;
  const { session, named } = await sessionOf(chosen, input);
  const { available: _, ...receipt } = need(
    await session.restore(boundaryId, { planToken, ...given({ paths, onConflict, signal }) }),
  );
  const message =
    receipt.outcome === 'nothing' ? 'Nothing was restored.' : `Restored ${receipt.restored.length} paths.`;
  return operationFound({ chosen, named, result: { message, outcome: receipt.outcome, receipt } });
}

export async function undo(chosen: Chosen, input: Input<typeof undoInput>, signal?: AbortSignal): Promise<Found> {
  const { boundaryId, onConflict } = input;
  const { session, named } = await sessionOf(chosen, input);
  const { available: _, ...result } = need(await session.undo({ boundaryId, ...given({ onConflict, signal }) }));
  return operationFound({ chosen, named, result });
}

/**
 * Redo is of the newest operation, so it is refused where that is another one than the call names. Between that look and the
 * redo another process may undo more: then its undo comes back, which an undo takes back in turn.
 */
export async function redo(chosen: Chosen, input: Input<typeof redoInput>, signal?: AbortSignal): Promise<Found> {
  const { session, named } = await sessionOf(chosen, input);
  const newest = await newestStanding(session);
  if (newest !== undefined && newest !== input.operationId) {
    const detail = `Redo would bring back operation ${newest}, not ${quoted(input.operationId)}. takeback_turns lists them.`;
    throw new ToolFault('stale-plan', detail);
  }
  const { available: _, ...result } = need(await session.redo(given({ onConflict: input.onConflict, signal })));
  return operationFound({ chosen, named, result });
}

/** The newest undo or restore of the newest turn that stands and wrote something: what a redo takes back, if any. */
async function newestStanding(session: Session): Promise<string | undefined> {
  const { items } = need(await session.timeline({ limit: 1, lines: false }));
  const found = items.findLast(
    (item) =>
      item.type === 'operation' &&
      (item.kind === 'undo' || item.kind === 'restore') &&
      item.standing &&
      item.restored > 0,
  );
  return found?.type === 'operation' ? found.operationId : undefined;
}

interface Done {
  readonly chosen: Chosen;
  readonly named: { session: string; tenant?: string };
  readonly result: HistoryResult;
}

function operationFound({ chosen, named, result: { message, outcome, receipt } }: Done): Found {
  if (receipt === undefined) return { content: { ...named, message, outcome }, lines: [message] };
  const told = receiptFound(receipt, chosen.maxEntries);
  return { content: { ...named, message, outcome, receipt: told.content }, lines: [message, ...told.lines] };
}

function receiptFound(receipt: Receipt, max: number): Found {
  const parts = LISTS.map((name) => ({ name, part: page(receipt[name], 0, max) }));
  const beside = aside(receipt, max);
  const { operationId, boundaryId, outcome } = receipt;
  return {
    content: {
      operationId,
      boundaryId,
      outcome,
      ...Object.fromEntries(parts.map(({ name, part }) => [name, part.items.map(entryContent)])),
      omitted: Object.fromEntries(parts.map(({ name, part }) => [name, part.total - part.items.length])),
      ...beside.content,
    },
    lines: [
      `Operation ${operationId}, ${outcome}.`,
      ...parts.flatMap(({ name, part }) => [
        ...part.items.map((entry) => `${name}: ${entryLine(entry)}`),
        ...(part.total > part.items.length ? [`${part.total - part.items.length} more ${name}, not listed.`] : []),
      ]),
      ...beside.lines,
    ],
  };
}
