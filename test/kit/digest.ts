/** Receipts and plans as small literals, so that a test can say the whole of what it expects. */
import type { ChangeSummary, Plan, Receipt, ReceiptEntry } from '../../src/index.ts';

export interface Digest {
  readonly outcome: Receipt['outcome'];
  /** Path → action; with `!reason` where `onConflict` overrode one. */
  readonly restored?: Record<string, string>;
  /** Path → reason. */
  readonly refused?: Record<string, string>;
  readonly skipped?: Record<string, string>;
  readonly failed?: Record<string, string>;
  readonly uncovered?: Record<string, string>;
}

/** Everything that a receipt says of paths; empty lists are left out. */
export function digest(receipt: Receipt): Digest {
  const why = (list: readonly ReceiptEntry[]) => list.map((entry) => [entry.path, entry.reason ?? ''] as const);
  const done = receipt.restored.map(
    (entry) =>
      [entry.path, entry.overrides === undefined ? entry.action : `${entry.action}!${entry.overrides}`] as const,
  );
  return {
    outcome: receipt.outcome,
    ...named('restored', done),
    ...named('refused', why(receipt.refused)),
    ...named('skipped', why(receipt.skipped)),
    ...named('failed', why(receipt.failed)),
    ...named(
      'uncovered',
      receipt.uncovered.map((entry) => [entry.path, entry.reason] as const),
    ),
  };
}

function named(key: string, entries: readonly (readonly [string, string])[]): Record<string, Record<string, string>> {
  return entries.length === 0 ? {} : { [key]: Object.fromEntries(entries) };
}

/** Path → action, or `action: reason`. */
export function planDigest(plan: Plan): Record<string, string> {
  return Object.fromEntries(
    plan.entries.map(({ path, action, reason }) => [path, reason === undefined ? action : `${action}: ${reason}`]),
  );
}

/** Path → kind of change. */
export function changeDigest(changes: readonly ChangeSummary[]): Record<string, string> {
  return Object.fromEntries(changes.map(({ path, kind }) => [path, kind]));
}

/** Path → reason, of a capture or a receipt. */
export function uncoveredDigest(uncovered: Receipt['uncovered']): Record<string, string> {
  return Object.fromEntries(uncovered.map(({ path, reason }) => [path, reason]));
}

export const NOTHING: Digest = { outcome: 'nothing' };
