/**
 * Whose a row is: computed from rows, call intervals, nesting and declared paths, never stored (DESIGN §5).
 *
 * Every begin and end of a call is a look at the whole tree, so a call is a candidate of a row at seq s when it began
 * before s and had not ended before s. A look at some paths only (an operation's) lies inside such an interval and
 * changes nothing of this. Candidates are narrowed by declared paths, then to the innermost ones. The answer is with
 * respect to one session: a row that is `contested` for two is `other` for a third.
 *
 * Not covered: a parent call that is missing in `calls` ends the chain of nesting there.
 */
import { isWithin } from '../rel-path.ts';
import type { CallRecord, OperationRecord, TakenRecord } from '../timeline/timeline.ts';
import { type RandomId, type RelPath, type Row, RowFlag } from '../types.ts';
import type { AttributedRow, AttributionInput, RowOwner } from './types.ts';

/** What holds for every row of one observation. */
interface Moment {
  readonly open: readonly CallRecord[];
  readonly overlap: readonly RelPath[];
  readonly operation: RandomId | null;
}

interface Context {
  readonly session: number;
  readonly moments: ReadonlyMap<number, Moment>;
  readonly calls: ReadonlyMap<number, CallRecord>;
  readonly operations: ReadonlyMap<RandomId, OperationRecord>;
  /** Standing entries by path. */
  readonly taken: ReadonlyMap<RelPath, readonly TakenRecord[]>;
  /** By seq: the judgement of every path that no open call declared, which is the same for all of them. */
  readonly undeclared: Map<number, Judgement>;
}

type Verdict = Pick<AttributedRow, 'owner' | 'candidates' | 'sharedWindow' | 'incomplete'>;

/** Says for each row whose it is, with respect to `input.session`. Rows come out in the order in which they came in. */
export function attribute(input: AttributionInput): AttributedRow[] {
  const context = prepare(input);
  return input.rows.map((row) => attributeRow(context, row));
}

function prepare(input: AttributionInput): Context {
  const taken = new Map<RelPath, TakenRecord[]>();
  for (const record of input.taken) {
    if (record.returnedBy !== null) continue;
    const list = taken.get(record.path);
    if (list === undefined) taken.set(record.path, [record]);
    else list.push(record);
  }
  return {
    session: input.session,
    moments: momentsOf(input),
    calls: new Map(input.calls.map((call) => [call.invocation, call])),
    operations: new Map(input.operations.map((operation) => [operation.id, operation])),
    taken,
    undeclared: new Map(),
  };
}

/** One sweep over the seqs that have rows, with the calls that are open at each. */
function momentsOf(input: AttributionInput): Map<number, Moment> {
  const observations = new Map(input.observations.map((observation) => [observation.seq, observation]));
  const seqs = [...new Set(input.rows.map((row) => row.seq))].sort((a, b) => a - b);
  const waiting = [...input.calls].sort((a, b) => a.beginSeq - b.beginSeq);
  const moments = new Map<number, Moment>();
  let next = 0;
  let open: CallRecord[] = [];
  for (const seq of seqs) {
    open = open.filter((call) => isOpenAt(call, seq));
    for (let call = waiting[next]; call !== undefined && call.beginSeq < seq; call = waiting[++next]) {
      if (isOpenAt(call, seq)) open.push(call);
    }
    const observation = observations.get(seq);
    moments.set(seq, { open, overlap: observation?.overlap ?? [], operation: observation?.operation ?? null });
  }
  return moments;
}

function isOpenAt(call: CallRecord, seq: number): boolean {
  return call.beginSeq < seq && (call.endSeq === null || call.endSeq >= seq);
}

function attributeRow(context: Context, row: Row): AttributedRow {
  const moment = context.moments.get(row.seq) as Moment;
  if ((row.flags & (RowFlag.late | RowFlag.coverage)) !== 0) return nobodys(row);
  if (moment.operation !== null) return operationRow(context, row, moment.operation);
  const verdict = judge(context, row, moment);
  const owing = verdict.owner === 'own' || verdict.owner === 'contested';
  const taken = owing && (context.taken.get(row.path) ?? []).some((t) => t.fromSeq <= row.seq && row.seq <= t.toSeq);
  return told(row, verdict, owing && !taken);
}

/** Written out, not spread: a history has many rows, and objects of one shape are several times faster to read. */
function told(row: Row, verdict: Verdict, owed: boolean): AttributedRow {
  return {
    seq: row.seq,
    path: row.path,
    before: row.before,
    after: row.after,
    flags: row.flags,
    movedFrom: row.movedFrom,
    owner: verdict.owner,
    candidates: verdict.candidates,
    sharedWindow: verdict.sharedWindow,
    owed,
    standing: false,
    incomplete: verdict.incomplete,
  };
}

function nobodys(row: Row): AttributedRow {
  return told(row, { owner: 'external', candidates: [], sharedWindow: false, incomplete: isFlagged(row) }, false);
}

/** Rows of an operation are its session's alone, whoever had a call open. */
function operationRow(context: Context, row: Row, operation: RandomId): AttributedRow {
  const record = context.operations.get(operation);
  if (record === undefined) return nobodys(row);
  const own = record.session === context.session;
  // A redo or unrevert takes nothing itself, and what it gave back is marked as returned: neither stands.
  const taken = own ? (context.taken.get(row.path) ?? []).filter((t) => t.operation === operation) : [];
  const attributed = { ...nobodys(row), owner: own ? ('own' as const) : ('other' as const), operation };
  if (taken.length === 0) return { ...attributed, standing: false };
  const reach = Math.min(...taken.flatMap((t) => [t.fromSeq, t.toSeq]));
  return { ...attributed, standing: true, reach };
}

function isFlagged(row: Row): boolean {
  return (row.flags & RowFlag.incomplete) !== 0;
}

/** What the open calls come to for a path, apart from the row's own flags. */
interface Judgement {
  readonly owners: readonly ReadonlySet<number>[];
  readonly candidates: readonly CallRecord[];
  readonly invocations: readonly number[];
  readonly sharedWindow: boolean;
}

function judge(context: Context, row: Row, moment: Moment): Verdict {
  const declarers = declarersOf(moment.open, row);
  let judgement = declarers.length === 0 ? context.undeclared.get(row.seq) : undefined;
  if (judgement === undefined) {
    judgement = weigh(context, moment.open, declarers);
    if (declarers.length === 0) context.undeclared.set(row.seq, judgement);
  }
  const { owners, candidates, invocations, sharedWindow } = judgement;
  const overlap = moment.overlap.some((folder) => isWithin(row.path, folder));
  return {
    owner: ownerFor(context.session, owners, overlap),
    candidates: invocations,
    sharedWindow,
    incomplete: isFlagged(row) || candidates.some((call) => call.state === 'interrupted' && call.endSeq === row.seq),
  };
}

/** @param declarers the open calls that declared the path */
function weigh(context: Context, calls: readonly CallRecord[], declarers: readonly CallRecord[]): Judgement {
  const open = new Map(calls.map((call) => [call.invocation, call]));
  const running = calls.filter((call) =>
    declarers.length === 0 ? call.paths === null : declarers.includes(call) || isInsideOf(context, call, declarers),
  );
  const covered = new Set(running.flatMap((call) => ancestors(context, call)));
  const candidates = running.filter((call) => !covered.has(call.invocation));

  // A nested call's rows are also those of the sessions whose open calls it is nested in.
  const owners = candidates.map(
    (call) => new Set([call.session, ...ancestors(context, call).flatMap((id) => open.get(id)?.session ?? [])]),
  );
  const isStranger = (call: CallRecord): boolean =>
    call.paths === null &&
    !running.includes(call) &&
    !covered.has(call.invocation) &&
    owners.some((set) => !set.has(call.session));
  return {
    owners,
    candidates,
    invocations: candidates.map((call) => call.invocation).sort((a, b) => a - b),
    sharedWindow: declarers.length > 0 && calls.some(isStranger),
  };
}

function ownerFor(session: number, owners: readonly ReadonlySet<number>[], overlap: boolean): RowOwner {
  if (owners.length === 0) return 'external';
  const own = owners.filter((set) => set.has(session)).length;
  if (own === 0) return 'other';
  return own < owners.length || overlap ? 'contested' : 'own';
}

/**
 * The open calls that declared the row's path. A folder on the way to a declared path that is made or removed counts as
 * declared, where no other session's call is on that way, too: it would be contested, and nobody said that it is theirs.
 */
function declarersOf(open: readonly CallRecord[], row: Row): readonly CallRecord[] {
  const declarers = open.filter((call) => call.paths?.some((path) => isWithin(row.path, path)));
  if (declarers.length > 0 || !isFolderAlone(row)) return declarers;
  const onTheWay = open.filter((call) => call.paths?.some((path) => isWithin(path, row.path)));
  return new Set(onTheWay.map((call) => call.session)).size === 1 ? onTheWay : [];
}

function isFolderAlone({ before, after }: Row): boolean {
  return (before.kind === 'absent' && after.kind === 'dir') || (before.kind === 'dir' && after.kind === 'absent');
}

/** A call that declared nothing, nested in a declarer: it may do what the declarer announced. */
function isInsideOf(context: Context, call: CallRecord, declarers: readonly CallRecord[]): boolean {
  if (call.paths !== null) return false;
  const around = ancestors(context, call);
  return declarers.some((declarer) => around.includes(declarer.invocation));
}

/** Invocations of the calls that this one is nested in, nearest first. */
function ancestors(context: Context, call: CallRecord): number[] {
  const out: number[] = [];
  for (let parent = call.parent; parent !== null && !out.includes(parent); ) {
    out.push(parent);
    parent = context.calls.get(parent)?.parent ?? null;
  }
  return out;
}
