/**
 * Questions to the timeline: what a turn, a call or a span changed, and its patch. Nothing is written but the look that
 * a diff against the files of now needs.
 */
import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import type { DiffResult, FileCounts, TimelineItem } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { attribute } from '../model/attribution.ts';
import { countChanges, publicChange } from '../model/changes.ts';
import { adoptCalls } from '../model/lineage.ts';
import { largePatch, type PatchSide, type PathPatch, patchOf } from '../model/patch.ts';
import type { AttributedRow, PathChange, Window } from '../model/types.ts';
import type { Ancestor, BoundaryRecord, CallRecord, OperationRecord, SessionRecord } from '../timeline/timeline.ts';
import type { ChangeSummary, Version } from '../types.ts';
import type { Engine } from './engine.ts';
import { isKept } from './export.ts';
import { foldedChanges, foldedChangesBack } from './moves.ts';
import { observe } from './observe.ts';
import { decodePosition, encodePosition } from './position.ts';
import { attributionInput } from './rows.ts';

/** From one position to another, or to the files now. A later `from` gives the way back. */
export async function diffPositions(engine: Engine, from: string, to: string | undefined): Promise<DiffResult> {
  const start = decodePosition(from, engine.timeline.storeId);
  let end: number;
  if (to === undefined) end = (await observe(engine, { kind: 'look', durable: false })).seq;
  else {
    end = decodePosition(to, engine.timeline.storeId);
    await engine.catchUp();
  }
  await refuseUnkept(engine, [start, end]);
  const rows = await engine.timeline.rows(Math.min(start, end), Math.max(start, end));
  return patchFor(engine, await (start <= end ? foldedChanges(engine, rows) : foldedChangesBack(engine, rows)));
}

async function refuseUnkept(engine: Engine, seqs: readonly number[]): Promise<void> {
  for (const seq of seqs) {
    if (!(await isKept(engine, seq)))
      throw new TakebackError('ERR_INVALID_ARGUMENT', `what stood at position ${seq} is not kept any more`);
  }
}

/** The git-format patch of changes, with its counts. */
export async function patchFor(engine: Engine, changes: readonly PathChange[]): Promise<DiffResult> {
  const parts: Buffer[] = [];
  let linesAdded = 0;
  let linesDeleted = 0;
  for (const change of changes) {
    const patch = await pathPatch(engine, change);
    if (patch === null) continue;
    parts.push(patch.bytes);
    linesAdded += patch.added;
    linesDeleted += patch.deleted;
  }
  const patchBytes = Buffer.concat(parts);
  return {
    files: changes.map(publicChange),
    patch: patchBytes.toString('utf8'),
    patchBytes,
    stats: { files: changes.length, linesAdded, linesDeleted },
  };
}

/** Larger files are said to differ, and not read: both sides would be in memory as a whole. */
const COMPARED_BYTES = 64 * 1024 * 1024;

/** The patch of one change, or null where git's format has none. */
export async function pathPatch(engine: Engine, change: PathChange): Promise<PathPatch | null> {
  const isLarge = (version: Version): boolean => version.kind === 'file' && version.size > COMPARED_BYTES;
  if (isLarge(change.before) || isLarge(change.after)) return largePatch(change);
  const [before, after] = await Promise.all([sideOf(engine, change.before), sideOf(engine, change.after)]);
  const binary = { deflate: (bytes: Uint8Array) => deflateSync(bytes), blobId };
  return patchOf(change.path, before, after, { binary, from: change.from });
}

async function sideOf(engine: Engine, version: Version): Promise<PatchSide> {
  return version.kind === 'file' ? { version, bytes: await engine.blobs.read(version.content) } : { version };
}

/** The name that git gives a blob. */
function blobId(bytes: Uint8Array): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}

/** What a session's calls changed in one turn. */
export async function turnChanges(
  engine: Engine,
  session: SessionRecord,
  boundary: BoundaryRecord,
): Promise<ChangeSummary[]> {
  const next = await engine.timeline.nextBoundary(session.id, boundary.seq);
  const rows = await ownRows(engine, session, { afterSeq: boundary.seq, toSeq: next?.seq ?? null });
  return (await foldedChanges(engine, rows)).map(publicChange);
}

/** What one run of a call of the session's changed, also where calls beside it may have made it. */
export async function callChanges(engine: Engine, session: SessionRecord, call: CallRecord): Promise<ChangeSummary[]> {
  await engine.catchUp();
  const rows = await ownRows(engine, session, { afterSeq: call.beginSeq, toSeq: call.endSeq });
  const own = rows.filter((row) => row.candidates.includes(call.invocation));
  return (await foldedChanges(engine, own)).map(publicChange);
}

async function ownRows(engine: Engine, session: SessionRecord, { afterSeq, toSeq }: Window): Promise<AttributedRow[]> {
  const rows = attribute(
    await attributionInput(engine, session.id, { afterSeq, ...(toSeq === null ? {} : { toSeq }) }),
  );
  return rows.filter((row) => row.operation === undefined && (row.owner === 'own' || row.owner === 'contested'));
}

/** Lines are counted for lists only where that stays cheap: files of at most this many bytes, this many files a turn. */
const COUNTED_BYTES = 256 * 1024;
const COUNTED_FILES = 200;

async function countsOf(engine: Engine, rows: readonly AttributedRow[], lines: boolean): Promise<FileCounts> {
  const changes = await foldedChanges(engine, rows);
  const files = countChanges(changes);
  if (!lines) return files;
  const small = ({ before, after }: PathChange): boolean =>
    [before, after].every((v) => v.kind !== 'file' || v.size <= COUNTED_BYTES);
  if (changes.length > COUNTED_FILES || !changes.every(small)) return files;
  const { stats } = await patchFor(engine, changes);
  return { ...files, linesAdded: stats.linesAdded, linesDeleted: stats.linesDeleted };
}

/**
 * The newest turns of a session with their calls and operations, oldest first.
 *
 * @param options.limit turns; `before` is the position of a boundary: only what came before it; `lines`: count them
 */
export async function timelineItems(
  engine: Engine,
  session: SessionRecord | null,
  options: { limit: number; before: string | undefined; lines: boolean },
): Promise<TimelineItem[]> {
  if (session === null) return [];
  const { timeline } = engine;
  await engine.catchUp();
  const beforeSeq = options.before === undefined ? undefined : decodePosition(options.before, timeline.storeId);
  const page = await timeline.boundaries(session.id, {
    limit: options.limit,
    ...(beforeSeq === undefined ? {} : { beforeSeq }),
  });
  const lineage = await timeline.lineage(session.id);
  const items: { seq: number; item: TimelineItem }[] = [];
  for (const boundary of page) {
    const next = await timeline.nextBoundary(session.id, boundary.seq);
    const window: Window = { afterSeq: boundary.seq, toSeq: next?.seq ?? null };
    items.push(...(await turnItems(engine, { session, lineage, boundary, window, lines: options.lines })));
  }
  return items.sort((a, b) => a.seq - b.seq).map(({ item }) => item);
}

interface TurnOf {
  readonly session: SessionRecord;
  readonly lineage: readonly Ancestor[];
  readonly boundary: BoundaryRecord;
  readonly window: Window;
  readonly lines: boolean;
}

async function turnItems(
  engine: Engine,
  { session, lineage, boundary, window, lines }: TurnOf,
): Promise<{ seq: number; item: TimelineItem }[]> {
  const { timeline } = engine;
  const rows = await ownRows(engine, session, window);
  const end = window.toSeq ?? Number.MAX_SAFE_INTEGER;
  const calls = adoptCalls(await timeline.callsBetween(boundary.seq, end), session.id, lineage).filter(
    (c) => c.session === session.id && c.beginSeq >= boundary.seq,
  );
  const operations = (await timeline.operations(session.id, { afterSeq: boundary.seq })).filter((o) => o.seq <= end);
  const out = [{ seq: boundary.seq, item: await boundaryItem(engine, boundary, await countsOf(engine, rows, lines)) }];
  for (const call of calls)
    out.push({ seq: call.beginSeq, item: callItem(call, await countsOf(engine, madeBy(call, rows), lines)) });
  for (const operation of operations) out.push({ seq: operation.seq, item: operationItem(operation) });
  return out;
}

async function boundaryItem(engine: Engine, boundary: BoundaryRecord, files: FileCounts): Promise<TimelineItem> {
  return {
    type: 'boundary',
    boundaryId: boundary.boundaryId,
    position: encodePosition(engine.timeline.storeId, boundary.seq),
    ...(boundary.label === null ? {} : { label: boundary.label }),
    at: boundary.createdAt,
    files,
    undone: boundary.undoneBy !== null,
    reverted: boundary.undoneBy !== null && (await engine.timeline.operation(boundary.undoneBy))?.kind === 'revert',
  };
}

function madeBy(call: CallRecord, rows: readonly AttributedRow[]): AttributedRow[] {
  return rows.filter((row) => row.candidates.includes(call.invocation));
}

function callItem(call: CallRecord, files: FileCounts): TimelineItem {
  return {
    type: 'call',
    callId: call.callId,
    invocation: call.invocation,
    ...(call.tool === null ? {} : { tool: call.tool }),
    ...(call.stepId === null ? {} : { stepId: call.stepId }),
    at: call.beganAt,
    state: call.state,
    isError: call.isError,
    ...(call.sideEffect === null ? {} : { sideEffect: call.sideEffect }),
    files,
  };
}

function operationItem(operation: OperationRecord): TimelineItem {
  return {
    type: 'operation',
    operationId: operation.id,
    kind: operation.kind,
    boundaryId: operation.boundaryId,
    at: operation.createdAt,
    outcome: operation.receipt.outcome,
    restored: operation.receipt.restored.length,
    standing: operation.takesBack === null && operation.redoneBy === null,
  };
}
