/**
 * Lists of paths for people: changes, plans, receipts. Rendering only.
 */
import type { ChangeSummary, Plan, PlanEntry, PublicVersion, Receipt, ReceiptEntry, UncoveredPath } from '../types.ts';
import { Exit } from './host.ts';
import type { Screen } from './screen.ts';
import { count, oneLine, printable } from './text.ts';

/** Longer lists are cut on the screen; `--json` holds all. */
const LIST_LIMIT = 40;

const SIGN = {
  created: ['A', 'green'],
  modified: ['M', 'yellow'],
  deleted: ['D', 'red'],
  moved: ['R', 'cyan'],
} as const;

const octal = (mode: number): string => mode.toString(8).padStart(3, '0');

/** What a change is besides new bytes, in brackets; empty where that is all. */
function remark(before: PublicVersion, after: PublicVersion): string {
  if (after.kind === 'symlink') return ` -> ${printable(after.target)}`;
  if (after.kind === 'uncovered') return ` (${after.reason}: bytes not kept)`;
  if (before.kind === 'uncovered') return ` (before: ${before.reason}, bytes not kept)`;
  if (after.kind === 'special') return ` (${after.type})`;
  if (before.kind !== 'absent' && after.kind !== 'absent' && before.kind !== after.kind) {
    return ` (${before.kind} -> ${after.kind})`;
  }
  if ((before.kind === 'file' || before.kind === 'dir') && (after.kind === 'file' || after.kind === 'dir')) {
    if (before.mode !== after.mode) return ` (mode ${octal(before.mode)} -> ${octal(after.mode)})`;
  }
  return '';
}

function slash(version: PublicVersion): string {
  return version.kind === 'dir' ? '/' : '';
}

/** One line a change: `M src/a.ts`, `A notes/`, `R old -> new`. */
export function changeLines(screen: Screen, changes: readonly ChangeSummary[]): string[] {
  return cut(
    changes.map((change) => {
      const [sign, style] = SIGN[change.kind];
      const folder = slash(change.after.kind === 'absent' ? change.before : change.after);
      const from = change.from === undefined ? '' : `${printable(change.from)} -> `;
      const incomplete = change.incomplete === true ? ' (not observed fully)' : '';
      const name = `${from}${printable(change.path)}${folder}`;
      return `  ${screen.style(style, sign)} ${name}${remark(change.before, change.after)}${incomplete}`;
    }),
  );
}

function cut(lines: readonly string[]): string[] {
  if (lines.length <= LIST_LIMIT) return [...lines];
  return [...lines.slice(0, LIST_LIMIT), `  ... and ${count(lines.length - LIST_LIMIT, 'more path', 'more paths')}`];
}

/** `3 files changed: 1 created, 2 modified`. */
export function changeTotal(changes: readonly ChangeSummary[]): string {
  if (changes.length === 0) return 'No files changed.';
  const kinds = (['created', 'modified', 'deleted', 'moved'] as const)
    .map((kind) => [changes.filter((change) => change.kind === kind).length, kind] as const)
    .filter(([n]) => n > 0)
    .map(([n, kind]) => `${n.toLocaleString('en-US')} ${kind}`);
  return `${count(changes.length, 'path')} changed: ${kinds.join(', ')}.`;
}

const ACTION_STYLE = {
  restore: 'yellow',
  recreate: 'green',
  delete: 'red',
  merge: 'cyan',
  skip: 'dim',
  refuse: 'red',
} as const;

function entryLine(screen: Screen, entry: ReceiptEntry): string {
  const extra = [
    entry.reason,
    entry.overrides === undefined ? undefined : `overrides ${entry.overrides}`,
    entry.movedFrom === undefined ? undefined : `moves from ${entry.movedFrom}`,
    entry.movedTo === undefined ? undefined : `moves to ${entry.movedTo}`,
    entry.detail,
    entry.note,
  ].filter((text): text is string => text !== undefined);
  const tail = extra.length === 0 ? '' : ` (${extra.map(oneLine).join('; ')})`;
  return `  ${screen.style(ACTION_STYLE[entry.action], entry.action.padEnd(8))} ${printable(entry.path)}${tail}`;
}

export function entryLines(screen: Screen, entries: readonly PlanEntry[]): string[] {
  return cut(entries.map((entry) => entryLine(screen, entry)));
}

function uncoveredLines(uncovered: readonly UncoveredPath[]): string[] {
  return cut(uncovered.map(({ path, reason }) => `  ${printable(path)} (${reason})`));
}

/** True for an entry that writes. */
export function writes(entry: PlanEntry): boolean {
  return entry.action !== 'skip' && entry.action !== 'refuse';
}

export function planLines(screen: Screen, plan: Plan): string[] {
  if (plan.entries.length === 0) return ['Nothing would be touched.', ...plan.notes.map(oneLine)];
  const writing = plan.entries.filter(writes).length;
  const kept = plan.entries.length - writing;
  const keptText = kept === 0 ? '' : `, ${count(kept, 'path')} left as ${kept === 1 ? 'it is' : 'they are'}`;
  return [
    `${count(writing, 'path')} would be written${keptText}:`,
    ...entryLines(screen, plan.entries),
    ...aside(plan),
  ];
}

/** Uncovered paths, calls whose effects outside can't be taken back, notes. */
function aside(of: Pick<Plan, 'irreversible' | 'uncovered' | 'notes'>): string[] {
  const lines: string[] = [];
  if (of.uncovered.length > 0) lines.push('Not covered, left alone:', ...uncoveredLines(of.uncovered));
  if (of.irreversible.length > 0) {
    lines.push('Effects outside the files, not taken back:');
    lines.push(...of.irreversible.map((call) => `  ${oneLine(call.callId)} (${call.sideEffect})`));
  }
  lines.push(...of.notes.map((note) => `Note: ${oneLine(note)}`));
  return lines;
}

/** What an operation did; refused and failed paths in full, the others in short. */
export function receiptLines(screen: Screen, receipt: Receipt): string[] {
  const lines = entryLines(screen, receipt.restored);
  if (receipt.skipped.length > 0) lines.push(...entryLines(screen, receipt.skipped));
  if (receipt.refused.length > 0) lines.push('Kept as they are:', ...entryLines(screen, receipt.refused));
  if (receipt.failed.length > 0) lines.push('Failed:', ...entryLines(screen, receipt.failed));
  return [...lines, ...aside(receipt)];
}

/** 0 where all that was planned was done, 3 where a path was refused or failed. */
export function receiptExit(receipt: Receipt): number {
  return receipt.refused.length > 0 || receipt.failed.length > 0 ? Exit.partial : Exit.done;
}
