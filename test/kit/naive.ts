/**
 * A naive model of one session: full copies of trees, lists of its changes, and what an operation may and must do by
 * them (DESIGN §6), written without a look at the engine. Paths that two sessions may have changed at once are murky:
 * nothing is foretold of them.
 */
import type { Receipt } from '../../src/index.ts';
import type { Snapshot } from './tree.ts';
import { contents } from './tree.ts';

export type Tree = Readonly<Record<string, string>>;

/** Path (UTF-8) → `kind mode content`. */
export function treeOf(seen: Snapshot): Tree {
  return Object.fromEntries(
    Object.entries(contents(seen)).map(([path, c]) => [Buffer.from(path, 'latin1').toString(), c]),
  );
}

export const at = (tree: Tree, path: string): string => tree[path] ?? 'absent';

interface Change {
  readonly path: string;
  readonly order: number;
  readonly before: string;
  readonly after: string;
  /** The operation that made it; undefined: a call. */
  readonly operation?: Operation;
  /** Calls only: the operation that took it back, while that stands. */
  takenBy?: Operation | undefined;
}

export interface Operation {
  readonly before: Tree;
  readonly after: Tree;
  /** Paths that it took back; a redo takes them out again. */
  readonly standing: Set<string>;
}

export interface Expectation {
  readonly path: string;
  readonly target: string;
  readonly last: string;
  /** Somebody's change lies between two of the session's. */
  readonly broken: boolean;
}

const isFolderOrAbsent = (content: string): boolean => content === 'absent' || content.startsWith('dir ');

export class NaiveSession {
  readonly boundaries: { id: string; order: number; tree: Tree }[] = [];
  readonly #changes: Change[] = [];
  readonly operations: Operation[] = [];

  boundary(id: string, order: number, tree: Tree): void {
    this.boundaries.push({ id, order, tree });
  }

  call(order: number, before: Tree, after: Tree): void {
    for (const path of new Set([...Object.keys(before), ...Object.keys(after)])) {
      if (at(before, path) !== at(after, path))
        this.#changes.push({ path, order, before: at(before, path), after: at(after, path) });
    }
  }

  #counts(change: Change): boolean {
    return change.operation === undefined || change.operation.standing.has(change.path);
  }

  /** What taking back from a boundary on (undo: its turn alone) means for each owed path. */
  expectations(boundaryId: string, onlyTurn: boolean): Map<string, Expectation> {
    const index = this.boundaries.findIndex((boundary) => boundary.id === boundaryId);
    const from = this.boundaries[index]?.order ?? 0;
    const to = onlyTurn ? (this.boundaries[index + 1]?.order ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
    const owed = (c: Change): boolean => c.operation === undefined && c.takenBy === undefined;
    const out = new Map<string, Expectation>();
    for (const path of new Set(this.#changes.map((c) => c.path))) {
      const all = this.#changes.filter((c) => c.path === path);
      const start = all.findIndex((c) => owed(c) && c.order > from && c.order <= to);
      if (start < 0) continue;
      const own = all.slice(start).filter((c) => this.#counts(c));
      const broken = own.some((c, i) => i > 0 && c.before !== own[i - 1]?.after);
      const later = all.slice(start).some((c) => owed(c) && c.order > to);
      const [first] = own;
      out.set(path, { path, target: first?.before ?? '', last: own.at(-1)?.after ?? '', broken: broken || later });
    }
    return out;
  }

  /** Records an undo or a restore by what it settled. */
  operation(
    order: number,
    receipt: Receipt,
    of: { before: Tree; after: Tree; expected: ReadonlyMap<string, Expectation>; onlyTurn: boolean },
  ): void {
    const settled = settledPaths(receipt, of);
    if (settled.size === 0) return;
    const operation: Operation = { before: of.before, after: of.after, standing: settled };
    const index = this.boundaries.findIndex((boundary) => boundary.id === receipt.boundaryId);
    const from = this.boundaries[index]?.order ?? 0;
    const to = of.onlyTurn ? (this.boundaries[index + 1]?.order ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
    for (const change of this.#changes) {
      if (!settled.has(change.path) || change.operation !== undefined || change.takenBy !== undefined) continue;
      if (change.order > from && change.order <= to) change.takenBy = operation;
    }
    for (const path of settled) {
      if (at(of.before, path) !== at(of.after, path))
        this.#changes.push({ path, order, before: at(of.before, path), after: at(of.after, path), operation });
    }
    this.operations.push(operation);
  }

  /** A redo gave these paths of an operation back. */
  redo(operation: Operation, paths: ReadonlySet<string>): void {
    for (const path of paths) operation.standing.delete(path);
    for (const change of this.#changes) {
      if (change.takenBy === operation && paths.has(change.path)) change.takenBy = undefined;
    }
  }
}

/** Listed as restored or as already there; folders that come and go with what they hold aren't listed at all. */
function settledPaths(
  receipt: Receipt,
  of: { before: Tree; after: Tree; expected: ReadonlyMap<string, Expectation> },
): Set<string> {
  const listed = new Set(
    [receipt.restored, receipt.refused, receipt.skipped, receipt.failed].flat().map((e) => e.path as string),
  );
  const settled = new Set<string>(receipt.restored.map((entry) => entry.path));
  for (const entry of receipt.skipped) if (entry.reason === 'already-matches') settled.add(entry.path);
  for (const [path, { target }] of of.expected) {
    if (!listed.has(path) && isFolderOrAbsent(target) && at(of.after, path) === target) settled.add(path);
  }
  return settled;
}
