//! Reads the suspects of a change set, each once, on all cores: hash and store in one pass.
//!
//! A file is read under a read lease where there is one, with its stat key taken before and after; it is read again
//! when it moved, and is `uncovered: unstable` after the last try. A file that somebody has open for writing is copied
//! all the same, flagged, and its stat key never trusted. A path that is no regular file any more is looked at anew.
//! A large file is read, hashed and stored piece by piece; of one that moved meanwhile, chunks may stay in the store
//! until gc. Cancelled or failed as a whole, the set is as before. At a first capture `borrow` takes out what git proves clean.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::borrow::{self, give_back};
use crate::error::{EngineError, Result};
use crate::ignore::names::is_within;
use crate::index::{Entry, Index, flag};
use crate::scan::set::ChangeSet;
use crate::scan::{Against, look_again};
use crate::segment::{Batch, Queued, SegmentStore};
use crate::task::Work;
use crate::wire::{Hash, Problem, ProblemKind, Reason, RelPath, StatKey, row_flag};

mod lease;
mod read;

/// Rounds of looks at paths that turned into something else while they were read.
const ROUNDS: usize = 3;

/// IngestOptions of `backend.ts`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub deadline: Option<SystemTime>,
    pub first: Vec<RelPath>,
    pub hash_only: bool,
    /// Contents that are stored: a file that has one is only hashed.
    pub stored: HashSet<Hash>,
    /// Of a first capture: git's objects may stand for files.
    pub borrow: Option<borrow::Sources>,
}

/// IngestResult of `backend.ts`.
#[derive(Debug, Default)]
pub struct Ingested {
    pub files_hashed: u64,
    pub stored_files: u64,
    pub stored_bytes: u64,
    /// Files that git's objects stand for: not read.
    pub borrowed: u64,
    pub left: u64,
    pub problems: Vec<Problem>,
}

/// What reading one path came to.
enum Outcome {
    Read(Contents),
    Uncovered(Reason, StatKey, Option<Errno>),
    /// Gone, or no regular file: to be looked at anew.
    Changed,
    Left,
}

struct Contents {
    stat: StatKey,
    hash: Hash,
    writers: bool,
    /// The hash is the borrowed name that the file had: its bytes are the object's.
    borrowed: bool,
    /// Its way into the store; none where it was only hashed.
    queued: Option<Queued>,
    /// Bytes that were new to the store.
    stored: Option<u64>,
}

/// Where bytes go.
struct Sink<'a> {
    store: &'a SegmentStore,
    request: &'a Request,
    max_file_bytes: u64,
    root: &'a OwnedFd,
    index: &'a Index,
    threads: usize,
    work: &'a Work,
}

/// Reads every suspect of `set`.
pub fn ingest(
    set: &mut ChangeSet,
    against: Against<'_>,
    (store, request): (&SegmentStore, &Request),
    work: &Work,
) -> Result<Ingested> {
    let sink = Sink {
        store,
        request,
        max_file_bytes: against.limits.max_file_bytes,
        root: against.root.fd.as_ref(),
        index: against.index,
        threads: against.limits.threads,
        work,
    };
    let mut result = Ingested::default();
    if let Some(sources) = &request.borrow {
        result.borrowed = borrow::borrow(set, against, (store, sources), work)?;
    }
    for round in 0.. {
        let suspects = ordered(set, &request.first);
        if suspects.is_empty() {
            break;
        }
        let outcomes = read_all(&sink, &suspects)?;
        let mut again = Vec::new();
        for (path, outcome) in suspects.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Changed if round < ROUNDS => again.push(path),
                Outcome::Changed => settle_unstable(set, &path),
                outcome => settle(set, &path, outcome, &mut result),
            }
        }
        look_again(set, against, &again, work)?;
    }
    give_back(set, against.index, (store, request), &mut result)?;
    Ok(result)
}

fn ordered(set: &ChangeSet, first: &[RelPath]) -> Vec<RelPath> {
    let is_first = |path: &RelPath| first.iter().any(|f| is_within(path, f));
    let (mut ahead, rest): (Vec<_>, Vec<_>) = set.suspects().cloned().partition(is_first);
    ahead.extend(rest);
    ahead
}

fn read_all(sink: &Sink<'_>, suspects: &[RelPath]) -> Result<Vec<Outcome>> {
    let work = sink.work;
    let threads = sink.threads.min(suspects.len());
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failed: Mutex<Option<EngineError>> = Mutex::new(None);
    let worker = || {
        let mut done: Vec<(usize, Outcome)> = Vec::new();
        let mut buffer = Vec::new();
        let mut batch = Batch::new(sink.store);
        let fail = |error: EngineError| {
            stop.store(true, Ordering::Relaxed);
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
        };
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = suspects.get(at) else { break };
            let outcome = work
                .cancel
                .check()
                .and_then(|()| sink.read(path, &mut buffer, &mut batch));
            work.report("ingest", at as u64 + 1, Some(suspects.len() as u64));
            match outcome {
                Ok(outcome) => done.push((at, outcome)),
                Err(error) => fail(error),
            }
        }
        if let Err(error) = batch.flush() {
            fail(error);
        }
        for (_, outcome) in &mut done {
            if let Outcome::Read(contents) = outcome {
                contents.stored = contents
                    .queued
                    .and_then(|queued| batch.stored(queued))
                    .map(|_| contents.stat.size);
            }
        }
        done
    };
    let mut done: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            done.extend(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        done
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

fn settle(set: &mut ChangeSet, path: &RelPath, outcome: Outcome, result: &mut Ingested) {
    let clock = set.clock;
    let Some(pending) = set.pending.get_mut(path) else {
        return;
    };
    pending.suspect = false;
    let Some(sighted) = pending.entry else { return };
    let marks = sighted.flags & (flag::DESPITE | flag::HELD);
    let entry = match outcome {
        Outcome::Read(contents) => {
            result.files_hashed += 1;
            if let Some(bytes) = contents.stored {
                result.stored_files += 1;
                result.stored_bytes += bytes;
            }
            if contents.stat != sighted.stat {
                pending.flags &= !row_flag::LATE;
            }
            let racy = if clock.is_racy(&contents.stat) {
                flag::UNTRUSTED
            } else {
                0
            };
            let writers = if contents.writers { flag::WRITERS } else { 0 };
            pending.flags |= if contents.writers { row_flag::IN_FLUX } else { 0 };
            let entry = match contents.borrowed {
                true => Entry::borrowed(contents.stat, contents.hash),
                false => Entry::file(contents.stat, contents.hash),
            };
            entry.with(racy | writers)
        }
        Outcome::Uncovered(reason, stat, error) => {
            pending.flags &= !row_flag::LATE;
            if let Some(error) = error {
                let detail = format!("it can't be read: {error}");
                result.problems.push(Problem {
                    path: path.clone(),
                    kind: ProblemKind::UnreadableFile,
                    detail,
                });
            }
            Entry::uncovered(reason, stat)
        }
        Outcome::Left | Outcome::Changed => {
            pending.flags &= !row_flag::LATE;
            result.left += 1;
            sighted
        }
    };
    pending.entry = Some(entry.with(marks));
}

/// A path that was something else at every look.
fn settle_unstable(set: &mut ChangeSet, path: &RelPath) {
    if let Some(pending) = set.pending.get_mut(path) {
        pending.suspect = false;
        pending.flags &= !row_flag::LATE;
        pending.entry = pending
            .entry
            .map(|entry| Entry::uncovered(Reason::Unstable, entry.stat));
    }
}
