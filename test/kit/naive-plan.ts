/**
 * The plan table of DESIGN §6 by the naive model: from full copies of the tree and a list of what a session did to each
 * path, what an operation must do to every path, and what it must say of it. Written on strings, apart from the engine.
 *
 * One thing is the engine's own: how two texts merge line by line (`mergeText`, whose oracle is in `merge.test.ts`).
 */
import { mergeText } from '../../src/model/merge.ts';

/** Path → `absent` | `dir <mode>` | `file <mode> <bytes as latin1>` | `symlink <target>`. */
export type Tree = ReadonlyMap<string, string>;

export type Policy = 'refuse' | 'overwrite' | 'merge';

export const at = (tree: Tree, path: string): string => tree.get(path) ?? 'absent';
export const kindOf = (version: string): string => version.split(' ', 1)[0] as string;
export const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
export const isFolderOrAbsent = (version: string): boolean => version === 'absent' || kindOf(version) === 'dir';

/** Changes that follow each other, taken back as one. */
export interface Run {
  readonly before: string;
  after: string;
  readonly from: number;
  to: number;
}

/** What a session's changes say of a path that it owes. */
export interface Facts {
  readonly path: string;
  readonly target: string;
  readonly last: string;
  readonly from: number;
  readonly to: number;
  readonly contested: boolean;
  /** Somebody's change lies between two of the session's, or a later one of the session's stays. */
  readonly broken: boolean;
  /** An operation that stands took earlier changes out from under these. */
  readonly rebased: boolean;
  readonly runs: readonly Run[];
  readonly folder: boolean;
}

export interface PlanOptions {
  readonly disk: Tree;
  readonly policy: Policy;
  readonly keepLater?: boolean;
  readonly paths?: readonly string[] | undefined;
  /** Paths whose file was there before the call that brought it: the engine may refuse to delete it. */
  readonly movedIn?: ReadonlySet<string> | undefined;
}

export interface Entry {
  readonly path: string;
  readonly action: string;
  readonly reason?: string | undefined;
  readonly overrides?: string | undefined;
  readonly target: string;
  readonly ranges: readonly { readonly from: number; readonly to: number }[];
  /** A folder that comes or goes with what it holds: told nobody. */
  readonly hidden: boolean;
}

interface Decision {
  action: string;
  reason?: string;
  overrides?: string;
}

interface Draft {
  readonly facts: Facts;
  readonly disk: string;
  readonly target: string;
  readonly takes?: readonly Run[] | undefined;
  readonly carrier: boolean;
  decision: Decision;
}

type Drafts = ReadonlyMap<string, Draft>;

const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);

/** Entries of a restore, an undo or a revert. */
export function planBack(facts: ReadonlyMap<string, Facts>, options: PlanOptions): Entry[] {
  const { paths } = options;
  const named = (path: string): boolean => paths === undefined || paths.some((p) => isWithin(path, p));
  const drafts = new Map<string, Draft>();
  for (const fact of facts.values()) if (named(fact.path)) drafts.set(fact.path, draftOf(fact, options, false));
  for (const folder of foldersAbove(drafts, () => true)) {
    const fact = facts.get(folder);
    if (fact === undefined || drafts.has(folder)) continue;
    const draft = draftOf(fact, { ...options, policy: 'refuse', keepLater: false }, true);
    const makes = draft.decision.action === 'recreate' && kindOf(fact.target) === 'dir';
    const removes = draft.decision.action === 'delete' && kindOf(draft.disk) === 'dir';
    if (makes || removes) drafts.set(folder, draft);
  }
  const entries = finished(drafts, options.disk);
  for (const path of new Set(paths)) {
    if ([...facts.keys()].some((owed) => isWithin(owed, path))) continue;
    const target = at(options.disk, path);
    entries.push({ path, action: 'skip', reason: 'not-attributed', target, ranges: [], hidden: false });
  }
  return entries.sort(byPath);
}

/** Entries of a redo or an unrevert. */
export function planAgain(facts: readonly Facts[], options: PlanOptions): Entry[] {
  const drafts = new Map(facts.map((fact) => [fact.path, draftOf(fact, options, false)]));
  return finished(drafts, options.disk).sort(byPath);
}

/** The tree once the entries are done. */
export function applied(tree: Tree, entries: readonly Entry[]): Tree {
  const after = new Map(tree);
  for (const { path, action, target } of entries) {
    if (action === 'delete') after.delete(path);
    else if (isWrite(action)) after.set(path, target);
  }
  return after;
}

export function isSettled({ action, reason }: Entry): boolean {
  return action === 'skip' ? reason === 'already-matches' : action !== 'refuse';
}

// ---- one path ------------------------------------------------------------------------------------------------------

function draftOf(facts: Facts, options: PlanOptions, carrier: boolean): Draft {
  const disk = at(options.disk, facts.path);
  const plain = { facts, disk, target: facts.target, carrier };
  if (!facts.rebased && disk === facts.target)
    return { ...plain, decision: { action: 'skip', reason: 'already-matches' } };
  if (facts.target === 'absent' && options.movedIn?.has(facts.path) === true)
    return { ...plain, decision: { action: 'refuse', reason: 'moved-uncovered' } };
  const conflict = conflictOf(facts, disk);
  if (wantsMerge(facts, conflict, options)) return mergedDraft(plain, conflict, options);
  if (conflict !== undefined && options.policy !== 'overwrite')
    return { ...plain, decision: { action: 'refuse', reason: conflict } };
  return { ...plain, decision: over(actionFor(disk, facts.target), conflict) };
}

function over(action: string, overrides: string | undefined): Decision {
  return overrides === undefined ? { action } : { action, overrides };
}

function conflictOf(facts: Facts, disk: string): string | undefined {
  if (facts.contested) return 'contested';
  if (facts.broken) return 'changed-between';
  return disk === facts.last ? undefined : 'changed-outside-session';
}

function wantsMerge(facts: Facts, conflict: string | undefined, options: PlanOptions): boolean {
  if (conflict === undefined) return facts.rebased;
  const since = conflict !== 'contested';
  if (since && options.keepLater === true) return true;
  const files = facts.runs.every((run) => kindOf(run.before) === 'file' && kindOf(run.after) === 'file');
  return options.policy === 'merge' && (since || files);
}

function mergedDraft(plain: Omit<Draft, 'decision'>, conflict: string | undefined, options: PlanOptions): Draft {
  const { facts, disk } = plain;
  let merged: string | null = disk;
  for (const run of [...facts.runs].reverse()) if (merged !== null) merged = without(merged, run);
  const reason = conflict ?? 'changed-between';
  if (merged === null) {
    return options.policy === 'overwrite'
      ? { ...plain, decision: over(actionFor(disk, facts.target), reason) }
      : { ...plain, decision: { action: 'refuse', reason } };
  }
  const made = { ...plain, target: merged, takes: facts.runs };
  if (merged === disk) return { ...made, decision: { action: 'skip', reason: 'already-matches' } };
  const action = actionFor(disk, merged);
  return { ...made, decision: over(action === 'restore' && kindOf(merged) === 'file' ? 'merge' : action, conflict) };
}

function actionFor(disk: string, target: string): string {
  if (target === 'absent') return 'delete';
  return disk === 'absent' ? 'recreate' : 'restore';
}

/** `ours` with a run taken out: base = what the run made, theirs = what was there before it. Null: they clash. */
function without(ours: string, { after: base, before: theirs }: Run): string | null {
  if (ours === base) return theirs;
  if (ours === theirs || base === theirs) return ours;
  const sides = [base, ours, theirs].map((version) => /^file (\d+) (.*)$/s.exec(version));
  const [o, a, b] = sides.map((side) => (side === null ? null : { mode: side[1], text: side[2] as string }));
  if (!o || !a || !b) return null;
  const mode = a.mode === o.mode || a.mode === b.mode ? b.mode : b.mode === o.mode ? a.mode : null;
  if (mode === null) return null;
  const [baseBytes, ourBytes, theirBytes] = [o, a, b].map((side) => Buffer.from(side.text, 'latin1')) as [
    Buffer,
    Buffer,
    Buffer,
  ];
  const merged = mergeText(baseBytes, ourBytes, theirBytes);
  return 'clash' in merged ? null : `file ${mode} ${Buffer.from(merged.bytes).toString('latin1')}`;
}

// ---- all paths together --------------------------------------------------------------------------------------------

const isWrite = (action: string): boolean => action === 'recreate' || action === 'restore' || action === 'merge';

function foldersAbove(drafts: Drafts, test: (draft: Draft) => boolean): Set<string> {
  const out = new Set<string>();
  for (const draft of drafts.values()) {
    if (!test(draft)) continue;
    for (let folder = folderOf(draft.facts.path); folder !== ''; folder = folderOf(folder)) out.add(folder);
  }
  return out;
}

const depth = (draft: Draft): number => draft.facts.path.split('/').length;

function finished(drafts: Map<string, Draft>, disk: Tree): Entry[] {
  const written = foldersAbove(drafts, (draft) => isWrite(draft.decision.action));
  const deepest = [...drafts.values()].sort((a, b) => depth(b) - depth(a));
  for (const draft of deepest) keepFolderInUse(draft, { drafts, written, disk });
  for (const draft of deepest.reverse()) needFolder(draft, drafts, disk);
  const carried = foldersAbove(drafts, (draft) => !draft.carrier && isWrite(draft.decision.action));
  for (const [path, { carrier, decision }] of drafts) {
    const carries = decision.action === 'delete' || (isWrite(decision.action) && carried.has(path));
    if (carrier && !carries) drafts.delete(path);
  }
  const settled = foldersAbove(
    drafts,
    ({ decision }) => decision.action !== 'refuse' && decision.reason !== 'not-empty',
  );
  const moving = ({ decision: { action } }: Draft): boolean => action === 'delete' || isWrite(action);
  const touched = foldersAbove(drafts, moving);
  return [...drafts.values()].map((draft) => entryOf(draft, moving(draft) ? touched : settled));
}

/** A folder goes only when all that is in it goes. */
function keepFolderInUse(
  draft: Draft,
  { drafts, written, disk }: { drafts: Drafts; written: ReadonlySet<string>; disk: Tree },
): void {
  const { action } = draft.decision;
  const { path } = draft.facts;
  const leaves = action === 'delete' || (action === 'restore' && kindOf(draft.target) !== 'dir');
  if (!leaves || kindOf(draft.disk) !== 'dir') return;
  const inside = [...disk.keys()].filter((below) => folderOf(below) === path);
  const empties = inside.every((below) => drafts.get(below)?.decision.action === 'delete');
  if (written.has(path) || !empties)
    draft.decision = { action: action === 'delete' ? 'skip' : 'refuse', reason: 'not-empty' };
}

/** Nothing is written where its folder isn't one and doesn't become one. */
function needFolder(draft: Draft, drafts: Drafts, disk: Tree): void {
  const folder = folderOf(draft.facts.path);
  if (!isWrite(draft.decision.action) || folder === '') return;
  const planned = drafts.get(folder);
  const becomes = planned !== undefined && isWrite(planned.decision.action) ? planned.target : at(disk, folder);
  if (kindOf(becomes) === 'dir') return;
  const why = planned?.decision.action === 'refuse' ? planned.decision.reason : undefined;
  draft.decision = { action: 'refuse', reason: why ?? 'changed-outside-session' };
}

function entryOf({ facts, disk, target, takes, decision }: Draft, carrying: ReadonlySet<string>): Entry {
  const onlyMode = kindOf(disk) === 'dir' && kindOf(target) === 'dir' && disk !== target;
  const implicit = facts.folder && !onlyMode && carrying.has(facts.path);
  const { action, reason, overrides } = decision;
  const hidden = implicit && action !== 'refuse' && reason !== 'not-empty' && overrides === undefined;
  return { path: facts.path, action, reason, overrides, target, ranges: takes ?? [facts], hidden };
}
