/**
 * The guard's decision for one path: the table of DESIGN §6, first line that fits. What concerns several paths at once
 * (folders that aren't empty, folders that are missing) is in `folders.ts`.
 */
import type { Peek } from '../backend/backend.ts';
import type { ConflictPolicy, EntryReason, PlanAction } from '../types.ts';
import { sameVersion } from '../wire.ts';
import type { PathFacts } from './facts.ts';

export interface GuardOptions {
  readonly onConflict: ConflictPolicy;
  readonly uncoveredInodes: ReadonlySet<bigint>;
}

export interface Decision {
  readonly action: PlanAction;
  readonly reason?: EntryReason;
  readonly overrides?: EntryReason;
}

export function decide(facts: PathFacts, peek: Peek, options: GuardOptions): Decision {
  const disk = peek.version;
  if (sameVersion(disk, facts.target)) return { action: 'skip', reason: 'already-matches' };
  const hard = neverOverridden(facts, peek, options);
  if (hard !== undefined) return { action: 'refuse', reason: hard };
  const conflict = conflictOf(facts, peek);
  if (conflict !== undefined && options.onConflict === 'refuse') return { action: 'refuse', reason: conflict };
  const action = facts.target.kind === 'absent' ? 'delete' : disk.kind === 'absent' ? 'recreate' : 'restore';
  return conflict === undefined ? { action } : { action, overrides: conflict };
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

function conflictOf(facts: PathFacts, peek: Peek): EntryReason | undefined {
  if (facts.contested) return 'contested';
  if (facts.incomplete) return 'incomplete';
  if (facts.changedBetween) return 'changed-between';
  if (!sameVersion(peek.version, facts.last)) return 'changed-outside-session';
  if (peek.openForWrite === true) return 'open-for-write';
  return undefined;
}
