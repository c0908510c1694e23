/**
 * Checks a timeline: the chain of each path's rows, references between records, and SQLite's own check of the file.
 *
 * Reads the whole store in pages, changes nothing, and goes on after a fault: damage is a problem in the answer, never a
 * rejection. Whether the oldest row of a path fits the manifest is the caller's to check (a manifest is a blob).
 */
import type { SqlDriver, SqlRow } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import { isBadPath } from '../rel-path.ts';
import type { RelPath } from '../types.ts';
import { decodeVersion, KIND } from '../wire.ts';
import { bytes, toInt, toPath, toText } from './records.ts';

export interface TimelineProblem {
  kind: string;
  path?: RelPath;
  detail: string;
}

const ROWS_PER_PAGE = 5000;

/** Each finds records that must not be; the answer's columns go into the detail. */
const REFERENCES: readonly (readonly [what: string, sql: string])[] = [
  [
    'an observation is missing before',
    'SELECT seq FROM observations o WHERE seq > (SELECT min(seq) FROM observations) AND NOT EXISTS (SELECT 1 FROM observations p WHERE p.seq = o.seq - 1)',
  ],
  [
    'the head is not the newest observation',
    `SELECT s.seq, s.observation FROM state s WHERE s.seq <> ifnull((SELECT max(seq) FROM observations), 0)
      OR s.observation IS NOT (SELECT id FROM observations o WHERE o.seq = s.seq)`,
  ],
  [
    'the standing rules are missing',
    'SELECT rules FROM state WHERE rules IS NOT NULL AND rules NOT IN (SELECT id FROM rules)',
  ],
  ['rows without an observation', 'SELECT DISTINCT seq FROM rows WHERE seq NOT IN (SELECT seq FROM observations)'],
  ['a manifest without an observation', 'SELECT seq FROM manifests WHERE seq NOT IN (SELECT seq FROM observations)'],
  [
    'rows without a manifest before them',
    'SELECT min(seq) FROM rows HAVING min(seq) < ifnull((SELECT min(seq) FROM manifests), 1e18)',
  ],
  ['a boundary after the head', 'SELECT session, id FROM boundaries WHERE seq > (SELECT seq FROM state)'],
  [
    'a boundary of an unknown session',
    'SELECT session, id FROM boundaries WHERE session NOT IN (SELECT id FROM sessions)',
  ],
  [
    'a boundary undone by an unknown operation',
    'SELECT session, id, undone_by FROM boundaries WHERE undone_by IS NOT NULL AND undone_by NOT IN (SELECT id FROM operations)',
  ],
  ['a call of an unknown session', 'SELECT invocation FROM calls WHERE session NOT IN (SELECT id FROM sessions)'],
  [
    'a call outside the timeline',
    'SELECT invocation FROM calls WHERE begin_seq > (SELECT seq FROM state) OR end_seq > (SELECT seq FROM state) OR end_seq < begin_seq',
  ],
  [
    'a call nested in an unknown call',
    'SELECT invocation, parent FROM calls WHERE parent IS NOT NULL AND parent NOT IN (SELECT invocation FROM calls)',
  ],
  ['an operation of an unknown session', 'SELECT id FROM operations WHERE session NOT IN (SELECT id FROM sessions)'],
  ['an operation after the head', 'SELECT id FROM operations WHERE seq > (SELECT seq FROM state)'],
  [
    'an observation of an unknown operation',
    // Of a dropped session it stays known where it ran inside another's call.
    `SELECT seq, operation FROM observations o WHERE operation IS NOT NULL AND operation NOT IN (SELECT id FROM operations)
      AND seq > (SELECT min(seq) FROM observations) AND NOT EXISTS
        (SELECT 1 FROM calls c WHERE c.begin_seq < o.seq AND (c.end_seq IS NULL OR c.end_seq >= o.seq))`,
  ],
  [
    'rows taken back by an unknown operation',
    'SELECT operation FROM taken WHERE operation NOT IN (SELECT id FROM operations)',
  ],
];

export async function verifyTimeline(driver: SqlDriver): Promise<{ checked: number; problems: TimelineProblem[] }> {
  const problems: TimelineProblem[] = [];
  let checked = 0;
  const look = async (work: () => Promise<number>): Promise<void> => {
    try {
      checked += await work();
    } catch (error) {
      if (!(error instanceof TakebackError) || error.code !== 'ERR_STORE_CORRUPT') throw error;
      problems.push({ kind: 'database', detail: error.message });
    }
  };
  await look(async () => {
    for (const [said] of await driver.query('PRAGMA integrity_check')) {
      if (said !== 'ok') problems.push({ kind: 'database', detail: toText(said) });
    }
    return 1;
  });
  for (const [what, sql] of REFERENCES) {
    await look(async () => {
      for (const found of await driver.query(sql))
        problems.push({ kind: 'reference', detail: `${what}: ${named(found)}` });
      return 1;
    });
  }
  await look(() => verifyChains(driver, problems));
  return { checked, problems };
}

function named(row: SqlRow): string {
  return row
    .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)))
    .join(' ');
}

/** A name that was gone, made again where nobody could look, and then seen: it enters as uncovered. */
function cameIntoSight(after: Buffer, before: Buffer): boolean {
  return after[0] === KIND.absent && before[0] === KIND.uncovered;
}

/** Per path: before = the after of the row before; each version can be decoded. Answers how many rows it looked at. */
async function verifyChains(driver: SqlDriver, problems: TimelineProblem[]): Promise<number> {
  let rows = 0;
  let last: { path: Buffer; seq: number; after: Buffer } | undefined;
  for (;;) {
    // node:sqlite binds an empty blob as NULL.
    const page = await driver.query(
      `SELECT path, seq, before, after FROM rows INDEXED BY rows_by_path WHERE (path, seq) > (ifnull(?, x''), ?)
        ORDER BY path, seq LIMIT ${ROWS_PER_PAGE}`,
      [last?.path ?? new Uint8Array(0), last?.seq ?? -1],
    );
    for (const row of page) {
      const [path, seq, before, after] = [bytes(row[0]), toInt(row[1]), bytes(row[2]), bytes(row[3])];
      if (last?.path.equals(path) && !last.after.equals(before) && !cameIntoSight(last.after, before)) {
        problems.push({
          kind: 'chain',
          path: toPath(path),
          detail: `row ${seq} does not begin where row ${last.seq} ended`,
        });
      }
      if (path.length > 0 && isBadPath(toPath(path)))
        problems.push({
          kind: 'row',
          path: toPath(path),
          detail: `row ${seq}: the path has a part that no file can have`,
        });
      for (const version of [before, after]) {
        const fault = decodeFault(version);
        if (fault !== null) problems.push({ kind: 'row', path: toPath(path), detail: `row ${seq}: ${fault}` });
      }
      last = { path, seq, after };
    }
    rows += page.length;
    if (page.length < ROWS_PER_PAGE) return rows;
  }
}

function decodeFault(version: Buffer): string | null {
  try {
    decodeVersion(version);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
