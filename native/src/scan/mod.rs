//! A look at the tree: what differs from the index, without reading a file.
//!
//! `walk` shares folders between threads, `glance` tells that one is as it was, `folder` enters one (`place`: where it
//! stands), `known` and `fresh` take names that the index has and those that it lacks, `rules` judges new names and (at a
//! boundary) asks again about known ones, `paths` looks at named paths only, `touched` where events told of something. What comes out is a
//! [`ChangeSet`](set::ChangeSet); files whose bytes could differ are its suspects, and `ingest` reads them. The index is
//! not moved here.

pub mod clock;
mod folder;
mod fresh;
mod glance;
mod known;
pub mod moves;
mod paths;
mod place;
mod renewal;
mod rules;
pub mod set;
pub mod sys;
mod touched;
mod walk;

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Code, EngineError, Result};
use crate::ignore::GitKey;
use crate::index::{Index, NodeId};
use crate::rules::{Frozen, Sources};
use crate::task::Work;
use crate::watch::{Touched, Watch};
use crate::wire::{Problem, RelPath, Version};
use clock::Clock;
use place::Task;
pub use rules::View;
use set::{ChangeSet, Counters, Pending};
use sys::{key_of, stat_open};

/// The open root.
#[derive(Debug, Clone)]
pub struct Root {
    pub path: PathBuf,
    pub fd: Arc<OwnedFd>,
    pub dev: u64,
    pub ino: u64,
}

impl Root {
    pub fn open(path: PathBuf) -> Result<Self> {
        let gone = |error: rustix::io::Errno| {
            EngineError::new(
                Code::RootChanged,
                format!("the root {} can't be opened: {error}", path.display()),
            )
        };
        let fd = sys::open_dir(rustix::fs::CWD, path.as_os_str().as_encoded_bytes()).map_err(gone)?;
        let stat = stat_open(fd.as_fd()).map_err(gone)?;
        Ok(Root {
            path,
            fd: Arc::new(fd),
            dev: stat.dev,
            ino: stat.ino,
        })
    }

    /// `ERR_ROOT_CHANGED` where another inode, or nothing, stands at the path.
    pub fn check(&self) -> Result<()> {
        let changed = |what: &str| {
            let text = format!("{what} at {}. Open the workspace again.", self.path.display());
            EngineError::new(Code::RootChanged, text)
        };
        match rustix::fs::lstat(&self.path).map(|stat| key_of(&stat)) {
            Ok(stat) if (stat.dev, stat.ino) == (self.dev, self.ino) => Ok(()),
            Ok(_) => Err(changed("another folder stands")),
            Err(_) => Err(changed("the root is no longer")),
        }
    }
}

/// What is fixed for a tree.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Paths that are never looked at.
    pub skip: Vec<RelPath>,
    pub max_file_bytes: u64,
    pub max_entries: u64,
    /// A folder of ours, for the clock.
    pub scratch: PathBuf,
    /// In place of the file system's own now.
    #[cfg(test)]
    pub clock: Option<Clock>,
    /// That look and read at once: [`cores`].
    pub threads: usize,
}

impl Limits {
    fn clock(&self, root: &OwnedFd) -> Clock {
        #[cfg(test)]
        if let Some(clock) = self.clock {
            return clock;
        }
        Clock::of(root, &self.scratch)
    }
}

/// As many threads as can run at once. Reads files: for the opening of a tree, not for each scan.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// ScanOptions of `backend.ts`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub renew: Option<Sources>,
    pub hold: Vec<RelPath>,
    pub only: Option<Vec<RelPath>>,
    pub rehash: bool,
    /// Within a turn: where events told of something, and all that they don't tell of.
    pub touched: Option<Touched>,
}

/// What a scan compares with.
#[derive(Clone, Copy)]
pub struct Against<'a> {
    pub root: &'a Root,
    pub limits: &'a Limits,
    pub index: &'a Index,
    pub frozen: Option<&'a Arc<Frozen>>,
    /// Identities of git indexes at the last boundary, by folder.
    pub git_keys: &'a std::collections::BTreeMap<RelPath, GitKey>,
    /// Folders that are entered are to have a watch.
    pub watch: Option<&'a Watch>,
}

/// One scan under way; shared by its threads.
pub(crate) struct Scan<'a> {
    root: &'a Root,
    limits: &'a Limits,
    index: &'a Index,
    view: View,
    git_keys: &'a std::collections::BTreeMap<RelPath, GitKey>,
    watch: Option<&'a Watch>,
    hold: Vec<RelPath>,
    clock: Clock,
    /// No stat key is trusted.
    rehash: bool,
    /// Folders are looked at by their own entry, not entered.
    own_only: bool,
    /// Folders with rules of their own at the last boundary.
    ruled: HashSet<RelPath>,
    entries: AtomicU64,
    work: &'a Work,
}

/// What one thread found.
#[derive(Default)]
pub(crate) struct Local {
    found: Vec<(RelPath, Pending)>,
    problems: Vec<Problem>,
    counters: Counters,
    names: sys::Names,
    lookup: glance::Lookup,
    /// Folders that could not be entered.
    closed: Vec<RelPath>,
    submodules: Vec<RelPath>,
    watched: set::Watched,
}

/// Scans, and answers a set that names what differs.
pub fn scan(against: Against<'_>, request: Request, work: &Work) -> Result<ChangeSet> {
    against.root.check()?;
    let sources = request.renew;
    let view = match (sources, against.frozen) {
        (Some(sources), old) => View::renewed(sources, old.cloned(), against.root),
        (None, Some(frozen)) => View::turn(frozen.clone(), against.root),
        (None, None) => {
            let text = "the first scan of a tree needs renewRules";
            return Err(EngineError::new(Code::InvalidArgument, text));
        }
    };
    let scan = Scan::new(
        &against,
        view,
        ScanMode {
            hold: request.hold,
            rehash: request.rehash,
        },
        work,
    );
    let locals = match (&request.only, &request.touched) {
        (None, None) => walk::run(&scan, vec![Task::root(&scan)])?,
        (None, Some(touched)) => scan.look_where(touched)?,
        (Some(paths), _) => {
            let mut scan = scan;
            scan.own_only = true;
            let local = scan.look_at(paths)?;
            against.root.check()?;
            return scan.finish(vec![local], false);
        }
    };
    against.root.check()?;
    scan.finish(locals, true)
}

/// Looks again at single paths of a set, by the set's rules, and takes what it finds into the set.
pub fn look_again(set: &mut ChangeSet, against: Against<'_>, paths: &[RelPath], work: &Work) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut scan = Scan::new(
        &against,
        set.view.clone(),
        ScanMode {
            hold: Vec::new(),
            rehash: false,
        },
        work,
    );
    scan.own_only = true;
    let local = scan.look_at(paths)?;
    set.problems.extend(local.problems);
    set.absorb(against.index, paths, local.found);
    Ok(())
}

struct ScanMode {
    hold: Vec<RelPath>,
    rehash: bool,
}

impl<'a> Scan<'a> {
    fn new(against: &Against<'a>, view: View, mode: ScanMode, work: &'a Work) -> Self {
        let clock = against.limits.clock(&against.root.fd);
        Scan {
            root: against.root,
            limits: against.limits,
            index: against.index,
            ruled: glance::ruled_folders(&view),
            view,
            git_keys: against.git_keys,
            watch: against.watch,
            hold: mode.hold,
            clock,
            // A clock that went back gives old times to new bytes.
            rehash: mode.rehash || clock.now_ns < against.index.scanned_at_ns,
            own_only: false,
            entries: AtomicU64::new(0),
            work,
        }
    }

    fn count_entries(&self, count: u64) -> Result<()> {
        let total = self.entries.fetch_add(count, Ordering::Relaxed) + count;
        if total > self.limits.max_entries {
            let text = format!(
                "the tree has more than {} entries (limits.maxEntries)",
                self.limits.max_entries
            );
            return Err(EngineError::new(Code::TooManyEntries, text));
        }
        self.work.report("scan", total, None);
        Ok(())
    }

    fn path_below(&self, folder: &[u8], node: NodeId) -> RelPath {
        crate::ignore::names::join(folder, self.index.name(node))
    }

    fn finish(self, locals: Vec<Local>, whole: bool) -> Result<ChangeSet> {
        let mut set = ChangeSet::new(self.clock, self.view.clone());
        let (mut closed, mut submodules) = (Vec::new(), Vec::new());
        let mut found = Vec::new();
        for mut local in locals {
            found.append(&mut local.found);
            set.problems.append(&mut local.problems);
            set.counters.add(&local.counters);
            set.watched.add(&mut local.watched);
            closed.append(&mut local.closed);
            submodules.append(&mut local.submodules);
        }
        // Sorted runs: made at once, a map costs half of what it costs name by name.
        set.pending = found.into_iter().collect();
        set.whole = whole;
        if whole {
            set.renew(self.index, renewal::Gathered { closed, submodules })?;
        }
        set.problems.extend(self.view.problems());
        set.problems.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(set)
    }
}

impl Local {
    fn problem(&mut self, path: &[u8], kind: crate::wire::ProblemKind, detail: impl ToString) {
        self.problems.push(Problem {
            path: path.to_vec(),
            kind,
            detail: detail.to_string(),
        });
    }

    fn found(&mut self, path: RelPath, pending: Pending) {
        self.found.push((path, pending));
    }
}

/// What a name was before, where that isn't what the index says.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    version: Version,
    flags: u8,
}
