/**
 * What a session did, as the naive model keeps it: boundaries, calls, changes from full copies, what was taken back; and
 * what that says of each path that it owes (DESIGN §5-6). `naive.ts` foretells operations from it.
 *
 * Moments are numbers that grow: a call begins at one and its changes lie at its end.
 */
import { at, type Facts, isFolderOrAbsent, type Run, type Tree } from './naive-plan.ts';

export interface Turn {
  readonly id: string;
  readonly from: number;
  live: boolean;
  /** The operation that took it back. */
  undoneBy: number | null;
}

export interface Change {
  readonly path: string;
  readonly moment: number;
  readonly before: string;
  readonly after: string;
  readonly call?: string;
  readonly operation?: number;
  /** Another session's call could have made it just as well, whatever became of that session. */
  readonly contested: boolean;
}

export interface Call {
  readonly id: string;
  readonly began: number;
  readonly ended: number;
  /** The boundary whose turn it began in. */
  readonly turn: number;
  readonly inherited: boolean;
}

export type OperationKind = 'undo' | 'restore' | 'redo' | 'revert' | 'unrevert';

export interface Operation {
  readonly moment: number;
  readonly kind: OperationKind;
  readonly boundaryId: string;
  readonly boundary: number;
  readonly outcome: Outcome;
  readonly restored: number;
  readonly takesBack: boolean;
  redone: boolean;
}

export interface Taken {
  readonly operation: number;
  readonly path: string;
  readonly from: number;
  readonly to: number;
  returned: boolean;
}

export type Outcome = 'done' | 'partial' | 'nothing';

export interface Window {
  readonly after: number;
  readonly to: number;
  readonly call?: string;
}

export class NaiveRecord {
  turns: Turn[] = [];
  calls: Call[] = [];
  operations: Operation[] = [];
  dropped = false;
  /** Moments of reverts by the session that this one was forked from. */
  readonly inheritedReverts: number[] = [];
  protected readonly clock: { now: number };
  protected changes: Change[] = [];
  protected taken: Taken[] = [];

  constructor(clock: { now: number }) {
    this.clock = clock;
  }

  get exists(): boolean {
    return this.turns.length > 0 && !this.dropped;
  }

  // ---- recording -------------------------------------------------------------------------------------------------

  capture(id: string): void {
    for (const turn of this.endedByRestores()) turn.live = false;
    this.turns.push({ id, from: ++this.clock.now, live: true, undoneBy: null });
  }

  /** Boundaries that a whole restore, or a revert, that stands has made unknown. */
  protected endedByRestores(): Turn[] {
    const newest = this.turns.findLast((turn) => turn.live);
    if (newest === undefined) return [];
    const standing = this.operations.filter(
      ({ kind, moment, redone }) =>
        moment > newest.from &&
        !redone &&
        (kind === 'revert' || (kind === 'restore' && this.turns.some((turn) => turn.live && turn.undoneBy === moment))),
    );
    return this.turns.filter(
      (turn) =>
        turn.live && turn.undoneBy !== null && standing.some((o) => o.boundary < turn.from && turn.from < o.moment),
    );
  }

  began(): number {
    return ++this.clock.now;
  }

  /** What a call changed; `contested` where another session's call may have. */
  call(
    call: { id: string; began: number },
    of: { before: Tree; after: Tree; owns: (path: string) => boolean; contested: boolean },
  ): void {
    const { before, after, owns, contested } = of;
    const ended = ++this.clock.now;
    const turn = this.turns.findLast((t) => t.live)?.from ?? 0;
    this.calls.push({ ...call, ended, turn, inherited: false });
    const paths = [...new Set([...before.keys(), ...after.keys()])].filter(
      (path) => at(before, path) !== at(after, path),
    );
    for (const path of paths.filter(owns)) {
      const change = {
        path,
        moment: ended,
        before: at(before, path),
        after: at(after, path),
        call: call.id,
        contested,
      };
      this.changes.push(change);
    }
    const newest = this.turns.findLast((t) => t.live);
    if (newest !== undefined && paths.some(owns)) newest.undoneBy = null;
  }

  // ---- what counts -----------------------------------------------------------------------------------------------

  protected records(path: string): Taken[] {
    return this.taken.filter((taken) => taken.path === path && !taken.returned);
  }

  protected isOwed = (change: Change): boolean =>
    change.operation === undefined &&
    !this.records(change.path).some((taken) => taken.from <= change.moment && change.moment <= taken.to);

  /** The record by which an operation's own change counts as the session's. */
  protected standing(change: Change): Taken[] {
    return this.records(change.path).filter((taken) => taken.operation === change.operation);
  }

  protected owesIn(window: Window): boolean {
    return this.changes.some((change) => isIn(change, window) && this.isOwed(change));
  }

  protected changedSince(moment: number): boolean {
    return this.changes.some((change) => change.operation === undefined && change.moment > moment);
  }

  protected facts(boundary: number, window: Window): Map<string, Facts> {
    const facts = new Map<string, Facts>();
    for (const path of new Set(this.changes.map((change) => change.path))) {
      const all = this.changes.filter((change) => change.path === path && change.moment > boundary);
      const start = all.findIndex((change) => isIn(change, window) && this.isOwed(change));
      if (start >= 0) facts.set(path, this.factsOf(all.slice(start), window));
    }
    return facts;
  }

  protected factsOf(changes: readonly Change[], window: Window): Facts {
    const [first] = changes as [Change];
    const counting = changes.filter((c) => c.operation === undefined || this.standing(c).length > 0);
    const owed = changes.filter(this.isOwed);
    const broken = counting.some((change, i) => i > 0 && change.before !== counting[i - 1]?.after);
    return {
      path: first.path,
      target: first.before,
      last: counting.at(-1)?.after as string,
      from: first.moment,
      to: owed.at(-1)?.moment as number,
      contested: owed.some((change) => change.contested),
      broken: broken || owed.some((change) => !isIn(change, window)),
      rebased: changes.some(
        (c) => c.operation !== undefined && this.standing(c).some((t) => Math.min(t.from, t.to) < first.moment),
      ),
      runs: runsOf(owed, window),
      folder: counting.every((change) => isFolderOrAbsent(change.before) && isFolderOrAbsent(change.after)),
    };
  }
}

function isIn({ moment, call }: Change, { after, to, call: only }: Window): boolean {
  return moment > after && moment <= to && (only === undefined || only === call);
}

function runsOf(owed: readonly Change[], window: Window): Run[] {
  const runs: Run[] = [];
  let joins = false;
  for (const change of owed) {
    const inside = isIn(change, window);
    const run = runs.at(-1);
    if (inside && joins && run?.after === change.before) {
      run.after = change.after;
      run.to = change.moment;
    } else if (inside) {
      runs.push({ before: change.before, after: change.after, from: change.moment, to: change.moment });
    }
    joins = inside;
  }
  return runs;
}
