/**
 * The guard's decision for one path: the table of DESIGN §6, first line that fits. What concerns several paths at once
 * (folders that aren't empty, folders that are missing) is in `folders.ts`; what a merge came to is given (`merge.ts`).
 */
import type { Peek } from '../backend/backend.ts';
import type { EntryReason, PlanAction, Version } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { PathFacts } from './facts.ts';
import type { Conflicts } from './types.ts';

export interface GuardOptions extends Conflicts {
  readonly uncoveredInodes: ReadonlySet<bigint>;
}

export interface Decision {
  readonly action: PlanAction;
  readonly reason?: EntryReason;
  readonly overrides?: EntryReason;
}

/** A decision, with the target where a merge made it, and what clashed where one failed. */
export interface Decided {
  readonly decision: Decision;
  readonly merged?: Version;
  readonly detail?: string;
}

export function decide(facts: PathFacts, peek: Peek, options: GuardOptions): Decided {
  const disk = peek.version;
  if (!facts.rebased && sameVersion(disk, facts.target)) {
    return { decision: { action: 'skip', reason: 'already-matches' } };
  }
  const hard = neverOverridden(facts, peek, options);
  if (hard !== undefined) return { decision: { action: 'refuse', reason: hard } };
  const conflict = conflictOf(facts, peek, options);
  if (merges(facts, conflict, options)) return mergedDecision(facts, peek, { conflict, options });
  if (conflict !== undefined && options.onConflict !== 'overwrite') {
    return { decision: { action: 'refuse', reason: conflict } };
  }
  const decision = { action: actionFor(disk, facts.target) };
  return { decision: conflict === undefined ? decision : { ...decision, overrides: conflict } };
}

/** True where the guard wants a merge for the path, whose answer is then in `options.merges`. */
export function wantsMerge(facts: PathFacts, peek: Peek, options: GuardOptions): boolean {
  if (!facts.rebased && sameVersion(peek.version, facts.target)) return false;
  return (
    neverOverridden(facts, peek, options) === undefined && merges(facts, conflictOf(facts, peek, options), options)
  );
}

function merges(facts: PathFacts, conflict: EntryReason | undefined, options: GuardOptions): boolean {
  if (conflict === undefined) return facts.rebased;
  const since = conflict === 'changed-between' || conflict === 'changed-outside-session';
  if (since && options.keepLater === true) return true;
  // Someone is writing: whatever is merged now would be lost to them, or they to it.
  if (conflict === 'open-for-write') return false;
  if (!since && facts.runs.some((run) => run.before.kind !== 'file' || run.after.kind !== 'file')) return false;
  return options.onConflict === 'merge';
}

interface MergeContext {
  readonly conflict: EntryReason | undefined;
  readonly options: GuardOptions;
}

function mergedDecision(facts: PathFacts, peek: Peek, { conflict, options }: MergeContext): Decided {
  const merged = options.merges?.get(facts.path);
  const reason = conflict ?? 'changed-between';
  if (merged === undefined || 'clash' in merged) {
    if (options.onConflict === 'overwrite') {
      return { decision: { action: actionFor(peek.version, facts.target), overrides: reason } };
    }
    const detail = merged === undefined ? {} : { detail: merged.clash };
    return { decision: { action: 'refuse', reason }, ...detail };
  }
  if (sameVersion(peek.version, merged.version)) {
    return { decision: { action: 'skip', reason: 'already-matches' }, merged: merged.version };
  }
  if (peek.openForWrite === true) return { decision: { action: 'refuse', reason: 'open-for-write' } };
  const plain = actionFor(peek.version, merged.version);
  const action = plain === 'restore' && merged.version.kind === 'file' ? 'merge' : plain;
  return {
    decision: conflict === undefined ? { action } : { action, overrides: conflict },
    merged: merged.version,
  };
}

function actionFor(disk: Version, target: Version): PlanAction {
  if (target.kind === 'absent') return 'delete';
  return disk.kind === 'absent' ? 'recreate' : 'restore';
}

function neverOverridden(facts: PathFacts, peek: Peek, options: GuardOptions): EntryReason | undefined {
  if (facts.target.kind === 'uncovered' || peek.version.kind === 'uncovered') return 'uncovered';
  // Made and ignored in one turn: nothing of it was kept, and a look at it passes over the rules.
  if (facts.last.kind === 'uncovered' && facts.last.reason === 'ignored') return 'uncovered';
  // A fifo or a device holds no bytes that could be kept, so it can't be made again.
  if (facts.target.kind === 'special') return 'unsupported';
  if (facts.target.kind === 'absent' && options.uncoveredInodes.has(peek.ino)) return 'moved-uncovered';
  return undefined;
}

function conflictOf(facts: PathFacts, peek: Peek, options: GuardOptions): EntryReason | undefined {
  if (facts.contested) return 'contested';
  if (facts.incomplete) return 'incomplete';
  if (facts.changedBetween) return 'changed-between';
  if (!sameVersion(peek.version, facts.last) && !isOurs(facts, peek, options)) return 'changed-outside-session';
  if (peek.openForWrite === true) return 'open-for-write';
  return undefined;
}

/** What an operation of the session left where it failed: nothing, or a folder that it made and could not give its mode. */
function isOurs({ path, target, last }: PathFacts, { version }: Peek, { tried }: GuardOptions): boolean {
  if (tried?.has(path) !== true) return false;
  return version.kind === 'absent' || (target.kind === 'dir' && version.kind === 'dir' && last.kind !== 'dir');
}
