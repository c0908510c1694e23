/**
 * Plans: what an operation would do, path by path, from rows and what is on disk now (DESIGN §6). Pure; never writes.
 *
 * A restore and an undo go from facts (`facts.ts`) through the guard (`guard.ts`) and the folder rules (`folders.ts`);
 * a redo takes the same way with an operation's own rows as facts. What is to be merged is asked for by `mergeNeeds`, and
 * its answers come in with the input. Which entries are a move is found by `moves.ts`, which changes nothing of what is done.
 */
import type { ApplyEntry, Peek } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import { comparePaths, isWithin, parentOf } from '../rel-path.ts';
import { ABSENT, type PlanEntry, type RelPath, type Row, type UncoveredPath, type Version } from '../types.ts';
import { hexOfVersion } from '../wire.ts';
import { factsByPath, type PathFacts } from './facts.ts';
import { type Draft, type Drafts, foldersOf, isWrite, settleFolders } from './folders.ts';
import { decide, type GuardOptions, wantsMerge } from './guard.ts';
import type { Move } from './moves.ts';
import type { MergeNeed, ModelEntry, ModelPlan, RedoInput, RestoreInput, Run } from './types.ts';
import { describeChange, hashText } from './version.ts';

/** The paths that a plan of these rows must know on disk: owed ones, named ones, and the folders above them. */
export function peekPaths(input: Pick<RestoreInput, 'rows' | 'window' | 'facts' | 'paths'>): RelPath[] {
  const owed = [...factsOf(input).keys()].filter((path) => isNamed(path, input.paths));
  return withFolders([...owed, ...(input.paths ?? [])]);
}

function factsOf({
  facts,
  rows,
  window,
}: Pick<RestoreInput, 'rows' | 'window' | 'facts'>): ReadonlyMap<RelPath, PathFacts> {
  return facts ?? factsByPath(rows, window);
}

/** The same for a redo. */
export function redoPeekPaths(taken: RedoInput['taken']): RelPath[] {
  return withFolders(taken.filter((record) => record.returnedBy === null).map((record) => record.path));
}

function withFolders(paths: readonly RelPath[]): RelPath[] {
  const all = new Set<RelPath>();
  // What is in the set has all folders above it there.
  for (const path of paths) for (let at = path; at !== '' && !all.has(at); at = parentOf(at)) all.add(at);
  return [...all].sort(comparePaths);
}

/**
 * Plans to take back the owed rows in `input.rows`, those of a turn or all.
 *
 * @throws {TakebackError} `ERR_INTERNAL` where `disk` lacks an owed path
 */
export function planRestore(input: RestoreInput): ModelPlan {
  const facts = factsOf(input);
  const drafts = new Map<RelPath, Draft>();
  for (const [path, fact] of facts) {
    if (isNamed(path, input.paths)) drafts.set(path, draftOf(fact, input.disk, input));
  }
  addCarriers(drafts, facts, input);
  const entries = finish(drafts, input.disk);
  for (const path of new Set(input.paths)) {
    if (![...facts.keys()].some((owed) => isWithin(owed, path))) entries.push(notAttributed(path, input.disk));
  }
  return { entries: entries.sort((a, b) => comparePaths(a.path, b.path)) };
}

/** The merges that `planRestore` of this input wants, whatever answers it has. */
export function mergeNeeds(input: RestoreInput): MergeNeed[] {
  const asked = input.onConflict === 'merge' || input.keepLater === true;
  if (!asked && !input.rows.some((row) => row.standing)) return [];
  const facts = [...factsOf(input).values()].filter(({ path }) => isNamed(path, input.paths));
  return needsOf(facts, input.disk, input);
}

/** The same for `planRedo`. */
export function redoMergeNeeds(input: RedoInput): MergeNeed[] {
  return needsOf(allRedoFacts(input), input.disk, redoOptions(input));
}

function needsOf(facts: readonly PathFacts[], disk: ReadonlyMap<RelPath, Peek>, options: GuardOptions): MergeNeed[] {
  return facts.flatMap((fact): MergeNeed[] => {
    const peek = peekOf(fact.path, disk);
    if (!wantsMerge(fact, peek, options)) return [];
    return [{ path: fact.path, disk: peek.version, runs: [...fact.runs].reverse() }];
  });
}

/** Plans to give back what an operation took: its rows, backwards. */
export function planRedo(input: RedoInput): ModelPlan {
  const drafts = new Map<RelPath, Draft>();
  for (const facts of allRedoFacts(input)) drafts.set(facts.path, draftOf(facts, input.disk, redoOptions(input)));
  return { entries: finish(drafts, input.disk).sort((a, b) => comparePaths(a.path, b.path)) };
}

function redoOptions({ onConflict, merges, tried }: RedoInput): GuardOptions {
  return { onConflict, merges, tried, uncoveredInodes: new Set<bigint>() };
}

function allRedoFacts(input: RedoInput): PathFacts[] {
  const rows = new Map(input.rows.map((row) => [row.path, row]));
  const spans = new Map<RelPath, Span>();
  for (const { path, fromSeq, toSeq, returnedBy } of input.taken) {
    if (returnedBy !== null) continue;
    const known = spans.get(path) ?? { path, fromSeq, toSeq };
    spans.set(path, { path, fromSeq: Math.min(known.fromSeq, fromSeq), toSeq: Math.max(known.toSeq, toSeq) });
  }
  return [...spans.values()].map((span) => redoFacts(span, rows.get(span.path), peekOf(span.path, input.disk)));
}

type Span = Pick<RedoInput['taken'][number], 'path' | 'fromSeq' | 'toSeq'>;

/** A path that the operation found as it should be has no row: there is nothing to write, only to give back. */
function redoFacts(record: Span, row: Row | undefined, peek: Peek): PathFacts {
  const target = row?.before ?? peek.version;
  const last = row?.after ?? peek.version;
  const folder = [target, last].every((version) => version.kind === 'dir' || version.kind === 'absent');
  return {
    path: record.path,
    target,
    last,
    fromSeq: record.fromSeq,
    toSeq: record.toSeq,
    contested: false,
    incomplete: false,
    changedBetween: false,
    rebased: false,
    runs: [{ before: target, after: last, fromSeq: record.fromSeq, toSeq: record.toSeq }],
    sharedWindow: false,
    folder,
  };
}

function isNamed(path: RelPath, paths: readonly RelPath[] | undefined): boolean {
  return paths === undefined || paths.some((named) => isWithin(path, named));
}

function peekOf(path: RelPath, disk: ReadonlyMap<RelPath, Peek>): Peek {
  const peek = disk.get(path);
  if (peek === undefined) throw new TakebackError('ERR_INTERNAL', `a plan lacks what is on disk at ${path}`, { path });
  return peek;
}

function draftOf(facts: PathFacts, disk: ReadonlyMap<RelPath, Peek>, options: GuardOptions): Draft {
  const peek = peekOf(facts.path, disk);
  const { decision, merged, detail } = decide(facts, peek, options);
  return {
    facts: merged === undefined ? facts : { ...facts, target: merged },
    folder: parentOf(facts.path),
    peek,
    decision,
    carrier: false,
    ...(merged === undefined ? {} : { takes: facts.runs }),
    ...(detail === undefined ? {} : { detail }),
  };
}

/**
 * Owed folders above the named paths that weren't named themselves: made again where a named path needs them, removed
 * where the session made them and they end empty. Never overridden, and never another type than they are now.
 */
function addCarriers(drafts: Map<RelPath, Draft>, facts: ReadonlyMap<RelPath, PathFacts>, input: RestoreInput): void {
  // With no paths named, every owed folder is a draft.
  if (input.paths === undefined) return;
  for (const folder of foldersOf(drafts, () => true)) {
    const fact = facts.get(folder);
    if (fact === undefined || drafts.has(folder)) continue;
    const draft = draftOf(fact, input.disk, { ...input, onConflict: 'refuse', keepLater: false });
    const makes = draft.decision.action === 'recreate' && fact.target.kind === 'dir';
    const removes = draft.decision.action === 'delete' && draft.peek.version.kind === 'dir';
    if (makes || removes) drafts.set(folder, { ...draft, carrier: true });
  }
}

/** Applies the folder rules, drops carriers that carry nothing, and makes entries. */
function finish(drafts: Map<RelPath, Draft>, disk: ReadonlyMap<RelPath, Peek>): ModelEntry[] {
  settleFolders(drafts, disk);
  dropIdleCarriers(drafts);
  const folders = carryingFolders(drafts);
  return [...drafts.values()].map((draft) => entryOf(draft, folders));
}

function dropIdleCarriers(drafts: Map<RelPath, Draft>): void {
  const carriers = [...drafts].filter(([, draft]) => draft.carrier);
  if (carriers.length === 0) return;
  const written = foldersOf(drafts, (draft) => !draft.carrier && isWrite(draft));
  for (const [path, draft] of carriers) {
    const carries = draft.decision.action === 'delete' || (isWrite(draft) && written.has(path));
    if (!carries) drafts.delete(path);
  }
}

interface CarryingFolders {
  /** Something below them is, or will be, as it should be. */
  readonly settled: ReadonlySet<RelPath>;
  /** Something below them is written or removed. */
  readonly touched: ReadonlySet<RelPath>;
}

function carryingFolders(drafts: Drafts): CarryingFolders {
  return {
    settled: foldersOf(drafts, ({ decision }) => decision.action !== 'refuse' && decision.reason !== 'not-empty'),
    touched: foldersOf(drafts, (draft) => isWrite(draft) || draft.decision.action === 'delete'),
  };
}

function entryOf(draft: Draft, { settled, touched }: CarryingFolders): ModelEntry {
  const { facts, peek, decision } = draft;
  // A folder that comes or goes while all below it is as it should be already is told itself: nothing else tells of it.
  const carrying = isWrite(draft) || decision.action === 'delete' ? touched : settled;
  const disk = peek.version;
  const modeOnly = disk.kind === 'dir' && facts.target.kind === 'dir' && disk.mode !== facts.target.mode;
  const compared = decision.reason === 'changed-outside-session' ? facts.last : facts.target;
  const detail =
    draft.detail ??
    describeChange(...(compared === facts.last ? ([compared, disk] as const) : ([disk, compared] as const)));
  return {
    path: facts.path,
    ...decision,
    expect: disk,
    last: facts.last,
    target: facts.target,
    fromSeq: facts.fromSeq,
    toSeq: facts.toSeq,
    ...(draft.takes === undefined ? {} : { ranges: draft.takes.map(rangeOf) }),
    implicit: facts.folder && !modeOnly && carrying.has(facts.path),
    sharedWindow: facts.sharedWindow,
    ...(detail === undefined ? {} : { detail }),
    ...(isUnread(peek) ? { unread: true } : {}),
  };
}

function isUnread({ version, names }: Peek): boolean {
  if (version.kind === 'uncovered') return version.reason === 'unreadable';
  return version.kind === 'dir' && names === undefined;
}

function rangeOf({ fromSeq, toSeq }: Run): { fromSeq: number; toSeq: number } {
  return { fromSeq, toSeq };
}

/** A path that was named and isn't owed. */
export function notAttributed(path: RelPath, disk: ReadonlyMap<RelPath, Peek>): ModelEntry {
  const found = disk.get(path)?.version ?? ABSENT;
  return {
    path,
    action: 'skip',
    reason: 'not-attributed',
    expect: found,
    last: found,
    target: found,
    fromSeq: 0,
    toSeq: 0,
    implicit: false,
    sharedWindow: false,
  };
}

/** Names in both entries of a move the other end: in the direction in which the plan moves. */
export function linkMoves(plan: ModelPlan, moves: readonly Move[]): ModelPlan {
  if (moves.length === 0) return plan;
  const to = new Map(moves.map((move) => [move.from, move.to]));
  const from = new Map(moves.map((move) => [move.to, move.from]));
  return {
    entries: plan.entries.map((entry) => {
      const [movedFrom, movedTo] = [from.get(entry.path), to.get(entry.path)];
      if (movedFrom !== undefined) return { ...entry, movedFrom };
      return movedTo === undefined ? entry : { ...entry, movedTo };
    }),
  };
}

/** True for an entry that people don't see: a folder that comes or goes along with what it holds. */
export function isHidden(entry: ModelEntry): boolean {
  return entry.implicit && entry.action !== 'refuse' && entry.reason !== 'not-empty' && entry.overrides === undefined;
}

/** The entry as callers see it. */
export function publicEntry(entry: ModelEntry): PlanEntry {
  const details = [entry.detail, entry.sharedWindow ? 'shared-window' : undefined].filter((text) => text !== undefined);
  return {
    path: entry.path,
    action: entry.action,
    ...(entry.reason === undefined ? {} : { reason: entry.reason }),
    ...(entry.overrides === undefined ? {} : { overrides: entry.overrides }),
    ...(entry.reason === 'not-attributed'
      ? {}
      : { expectedHash: hashText(entry.last), foundHash: hashText(entry.expect) }),
    ...(entry.movedFrom === undefined ? {} : { movedFrom: entry.movedFrom }),
    ...(entry.movedTo === undefined ? {} : { movedTo: entry.movedTo }),
    ...(details.length === 0 ? {} : { detail: details.join('; ') }),
  };
}

export function publicPlan(plan: ModelPlan): PlanEntry[] {
  return plan.entries.filter((entry) => !isHidden(entry)).map(publicEntry);
}

/** Paths that the plan refuses because no bytes of them are kept, or can be made. */
export function planUncovered(plan: ModelPlan): UncoveredPath[] {
  return plan.entries.flatMap((entry): UncoveredPath[] => {
    if (entry.action !== 'refuse') return [];
    if (entry.reason === 'unsupported') return [{ path: entry.path, reason: 'special' }];
    if (entry.reason !== 'uncovered') return [];
    const version = [entry.target, entry.expect, entry.last].find((v) => v.kind === 'uncovered');
    return version === undefined ? [] : [{ path: entry.path, reason: version.reason }];
  });
}

/** What the backend is to do. */
export function applyEntries(plan: ModelPlan): ApplyEntry[] {
  return plan.entries
    .filter(({ action }) => action === 'restore' || action === 'recreate' || action === 'delete' || action === 'merge')
    .map(({ path, expect, target, overrides }) => ({
      path,
      expect,
      target,
      ...(overrides === undefined ? {} : { force: true }),
    }));
}

/**
 * The bytes whose hash is the plan's token: entries with the versions that they saw. Equal where the same thing would
 * be done to the same files, whatever other rows there are. Of texts, which no NUL is in, so that they can't run together;
 * in UTF-16, which tells names that aren't UTF-8 apart.
 */
export function tokenBytes(plan: ModelPlan): Uint8Array {
  const texts: string[] = [];
  for (const { path, action, reason = '', overrides = '', expect, last, target } of plan.entries) {
    texts.push(path, action, reason, overrides, tokenOf(expect), tokenOf(last), tokenOf(target));
  }
  return Buffer.from(texts.join('\0'), 'utf16le');
}

function tokenOf(version: Version): string {
  if (version.kind === 'file') return `file ${version.mode} ${version.size} ${version.content}`;
  return hexOfVersion(version);
}
