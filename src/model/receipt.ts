/**
 * Receipts: what an operation did, from its plan and what the backend answered for each path; and the texts of undo and
 * redo. Pure.
 *
 * Each path is in exactly one of restored, refused, skipped, failed. Every write that was planned ends in restored,
 * refused or failed: one that the backend passed over is refused, one that it didn't answer for has failed.
 */
import type { ApplyOutcome } from '../backend/backend.ts';
import { comparePaths } from '../rel-path.ts';
import type { EntryReason, Receipt, ReceiptEntry, RelPath, UncoveredPath } from '../types.ts';
import { isHidden, planUncovered, publicEntry } from './plan.ts';
import type { ModelEntry, ReceiptInput, SettledReceipt } from './types.ts';
import { hashText } from './version.ts';

type Place = 'restored' | 'refused' | 'skipped' | 'failed';

/** How one entry ended. */
interface End {
  readonly entry: ModelEntry;
  readonly place: Place;
  readonly shown: boolean;
  readonly settled: boolean;
  /** Some hunks were written, the rest stays. */
  readonly partial?: boolean;
  readonly wrote: boolean;
  /** What kept it is a fault of the system, and may pass. */
  readonly passing: boolean;
  readonly line: ReceiptEntry;
}

const REASONS: ReadonlySet<string> = new Set<EntryReason>([
  'not-attributed',
  'already-matches',
  'uncovered',
  'moved-uncovered',
  'contested',
  'incomplete',
  'changed-between',
  'changed-outside-session',
  'open-for-write',
  'not-empty',
  'unsupported',
  'blob-missing',
  'blob-corrupt',
  'walk-failed',
  'permission-denied',
  'no-space',
  'io-error',
  'exists',
  'cancelled',
]);

export function buildReceipt(input: ReceiptInput): SettledReceipt {
  const outcomes = new Map(input.outcomes.map((outcome) => [outcome.path, outcome]));
  const ends = input.plan.entries.map((entry) => endOf(entry, outcomes.get(entry.path)));
  const lines = (place: Place): ReceiptEntry[] =>
    ends.filter((end) => end.place === place && end.shown).map((end) => end.line);
  const settled = ends.filter((end) => end.settled);
  const partial = ends.filter((end) => end.partial).map(({ entry: { path, fromSeq } }) => ({ path, fromSeq }));
  const owed = ends.filter((end) => end.entry.reason !== 'not-attributed');
  const settledAll = settled.length === owed.length;
  const receipt: Receipt = {
    operationId: input.operationId,
    boundaryId: input.boundaryId,
    outcome: outcomeOf(owed),
    restored: lines('restored'),
    refused: lines('refused'),
    skipped: lines('skipped'),
    failed: lines('failed'),
    irreversible: input.irreversible,
    uncovered: uncoveredOf(input, ends),
    notes: input.notes,
  };
  return {
    receipt,
    settled: settled.flatMap(({ entry }) =>
      (entry.ranges ?? [entry]).map(({ fromSeq, toSeq }) => ({ path: entry.path, fromSeq, toSeq })),
    ),
    partial,
    settledAll,
    unfinished: ends.some((end) => !end.settled && end.passing),
    wrote: ends.some((end) => end.wrote),
  };
}

/** Hunks that were asked for and written count as done, though their path stays owed. */
function outcomeOf(ends: readonly End[]): Receipt['outcome'] {
  const done = ends.filter((end) => end.settled || end.partial);
  return done.length === 0 ? 'nothing' : done.length === ends.length ? 'done' : 'partial';
}

/** Those that the plan refused, and those that turned out to be uncovered when the write came. */
function uncoveredOf(input: ReceiptInput, ends: readonly End[]): UncoveredPath[] {
  const late = new Set(
    ends.filter((end) => end.place === 'refused' && end.entry.action !== 'refuse').map((end) => end.entry.path),
  );
  const found = input.outcomes.flatMap(({ path, found }): UncoveredPath[] =>
    found?.kind === 'uncovered' && late.has(path) ? [{ path, reason: found.reason }] : [],
  );
  return [...planUncovered(input.plan), ...found].sort((a, b) => comparePaths(a.path, b.path));
}

function endOf(entry: ModelEntry, outcome: ApplyOutcome | undefined): End {
  const line = publicEntry(entry);
  const passing = entry.unread === true;
  if (entry.action === 'refuse')
    return { entry, place: 'refused', shown: true, settled: false, wrote: false, passing, line };
  if (entry.action === 'skip') {
    const settled = entry.reason === 'already-matches';
    return { entry, place: 'skipped', shown: !isHidden(entry), settled, wrote: false, passing, line };
  }
  return writtenEnd(entry, line, outcome);
}

/** Faults that the next try meets again. */
const LASTING: ReadonlySet<EntryReason | undefined> = new Set(['blob-missing', 'blob-corrupt', 'unsupported'] as const);

function writtenEnd(entry: ModelEntry, line: ReceiptEntry, outcome: ApplyOutcome | undefined): End {
  if (outcome?.status === 'done' || (outcome?.status === 'skipped' && outcome.reason === 'already-matches')) {
    // Somebody else may have made it what it was to be, between plan and write: as good as written, but not by us.
    const note = outcome.status === 'done' ? outcome.note : 'already-matches';
    const restored = note === undefined ? line : { ...line, note };
    const wrote = outcome.status === 'done';
    const partial = entry.partial ?? false;
    return {
      entry,
      place: 'restored',
      shown: !isHidden(entry),
      settled: !partial,
      partial,
      wrote,
      passing: false,
      line: restored,
    };
  }
  const place = outcome?.status === 'refused' || outcome?.status === 'skipped' ? 'refused' : 'failed';
  const fallback = place === 'refused' ? 'changed-outside-session' : 'io-error';
  const known = outcome?.reason !== undefined && REASONS.has(outcome.reason);
  const details = [
    known ? undefined : outcome?.reason,
    outcome?.detail ?? (outcome === undefined ? 'no outcome' : undefined),
  ];
  const detail = details.filter((text) => text !== undefined).join(': ');
  const failed: ReceiptEntry = {
    ...line,
    reason: known ? (outcome?.reason as EntryReason) : fallback,
    ...(outcome?.found === undefined ? {} : { foundHash: hashText(outcome.found) }),
    ...(outcome?.note === undefined ? {} : { note: outcome.note }),
    ...(detail === '' ? {} : { detail }),
  };
  const unread = outcome?.found?.kind === 'uncovered' && outcome.found.reason === 'unreadable';
  const passing = unread || (place === 'failed' && !LASTING.has(failed.reason));
  return { entry, place, shown: true, settled: false, wrote: false, passing, line: failed };
}

// ---- texts -----------------------------------------------------------------------------------------------------

export const NOTHING_TO_UNDO = 'Nothing to undo.';
export const NOTHING_TO_REDO = 'Nothing to redo.';
export const NOTHING_TO_UNREVERT = 'Nothing to unrevert.';
/** Said of a dry run that has a plan. */
export const NOTHING_WRITTEN = 'Nothing was written.';
export const CALL_IS_OPEN = 'Wait until the turn ends, then try again.';
export const REVERT_STANDS = 'A revert stands. Run unrevert, or send a prompt, first.';

/** Names that a message lists before it says `…`. */
const LISTED = 5;

/** What undo says. Files, not the folders that come and go with them, are counted. */
export function undoText(receipt: Receipt): string {
  return withKept(receipt, `Undid the last turn. Files restored: ${receipt.restored.length}.`);
}

/** What is said where one turn or call that need not be the last was taken back. */
export function revertedText(receipt: Receipt, what: 'turn' | 'call'): string {
  return withKept(receipt, `Undid the ${what}. Files restored: ${receipt.restored.length}.`);
}

/** What redo says. */
export function redoText(receipt: Receipt): string {
  return withKept(receipt, 'Redid the last turn.');
}

/** What revert says. It stands also where there was no file to restore. */
export function revertText(receipt: Receipt): string {
  return restoredText(receipt, 'Went back to the message.');
}

/** What unrevert says. */
export function unrevertText(receipt: Receipt): string {
  return restoredText(receipt, 'Took the revert back.');
}

function restoredText(receipt: Receipt, success: string): string {
  const text = `${success} Files restored: ${receipt.restored.length}.`;
  return receipt.outcome === 'nothing' && keptPaths(receipt).length === 0 ? text : withKept(receipt, text);
}

function withKept(receipt: Receipt, success: string): string {
  const kept = keptPaths(receipt);
  const first = receipt.outcome === 'nothing' ? 'Nothing was restored.' : success;
  if (kept.length === 0) return first;
  const more = kept.length > LISTED ? ', …' : '';
  return `${first} Kept ${kept.length} that changed since: ${kept.slice(0, LISTED).join(', ')}${more}`;
}

/** Paths that were to be taken back and weren't. */
export function keptPaths(receipt: Receipt): RelPath[] {
  const stayed = receipt.skipped.filter((entry) => entry.reason === 'not-empty');
  return [...receipt.refused, ...receipt.failed, ...stayed].map((entry) => entry.path);
}
