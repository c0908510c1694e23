/**
 * Every question of the timeline that changes nothing, over one connection.
 *
 * Each is one statement that an index answers: a test runs them all through EXPLAIN QUERY PLAN and finds no scan of a
 * table that grows with the turns. What reads the whole store (`liveHashes`, `stats`) is in maintenance.ts and verify.ts.
 */
import type { SqlDriver, SqlRow, SqlValue } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import type { Hash, RandomId, RelPath, Row } from '../types.ts';
import { HEAD_SQL } from './append.ts';
import {
  BOUNDARY_COLUMNS,
  bytes,
  CALL_COLUMNS,
  fromOptional,
  fromPath,
  fromString,
  OBSERVATION_COLUMNS,
  OPERATION_COLUMNS,
  ROW_COLUMNS,
  SESSION_COLUMNS,
  TAKEN_COLUMNS,
  toBoundary,
  toCall,
  toInt,
  toObservation,
  toOperation,
  toRow,
  toSession,
  toTaken,
  toText,
} from './records.ts';
import type {
  Ancestor,
  BoundaryRecord,
  CallRecord,
  Head,
  ObservationRecord,
  OperationRecord,
  SessionRecord,
  TakenRecord,
} from './timeline.ts';

/** Above every seq. */
const NO_END = Number.MAX_SAFE_INTEGER;
/** Paths in one statement; SQLite allows 32,766 parameters. */
const PATHS_PER_QUERY = 500;

export function toHead(row: SqlRow | undefined): Head {
  if (row === undefined) throw new TakebackError('ERR_STORE_CORRUPT', 'the timeline has no head');
  const [seq, observation, rules, gcGeneration] = row;
  return {
    seq: toInt(seq),
    observationId: observation === null ? null : toText(observation),
    rulesId: rules === null ? null : toInt(rules),
    gcGeneration: toInt(gcGeneration),
  };
}

export class TimelineQueries {
  protected readonly driver: SqlDriver;

  constructor(driver: SqlDriver) {
    this.driver = driver;
  }

  async #all<T>(decode: (row: SqlRow) => T, sql: string, params: readonly SqlValue[] = []): Promise<T[]> {
    return (await this.driver.query(sql, params)).map(decode);
  }

  async #one<T>(decode: (row: SqlRow) => T, sql: string, params: readonly SqlValue[] = []): Promise<T | null> {
    const [row] = await this.driver.query(sql, params);
    return row === undefined ? null : decode(row);
  }

  async settings(): Promise<string | null> {
    return await this.#one(([value]) => toText(value), `SELECT value FROM meta WHERE key = 'settings'`);
  }

  async head(): Promise<Head> {
    return toHead((await this.driver.query(HEAD_SQL))[0]);
  }

  // ---- observations and rows -------------------------------------------------------------------------------------

  rules(rulesId: number): Promise<Uint8Array | null> {
    return this.#one(([content]) => bytes(content), 'SELECT content FROM rules WHERE id = ?', [rulesId]);
  }

  newestManifest(): Promise<{ seq: number; hash: Hash; entries: number } | null> {
    return this.#one(
      ([seq, hash, entries]) => ({ seq: toInt(seq), hash: toText(hash), entries: toInt(entries) }),
      'SELECT seq, hash, entries FROM manifests ORDER BY seq DESC LIMIT 1',
    );
  }

  observation(seq: number): Promise<ObservationRecord | null> {
    return this.#one(toObservation, `SELECT ${OBSERVATION_COLUMNS} FROM observations WHERE seq = ?`, [seq]);
  }

  observations(afterSeq: number, toSeq: number = NO_END): Promise<ObservationRecord[]> {
    const sql = `SELECT ${OBSERVATION_COLUMNS} FROM observations WHERE seq > ? AND seq <= ? ORDER BY seq`;
    return this.#all(toObservation, sql, [afterSeq, toSeq]);
  }

  async rows(afterSeq: number, toSeq: number = NO_END, paths?: readonly RelPath[]): Promise<Row[]> {
    if (paths === undefined) {
      const sql = `SELECT ${ROW_COLUMNS} FROM rows WHERE seq > ? AND seq <= ? ORDER BY seq, path`;
      return this.#all(toRow, sql, [afterSeq, toSeq]);
    }
    const found: SqlRow[] = [];
    for (let at = 0; at < paths.length; at += PATHS_PER_QUERY) {
      const some = paths.slice(at, at + PATHS_PER_QUERY).map(fromPath);
      const sql = `SELECT ${ROW_COLUMNS} FROM rows INDEXED BY rows_by_path
        WHERE path IN (${some.map(() => '?').join(', ')}) AND seq > ? AND seq <= ?`;
      for (const row of await this.driver.query(sql, [...some, afterSeq, toSeq])) found.push(row);
    }
    found.sort((a, b) => toInt(a[0]) - toInt(b[0]) || Buffer.compare(bytes(a[1]), bytes(b[1])));
    return found.map(toRow);
  }

  firstRows(afterSeq: number, toSeq: number = NO_END, limit: number): Promise<Row[]> {
    const sql = `SELECT ${ROW_COLUMNS} FROM rows WHERE seq > ? AND seq <= ? ORDER BY seq, path LIMIT ?`;
    return this.#all(toRow, sql, [afterSeq, toSeq, limit]);
  }

  /** `+path`: without it SQLite would read the whole index in path order to save itself a sort. */
  firstRowsAfter(seq: number): Promise<Row[]> {
    const sql =
      'SELECT min(seq), path, before, after, flags, moved_from FROM rows WHERE seq > ? GROUP BY +path ORDER BY +path';
    return this.#all(toRow, sql, [seq]);
  }

  // ---- sessions and boundaries -----------------------------------------------------------------------------------

  findSession({ threadId, tenantId }: { threadId: string; tenantId: string | null }): Promise<SessionRecord | null> {
    const sql = `SELECT ${SESSION_COLUMNS} FROM sessions WHERE thread = ? AND ifnull(tenant, x'') = ifnull(?, x'')`;
    return this.#one(toSession, sql, [fromString(threadId), fromOptional(tenantId)]);
  }

  /** Without those that were dropped and only stand for what forks inherited. */
  sessions(): Promise<SessionRecord[]> {
    const sql = `SELECT ${SESSION_COLUMNS} FROM sessions WHERE typeof(thread) <> 'integer' ORDER BY id`;
    return this.#all(toSession, sql);
  }

  lineage(session: number): Promise<Ancestor[]> {
    const sql = `WITH RECURSIVE up (session, seq) AS (
        SELECT parent, fork_seq FROM forks WHERE session = ?
        UNION ALL SELECT f.parent, min(f.fork_seq, up.seq) FROM up JOIN forks f ON f.session = up.session
      ) SELECT session, seq FROM up`;
    return this.#all(([id, seq]) => ({ session: toInt(id), forkSeq: toInt(seq) }), sql, [session]);
  }

  boundary(session: number, boundaryId: string): Promise<BoundaryRecord | null> {
    const sql = `SELECT ${BOUNDARY_COLUMNS} FROM boundaries WHERE session = ? AND id = ?`;
    return this.#one(toBoundary, sql, [session, fromString(boundaryId)]);
  }

  boundaries(
    session: number,
    { limit = -1, beforeSeq = NO_END, all = false }: { limit?: number; beforeSeq?: number; all?: boolean } = {},
  ): Promise<BoundaryRecord[]> {
    const sql = `SELECT ${BOUNDARY_COLUMNS} FROM boundaries WHERE session = ? AND seq < ?
      ${all ? '' : `AND state = 'live'`} ORDER BY seq DESC, ord DESC LIMIT ?`;
    return this.#all(toBoundary, sql, [session, beforeSeq, limit]);
  }

  nextBoundary(session: number, seq: number): Promise<BoundaryRecord | null> {
    const sql = `SELECT ${BOUNDARY_COLUMNS} FROM boundaries WHERE session = ? AND seq > ? ORDER BY seq LIMIT 1`;
    return this.#one(toBoundary, sql, [session, seq]);
  }

  liveBoundaries(): Promise<BoundaryRecord[]> {
    const sql = `SELECT ${BOUNDARY_COLUMNS} FROM boundaries INDEXED BY boundaries_live
      WHERE state = 'live' AND seq >= 0 ORDER BY seq, ord`;
    return this.#all(toBoundary, sql);
  }

  // ---- calls -----------------------------------------------------------------------------------------------------

  openCalls(session?: number): Promise<CallRecord[]> {
    const of = session === undefined ? '' : 'AND session = ?';
    const sql = `SELECT ${CALL_COLUMNS} FROM calls INDEXED BY calls_open WHERE state = 'open' AND session >= 0 ${of}
      ORDER BY invocation`;
    return this.#all(toCall, sql, session === undefined ? [] : [session]);
  }

  call(session: number, callId: string): Promise<CallRecord | null> {
    const sql = `SELECT ${CALL_COLUMNS} FROM calls WHERE session = ? AND id = ? ORDER BY invocation DESC LIMIT 1`;
    return this.#one(toCall, sql, [session, fromString(callId)]);
  }

  callsOfStep(session: number, stepId: string): Promise<CallRecord[]> {
    const sql = `SELECT ${CALL_COLUMNS} FROM calls INDEXED BY calls_by_step WHERE session = ? AND step = ?
      ORDER BY begin_seq, invocation`;
    return this.#all(toCall, sql, [session, fromString(stepId)]);
  }

  callsBetween(afterSeq: number, toSeq: number = NO_END): Promise<CallRecord[]> {
    // INDEXED BY: else SQLite walks all calls to save itself the sort.
    const calls = `SELECT ${CALL_COLUMNS} FROM calls INDEXED BY calls_by_end`;
    const sql = `${calls} WHERE end_seq > ? AND begin_seq < ?
      UNION ALL ${calls} WHERE end_seq IS NULL AND begin_seq < ? ORDER BY invocation`;
    return this.#all(toCall, sql, [afterSeq, toSeq, toSeq]);
  }

  async nextInvocation(): Promise<number> {
    const [row] = await this.driver.query('SELECT last_invocation + 1 FROM state');
    return toInt(row?.[0]);
  }

  async sqliteVersion(): Promise<string> {
    const [row] = await this.driver.query('SELECT sqlite_version()');
    return String(row?.[0]);
  }

  // ---- operations ------------------------------------------------------------------------------------------------

  operation(id: RandomId): Promise<OperationRecord | null> {
    return this.#one(toOperation, `SELECT ${OPERATION_COLUMNS} FROM operations WHERE id = ?`, [id]);
  }

  operations(
    session: number,
    { limit = -1, afterSeq = -1 }: { limit?: number; afterSeq?: number } = {},
  ): Promise<OperationRecord[]> {
    const sql = `SELECT ${OPERATION_COLUMNS} FROM operations WHERE session = ? AND seq > ? ORDER BY seq DESC LIMIT ?`;
    return this.#all(toOperation, sql, [session, afterSeq, limit]);
  }

  operationsAfter(afterSeq: number): Promise<OperationRecord[]> {
    return this.#all(toOperation, `SELECT ${OPERATION_COLUMNS} FROM operations WHERE seq > ? ORDER BY seq`, [afterSeq]);
  }

  /** In the order of TAKEN_COLUMNS. What was given back after `asOf` was not given back then. */
  taken(session: number, afterSeq = -1, asOf: number = NO_END): Promise<TakenRecord[]> {
    const columns = 't.operation, t.path, t.from_seq, t.to_seq, iif(r.seq <= ?3, t.returned_by, NULL), o.seq';
    // Two halves, each by its own index. The second: an operation may take out rows from under later ones.
    const sql = `SELECT ${columns} FROM taken t INDEXED BY taken_by_session
        CROSS JOIN operations o ON o.id = t.operation LEFT JOIN operations r ON r.id = t.returned_by
        WHERE t.session = ?1 AND t.to_seq > ?2 AND o.seq <= ?3
      UNION ALL
      SELECT ${columns} FROM operations o INDEXED BY operations_by_session
        CROSS JOIN taken t ON t.operation = o.id LEFT JOIN operations r ON r.id = t.returned_by
        WHERE o.session = ?1 AND o.seq > ?2 AND o.seq <= ?3 AND t.to_seq <= ?2
      ORDER BY 6, 2, 3`;
    return this.#all(toTaken, sql, [session, afterSeq, asOf]);
  }

  takenBy(operation: RandomId): Promise<TakenRecord[]> {
    const sql = `SELECT ${TAKEN_COLUMNS} FROM taken WHERE operation = ? ORDER BY path, from_seq`;
    return this.#all(toTaken, sql, [operation]);
  }
}
