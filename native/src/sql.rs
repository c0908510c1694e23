//! SQLite behind a generic driver: statements and values in, rows out, packed as docs/addon.md says.
//!
//! Owns no SQL but BEGIN IMMEDIATE, COMMIT and ROLLBACK. One connection a database; the handle's work thread is its
//! only user. Not covered: journal mode, pragmas and schema (TypeScript sets them through `exec`), and waiting for
//! other processes beyond SQLite's own busy timeout.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, ToSql};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;

use crate::error::{Code, EngineError, IoContext, Result};
use crate::wire::{Reader, Writer};

/// Statements kept prepared; the engine has some dozens.
const PREPARED: usize = 200;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// Least bytes of a value, of a list of parameters and of a statement.
const LEAST_VALUE: usize = 1;
const LEAST_PARAMS: usize = 4;
const LEAST_STATEMENT: usize = 9;

pub struct Database {
    connection: Connection,
}

/// A packed parameter, bound without a copy.
struct Param<'a>(ValueRef<'a>);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

impl Database {
    /// Opens the file, making it (0600) where missing. SQLite gives its companion files the same mode.
    pub fn open(file: &Path, busy_timeout: Duration) -> Result<Self> {
        match make(file) {
            Ok(()) | Err(Errno::EXIST) => {}
            failed => failed.doing_at("make the database", file.as_os_str().as_encoded_bytes())?,
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(fault)?;
        connection.busy_timeout(busy_timeout).map_err(fault)?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        Ok(Database { connection })
    }

    pub fn exec(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(fault)
    }

    pub fn query(&self, sql: &str, params: &[u8]) -> Result<Vec<u8>> {
        let mut reader = Reader::new(params);
        let mut out = Writer::new();
        self.run(sql, &mut reader, 1, &mut out)?;
        reader.end()?;
        Ok(out.done())
    }

    /// All statements in one transaction, rolled back as a whole on a fault.
    pub fn transaction(&self, statements: &[u8]) -> Result<Vec<u8>> {
        self.exec("BEGIN IMMEDIATE")?;
        let done = self
            .run_all(statements)
            .and_then(|rows| self.exec("COMMIT").map(|()| rows));
        // SQLite has rolled some faults back itself; a COMMIT that was busy leaves the transaction open.
        if done.is_err() && !self.connection.is_autocommit() {
            self.exec("ROLLBACK")?;
        }
        done
    }

    fn run_all(&self, statements: &[u8]) -> Result<Vec<u8>> {
        let mut reader = Reader::new(statements);
        let count = reader.count(LEAST_STATEMENT)?;
        let mut out = Writer::new();
        out.count(count);
        for _ in 0..count {
            let sql = reader.text()?;
            let times = match reader.u8()? {
                0 => 1,
                1 => reader.count(LEAST_PARAMS)?,
                mode => return Err(invalid(format!("unknown mode of a statement: {mode}"))),
            };
            self.run(sql, &mut reader, times, &mut out)?;
        }
        reader.end()?;
        Ok(out.done())
    }

    /// Runs one statement `times` times, with the next lists of parameters; writes the rows of all runs.
    fn run(&self, sql: &str, params: &mut Reader<'_>, times: usize, out: &mut Writer) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(fault)?;
        let columns = statement.column_count();
        let mut rows = Writer::new();
        let mut count = 0;
        for _ in 0..times {
            bind(&mut statement, params)?;
            if columns == 0 {
                statement.raw_execute().map_err(fault)?;
            } else {
                count += read_rows(&mut statement, columns, &mut rows)?;
            }
        }
        out.count(count).count(columns).raw(&rows.done());
        Ok(())
    }

    /// Ends the connection; the last one to a WAL file checkpoints it.
    pub fn close(self) -> Result<()> {
        self.connection.close().map_err(|(_, error)| fault(error))
    }
}

/// Makes the file without opening it: closing a descriptor of ours would drop the locks that another connection of this
/// process has on it (POSIX locks belong to the process, not to the descriptor).
fn make(file: &Path) -> crate::sys::Sys<()> {
    let name = file.as_os_str().as_encoded_bytes();
    crate::sys::mknodat(CWD, name, Mode::RUSR | Mode::WUSR)
}

fn bind(statement: &mut CachedStatement<'_>, params: &mut Reader<'_>) -> Result<()> {
    let count = params.count(LEAST_VALUE)?;
    let expected = statement.parameter_count();
    if count != expected {
        return Err(invalid(format!(
            "{count} parameters for a statement that takes {expected}"
        )));
    }
    for index in 1..=count {
        let value = match params.u8()? {
            NULL => ValueRef::Null,
            INTEGER => ValueRef::Integer(params.i64()?),
            REAL => ValueRef::Real(f64::from_bits(params.u64()?)),
            TEXT => ValueRef::Text(params.bytes()?),
            BLOB => ValueRef::Blob(params.bytes()?),
            other => return Err(invalid(format!("unknown type of a parameter: {other}"))),
        };
        statement.raw_bind_parameter(index, Param(value)).map_err(fault)?;
    }
    Ok(())
}

fn read_rows(statement: &mut CachedStatement<'_>, columns: usize, out: &mut Writer) -> Result<usize> {
    let mut rows = statement.raw_query();
    let mut count = 0;
    while let Some(row) = rows.next().map_err(fault)? {
        for column in 0..columns {
            match row.get_ref(column).map_err(fault)? {
                ValueRef::Null => out.u8(NULL),
                ValueRef::Integer(value) => out.u8(INTEGER).i64(value),
                ValueRef::Real(value) => out.u8(REAL).u64(value.to_bits()),
                ValueRef::Text(bytes) => out.u8(TEXT).bytes(bytes),
                ValueRef::Blob(bytes) => out.u8(BLOB).bytes(bytes),
            };
        }
        count += 1;
    }
    Ok(count)
}

fn invalid(message: String) -> EngineError {
    EngineError::new(Code::InvalidArgument, message)
}

/// Codes as `src/backend/backend.ts` lists them.
fn fault(error: rusqlite::Error) -> EngineError {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Code::Busy,
        Some(ErrorCode::DiskFull) => Code::NoSpace,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Code::StoreCorrupt,
        _ => Code::Io,
    };
    EngineError::new(code, format!("SQLite: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn open(dir: &TempDir) -> Database {
        Database::open(&dir.path().join("t.db"), Duration::from_millis(50)).unwrap()
    }

    fn params(numbers: &[i64]) -> Vec<u8> {
        let mut out = Writer::new();
        out.count(numbers.len());
        for number in numbers {
            out.u8(INTEGER).i64(*number);
        }
        out.done()
    }

    fn statement(sql: &str, params: &[u8]) -> Vec<u8> {
        let mut out = Writer::new();
        out.count(1).bytes(sql.as_bytes()).u8(0).raw(params);
        out.done()
    }

    fn numbers(rows: &[u8]) -> Vec<i64> {
        let mut reader = Reader::new(rows);
        let count = reader.u32().unwrap() * reader.u32().unwrap();
        (0..count)
            .map(|_| (reader.u8().unwrap(), reader.i64().unwrap()).1)
            .collect()
    }

    #[test]
    fn the_file_is_private_from_the_start() {
        let dir = TempDir::new().unwrap();
        let database = open(&dir);
        database
            .exec("PRAGMA journal_mode = WAL; CREATE TABLE t(a)")
            .unwrap();
        for name in ["t.db", "t.db-wal", "t.db-shm"] {
            let mode = std::fs::metadata(dir.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        database.close().unwrap();
    }

    #[test]
    fn opening_a_file_again_drops_no_lock_of_this_process() {
        let dir = TempDir::new().unwrap();
        let one = open(&dir);
        one.exec("CREATE TABLE t(a); BEGIN IMMEDIATE").unwrap();
        drop(open(&dir));
        let two =
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0); c.execute('BEGIN IMMEDIATE')";
        let file = dir.path().join("t.db");
        match std::process::Command::new("python3")
            .args(["-c", two])
            .arg(&file)
            .output()
        {
            Ok(output) => assert!(String::from_utf8_lossy(&output.stderr).contains("locked")),
            Err(error) => eprintln!("not tested, no python3 here: {error}"),
        }
    }

    #[test]
    fn a_fault_rolls_the_whole_transaction_back() {
        let dir = TempDir::new().unwrap();
        let database = open(&dir);
        database.exec("CREATE TABLE t(a INTEGER PRIMARY KEY)").unwrap();
        let mut two = Writer::new();
        two.count(2);
        for _ in 0..2 {
            two.bytes(b"INSERT INTO t VALUES (?)").u8(0).raw(&params(&[7]));
        }
        assert_eq!(database.transaction(&two.done()).unwrap_err().code, Code::Io);
        assert_eq!(
            numbers(&database.query("SELECT count(*) FROM t", &params(&[])).unwrap()),
            [0]
        );
        database
            .transaction(&statement("INSERT INTO t VALUES (?)", &params(&[7])))
            .unwrap();
        assert_eq!(
            numbers(&database.query("SELECT a FROM t", &params(&[])).unwrap()),
            [7]
        );
    }

    #[test]
    fn a_second_writer_is_told_busy_and_a_foreign_file_corrupt() {
        let dir = TempDir::new().unwrap();
        let (one, two) = (open(&dir), open(&dir));
        one.exec("CREATE TABLE t(a); BEGIN IMMEDIATE").unwrap();
        let error = two
            .transaction(&statement("INSERT INTO t VALUES (?)", &params(&[1])))
            .unwrap_err();
        assert_eq!(error.code(), "ERR_BUSY");
        let path = dir.path().join("not.db");
        std::fs::write(&path, "no database, and long enough to have a header".repeat(40)).unwrap();
        let foreign = Database::open(&path, Duration::ZERO).unwrap();
        assert_eq!(
            foreign.exec("CREATE TABLE t(a)").unwrap_err().code(),
            "ERR_STORE_CORRUPT"
        );
    }

    #[test]
    fn a_wrong_number_of_parameters_is_an_error_and_binds_nothing() {
        let dir = TempDir::new().unwrap();
        let database = open(&dir);
        for given in [&[][..], &[1, 2, 3][..]] {
            let error = database.query("SELECT ? + ?", &params(given)).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
        }
        assert_eq!(
            numbers(&database.query("SELECT ? + ?", &params(&[1, 2])).unwrap()),
            [3]
        );
    }

    #[test]
    fn no_cut_of_a_request_panics_or_half_commits() {
        let dir = TempDir::new().unwrap();
        let database = open(&dir);
        database.exec("CREATE TABLE t(a)").unwrap();
        let whole = statement("INSERT INTO t VALUES (?)", &params(&[7]));
        for end in 0..whole.len() {
            assert!(database.transaction(&whole[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(
            numbers(&database.query("SELECT count(*) FROM t", &params(&[])).unwrap()),
            [0]
        );
    }
}
