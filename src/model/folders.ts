/**
 * What a plan must hold as a whole: a folder goes only when the plan takes all that is in it, and a path comes back
 * only where its folder is one, or becomes one.
 *
 * A path whose folder is gone, or is something else, and whose folder the session doesn't owe, is refused as
 * `changed-outside-session`: somebody took that folder away, and to make it again would write a path that isn't the
 * session's. `onConflict` doesn't override this. Where the folder is the session's but is refused, its reason is theirs.
 */
import type { Peek } from '../backend/backend.ts';
import { comparePaths, parentOf } from '../rel-path.ts';
import type { RelPath, Version } from '../types.ts';
import type { PathFacts } from './facts.ts';
import type { Decision } from './guard.ts';
import type { Run } from './types.ts';

/** An entry on its way to being final. */
export interface Draft {
  readonly facts: PathFacts;
  /** The folder that holds its path. */
  readonly folder: RelPath;
  readonly peek: Peek;
  decision: Decision;
  /** Not asked for: it is there for what lies below it. */
  readonly carrier: boolean;
  /** Where a merge made the target: only these rows are taken back. */
  readonly takes?: readonly Run[];
  detail?: string;
}

export type Drafts = ReadonlyMap<RelPath, Draft>;

/** Adjusts the decisions that fail by the company they are in. */
export function settleFolders(drafts: Drafts, disk: ReadonlyMap<RelPath, Peek>): void {
  // A folder comes before what it holds.
  const sorted = [...drafts.values()].sort((a, b) => comparePaths(a.facts.path, b.facts.path));
  const written = foldersOf(drafts, isWrite);
  for (const draft of sorted.toReversed()) {
    if (leavesFolder(draft) && !canLeave(draft, drafts, written)) {
      draft.decision = { action: draft.decision.action === 'delete' ? 'skip' : 'refuse', reason: 'not-empty' };
    }
  }
  for (const draft of sorted) {
    if (isWrite(draft)) requireFolder(draft, drafts, disk);
  }
}

/** All folders above the drafts that `test` accepts. */
export function foldersOf(drafts: Drafts, test: (draft: Draft) => boolean): Set<RelPath> {
  const out = new Set<RelPath>();
  let last: RelPath | null = null;
  for (const draft of drafts.values()) {
    // Neighbours mostly lie in one folder.
    if (draft.folder === last || !test(draft)) continue;
    last = draft.folder;
    for (let folder = last; folder !== '' && !out.has(folder); folder = parentOf(folder)) out.add(folder);
  }
  return out;
}

/** It puts something at its path. */
export function isWrite({ decision: { action } }: Draft): boolean {
  return action === 'restore' || action === 'recreate' || action === 'merge';
}

/** A folder is on disk that the decision takes away. */
function leavesFolder({ decision, peek, facts }: Draft): boolean {
  return (
    (decision.action === 'delete' || decision.action === 'restore') &&
    peek.version.kind === 'dir' &&
    facts.target.kind !== 'dir'
  );
}

/** A folder whose names couldn't be read may hold anything: it stays. */
function canLeave({ peek, facts }: Draft, drafts: Drafts, written: ReadonlySet<RelPath>): boolean {
  if (peek.names === undefined || written.has(facts.path)) return false;
  return peek.names.every((name) => drafts.get(`${facts.path}/${name}` as RelPath)?.decision.action === 'delete');
}

function requireFolder(draft: Draft, drafts: Drafts, disk: ReadonlyMap<RelPath, Peek>): void {
  const { folder } = draft;
  if (folder === '') return;
  const planned = drafts.get(folder);
  const found = planned?.peek.version ?? disk.get(folder)?.version;
  const becomes: Version | undefined = planned !== undefined && isWrite(planned) ? planned.facts.target : found;
  // A folder that wasn't peeked is left to the backend's walk, which fails the entry where it must.
  if (becomes === undefined || becomes.kind === 'dir') return;
  const why = planned?.decision.action === 'refuse' ? planned.decision.reason : undefined;
  draft.decision = { action: 'refuse', reason: why ?? 'changed-outside-session' };
  draft.detail = `its folder ${folder} is ${becomes.kind === 'absent' ? 'missing' : `a ${becomes.kind}`}`;
}
