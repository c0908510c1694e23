/**
 * Commands that write to the tree: `undo`, `redo`, `restore`, `revert`, `unrevert`.
 *
 * On a terminal each first lists what it will touch and asks, unless `--yes`; elsewhere, and with `--json`, it runs.
 * `--dry-run` lists and stops. The engine decides again when it runs: a list is what was true when it was made, and
 * `restore` hands the plan's token over, so that nothing else than what was confirmed is done.
 */
import type { HistoryResult, Session } from '../api.ts';
import type { ChangeSummary, Plan, Result, WorkOptions } from '../types.ts';
import { changeLines, planLines, receiptExit, receiptLines } from './changes.ts';
import { type Context, NotAvailable, need, UsageError } from './context.ts';
import { Exit } from './host.ts';
import { boundariesOf, files, items, nextUndo, planOptions, turnOfStep } from './look.ts';
import { oneLine } from './text.ts';

function asks(context: Context): boolean {
  const { yes, json } = context.options;
  return context.host.interactive && yes !== true && json !== true;
}

async function confirmed(context: Context, question: string): Promise<boolean> {
  if (!asks(context) || (await context.host.confirm(question))) return true;
  context.screen.line('Nothing was changed.');
  return false;
}

/** Repeats undo or redo, and stops at the first that was not done whole. */
async function repeat(
  context: Context,
  times: number,
  step: (work: Required<WorkOptions>) => Promise<Result<HistoryResult>>,
): Promise<number> {
  const { screen } = context;
  const done: HistoryResult[] = [];
  while (done.length < times) {
    const result = need(await context.work(step));
    if (result.receipt === undefined && done.length > 0) break;
    done.push(result);
    screen.line(oneLine(result.message));
    if (result.receipt !== undefined) screen.lines(receiptLines(screen, result.receipt));
    if (result.receipt === undefined || receiptExit(result.receipt) !== Exit.done) break;
  }
  const last = done.at(-1);
  screen.object({
    available: true,
    message: last?.message,
    outcome: last?.outcome,
    operations: done.map((result) => result.receipt).filter((receipt) => receipt !== undefined),
  });
  if (last?.receipt === undefined) return Exit.failed;
  return receiptExit(last.receipt);
}

/** `undo [n]`, `undo --turn BOUNDARY` */
export async function undo(context: Context, times: number, flags: { turn?: string }): Promise<number> {
  const { turn } = flags;
  if (turn !== undefined && times !== 1) throw new UsageError('Give either a number of turns or --turn, not both.');
  const session = await context.session('read', 'newest');
  if (asks(context) || context.options.dryRun === true) {
    const go =
      turn === undefined ? await previewUndo(context, session, times) : await previewTurn(context, session, turn);
    if (!go) return context.options.dryRun === true ? Exit.done : Exit.failed;
  }
  return repeat(context, times, (work) =>
    session.undo({ ...work, ...(turn === undefined ? {} : { boundaryId: turn }) }),
  );
}

/** Lists, asks; true to go on. */
async function previewUndo(context: Context, session: Session, times: number): Promise<boolean> {
  const { screen, options } = context;
  const next = await nextUndo(session, times);
  if (options.dryRun === true) {
    screen.object({ available: true, dryRun: true, undo: next });
    screen.lines(next === null ? ['Nothing to undo.'] : planLines(screen, next.plan));
    return false;
  }
  if (next === null) return true;
  screen.lines(planLines(screen, next.plan));
  return confirmed(context, times === 1 ? 'Undo this turn?' : `Undo back to ${oneLine(next.boundaryId)}?`);
}

async function previewTurn(context: Context, session: Session, turn: string): Promise<boolean> {
  const { screen, options } = context;
  const { changes } = need(await session.turnChanges(turn));
  screen.line(`Turn ${oneLine(turn)} changed:`);
  screen.lines(changeLines(screen, changes));
  if (options.dryRun === true) {
    screen.object({ available: true, dryRun: true, boundaryId: turn, changes });
    return false;
  }
  return confirmed(context, 'Undo this turn?');
}

/** Redo is closed by the next capture, so what it takes back lies in the newest turns. */
const REDO_TURNS = 50;

/** `redo [n]` */
export async function redo(context: Context, times: number): Promise<number> {
  const { screen, options } = context;
  const session = await context.session('read', 'newest');
  if (asks(context) || options.dryRun === true) {
    const list = await items(session, REDO_TURNS);
    const standing = list.filter(
      (item) => item.type === 'operation' && (item.kind === 'undo' || item.kind === 'restore') && item.standing,
    );
    const next = standing.at(-Math.min(times, standing.length));
    if (options.dryRun === true) {
      screen.object({ available: true, dryRun: true, redo: next ?? null });
    }
    if (next?.type !== 'operation') screen.line('Nothing to redo.');
    else {
      const turns = boundariesOf(list).filter((item) => item.boundaryId === next.boundaryId && files(item.files) > 0);
      screen.line(`Redo takes back: ${next.kind} of ${oneLine(next.boundaryId)}, ${next.restored} restored.`);
      for (const turn of turns)
        screen.lines(changeLines(screen, need(await session.turnChanges(turn.boundaryId)).changes));
    }
    if (options.dryRun === true) return Exit.done;
    if (next !== undefined && !(await confirmed(context, 'Redo?'))) return Exit.failed;
  }
  return repeat(context, times, (work) => session.redo(work));
}

/** `restore boundary [paths…]` */
export async function restore(context: Context, boundaryId: string, paths: readonly string[]): Promise<number> {
  const { screen, options } = context;
  const session = await context.session('read', 'newest');
  const chosen = planOptions(context, paths);
  let planToken: string | undefined;
  if (asks(context) || options.dryRun === true) {
    const plan = need(await session.plan(boundaryId, chosen));
    screen.lines(planLines(screen, plan));
    if (options.dryRun === true) {
      screen.object(plan);
      return Exit.done;
    }
    if (!(await confirmed(context, `Restore to ${oneLine(boundaryId)}?`))) return Exit.failed;
    planToken = plan.token;
  }
  const receipt = need(
    await context.work((work) =>
      session.restore(boundaryId, { ...work, ...chosen, ...(planToken === undefined ? {} : { planToken }) }),
    ),
  );
  screen.object(receipt);
  screen.line(receipt.outcome === 'nothing' ? 'Nothing was restored.' : `Restored: ${receipt.restored.length}.`);
  screen.lines(receiptLines(screen, receipt));
  return receiptExit(receipt);
}

/** `revert message`: back to the files as they were when a message was complete. */
export async function revert(context: Context, messageId: string): Promise<number> {
  const { screen, options } = context;
  const session = await context.session('read', 'newest');
  if (asks(context) || options.dryRun === true) {
    const hidden = await previewRevert(context, session, messageId);
    if (options.dryRun === true) {
      screen.object({ available: true, dryRun: true, messageId, ...hidden });
      return Exit.done;
    }
    if (!(await confirmed(context, `Revert to ${oneLine(messageId)}?`))) return Exit.failed;
  }
  return repeat(context, 1, (work) => session.revert({ ...work, messageId }));
}

/** What the plan to a boundary says; for a step, what its turn and those after it changed. */
async function previewRevert(
  context: Context,
  session: Session,
  messageId: string,
): Promise<{ plan: Plan } | { turns: readonly { boundaryId: string; changes: readonly ChangeSummary[] }[] }> {
  const { screen } = context;
  const planned = await session.plan(messageId);
  if (planned.available) {
    screen.lines(planLines(screen, planned));
    return { plan: planned };
  }
  const from = planned.reason === 'unknown-boundary' ? await turnOfStep(session, messageId) : null;
  if (from === null) throw new NotAvailable(planned);
  const turns: { boundaryId: string; changes: readonly ChangeSummary[] }[] = [];
  for (const boundaryId of from) turns.push({ boundaryId, ...need(await session.turnChanges(boundaryId)) });
  screen.line(`Would take back what came after step ${oneLine(messageId)} in these turns:`);
  for (const { boundaryId, changes } of turns)
    screen.lines([`Turn ${oneLine(boundaryId)}:`, ...changeLines(screen, changes)]);
  return { turns };
}

/** `unrevert` */
export async function unrevert(context: Context): Promise<number> {
  const { screen, options } = context;
  const session = await context.session('read', 'newest');
  if (asks(context) || options.dryRun === true) {
    const list = await items(session, REDO_TURNS);
    const at = list.findLastIndex((item) => item.type === 'operation' && item.kind === 'revert' && item.standing);
    const found = at > list.findLastIndex((item) => item.type === 'boundary') ? list[at] : undefined;
    const next = found?.type === 'operation' ? found : null;
    if (options.dryRun === true) screen.object({ available: true, dryRun: true, unrevert: next });
    if (next === null) screen.line('Nothing to unrevert.');
    else screen.line(`Unrevert takes back: revert to ${oneLine(next.boundaryId)}, ${next.restored} restored.`);
    if (options.dryRun === true) return Exit.done;
    if (next !== null && !(await confirmed(context, 'Unrevert?'))) return Exit.failed;
  }
  return repeat(context, 1, (work) => session.unrevert(work));
}
