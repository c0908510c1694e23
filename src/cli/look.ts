/**
 * Commands that look: `log`, `show`, `status`, `diff`, `plan`, `export`. They change nothing in the tree.
 */
import { resolve } from 'node:path';
import type { DiffResult, FileCounts, Session, TimelineItem } from '../api.ts';
import type { ChangeSummary, Plan } from '../types.ts';
import { changeLines, changeTotal, planLines } from './changes.ts';
import { type Context, NotAvailable, need, UsageError } from './context.ts';
import { Exit } from './host.ts';
import { hunkPlanLines } from './hunks.ts';
import type { Screen } from './screen.ts';
import { count, localTime, oneLine, printable, table } from './text.ts';

export type Boundary = Extract<TimelineItem, { type: 'boundary' }>;

/** The tool of calls that `run` makes. */
export const RUN_TOOL = 'takeback run';

/** Turns that one question to the timeline asks for. */
const PAGE = 50;

/** The newest turns of the session with their calls and operations, oldest first. `lines`: with counts of lines, for people. */
export async function items(session: Session, limit: number, lines = false): Promise<readonly TimelineItem[]> {
  return need(await session.timeline({ limit, lines })).items;
}

export function boundariesOf(list: readonly TimelineItem[]): Boundary[] {
  return list.filter((item) => item.type === 'boundary');
}

/** Every boundary of the session, newest first, asked for page by page. */
async function* boundaries(session: Session): AsyncGenerator<Boundary> {
  let before: string | undefined;
  for (;;) {
    const page = need(
      await session.timeline({ limit: PAGE, lines: false, ...(before === undefined ? {} : { before }) }),
    );
    const found = boundariesOf(page.items);
    yield* [...found].reverse();
    before = found[0]?.position;
    if (found.length < PAGE || before === undefined) return;
  }
}

export function files(counts: FileCounts): number {
  return counts.created + counts.modified + counts.deleted;
}

/** The boundary that the session made last. */
export async function newest(session: Session): Promise<Boundary> {
  const boundary = boundariesOf(await items(session, 1)).at(-1);
  if (boundary !== undefined) return boundary;
  throw new NotAvailable({
    available: false,
    reason: 'no-checkpoint',
    detail: `Session ${oneLine(session.threadId)} has no boundary yet.`,
  });
}

function countsText(counts: FileCounts): string {
  const lines = counts.linesAdded === undefined ? '' : ` (+${counts.linesAdded} -${counts.linesDeleted ?? 0} lines)`;
  return `${count(files(counts), 'file')}${lines}`;
}

function markOf({ undone, reverted }: Boundary): string {
  return reverted ? 'reverted' : undone ? 'undone' : '';
}

function markText(boundary: Boundary): string {
  const mark = markOf(boundary);
  return mark === '' ? '' : ` (${mark})`;
}

function itemRow(item: TimelineItem): string[] {
  switch (item.type) {
    case 'boundary': {
      const mark = markOf(item);
      return [oneLine(item.boundaryId), localTime(item.at), countsText(item.files), mark, oneLine(item.label ?? '')];
    }
    case 'call': {
      const state = item.isError ? `${item.state}, failed` : item.state;
      const name = item.tool === undefined ? item.callId : `${item.callId} (${item.tool})`;
      return [`  call ${oneLine(name)}`, localTime(item.at), countsText(item.files), state, ''];
    }
    case 'operation': {
      const isTaking = item.kind !== 'redo' && item.kind !== 'unrevert';
      const mark = isTaking && !item.standing ? `${item.outcome}, taken back` : item.outcome;
      return [
        `  ${item.kind}`,
        localTime(item.at),
        `${count(item.restored, 'file')} restored`,
        mark,
        oneLine(item.boundaryId),
      ];
    }
  }
}

/** `log`: turns, newest last. */
export async function log(context: Context, flags: { limit: number; calls?: boolean }): Promise<number> {
  const { screen } = context;
  const session = await context.session('read', 'newest');
  const all = await items(session, flags.limit, true);
  const shown = flags.calls === true ? all : all.filter((item) => item.type !== 'call');
  screen.object({ available: true, items: shown });
  if (shown.length === 0) screen.line(`Session ${oneLine(session.threadId)} has no turns yet.`);
  else screen.lines(table([['BOUNDARY', 'STARTED', 'CHANGED', 'STATE', 'LABEL'], ...shown.map(itemRow)]));
  if (boundariesOf(all).length === flags.limit) screen.line(`The newest ${flags.limit} turns are shown (--limit).`);
  return Exit.done;
}

/** The patch for JSON: bytes too where the text can't hold them. */
function patchFields(diff: DiffResult): { patch: string; patchBase64?: string } {
  const bytes = Buffer.from(diff.patchBytes);
  if (bytes.equals(Buffer.from(diff.patch, 'utf8'))) return { patch: diff.patch };
  return { patch: diff.patch, patchBase64: bytes.toString('base64') };
}

function patchStyle(line: string): Parameters<Screen['style']>[0] | undefined {
  if (line.startsWith('diff --git ')) return 'bold';
  if (line.startsWith('@@')) return 'cyan';
  if (line.startsWith('+')) return 'green';
  return line.startsWith('-') ? 'red' : undefined;
}

/** A terminal gets the patch without control characters; a pipe or a file gets its very bytes. */
function printPatch(screen: Screen, diff: DiffResult): void {
  if (!screen.terminal) {
    screen.bytes(diff.patchBytes);
    return;
  }
  for (const line of diff.patch.replace(/\n$/, '').split('\n')) {
    const safe = line.split('\t').map(oneLine).join('\t');
    const style = patchStyle(line);
    screen.line(style === undefined ? safe : screen.style(style, safe));
  }
}

/** `show [boundary]`: what the session's turn changed, and the patch from its boundary to the next. */
export async function show(context: Context, boundaryId: string | undefined): Promise<number> {
  const { screen } = context;
  const session = await context.session('read', 'newest');
  const id = boundaryId ?? (await newest(session)).boundaryId;
  const { changes } = need(await session.turnChanges(id));
  const { boundary: from, next } = await findTurn(session, id);
  const diff = need(await session.diff(from.position, next?.position));
  screen.object({
    available: true,
    boundaryId: id,
    undone: from.undone,
    changes,
    files: diff.files,
    ...patchFields(diff),
  });
  screen.line(`Turn ${screen.style('bold', oneLine(id))}${markText(from)}: ${changeTotal(changes)}`);
  screen.lines(changeLines(screen, changes));
  if (diff.files.length > 0) {
    screen.line(`From this boundary ${next === undefined ? 'to the files now' : 'to the next'}, whoever changed it:`);
    printPatch(screen, diff);
  }
  return Exit.done;
}

/** A boundary of the session and the one after it. */
async function findTurn(session: Session, id: string): Promise<{ boundary: Boundary; next: Boundary | undefined }> {
  let next: Boundary | undefined;
  for await (const boundary of boundaries(session)) {
    if (boundary.boundaryId === id) return { boundary, next };
    next = boundary;
  }
  const detail = `The session holds no boundary ${JSON.stringify(id)}.`;
  throw new NotAvailable({ available: false, reason: 'unknown-boundary', detail });
}

/**
 * The turn that the `nth` undo from now (counted from 1) would take back, or the oldest one there is, and the plan back to
 * its boundary; null where nothing is to be undone.
 */
export async function nextUndo(session: Session, nth = 1): Promise<{ boundaryId: string; plan: Plan } | null> {
  let boundaryId: string | undefined;
  let left = nth;
  for await (const boundary of boundaries(session)) {
    if (boundary.undone || files(boundary.files) === 0) continue;
    boundaryId = boundary.boundaryId;
    left -= 1;
    if (left === 0) break;
  }
  if (boundaryId === undefined) return null;
  return { boundaryId, plan: need(await session.plan(boundaryId)) };
}

/** Calls of the newest turn that are open, but for those of a `run` in another process, which ends its own. */
export async function openCalls(session: Session): Promise<string[]> {
  const list = await items(session, 1);
  return list.flatMap((item) =>
    item.type === 'call' && item.state === 'open' && item.tool !== RUN_TOOL ? [item.callId] : [],
  );
}

/** `status`: what the newest turn changed, open calls, and what `undo` would do. */
export async function status(context: Context): Promise<number> {
  const { screen } = context;
  const session = await context.session('read', 'newest');
  const boundary = await newest(session);
  const { changes } = need(await session.turnChanges(boundary.boundaryId));
  const open = await openCalls(session);
  const next = await nextUndo(session);
  screen.object({
    available: true,
    root: context.root,
    threadId: session.threadId,
    newest: { boundaryId: boundary.boundaryId, at: boundary.at, undone: boundary.undone, changes },
    openCalls: open,
    undo: next === null ? null : { boundaryId: next.boundaryId, plan: next.plan },
  });
  screen.line(`Root ${oneLine(context.root)}, session ${oneLine(session.threadId)}`);
  printNewest(screen, boundary, changes);
  if (open.length > 0) screen.line(`Open calls: ${open.map(oneLine).join(', ')}`);
  if (next === null) screen.line('Nothing to undo.');
  else {
    screen.line(`\`takeback undo\` would take back turn ${oneLine(next.boundaryId)}.`);
    screen.lines(planLines(screen, next.plan));
  }
  return Exit.done;
}

function printNewest(screen: Screen, boundary: Boundary, changes: readonly ChangeSummary[]): void {
  const id = screen.style('bold', oneLine(boundary.boundaryId));
  screen.line(`Newest turn ${id}${markText(boundary)}: ${changeTotal(changes)}`);
  screen.lines(changeLines(screen, changes));
}

/** `diff [from] [to]`: boundaries or positions; from the newest boundary, to the files now. */
export async function diff(context: Context, from: string | undefined, to: string | undefined): Promise<number> {
  const { screen } = context;
  const session = await context.session('read', 'newest');
  const start = from === undefined ? (await newest(session)).position : await positionOf(session, from);
  const end = to === undefined ? undefined : await positionOf(session, to);
  const result = need(await session.diff(start, end));
  const { files: changed, stats } = result;
  screen.object({ available: true, files: changed, stats, ...patchFields(result) });
  printPatch(screen, result);
  if (screen.terminal) {
    screen.line(`${changeTotal(changed)} +${stats.linesAdded} -${stats.linesDeleted} lines`);
  }
  return Exit.done;
}

/** The position of a boundary; what is no boundary of the session must have the form of a position. */
async function positionOf(session: Session, id: string): Promise<string> {
  for await (const boundary of boundaries(session)) {
    if (boundary.boundaryId === id) return boundary.position;
  }
  if (/^tb1-/.test(id)) return id;
  throw new NotAvailable({
    available: false,
    reason: 'unknown-boundary',
    detail: `the session has no boundary of that id, and it is no position: ${JSON.stringify(id)}`,
  });
}

/** `export boundary dir`: the covered tree as of a boundary (or position), into an empty folder outside the root. */
export async function exportTo(context: Context, boundaryId: string, folder: string): Promise<number> {
  if (folder === '') throw new UsageError('The folder is empty. Give a folder outside the root.');
  const session = await context.session('read', 'newest');
  const workspace = await context.workspace('read');
  const target = resolve(context.host.cwd, folder);
  const result = need(await workspace.export(await positionOf(session, boundaryId), target));
  context.screen.object({ ...result, target });
  context.screen.line(`Wrote ${count(result.files, 'file')} to ${printable(target)}.`);
  for (const { path, reason } of result.uncovered) context.screen.line(`  not covered: ${printable(path)} (${reason})`);
  for (const { path, reason, detail } of result.failed)
    context.screen.line(`  failed: ${printable(path)} (${reason}: ${oneLine(detail)})`);
  return result.failed.length > 0 ? Exit.partial : Exit.done;
}

/** `plan boundary [paths…]`: what `restore` would do; with `--hunks`, the hunks that it takes. */
export async function plan(
  context: Context,
  boundaryId: string,
  { paths, hunks }: { paths: readonly string[]; hunks: boolean },
): Promise<number> {
  const { screen } = context;
  const session = await context.session('read', 'newest');
  const result = need(await session.plan(boundaryId, { ...planOptions(context, paths), ...(hunks ? { hunks } : {}) }));
  screen.object(result);
  screen.lines(hunks ? hunkPlanLines(screen, result) : planLines(screen, result));
  return Exit.done;
}

/** Options of `plan` and `restore` from the command line. */
export function planOptions(context: Context, paths: readonly string[]): { paths?: string[] } {
  if (paths.some((path) => path === '')) throw new UsageError('A path is empty. Give a path inside the root.');
  return paths.length === 0 ? {} : { paths: paths.map((path) => context.path(path)) };
}
