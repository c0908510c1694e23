/**
 * What retention and `drop` do to a timeline, as statements, and the list of blobs that it still needs.
 *
 * The old end goes; what stays keeps its seq. Guards refuse a cut that a live boundary would lose bytes by. Records that
 * say why something is unknown (expired boundaries) stay: they are small.
 */
import type { SqlDriver, SqlStatement } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import type { Hash } from '../types.ts';
import { faultText, sessionGuard } from './append.ts';
import { BOUNDARY_COLUMNS, bytes, fromString, toInt, toText } from './records.ts';
import type { Fold } from './timeline.ts';

/**
 * Everything up to `seq` becomes the manifest. Of what is older stay: the observation at `seq` (the head may stand
 * there), calls that newer ones are nested in, and operations that a newer one takes back.
 */
export function cutStatements(seq: number, manifest: { hash: Hash; entries: number }): SqlStatement[] {
  return [
    {
      sql: 'INSERT INTO guard (moved) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM observations WHERE seq = ?)',
      params: [seq],
    },
    { sql: `INSERT INTO guard (cut) SELECT 1 FROM boundaries WHERE state = 'live' AND seq < ? LIMIT 1`, params: [seq] },
    { sql: 'DELETE FROM rows WHERE seq <= ?', params: [seq] },
    { sql: 'DELETE FROM manifests WHERE seq <= ?', params: [seq] },
    {
      sql: 'INSERT INTO manifests (seq, hash, entries) VALUES (?, ?, ?)',
      params: [seq, manifest.hash, manifest.entries],
    },
    { sql: 'DELETE FROM observations WHERE seq < ?', params: [seq] },
    {
      sql: `WITH RECURSIVE kept (invocation, parent) AS (
          SELECT invocation, parent FROM calls WHERE end_seq IS NULL OR end_seq > ?
          UNION SELECT c.invocation, c.parent FROM kept JOIN calls c ON c.invocation = kept.parent
        ) DELETE FROM calls WHERE invocation NOT IN (SELECT invocation FROM kept)`,
      params: [seq],
    },
    {
      sql: `DELETE FROM operations WHERE seq <= ?
        AND id NOT IN (SELECT takes_back FROM operations WHERE seq > ? AND takes_back IS NOT NULL)`,
      params: [seq, seq],
    },
    {
      sql: `UPDATE boundaries SET undone_by = NULL
        WHERE undone_by IS NOT NULL AND undone_by NOT IN (SELECT id FROM operations)`,
    },
    { sql: 'DELETE FROM rules WHERE id < (SELECT rules FROM state)' },
    { sql: 'DELETE FROM forks WHERE fork_seq <= ?', params: [seq] },
    ...keylessStatements(),
  ];
}

/** A fold begins where its first row began; it is no move, for that had begun elsewhere. One that changed nothing goes as a whole: the chain of the path holds. */
export function foldStatements(folds: readonly Fold[]): SqlStatement[] {
  const ends = folds.map(({ path, seqs }) => ({
    path: encodeName(path),
    seqs,
    first: seqs[0] as number,
    last: seqs.at(-1) as number,
  }));
  const gone = ends.flatMap(({ path, seqs }) => seqs.slice(0, -1).map((seq) => [seq, path]));
  return [
    {
      sql: `UPDATE rows SET before = (SELECT before FROM rows r WHERE r.seq = ? AND r.path = rows.path),
          moved_from = NULL,
          flags = (SELECT max(flags & 1) | max(flags & 2) FROM rows r WHERE r.path = rows.path AND r.seq BETWEEN ? AND ?)
        WHERE seq = ? AND path = ?`,
      many: ends.map(({ path, first, last }) => [first, first, last, last, path]),
    },
    { sql: 'DELETE FROM rows WHERE seq = ? AND path = ?', many: gone },
    {
      sql: 'DELETE FROM rows WHERE seq = ? AND path = ? AND before = after',
      many: ends.map(({ path, last }) => [last, path]),
    },
    {
      sql: `UPDATE observations SET kind = 'folded' WHERE seq >= ? AND seq < ?`,
      many: ends.map(({ first, last }) => [first, last]),
    },
  ];
}

/** Back to before the first observation. Open calls stay open, for their end will come. */
export function clearStatements(): SqlStatement[] {
  return [
    { sql: 'DELETE FROM rows' },
    { sql: 'DELETE FROM manifests' },
    { sql: 'DELETE FROM observations' },
    { sql: 'DELETE FROM rules' },
    { sql: 'DELETE FROM operations' },
    { sql: 'DELETE FROM forks' },
    { sql: `DELETE FROM calls WHERE state <> 'open'` },
    {
      sql: 'UPDATE calls SET begin_seq = 0, turn_seq = 0, parent = (SELECT p.invocation FROM calls p WHERE p.invocation = calls.parent)',
    },
    { sql: `UPDATE boundaries SET seq = 0, undone_by = NULL, state = iif(state = 'live', 'expired', state)` },
    { sql: 'UPDATE state SET seq = 0, observation = NULL, rules = NULL' },
  ];
}

export function expireStatements(boundaries: readonly { session: number; boundaryId: string }[]): SqlStatement[] {
  return [
    {
      sql: `UPDATE boundaries SET state = 'expired' WHERE session = ? AND id = ? AND state = 'live'`,
      many: boundaries.map((boundary) => [boundary.session, fromString(boundary.boundaryId)]),
    },
  ];
}

/**
 * Attribution is computed from calls and operations: with them gone, the session's rows are nobody's. Calls that ran
 * beside another session's stay, under a session without a key: else its rows would pass for the other's. So does what a
 * fork inherited, until the last fork is dropped too.
 */
export function dropStatements(session: number): SqlStatement[] {
  const params = [session];
  return [
    {
      sql: `UPDATE calls SET state = 'ended', ended_at = began_at, end_seq = max(begin_seq, (SELECT seq FROM state))
        WHERE session = ? AND state = 'open'`,
      params,
    },
    { sql: 'DELETE FROM boundaries WHERE session = ?', params },
    { sql: 'UPDATE sessions SET thread = id, tenant = NULL WHERE id = ?', params },
    ...keylessStatements(),
  ];
}

/** Above every seq. */
const NEVER = Number.MAX_SAFE_INTEGER;

/** Sessions that were dropped, and for each the last seq that a fork of it inherited; null where there is none. */
const KEYLESS = `SELECT s.id, (SELECT max(fork_seq) FROM forks WHERE parent = s.id) AS kept FROM sessions s
  WHERE typeof(s.thread) = 'integer'`;

/** Of each call: whether its session has a key, or a fork needs it; and what such calls, begun before or after it, reach. */
const SPANS = `SELECT invocation, session, begin_seq, ifnull(end_seq, ${NEVER}) AS end,
    max(iif(lives, ifnull(end_seq, ${NEVER}), NULL)) OVER (ORDER BY begin_seq) AS reach,
    min(iif(lives, begin_seq, NULL)) OVER (ORDER BY begin_seq DESC) AS next
  FROM (SELECT c.*, k.id IS NULL OR c.begin_seq < ifnull(k.kept, -1) AS lives
    FROM calls c LEFT JOIN (${KEYLESS}) k ON k.id = c.session)`;

/**
 * What nobody needs of dropped sessions goes. A fork that was dropped itself, and has none of its own, ends its parent's.
 * A call that ran beside one that lives stays.
 */
function keylessStatements(): SqlStatement[] {
  const calls = `SELECT c.invocation FROM (${KEYLESS}) k JOIN (${SPANS}) c ON c.session = k.id
    WHERE c.begin_seq >= ifnull(k.kept, -1) AND ifnull(c.reach, -1) <= c.begin_seq AND ifnull(c.next, ${NEVER}) >= c.end`;
  const operations = `SELECT o.id FROM (${KEYLESS}) k JOIN operations o ON o.session = k.id AND o.seq > ifnull(k.kept, -1)`;
  return [
    {
      sql: `WITH RECURSIVE needed (session) AS (
          SELECT f.session FROM forks f JOIN sessions s ON s.id = f.session WHERE typeof(s.thread) <> 'integer'
          UNION SELECT f.parent FROM needed JOIN forks f ON f.session = needed.session
        ) DELETE FROM forks WHERE session NOT IN (SELECT session FROM needed)`,
    },
    { sql: `UPDATE calls SET parent = NULL WHERE parent IN (${calls})` },
    { sql: `DELETE FROM operations WHERE id IN (${operations})` },
    { sql: `DELETE FROM calls WHERE invocation IN (${calls})` },
    {
      // Where a call was open, an operation that nobody knows any more still says that the rows are not the call's.
      sql: `UPDATE observations SET operation = NULL
        WHERE operation IS NOT NULL AND operation NOT IN (SELECT id FROM operations) AND NOT EXISTS
          (SELECT 1 FROM calls c WHERE c.begin_seq < observations.seq AND ifnull(c.end_seq, ${NEVER}) >= observations.seq)`,
    },
    {
      sql: `DELETE FROM sessions WHERE typeof(thread) = 'integer'
        AND id NOT IN (SELECT parent FROM forks) AND id NOT IN (SELECT session FROM calls)`,
    },
  ];
}

/** The fork's boundaries are copies: from here on each of the two goes its own way. */
export function forkStatements(fork: {
  session: number;
  parent: number;
  atSeq: number;
  forkSeq: number;
}): SqlStatement[] {
  const { session, parent, atSeq, forkSeq } = fork;
  const copied = BOUNDARY_COLUMNS.replace('session, ', '');
  return [
    sessionGuard(parent),
    {
      sql: `INSERT INTO boundaries (session, ${copied}) SELECT ?, ${copied} FROM boundaries
        WHERE session = ? AND seq <= ? ORDER BY ord`,
      params: [session, parent, atSeq],
    },
    {
      sql: 'INSERT INTO forks (session, parent, at_seq, fork_seq) VALUES (?, ?, ?, ?)',
      params: [session, parent, atSeq, forkSeq],
    },
  ];
}

/** The fault that a guard of {@link cutStatements} stands for, or the driver's own. */
export function cutFault(seq: number, error: unknown): unknown {
  const said = faultText(error);
  if (said.includes('takeback_timeline_moved')) {
    return new TakebackError('ERR_INTERNAL', `timeline moved: there is no observation ${seq} to cut at`);
  }
  if (said.includes('takeback_live_before_cut')) {
    return new TakebackError('ERR_INTERNAL', `a live boundary lies before ${seq}; the timeline was not cut`);
  }
  return error;
}

/** Observations whose rows are looked at in one statement, so that no answer holds the whole store. */
const OBSERVATIONS_PER_QUERY = 500;

/** `file` in the version codec: kind 1, u32 mode, u64 size, then the hash. SQL counts bytes from 1. */
const FILE_HASH = (column: string): string => `SELECT substr(${column}, 14, 16) FROM rows
  WHERE seq > ? AND seq <= ? AND substr(${column}, 1, 1) = x'01'`;

export async function liveHashes(driver: SqlDriver): Promise<Hash[]> {
  const manifests = await driver.query('SELECT hash FROM manifests');
  const live = new Set<Hash>(manifests.map(([hash]) => toText(hash)));
  const [range] = await driver.query('SELECT ifnull(min(seq), 0), ifnull(max(seq), 0) FROM rows');
  const last = toInt(range?.[1]);
  for (let after = toInt(range?.[0]) - 1; after < last; after += OBSERVATIONS_PER_QUERY) {
    const window = [after, after + OBSERVATIONS_PER_QUERY];
    const found = await driver.query(`${FILE_HASH('before')} UNION ${FILE_HASH('after')}`, [...window, ...window]);
    for (const [hash] of found) live.add(bytes(hash).toString('hex'));
  }
  return [...live];
}
