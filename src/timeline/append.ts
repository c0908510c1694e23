/**
 * One append as the statements of one transaction, and what its guards say when they fail.
 *
 * Order matters: the head is checked first; calls end before one begins (an interrupted run and its successor may have
 * one id), boundaries are discarded before one is made (its id may come again). Pure: no database is touched here.
 */
import type { SqlStatement, SqlValue } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { Change, RelPath } from '../types.ts';
import { hexOfVersion } from '../wire.ts';
import {
  BOUNDARY_COLUMNS,
  CALL_COLUMNS,
  fromOptional,
  fromPath,
  fromPaths,
  fromString,
  fromUnsigned,
  OPERATION_COLUMNS,
} from './records.ts';
import type { Append } from './timeline.ts';

/** The head's row, as `toHead` of queries.ts reads it. Last statement of an append. */
export const HEAD_SQL = 'SELECT seq, observation, rules, gc_generation FROM state';

export function appendStatements(batch: Append): SqlStatement[] {
  if (batch.observation === undefined && (batch.changes?.length || batch.manifest || batch.operation)) {
    throw new TakebackError('ERR_INTERNAL', 'rows, a manifest or an operation were appended without an observation');
  }
  const seq = batch.observation === undefined ? batch.expectSeq : batch.expectSeq + 1;
  return [
    { sql: 'INSERT INTO guard (moved) SELECT 1 FROM state WHERE seq <> ?', params: [batch.expectSeq] },
    ...observationStatements(batch, seq),
    ...endStatements(batch, seq),
    ...turnStatements(batch),
    ...boundaryStatements(batch, seq),
    ...beginStatements(batch, seq),
    ...operationStatements(batch, seq),
    { sql: HEAD_SQL },
  ];
}

function observationStatements(batch: Append, seq: number): SqlStatement[] {
  const { observation, changes, manifest, rules } = batch;
  const out: SqlStatement[] = [];
  if (observation !== undefined) {
    const overlap = observation.overlap?.length ? fromPaths(observation.overlap) : null;
    out.push(
      {
        sql: 'INSERT INTO observations (seq, id, kind, created_at, operation, overlap) VALUES (?, ?, ?, ?, ?, ?)',
        params: [seq, observation.id, observation.kind, observation.createdAt, observation.operation ?? null, overlap],
      },
      { sql: 'UPDATE state SET seq = ?, observation = ?', params: [seq, observation.id] },
    );
  }
  if (changes?.length) out.push(rowsStatement(seq, changes));
  if (manifest !== undefined) {
    out.push({
      sql: 'INSERT INTO manifests (seq, hash, entries) VALUES (?, ?, ?)',
      params: [seq, manifest.hash, manifest.entries],
    });
  }
  if (rules !== undefined) {
    out.push(
      { sql: 'INSERT INTO rules (content) VALUES (?)', params: [rules] },
      { sql: 'UPDATE state SET rules = (SELECT max(id) FROM rules)' },
    );
  }
  return out;
}

/** Items in one JSON text; bounds the text, not the append. */
const ITEMS_PER_TEXT = 20_000;

/** A JSON list of each so many items, as parameters behind `before`: one binding carries it, where thousands of bound values took twice as long. */
function jsonTexts<T>(before: readonly SqlValue[], items: readonly T[], textOf: (item: T) => string): SqlValue[][] {
  const texts: SqlValue[][] = [];
  for (let at = 0; at < items.length; at += ITEMS_PER_TEXT) {
    texts.push([
      ...before,
      `[${items
        .slice(at, at + ITEMS_PER_TEXT)
        .map(textOf)
        .join(',')}]`,
    ]);
  }
  return texts;
}

function hexOfPath(path: RelPath): string {
  return fromPath(path).toString('hex');
}

/** Written out: hex and numbers need no escapes. */
function rowText({ path, before, after, flags, movedFrom }: Change): string {
  const moved = movedFrom === undefined ? 'null' : `"${hexOfPath(movedFrom)}"`;
  return `["${hexOfPath(path)}","${hexOfVersion(before)}","${hexOfVersion(after)}",${flags},${moved}]`;
}

function rowsStatement(seq: number, changes: readonly Change[]): SqlStatement {
  return {
    sql: `INSERT INTO rows (seq, path, before, after, flags, moved_from)
      SELECT ?, unhex(value ->> 0), unhex(value ->> 1), unhex(value ->> 2), value ->> 3, unhex(value ->> 4)
      FROM json_each(?)`,
    many: jsonTexts([seq], changes, rowText),
  };
}

function endStatements({ endCalls }: Append, seq: number): SqlStatement[] {
  if (!endCalls?.length) return [];
  return [
    {
      sql: `INSERT INTO guard (unknown_call)
        SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM calls WHERE invocation = ? AND state = 'open')`,
      many: endCalls.map((call) => [call.invocation]),
    },
    {
      sql: `UPDATE calls SET end_seq = ?, state = ?, ended_at = ?, side_effect = ?, is_error = ?, paths = ifnull(?, paths)
        WHERE invocation = ?`,
      many: endCalls.map((call) => [
        seq,
        call.state,
        call.endedAt,
        call.sideEffect,
        Number(call.isError),
        fromPaths(call.paths),
        call.invocation,
      ]),
    },
  ];
}

type Turns = readonly { readonly session: number; readonly boundaryId: string }[];

function turnKeys(turns: Turns): SqlValue[][] {
  return turns.map((turn) => [turn.session, fromString(turn.boundaryId)]);
}

function turnStatements({ discard, clearUndone }: Append): SqlStatement[] {
  const out: SqlStatement[] = [];
  if (discard?.length) {
    out.push({
      sql: `UPDATE boundaries SET state = 'discarded' WHERE session = ? AND id = ? AND state = 'live'`,
      many: turnKeys(discard),
    });
  }
  if (clearUndone?.length) {
    out.push({
      sql: 'UPDATE boundaries SET undone_by = NULL WHERE session = ? AND id = ?',
      many: turnKeys(clearUndone),
    });
  }
  return out;
}

export function sessionGuard(session: number): SqlStatement {
  return {
    sql: 'INSERT INTO guard (session) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?)',
    params: [session],
  };
}

function boundaryStatements({ boundary }: Append, seq: number): SqlStatement[] {
  if (boundary === undefined) return [];
  const { session, root } = boundary;
  const id = fromString(boundary.boundaryId);
  return [
    sessionGuard(session),
    {
      sql: `INSERT INTO guard (boundary) SELECT 1 FROM boundaries WHERE session = ? AND id = ? AND state = 'live'`,
      params: [session, id],
    },
    // What is left has that id but is discarded or expired: the new one takes its place.
    { sql: 'DELETE FROM boundaries WHERE session = ? AND id = ?', params: [session, id] },
    {
      sql: `INSERT INTO boundaries (${BOUNDARY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 'live')`,
      params: [
        session,
        id,
        seq,
        fromOptional(boundary.label),
        boundary.createdAt,
        fromUnsigned(root.dev),
        fromUnsigned(root.ino),
        root.birthNs,
        fromOptional(boundary.head),
      ],
    },
  ];
}

function beginStatements({ beginCall: call }: Append, seq: number): SqlStatement[] {
  if (call === undefined) return [];
  const id = fromString(call.callId);
  const { pid, startTime, bootId, hostId } = call.owner;
  return [
    sessionGuard(call.session),
    {
      sql: `INSERT INTO guard (call) SELECT 1 FROM calls WHERE session = ? AND id = ? AND state = 'open'`,
      params: [call.session, id],
    },
    {
      sql: `INSERT INTO calls (${CALL_COLUMNS})
        VALUES (?, ?, ?, ?, ?, ?, ?, NULL, 'open', ?, ?, ?, ?, ?, NULL, 0, ?, ?, ?, NULL)`,
      params: [
        ...[call.invocation, call.session, id, fromOptional(call.tool), fromOptional(call.stepId), call.parent, seq],
        ...[Number(call.detached), pid, startTime, bootId, hostId],
        ...[fromPaths(call.paths), call.turnSeq, call.beganAt],
      ],
    },
    { sql: 'UPDATE state SET last_invocation = max(last_invocation, ?)', params: [call.invocation] },
  ];
}

function operationStatements(batch: Append, seq: number): SqlStatement[] {
  const { operation, taken, returned, takesBackInPart = false, markUndone } = batch;
  if (operation === undefined) {
    if (taken?.length || returned?.length || markUndone?.length) {
      throw new TakebackError('ERR_INTERNAL', 'an append takes back or returns rows without an operation');
    }
    return [];
  }
  const { id, session, takesBack } = operation;
  const out: SqlStatement[] = [
    sessionGuard(session),
    {
      sql: `INSERT INTO operations (${OPERATION_COLUMNS}, redoable) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 1)`,
      params: [
        ...[id, session, operation.kind, fromString(operation.boundaryId), operation.boundarySeq, seq],
        ...[operation.createdAt, operation.onConflict, JSON.stringify(operation.receipt), takesBack],
      ],
    },
  ];
  if (taken?.length) {
    out.push({
      sql: `INSERT INTO taken (operation, path, from_seq, to_seq, returned_by, session)
        SELECT ?, unhex(value ->> 0), value ->> 1, value ->> 2, NULL, ? FROM json_each(?)`,
      many: jsonTexts([id, session], taken, (t) => `["${hexOfPath(t.path)}",${t.fromSeq},${t.toSeq}]`),
    });
  }
  if (returned?.length) {
    if (takesBack === null)
      throw new TakebackError('ERR_INTERNAL', 'an append returns rows but takes no operation back');
    out.push({
      sql: 'UPDATE taken SET returned_by = ? WHERE operation = ? AND path = ? AND returned_by IS NULL',
      many: returned.map((path) => [id, takesBack, fromPath(path)]),
    });
  }
  if (takesBack !== null && !takesBackInPart)
    out.push({ sql: 'UPDATE operations SET redone_by = ? WHERE id = ?', params: [id, takesBack] });
  if (markUndone?.length) {
    out.push({
      sql: 'UPDATE boundaries SET undone_by = ? WHERE session = ? AND id = ?',
      many: turnKeys(markUndone).map((key) => [id, ...key]),
    });
  }
  return out;
}

const GUARDS: readonly (readonly [constraint: string, fault: (batch: Append) => TakebackError])[] = [
  ['takeback_timeline_moved', () => new TakebackError('ERR_INTERNAL', 'timeline moved')],
  [
    'takeback_duplicate_boundary',
    (batch) =>
      new TakebackError(
        'ERR_DUPLICATE_BOUNDARY',
        `the session has a boundary ${JSON.stringify(batch.boundary?.boundaryId)} already; give each message an id of its own`,
      ),
  ],
  [
    'takeback_duplicate_call',
    (batch) =>
      new TakebackError(
        'ERR_DUPLICATE_CALL',
        `the session has an open call ${JSON.stringify(batch.beginCall?.callId)} already; end it first`,
      ),
  ],
  ['takeback_unknown_call', () => new TakebackError('ERR_UNKNOWN_CALL', 'the call that was to end is not open')],
  ['takeback_unknown_session', () => new TakebackError('ERR_CLOSED', 'the session was dropped')],
];

/** The fault that a guard's constraint stands for, or the driver's own. */
export function appendFault(batch: Append, error: unknown): unknown {
  const said = faultText(error);
  const guard = GUARDS.find(([constraint]) => said.includes(constraint));
  if (guard !== undefined) return guard[1](batch);
  if (!/constraint failed/i.test(said)) return error;
  return new TakebackError('ERR_INTERNAL', `an append contradicts the timeline or itself: ${said}`, { cause: error });
}

/** Messages of an error and of its causes. */
export function faultText(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) parts.push(at.message);
  return parts.join('\n');
}
