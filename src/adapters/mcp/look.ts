/** The tools that look: sessions, turns, what a turn or a call changed, diffs, plans. They write nothing into the folder. */
import type { z } from 'zod';
import type { FileCounts, Session, TimelineItem } from '../../api.ts';
import type { ChangeSummary, Plan, PlanEntry, PublicVersion, ReceiptEntry } from '../../types.ts';
import { cutText, type Found, need, type Page, page, quoted, rest, ToolFault, time } from './answers.ts';
import { type Chosen, newestFirst, openWorkspaceOf, sessionOf } from './session.ts';
import type { diffInput, planInput, sessionsInput, showInput, turnsInput } from './shapes.ts';

type Boundary = Extract<TimelineItem, { type: 'boundary' }>;
type Input<S extends z.ZodType> = z.output<S>;

/** Leaves out what is undefined: `exactOptionalPropertyTypes`, and shorter answers. */
export function given<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as never;
}

export async function sessions(chosen: Chosen, input: Input<typeof sessionsInput>): Promise<Found> {
  const workspace = await openWorkspaceOf(chosen);
  const list = [...need(await workspace.sessions()).sessions].sort(newestFirst);
  const part = page(list, input.offset ?? 0, chosen.maxEntries);
  const told = part.items.map((info) => ({
    session: info.threadId,
    ...given({ tenant: info.tenantId }),
    boundaries: info.boundaries,
    openCalls: info.openCalls,
    ...given({
      newestBoundaryId: info.newestBoundaryId,
      newestBoundaryAt: info.newestBoundaryAt === undefined ? undefined : time(info.newestBoundaryAt),
    }),
  }));
  const lines = told.map((one) => {
    const tenant = one.tenant === undefined ? '' : ` of tenant ${quoted(one.tenant)}`;
    const newest =
      one.newestBoundaryId === undefined ? '' : `, newest ${quoted(one.newestBoundaryId)} at ${one.newestBoundaryAt}`;
    return `${quoted(one.session)}${tenant}: ${one.boundaries} boundaries${newest}`;
  });
  const head = list.length === 0 ? ['No session was recorded for this folder yet.'] : ['Sessions, newest first:'];
  return { content: { sessions: told, ...counted(part) }, lines: [...head, ...lines, ...rest(part, 'sessions')] };
}

function counted({ total, nextOffset }: Page<unknown>): object {
  return { total, ...given({ nextOffset }) };
}

function countsText({ created, modified, deleted, linesAdded, linesDeleted }: FileCounts): string {
  const lines = linesAdded === undefined ? '' : `, +${linesAdded} -${linesDeleted ?? 0} lines`;
  return `${created} created, ${modified} modified, ${deleted} deleted${lines}`;
}

interface TurnTold {
  readonly boundary: Boundary;
  readonly calls: Extract<TimelineItem, { type: 'call' }>[];
  readonly operations: Extract<TimelineItem, { type: 'operation' }>[];
}

/** Calls and operations come after the boundary of their turn. */
function turnsOf(items: readonly TimelineItem[]): TurnTold[] {
  const turns: TurnTold[] = [];
  for (const item of items) {
    if (item.type === 'boundary') turns.push({ boundary: item, calls: [], operations: [] });
    else if (item.type === 'call') turns.at(-1)?.calls.push(item);
    else turns.at(-1)?.operations.push(item);
  }
  return turns;
}

const DEFAULT_TURNS = 20;

export async function turns(chosen: Chosen, input: Input<typeof turnsInput>): Promise<Found> {
  const { session, named } = await sessionOf(chosen, input);
  const limit = input.limit ?? DEFAULT_TURNS;
  // One more than asked for tells whether there are older ones.
  const { items } = need(await session.timeline({ limit: limit + 1, ...given({ before: input.before }) }));
  const all = turnsOf(items);
  const shown = all.slice(-limit);
  const before = all.length > limit ? shown[0]?.boundary.position : undefined;
  const told = shown.map((turn) => ({
    ...turnContent(turn),
    calls: input.calls === true ? turn.calls.map(callContent) : [],
  }));
  const head = shown.length === 0 ? 'no turns' : `${shown.length} turns, oldest first`;
  return {
    content: { ...named, turns: told, ...given({ before }) },
    lines: [
      `Session ${quoted(named.session)}: ${head}.`,
      ...shown.flatMap((turn) => turnLines(turn, input.calls === true)),
      ...(before === undefined ? [] : [`There are older turns: before ${quoted(before)}.`]),
    ],
  };
}

function turnContent({ boundary, operations }: TurnTold): object {
  const { boundaryId, position, label, at, files, undone, reverted } = boundary;
  return {
    ...given({ boundaryId, position, label, at: time(at), files, undone, reverted }),
    operations: operations.map(({ type: _, ...operation }) => ({ ...operation, at: time(operation.at) })),
  };
}

function callContent(call: TurnTold['calls'][number]): object {
  const { callId, tool, stepId, at, state, isError, files } = call;
  return given({ callId, tool, stepId, at: time(at), state, isError, files });
}

function turnLines({ boundary, calls, operations }: TurnTold, withCalls: boolean): string[] {
  const mark = boundary.reverted ? ' [reverted]' : boundary.undone ? ' [undone]' : '';
  const label = boundary.label === undefined ? '' : ` ${quoted(boundary.label)}`;
  return [
    `${quoted(boundary.boundaryId)} ${time(boundary.at)}${label}: ${countsText(boundary.files)}${mark}`,
    ...(withCalls ? calls : []).map((call) => {
      const failed = call.isError ? ', failed' : '';
      const tool = call.tool === undefined ? '' : ` of ${quoted(call.tool)}`;
      return `  call ${quoted(call.callId)}${tool} (${call.state}${failed}): ${countsText(call.files)}`;
    }),
    ...operations.map((operation) => {
      const standing = operation.standing ? '' : ', taken back';
      const of = `to ${quoted(operation.boundaryId)}`;
      return `  ${operation.kind} ${operation.operationId} ${of}: ${operation.outcome}, ${operation.restored} restored${standing}`;
    }),
  ];
}

/** Every boundary of the session, newest first, asked for page by page. */
async function* boundaries(session: Session): AsyncGenerator<Boundary> {
  let before: string | undefined;
  for (;;) {
    const { items } = need(await session.timeline({ limit: 100, lines: false, ...given({ before }) }));
    const found = items.filter((item) => item.type === 'boundary');
    yield* [...found].reverse();
    before = found[0]?.position;
    if (before === undefined) return;
  }
}

async function newestBoundary(session: Session): Promise<Boundary> {
  const { items } = need(await session.timeline({ limit: 1, lines: false }));
  const boundary = items.find((item) => item.type === 'boundary');
  if (boundary !== undefined) return boundary;
  throw new ToolFault('no-checkpoint', `Session ${quoted(session.threadId)} has no boundary yet.`);
}

export async function show(chosen: Chosen, input: Input<typeof showInput>): Promise<Found> {
  if (input.boundaryId !== undefined && input.callId !== undefined)
    throw new ToolFault('ERR_INVALID_ARGUMENT', 'callId: give either boundaryId or callId, not both');
  const { session, named } = await sessionOf(chosen, input);
  const boundaryId =
    input.callId !== undefined ? undefined : (input.boundaryId ?? (await newestBoundary(session)).boundaryId);
  const { changes } = need(
    boundaryId === undefined
      ? await session.callChanges(input.callId as string)
      : await session.turnChanges(boundaryId),
  );
  const part = page(changes, input.offset ?? 0, chosen.maxEntries);
  const what = boundaryId === undefined ? `Call ${quoted(input.callId as string)}` : `Turn ${quoted(boundaryId)}`;
  return {
    content: {
      ...named,
      ...given({ boundaryId, callId: input.callId }),
      changes: part.items.map(changeContent),
      ...counted(part),
    },
    lines: [
      `${what} of session ${quoted(named.session)} changed ${changes.length} paths.`,
      ...part.items.map(changeLine),
      ...rest(part, 'paths'),
    ],
  };
}

function versionContent(version: PublicVersion): object {
  switch (version.kind) {
    case 'file':
      return { kind: version.kind, size: version.size, mode: octal(version.mode) };
    case 'dir':
      return { kind: version.kind, mode: octal(version.mode) };
    case 'symlink':
      return { kind: version.kind, target: version.target };
    case 'special':
      return { kind: version.kind, reason: version.type };
    case 'uncovered':
      return { kind: version.kind, reason: version.reason };
    case 'absent':
      return { kind: version.kind };
  }
}

function octal(mode: number): string {
  return mode.toString(8).padStart(3, '0');
}

function changeContent({ path, kind, from, before, after, incomplete }: ChangeSummary): object {
  return given({ path, kind, from, before: versionContent(before), after: versionContent(after), incomplete });
}

function changeLine(change: ChangeSummary): string {
  const from = change.from === undefined ? '' : ` from ${quoted(change.from)}`;
  const bytes = change.after.kind === 'uncovered' ? ` (${change.after.reason}: bytes not kept)` : '';
  const incomplete = change.incomplete === true ? ' (not observed fully)' : '';
  return `${change.kind} ${quoted(change.path)}${from}${bytes}${incomplete}`;
}

export async function diff(chosen: Chosen, input: Input<typeof diffInput>): Promise<Found> {
  const { session, named } = await sessionOf(chosen, input);
  const from =
    input.from === undefined ? (await newestBoundary(session)).position : await positionOf(session, input.from);
  const to = input.to === undefined ? undefined : await positionOf(session, input.to);
  const { files, patch, stats } = need(await session.diff(from, to));
  const offset = input.offset ?? 0;
  const part = cutText(patch, offset, chosen.maxPatchChars);
  const listed = page(files, 0, chosen.maxEntries);
  const cut = part.text.length === patch.length ? [] : [cutNote({ ...part, offset, total: patch.length })];
  return {
    content: {
      ...named,
      stats,
      files: listed.items.map((file) => given({ path: file.path, kind: file.kind, from: file.from })),
      filesOmitted: files.length - listed.items.length,
      patch: part.text,
      patchChars: patch.length,
      ...given({ nextOffset: part.nextOffset }),
    },
    lines: [
      `${stats.files} paths differ, +${stats.linesAdded} -${stats.linesDeleted} lines, whoever changed them.`,
      ...cut,
      part.text,
    ],
  };
}

function cutNote({
  text,
  nextOffset,
  offset,
  total,
}: {
  text: string;
  nextOffset?: number;
  offset: number;
  total: number;
}): string {
  const more = nextOffset === undefined ? 'this is the last part' : `the rest: offset ${nextOffset}`;
  return `The patch is cut: characters ${offset} to ${offset + text.length} of ${total}; ${more}.`;
}

/** The position of a boundary; what is no boundary of the session is taken for a position. */
async function positionOf(session: Session, id: string): Promise<string> {
  for await (const boundary of boundaries(session)) {
    if (boundary.boundaryId === id) return boundary.position;
  }
  return id;
}

export async function plan(chosen: Chosen, input: Input<typeof planInput>, signal?: AbortSignal): Promise<Found> {
  const { boundaryId, paths, onConflict } = input;
  const { session, named } = await sessionOf(chosen, input);
  const result = need(await session.plan(boundaryId, given({ paths, onConflict, signal })));
  const part = page(result.entries, input.offset ?? 0, chosen.maxEntries);
  const keeps = result.entries.filter((entry) => entry.action === 'skip' || entry.action === 'refuse').length;
  const beside = aside(result, chosen.maxEntries);
  return {
    content: {
      ...named,
      boundaryId,
      planToken: result.token,
      writes: result.entries.length - keeps,
      keeps,
      entries: part.items.map(entryContent),
      ...counted(part),
      ...beside.content,
    },
    lines: [
      `Restore to ${quoted(boundaryId)} would write ${result.entries.length - keeps} paths and keep ${keeps}. planToken: ${result.token}`,
      ...part.items.map(entryLine),
      ...rest(part, 'entries'),
      ...beside.lines,
    ],
  };
}

export function entryContent(entry: ReceiptEntry): object {
  const { path, action, reason, movedFrom, movedTo, detail, note } = entry;
  return given({ path, action, reason, movedFrom, movedTo, detail, note });
}

export function entryLine(entry: PlanEntry | ReceiptEntry): string {
  const extra = [
    entry.reason,
    entry.movedFrom === undefined ? undefined : `moves from ${quoted(entry.movedFrom)}`,
    entry.movedTo === undefined ? undefined : `moves to ${quoted(entry.movedTo)}`,
    entry.detail === undefined ? undefined : quoted(entry.detail),
    'note' in entry ? entry.note : undefined,
  ].filter((text) => text !== undefined);
  return `${entry.action} ${quoted(entry.path)}${extra.length === 0 ? '' : ` (${extra.join('; ')})`}`;
}

/** What a plan or a receipt says beside its entries, bounded. */
export function aside(
  of: Pick<Plan, 'irreversible' | 'uncovered' | 'notes'>,
  max: number,
): { content: object; lines: string[] } {
  const irreversible = page(of.irreversible, 0, max);
  const uncovered = page(of.uncovered, 0, max);
  const more = [rest(irreversible, 'calls with effects outside'), rest(uncovered, 'uncovered paths')].flat();
  const notes = [...of.notes, ...more];
  return {
    content: {
      irreversible: irreversible.items.map(({ callId, sideEffect }) => ({ callId, sideEffect })),
      uncovered: uncovered.items,
      notes,
    },
    lines: [
      ...irreversible.items.map((call) => `not taken back: ${call.sideEffect} by call ${quoted(call.callId)}`),
      ...uncovered.items.map(({ path, reason }) => `not covered, left alone: ${quoted(path)} (${reason})`),
      ...notes.map((note) => `note: ${quoted(note)}`),
    ],
  };
}
