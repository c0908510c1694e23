/**
 * The timeline's schema, as an ordered list of migrations. Owns the SQL text of tables and indexes, and nothing else.
 *
 * A migration is never edited once it was released: a change is a new one at the end. Paths are BLOBs, so that their
 * order is byte order; versions are blobs of the wire codec; `ANY` columns hold a string of the host (see `records.ts`).
 * `operations.redoable` is 1 everywhere: nothing asks for it.
 * `state` has one row: the head, so that it costs one look. `guard` never has a row: an append inserts into it where
 * a condition of its own failed, and the named constraint rolls the transaction back and says which.
 */

/** "TBK1": tells a timeline from another program's database. */
const APPLICATION_ID = 0x54424b31;

const VERSION_1 = `
PRAGMA application_id = ${APPLICATION_ID};
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL,
  observation TEXT,
  rules INTEGER,
  gc_generation INTEGER NOT NULL,
  last_invocation INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (1, 0, NULL, NULL, 0, 0);
CREATE TABLE guard (
  moved INTEGER CONSTRAINT takeback_timeline_moved CHECK (moved IS NULL),
  boundary INTEGER CONSTRAINT takeback_duplicate_boundary CHECK (boundary IS NULL),
  call INTEGER CONSTRAINT takeback_duplicate_call CHECK (call IS NULL),
  unknown_call INTEGER CONSTRAINT takeback_unknown_call CHECK (unknown_call IS NULL),
  session INTEGER CONSTRAINT takeback_unknown_session CHECK (session IS NULL),
  cut INTEGER CONSTRAINT takeback_live_before_cut CHECK (cut IS NULL)
) STRICT;

CREATE TABLE observations (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  operation TEXT,
  overlap BLOB
) STRICT;
CREATE TABLE rows (
  seq INTEGER NOT NULL,
  path BLOB NOT NULL,
  before BLOB NOT NULL,
  after BLOB NOT NULL,
  flags INTEGER NOT NULL,
  PRIMARY KEY (seq, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX rows_by_path ON rows (path, seq);
CREATE TABLE manifests (seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, entries INTEGER NOT NULL) STRICT;
CREATE TABLE rules (id INTEGER PRIMARY KEY AUTOINCREMENT, content BLOB NOT NULL) STRICT;

-- AUTOINCREMENT: another process may still hold the number of a session that was dropped.
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  thread ANY NOT NULL,
  tenant ANY,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_key ON sessions (thread, ifnull(tenant, x''));
CREATE TABLE boundaries (
  ord INTEGER PRIMARY KEY AUTOINCREMENT,
  session INTEGER NOT NULL REFERENCES sessions (id),
  id ANY NOT NULL,
  seq INTEGER NOT NULL,
  label ANY,
  created_at INTEGER NOT NULL,
  dev INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  birth_ns INTEGER NOT NULL,
  head ANY,
  undone_by TEXT,
  state TEXT NOT NULL CHECK (state IN ('live', 'discarded', 'expired'))
) STRICT;
CREATE UNIQUE INDEX boundaries_by_id ON boundaries (session, id);
CREATE INDEX boundaries_by_seq ON boundaries (session, seq);
CREATE INDEX boundaries_live ON boundaries (seq) WHERE state = 'live';
CREATE TABLE calls (
  invocation INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (id),
  id ANY NOT NULL,
  tool ANY,
  step ANY,
  parent INTEGER,
  begin_seq INTEGER NOT NULL,
  end_seq INTEGER,
  state TEXT NOT NULL CHECK (state IN ('open', 'ended', 'interrupted')),
  detached INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  host_id TEXT NOT NULL,
  side_effect TEXT,
  is_error INTEGER NOT NULL,
  paths BLOB,
  turn_seq INTEGER NOT NULL,
  began_at INTEGER NOT NULL,
  ended_at INTEGER,
  CHECK ((state = 'open') = (end_seq IS NULL))
) STRICT;
CREATE INDEX calls_by_id ON calls (session, id);
CREATE INDEX calls_by_end ON calls (end_seq, begin_seq);
CREATE INDEX calls_open ON calls (session) WHERE state = 'open';
CREATE TABLE operations (
  id TEXT PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (id),
  kind TEXT NOT NULL,
  boundary_id ANY NOT NULL,
  boundary_seq INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  on_conflict TEXT NOT NULL,
  receipt TEXT NOT NULL,
  takes_back TEXT,
  redone_by TEXT,
  redoable INTEGER NOT NULL
) STRICT;
CREATE INDEX operations_by_session ON operations (session, seq);
CREATE INDEX operations_by_seq ON operations (seq);
CREATE INDEX operations_redoable ON operations (session) WHERE redoable = 1;
CREATE TABLE taken (
  operation TEXT NOT NULL REFERENCES operations (id) ON DELETE CASCADE,
  path BLOB NOT NULL,
  from_seq INTEGER NOT NULL,
  to_seq INTEGER NOT NULL,
  returned_by TEXT,
  session INTEGER NOT NULL,
  PRIMARY KEY (operation, path, from_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_by_session ON taken (session, to_seq);
`;

/**
 * Forks: up to `fork_seq` the parent's calls and operations are the fork's too. A session that was dropped while forks
 * of it live stays without a key: its `thread` is its number, which no string of a host is stored as.
 */
const VERSION_2 = `
CREATE TABLE forks (
  session INTEGER PRIMARY KEY REFERENCES sessions (id),
  parent INTEGER NOT NULL REFERENCES sessions (id),
  at_seq INTEGER NOT NULL,
  fork_seq INTEGER NOT NULL
) STRICT;
CREATE INDEX forks_by_parent ON forks (parent);
CREATE INDEX calls_by_step ON calls (session, step) WHERE step IS NOT NULL;
`;

/** Moves: the path that a row's file came from in the same observation, where its inode proves it. */
const VERSION_3 = `
ALTER TABLE rows ADD COLUMN moved_from BLOB;
`;

/** Migration n (from 1) takes a store of version n − 1 to version n. Each runs in a transaction of its own. */
export const MIGRATIONS: readonly string[] = [VERSION_1, VERSION_2, VERSION_3];

export const SCHEMA_VERSION: number = MIGRATIONS.length;

/** Every table of the newest version: a store that lacks one is damaged. */
export const TABLES: readonly string[] = [
  'boundaries',
  'calls',
  'forks',
  'guard',
  'manifests',
  'meta',
  'observations',
  'operations',
  'rows',
  'rules',
  'sessions',
  'state',
  'taken',
];
