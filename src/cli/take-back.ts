/**
 * Commands that write to the tree: `undo`, `redo`, `restore`, `revert`, `unrevert`, `revert-turn`, `revert-call`.
 *
 * On a terminal each first lists what it will touch and asks, unless `--yes`; elsewhere, and with `--json`, it runs.
 * `--dry-run` lists and stops. The engine decides again when it runs; it gets the plan's token, so that nothing else than
 * what was confirmed is done. Several undos or redos at once are listed as a whole, and each is decided when it comes.
 */
import type { HistoryResult, Session, TimelineItem } from '../api.ts';
import type { RedoOptions } from '../schemas.ts';
import type { Plan, Receipt, Result, WorkOptions } from '../types.ts';
import { changeLines, planLines, receiptExit, receiptLines } from './changes.ts';
import { type Context, need, UsageError } from './context.ts';
import { Exit } from './host.ts';
import { hunkLines, hunkPlanLines, idsOf, type NumberedHunk, needHunks, numbered, pickHunks } from './hunks.ts';
import { boundariesOf, files, items, nextUndo, planOptions } from './look.ts';
import { count, oneLine } from './text.ts';

function asks(context: Context): boolean {
  const { yes, json } = context.options;
  return context.host.interactive && yes !== true && json !== true;
}

async function confirmed(context: Context, question: string): Promise<boolean> {
  if (!asks(context) || (await context.host.confirm(question))) return true;
  context.screen.line('Nothing was changed.');
  return false;
}

/** One operation of the history, or its plan. */
type Step = (options: RedoOptions) => Promise<Result<HistoryResult>>;

/** What is to be done: each part of a question and of an object. */
interface Asked {
  /** The key of its plan in the object of `--dry-run`. */
  readonly name: string;
  readonly question: string;
  /** More for that object. */
  readonly with?: object;
}

/** The plan, or null where nothing is to be done: the engine has said so then. */
async function planOf(context: Context, step: Step): Promise<Plan | null> {
  const planned = need(await context.work((work) => step({ ...work, dryRun: true })));
  if (planned.plan === undefined) context.screen.line(oneLine(planned.message));
  return planned.plan ?? null;
}

/** One operation: listed and confirmed where that is due, then done. */
async function once(context: Context, { name, question, with: more = {} }: Asked, step: Step): Promise<number> {
  const { screen, options } = context;
  let planToken: string | undefined;
  if (asks(context) || options.dryRun === true) {
    const plan = await planOf(context, step);
    if (plan !== null) screen.lines(planLines(screen, plan));
    if (options.dryRun === true) {
      const told = plan === null ? null : { boundaryId: plan.boundaryId, plan };
      screen.object({ available: true, dryRun: true, ...more, [name]: told });
      return Exit.done;
    }
    if (plan === null || !(await confirmed(context, question))) return Exit.failed;
    planToken = plan.token;
  }
  return repeat(context, 1, (work) => step({ ...work, ...(planToken === undefined ? {} : { planToken }) }));
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
    if (result.receipt === undefined && done.length > 0) {
      screen.line(`${oneLine(result.message)} ${done.length} of ${times} done.`);
      break;
    }
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
  const step: Step = (options) => session.undo({ ...options, ...(turn === undefined ? {} : { boundaryId: turn }) });
  if (times === 1) return once(context, { name: 'undo', question: 'Undo this turn?' }, step);
  if (asks(context) || context.options.dryRun === true) {
    const go = await previewUndos(context, { session, times, step });
    if (go !== 'go') return go;
  }
  return repeat(context, times, step);
}

interface Several {
  readonly session: Session;
  readonly times: number;
  readonly step: Step;
}

/** Lists, asks. */
async function previewUndos(context: Context, { session, times, step }: Several): Promise<number | 'go'> {
  const { screen, options } = context;
  const first = await planOf(context, step);
  const last = first === null ? null : await nextUndo(session, times);
  if (last !== null) screen.lines(planLines(screen, last.plan));
  if (options.dryRun === true) {
    screen.object({ available: true, dryRun: true, undo: last });
    return Exit.done;
  }
  if (last === null) return Exit.failed;
  return (await confirmed(context, `Undo back to ${oneLine(last.boundaryId)}?`)) ? 'go' : Exit.failed;
}

/** Redo is closed by the next capture, so what it takes back lies in the newest turns. */
const REDO_TURNS = 50;

/** `redo [n]` */
export async function redo(context: Context, times: number): Promise<number> {
  const session = await context.session('read', 'newest');
  const step: Step = (options) => session.redo(options);
  if (times === 1) return once(context, { name: 'redo', question: 'Redo?' }, step);
  if (asks(context) || context.options.dryRun === true) {
    const go = await previewRedos(context, { session, times, step });
    if (go !== 'go') return go;
  }
  return repeat(context, times, step);
}

type Operation = Extract<TimelineItem, { type: 'operation' }>;

async function previewRedos(context: Context, { session, times, step }: Several): Promise<number | 'go'> {
  const { screen, options } = context;
  const plan = await planOf(context, step);
  const list = plan === null ? [] : await items(session, REDO_TURNS);
  const operations = list
    .filter((item): item is Operation => item.type === 'operation' && item.standing)
    .filter(({ kind }) => kind === 'undo' || kind === 'restore')
    .slice(-times)
    .reverse();
  for (const { kind, boundaryId, restored } of operations) {
    screen.line(`Redo takes back: ${kind} of ${oneLine(boundaryId)}, ${count(restored, 'path')} restored.`);
    for (const turn of boundariesOf(list)) {
      if (turn.boundaryId !== boundaryId || files(turn.files) === 0) continue;
      screen.lines(changeLines(screen, need(await session.turnChanges(boundaryId)).changes));
    }
  }
  if (options.dryRun === true) {
    const told = plan === null ? null : { boundaryId: plan.boundaryId, plan, operations };
    screen.object({ available: true, dryRun: true, redo: told });
    return Exit.done;
  }
  if (plan === null) return Exit.failed;
  return (await confirmed(context, `Redo ${operations.length}?`)) ? 'go' : Exit.failed;
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
  const more = { ...chosen, ...(planToken === undefined ? {} : { planToken }) };
  return tell(context, await context.work((work) => session.restore(boundaryId, { ...work, ...more })));
}

function tell({ screen }: Context, result: Result<Receipt>): number {
  const receipt = need(result);
  screen.object(receipt);
  screen.line(receipt.outcome === 'nothing' ? 'Nothing was restored.' : `Restored: ${receipt.restored.length}.`);
  screen.lines(receiptLines(screen, receipt));
  return receiptExit(receipt);
}

/** `restore boundary [paths…] --hunks [numbers]`; `wanted` is empty where a person is to pick them. */
export async function restoreHunks(
  context: Context,
  boundaryId: string,
  { paths, wanted }: { paths: readonly string[]; wanted: readonly (string | number)[] },
): Promise<number> {
  const { screen, options } = context;
  const session = await context.session('read', 'newest');
  const chosen = planOptions(context, paths);
  const plan = need(await session.plan(boundaryId, { ...chosen, hunks: true }));
  // Ids say themselves what they fit; the engine refuses those that fit nothing, and says why.
  const lists = wanted.length === 0 ? options.dryRun === true : wanted.every((want) => typeof want === 'string');
  const all = lists ? numbered(plan) : needHunks(plan);
  if (options.dryRun === true) {
    const ids = idsOf(all, wanted);
    screen.lines(wanted.length === 0 ? hunkPlanLines(screen, plan) : chosenLines(context, all, ids));
    screen.object(wanted.length === 0 ? plan : { ...plan, hunks: ids });
    return Exit.done;
  }
  const ids = await chosenHunks(context, all, wanted);
  if (ids === null) return Exit.failed;
  const more = { ...chosen, hunks: ids, planToken: plan.token };
  return tell(context, await context.work((work) => session.restore(boundaryId, { ...work, ...more })));
}

async function chosenHunks(
  context: Context,
  all: readonly NumberedHunk[],
  wanted: readonly (string | number)[],
): Promise<string[] | null> {
  const { screen } = context;
  if (wanted.length === 0 && !asks(context)) {
    throw new UsageError('Give the numbers of the hunks, such as --hunks 1,3-4. --hunks --dry-run lists them.');
  }
  if (wanted.length === 0) {
    screen.lines(hunkLines(screen, all));
    const picked = await pickHunks(context, all);
    if (picked === null) screen.line('Nothing was changed.');
    return picked;
  }
  const ids = idsOf(all, wanted);
  if (!asks(context)) return ids;
  screen.lines(chosenLines(context, all, ids));
  return (await confirmed(context, `Restore ${count(ids.length, 'hunk')}?`)) ? ids : null;
}

function chosenLines({ screen }: Context, all: readonly NumberedHunk[], ids: readonly string[]): string[] {
  return hunkLines(
    screen,
    all.filter(({ hunk }) => ids.includes(hunk.id)),
  );
}

/** `revert message`: back to the files as they were when a message was complete. */
export async function revert(context: Context, messageId: string): Promise<number> {
  const session = await context.session('read', 'newest');
  const asked = { name: 'revert', question: `Revert to ${oneLine(messageId)}?`, with: { messageId } };
  return once(context, asked, (options) => session.revert({ ...options, messageId }));
}

/** `unrevert` */
export async function unrevert(context: Context): Promise<number> {
  const session = await context.session('read', 'newest');
  return once(context, { name: 'unrevert', question: 'Unrevert?' }, (options) => session.unrevert(options));
}

/** What the library merges without a policy is merged here too: the session's own policy is not handed on. */
function policy({ options: { onConflict } }: Context): Pick<RedoOptions, 'onConflict'> {
  return onConflict === undefined ? {} : { onConflict };
}

/** `revert-turn boundary`: takes back one turn and keeps what came later. */
export async function revertTurn(context: Context, boundaryId: string): Promise<number> {
  const session = await context.session('read', 'newest');
  const asked = { name: 'revertTurn', question: `Take turn ${oneLine(boundaryId)} back?` };
  return once(context, asked, (options) => session.revertTurn(boundaryId, { ...options, ...policy(context) }));
}

/** `revert-call call`: the same for the newest run of one call. */
export async function revertCall(context: Context, callId: string): Promise<number> {
  const session = await context.session('read', 'newest');
  const asked = { name: 'revertCall', question: `Take call ${oneLine(callId)} back?`, with: { callId } };
  return once(context, asked, (options) => session.revertCall(callId, { ...options, ...policy(context) }));
}
