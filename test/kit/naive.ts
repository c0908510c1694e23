/**
 * A naive model of a workspace's history: full copies of the tree, and for each session lists of its boundaries, of what
 * it changed and of what it took back. It foretells each operation whole: the tree, the receipt, the text (DESIGN §6,
 * API §3). Written on strings, apart from the engine. What an operation means for each path is `naive-plan.ts`'s.
 */
import {
  applied,
  at,
  type Entry,
  isFolderOrAbsent,
  isSettled,
  type PlanOptions,
  type Policy,
  planAgain,
  planBack,
  type Tree,
} from './naive-plan.ts';
import {
  NaiveRecord,
  type Operation,
  type OperationKind,
  type Outcome,
  type Turn,
  type Window,
} from './naive-record.ts';

/** What is said of an operation, in a form in which receipts compare. */
export interface Told {
  readonly boundaryId: string;
  readonly outcome: Outcome;
  readonly restored: readonly (readonly (string | undefined)[])[];
  readonly refused: readonly (readonly (string | undefined)[])[];
  readonly skipped: readonly (readonly (string | undefined)[])[];
}

export type Answer =
  | { readonly unavailable: string }
  | { readonly message?: string; readonly outcome: Outcome; readonly receipt?: Told };

export interface Foretold {
  readonly tree: Tree;
  readonly answer: Answer;
}

export interface Ask {
  readonly tree: Tree;
  readonly policy: Policy;
  readonly paths?: readonly string[] | undefined;
  readonly movedIn?: ReadonlySet<string>;
}

const NEVER = Number.POSITIVE_INFINITY;
const UNKNOWN = { unavailable: 'unknown-boundary' } as const;
const NONE = { unavailable: 'no-checkpoint' } as const;
const STANDS = { unavailable: 'revert-stands' } as const;

interface Work {
  readonly kind: OperationKind;
  readonly boundary: { readonly id: string; readonly from: number };
  readonly entries: readonly Entry[];
  readonly tree: Tree;
  readonly takesBack?: Operation;
  readonly always?: boolean;
  /** What else is so once something was settled. */
  readonly effects: (operation: number, settled: readonly Entry[], all: boolean) => void;
}

export class NaiveSession extends NaiveRecord {
  fork(boundaryId: string): NaiveSession | null {
    const to = this.turns.findIndex((turn) => turn.id === boundaryId && turn.live);
    if (to < 0) return null;
    const fork = new NaiveSession(this.clock);
    fork.turns = this.turns.slice(0, to + 1).map((turn) => ({ ...turn }));
    fork.calls = this.calls.map((call) => ({ ...call, inherited: true }));
    fork.changes = [...this.changes];
    fork.taken = this.taken.map((taken) => ({ ...taken }));
    fork.inheritedReverts.push(...this.#reverts());
    return fork;
  }

  // ---- operations ------------------------------------------------------------------------------------------------

  #work({ kind, boundary, entries, tree, takesBack, always, effects }: Work): Foretold {
    const after = applied(tree, entries);
    const receipt = told(boundary.id, entries);
    const settled = entries.filter(isSettled);
    if (settled.length > 0 || always === true) {
      const moment = ++this.clock.now;
      const { outcome } = receipt;
      const restored = receipt.restored.length;
      const record = { moment, kind, boundaryId: boundary.id, boundary: boundary.from, outcome, restored };
      this.operations.push({ ...record, takesBack: takesBack !== undefined, redone: false });
      if (takesBack !== undefined) takesBack.redone = true;
      for (const path of new Set([...tree.keys(), ...after.keys()])) {
        const [was, is] = [at(tree, path), at(after, path)];
        if (was !== is)
          this.changes.push({ path, moment, before: was, after: is, operation: moment, contested: false });
      }
      const owed = entries.filter((entry) => entry.reason !== 'not-attributed');
      effects(moment, settled, settled.length === owed.length);
    }
    return { tree: after, answer: { outcome: receipt.outcome, receipt } };
  }

  #take(operation: number, settled: readonly Entry[]): void {
    for (const { path, ranges } of settled)
      for (const { from, to } of ranges) this.taken.push({ operation, path, from, to, returned: false });
  }

  #back(
    kind: 'undo' | 'restore' | 'revert',
    boundary: { id: string; from: number },
    {
      ask,
      window = { after: boundary.from, to: NEVER },
      keepLater = false,
    }: { ask: Ask; window?: Window; keepLater?: boolean },
  ): Foretold {
    const entries = planBack(this.facts(boundary.from, window), planOptions(ask, keepLater));
    const whole = ask.paths === undefined;
    const mark = (operation: number, turns: readonly Turn[]): void => {
      for (const turn of turns) turn.undoneBy = operation;
    };
    const later = this.turns.filter((turn) => turn.live && turn.from >= boundary.from && turn.undoneBy === null);
    return this.#work({
      ...{ kind, boundary, entries, tree: ask.tree, always: kind === 'revert' },
      effects: (operation, settled, all) => {
        this.#take(operation, settled);
        if (kind === 'undo' && window.call === undefined && settled.length > 0)
          mark(
            operation,
            this.turns.filter((turn) => turn.id === boundary.id),
          );
        if (kind === 'revert' || (kind === 'restore' && whole && all)) mark(operation, later);
      },
    });
  }

  /** The entries that a plan to a boundary has. */
  plan(boundaryId: string, ask: Ask): { unavailable: string } | readonly Entry[] {
    if (!this.exists) return NONE;
    const turn = this.#turn(boundaryId);
    if (turn === undefined) return UNKNOWN;
    return planBack(this.facts(turn.from, { after: turn.from, to: NEVER }), planOptions(ask, false));
  }

  restore(boundaryId: string, ask: Ask): Foretold {
    if (!this.exists) return { tree: ask.tree, answer: NONE };
    const turn = this.#turn(boundaryId);
    return turn === undefined ? { tree: ask.tree, answer: UNKNOWN } : this.#back('restore', turn, { ask });
  }

  #turn(id: string): Turn | undefined {
    return this.turns.find((turn) => turn.id === id && turn.live);
  }

  #windowOf(turn: Turn): Window {
    return { after: turn.from, to: this.turns[this.turns.indexOf(turn) + 1]?.from ?? NEVER };
  }

  undo(ask: Ask, boundaryId?: string): Foretold {
    const nothing = says(ask, 'Nothing to undo.');
    if (!this.exists) return boundaryId === undefined ? nothing : { tree: ask.tree, answer: NONE };
    if (this.#revert() !== undefined) return { tree: ask.tree, answer: STANDS };
    const newest = this.turns.findLast((t) => t.live && t.undoneBy === null && this.owesIn(this.#windowOf(t)));
    const turn = boundaryId === undefined ? newest : this.#turn(boundaryId);
    if (turn === undefined) return boundaryId === undefined ? nothing : { tree: ask.tree, answer: UNKNOWN };
    const done = this.#back('undo', turn, { ask, window: this.#windowOf(turn) });
    return tell(done, (n) => `Undid the last turn. Files restored: ${n}.`);
  }

  revertTurn(boundaryId: string, ask: Ask): Foretold {
    if (!this.exists) return { tree: ask.tree, answer: NONE };
    if (this.#revert() !== undefined) return { tree: ask.tree, answer: STANDS };
    const turn = this.#turn(boundaryId);
    if (turn === undefined) return { tree: ask.tree, answer: UNKNOWN };
    return this.#one('turn', turn, { ask, window: this.#windowOf(turn) });
  }

  revertCall(callId: string, ask: Ask): Foretold {
    if (!this.exists) return { tree: ask.tree, answer: UNKNOWN };
    if (this.#revert() !== undefined) return { tree: ask.tree, answer: STANDS };
    const call = this.calls.find(({ id }) => id === callId);
    const turn = call === undefined ? undefined : this.turns.findLast((t) => t.from <= call.turn);
    if (call === undefined || turn === undefined || !turn.live) return { tree: ask.tree, answer: UNKNOWN };
    return this.#one('call', turn, { ask, window: { after: call.began, to: call.ended, call: callId } });
  }

  #one(what: 'turn' | 'call', turn: Turn, of: { ask: Ask; window: Window }): Foretold {
    const done = this.#back('undo', turn, { ...of, keepLater: true });
    const { receipt } = done.answer as { receipt: Told };
    if (receipt.outcome === 'nothing' && kept(receipt).length === 0)
      return says({ tree: done.tree }, 'Nothing to undo.');
    return tell(done, (n) => `Undid the ${what}. Files restored: ${n}.`);
  }

  /** The revert that stands. */
  #revert(): Operation | undefined {
    const newest = this.turns.at(-1)?.from ?? 0;
    const revert = this.operations.findLast((o) => o.moment > newest && o.kind === 'revert' && !o.redone);
    return revert === undefined || this.changedSince(revert.moment) ? undefined : revert;
  }

  redo(ask: Ask): Foretold {
    const nothing = says(ask, 'Nothing to redo.');
    if (!this.exists) return nothing;
    if (this.#revert() !== undefined) return { tree: ask.tree, answer: STANDS };
    const newest = this.turns.at(-1)?.from ?? 0;
    const operation = this.operations.findLast(
      ({ kind, moment, redone, restored }) =>
        moment > newest && (kind === 'undo' || kind === 'restore') && !redone && restored > 0,
    );
    if (operation === undefined || this.changedSince(operation.moment)) return nothing;
    return tell(this.#again('redo', operation, ask), () => 'Redid the last turn.');
  }

  unrevert(ask: Ask): Foretold {
    const revert = this.exists ? this.#revert() : undefined;
    if (revert === undefined) return says(ask, 'Nothing to unrevert.');
    return standing(this.#again('unrevert', revert, ask), (n) => `Took the revert back. Files restored: ${n}.`);
  }

  #again(kind: 'redo' | 'unrevert', operation: Operation, ask: Ask): Foretold {
    const taken = this.taken.filter((t) => t.operation === operation.moment);
    const open = taken.filter((t) => !t.returned);
    const facts = [...new Set(open.map((t) => t.path))].map((path) => {
      const own = this.changes.find((c) => c.operation === operation.moment && c.path === path);
      const disk = at(ask.tree, path);
      const of = open.filter((t) => t.path === path);
      const [from, to] = [Math.min(...of.map((t) => t.from)), Math.max(...of.map((t) => t.to))];
      const [target, last] = [own?.before ?? disk, own?.after ?? disk];
      const folder = isFolderOrAbsent(target) && isFolderOrAbsent(last);
      const runs = [{ before: target, after: last, from, to }];
      return { path, target, last, from, to, contested: false, broken: false, rebased: false, runs, folder };
    });
    return this.#work({
      ...{ kind, boundary: { id: operation.boundaryId, from: operation.boundary }, tree: ask.tree },
      entries: planAgain(facts, planOptions(ask, false)),
      takesBack: operation,
      always: taken.length === 0,
      effects: (_, settled) => {
        for (const { path } of settled) for (const record of open) if (record.path === path) record.returned = true;
        for (const turn of this.turns)
          if (turn.live && turn.from >= operation.boundary && turn.undoneBy === operation.moment) turn.undoneBy = null;
      },
    });
  }

  /** To a user message, or to the end of a call. */
  revert(message: { boundaryId: string } | { callId: string }, ask: Ask): Foretold {
    if (!this.exists) return { tree: ask.tree, answer: NONE };
    const position = 'boundaryId' in message ? this.#turn(message.boundaryId) : this.#endOf(message.callId);
    if (position === undefined) return { tree: ask.tree, answer: UNKNOWN };
    if (this.#revert() !== undefined) return { tree: ask.tree, answer: STANDS };
    const done = this.#back('revert', position, { ask });
    return standing(done, (n) => `Went back to the message. Files restored: ${n}.`);
  }

  #endOf(callId: string): { id: string; from: number } | undefined {
    const call = this.calls.find(({ id }) => id === callId);
    const turn = call === undefined ? undefined : this.turns.findLast((t) => t.from <= call.began);
    return call === undefined || turn?.live !== true ? undefined : { id: stepOf(callId), from: call.ended };
  }

  // ---- answers ---------------------------------------------------------------------------------------------------

  /** What `timeline` lists, oldest first. */
  log(): readonly (readonly unknown[])[] {
    const items: { moment: number; item: readonly unknown[] }[] = [];
    const reverts = new Set(this.#reverts());
    for (const turn of this.turns.filter((t) => t.live)) {
      const { after, to } = this.#windowOf(turn);
      const { undoneBy } = turn;
      items.push({ moment: turn.from, item: ['boundary', turn.id, undoneBy !== null, reverts.has(undoneBy ?? -1)] });
      for (const call of this.calls)
        if (call.began >= after && call.began < to)
          items.push({ moment: call.began, item: ['call', call.id, 'ended'] });
      for (const o of this.operations) {
        if (o.moment <= after || o.moment > to) continue;
        const item = ['operation', o.kind, o.boundaryId, o.outcome, o.restored, !o.takesBack && !o.redone];
        items.push({ moment: o.moment, item });
      }
    }
    return items.sort((a, b) => a.moment - b.moment).map(({ item }) => item);
  }

  #reverts(): number[] {
    return [...this.inheritedReverts, ...this.operations.filter((o) => o.kind === 'revert').map((o) => o.moment)];
  }
}

export const stepOf = (callId: string): string => `step-${callId}`;

function planOptions({ tree, policy, paths, movedIn }: Ask, keepLater: boolean): PlanOptions {
  return { disk: tree, policy, paths, movedIn, keepLater };
}

function told(boundaryId: string, entries: readonly Entry[]): Told {
  const owed = entries.filter((entry) => entry.reason !== 'not-attributed');
  const done = owed.filter(isSettled).length;
  const shown = entries.filter((entry) => !entry.hidden);
  const list = (test: (entry: Entry) => boolean): (string | undefined)[][] =>
    shown.filter(test).map(({ path, action, reason, overrides }) => [path, action, reason, overrides]);
  return {
    boundaryId,
    outcome: done === 0 ? 'nothing' : done === owed.length ? 'done' : 'partial',
    restored: list(({ action }) => action !== 'skip' && action !== 'refuse'),
    refused: list(({ action }) => action === 'refuse'),
    skipped: list(({ action }) => action === 'skip'),
  };
}

function kept({ refused, skipped }: Told): string[] {
  const stayed = skipped.filter(([, , reason]) => reason === 'not-empty');
  return [...refused, ...stayed].map(([path]) => path as string);
}

function says({ tree }: { tree: Tree }, message: string): Foretold {
  return { tree, answer: { message, outcome: 'nothing' } };
}

function tell({ tree, answer }: Foretold, success: (restored: number) => string): Foretold {
  const { receipt } = answer as { receipt: Told };
  const names = kept(receipt);
  const list = names.length > 5 ? `${names.slice(0, 5).join(', ')}, …` : names.join(', ');
  const first = receipt.outcome === 'nothing' ? 'Nothing was restored.' : success(receipt.restored.length);
  const message = names.length === 0 ? first : `${first} Kept ${names.length} that changed since: ${list}`;
  return { tree, answer: { message, outcome: receipt.outcome, receipt } };
}

/** A revert stands, and is taken back, also where there was nothing to write. */
function standing(done: Foretold, success: (restored: number) => string): Foretold {
  const { receipt } = done.answer as { receipt: Told };
  if (kept(receipt).length > 0) return tell(done, success);
  return { tree: done.tree, answer: { message: success(receipt.restored.length), outcome: 'done', receipt } };
}
