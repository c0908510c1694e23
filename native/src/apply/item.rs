//! One entry on its way through an apply: what kind of act it is, what was done to it so far, what came of it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::out::Out;
use crate::path::look::Look;
use crate::path::{FileId, Parent, Root, WalkError, names};
use crate::wire::{Id, Reason, RelPath, StatKey, Version};

/// One guarded change: what the guard must find, and what is to be there afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyEntry {
    pub path: RelPath,
    pub expect: Version,
    pub target: Version,
    /// Goes on where somebody has the file open for writing; what it holds must be `expect` all the same.
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Done = 0,
    Refused = 1,
    Skipped = 2,
    Failed = 3,
}

/// What came of one entry. `reason` is one of `EntryReason` of src/types.ts, empty where done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub path: RelPath,
    pub status: Status,
    pub reason: &'static str,
    pub detail: String,
    pub found: Option<Version>,
    pub note: String,
}

/// Why an entry stays as it was; an [`Outcome`] without its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    pub status: Status,
    pub reason: &'static str,
    pub detail: String,
    pub found: Option<Version>,
}

impl Stop {
    pub fn refused(reason: &'static str, found: Option<Version>) -> Self {
        Stop {
            status: Status::Refused,
            reason,
            detail: String::new(),
            found,
        }
    }

    pub fn failed(reason: &'static str, detail: impl Into<String>) -> Self {
        Stop {
            status: Status::Failed,
            reason,
            detail: detail.into(),
            found: None,
        }
    }

    /// The disk holds something else than the guard expects.
    pub fn changed(found: Version) -> Self {
        Stop::refused("changed-outside-session", Some(found))
    }

    pub fn skipped(reason: &'static str) -> Self {
        Stop {
            status: Status::Skipped,
            ..Stop::refused(reason, None)
        }
    }

    /// A fault of the operating system while doing `what`.
    pub fn errno(what: &str, errno: Errno) -> Self {
        let reason = match errno {
            Errno::NOSPC | Errno::DQUOT => "no-space",
            Errno::ACCESS | Errno::PERM | Errno::ROFS => "permission-denied",
            Errno::NOTSUP | Errno::NOSYS => "unsupported",
            _ => "io-error",
        };
        Stop::failed(reason, format!("{what}: {errno}"))
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

impl From<WalkError> for Stop {
    fn from(error: WalkError) -> Self {
        let reason = match error {
            WalkError::Denied => "permission-denied",
            WalkError::Io(_) => "io-error",
            _ => "walk-failed",
        };
        Stop::failed(reason, error.to_string())
    }
}

/// What an entry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A file, link or special file is taken away.
    Remove,
    RemoveFolder,
    MakeFolder,
    /// What is no folder gives way to one.
    RemoveThenFolder,
    FolderMode,
    /// Same bytes, other bits.
    FileMode,
    /// A file or link comes where nothing is.
    Create,
    /// A file or link takes the place of a file, link or special file.
    Replace,
    /// A file or link takes the place of an empty folder.
    ReplaceFolder,
    /// Expected and target are equal: only looked at.
    Verify,
    /// Nothing that we write: a special file, or what is uncovered.
    Unsupported,
}

impl Act {
    pub fn of(expect: &Version, target: &Version) -> Self {
        use Version::*;
        match (expect, target) {
            (Uncovered { .. }, _) | (_, Uncovered { .. }) => Act::Unsupported,
            (e, t) if e == t => Act::Verify,
            (_, Special { .. }) => Act::Unsupported,
            (Dir { .. }, Absent) => Act::RemoveFolder,
            (_, Absent) => Act::Remove,
            (Absent, Dir { .. }) => Act::MakeFolder,
            (Dir { .. }, Dir { .. }) => Act::FolderMode,
            (_, Dir { .. }) => Act::RemoveThenFolder,
            (
                File {
                    content: a, size: x, ..
                },
                File {
                    content: b, size: y, ..
                },
            ) if a == b && x == y => Act::FileMode,
            (Absent, _) => Act::Create,
            (Dir { .. }, _) => Act::ReplaceFolder,
            _ => Act::Replace,
        }
    }

    /// Acts that write a temp first and swap it in.
    pub fn swaps(self) -> bool {
        matches!(self, Act::Create | Act::Replace | Act::ReplaceFolder)
    }

    /// Acts that begin with moving what is there to the trash.
    pub fn removes(self) -> bool {
        matches!(self, Act::Remove | Act::RemoveThenFolder)
    }
}

/// An entry and what was done to it. Owned by one thread at a time.
#[derive(Debug)]
pub struct Item {
    pub index: usize,
    pub entry: ApplyEntry,
    pub act: Act,
    pub temp: Vec<u8>,
    pub trash: Vec<u8>,
    /// Our temp file, once it is made.
    pub prepared: Option<FileId>,
    /// The stat of what the guard saw before the temp was written.
    pub seen: Option<Stat>,
    /// The temp is at the path, and what came out under the temp's name (or, taken out, in the trash).
    pub swapped: Option<Swapped>,
    /// What came out, as the first look saw it, with its lease.
    pub out: Option<Out>,
    /// What was at the path is in this trash.
    pub removed: Option<crate::trash::Slot>,
    /// What is in the trash, where it needs no second reading: its name there, and the stat key that proves it.
    pub unmoved: Option<(Vec<u8>, StatKey)>,
    /// The folder in which the act began, held until the second look: put back is done there, wherever it was moved.
    pub parent: Option<Arc<Parent>>,
    /// When the act was done: the second look comes no sooner than a pause after it.
    pub acted: Option<Instant>,
    /// A folder that we made or loosened; its mode is still to be set.
    pub folder: Option<FileId>,
    pub notes: Vec<&'static str>,
    pub result: Option<Result<(), Stop>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swapped {
    /// By exchange: what came out has the temp's name.
    Exchanged,
    /// Taken out first: what came out is in the trash.
    TakenOut,
    /// Nothing came out that has bytes.
    Nothing,
}

impl Item {
    /// It is the folder of the plan that we loosened: as expected but for the mode, which is ours.
    pub fn is_loosened(&self, look: &Look) -> bool {
        self.folder.is_some() && look.id() == self.folder && matches!(look.version, Version::Dir { .. })
    }

    pub fn new(operation: &Id, index: usize, entry: ApplyEntry) -> Self {
        Item {
            index,
            act: Act::of(&entry.expect, &entry.target),
            temp: names::temp_name(operation, index),
            trash: names::trash_name(operation, index),
            entry,
            prepared: None,
            seen: None,
            swapped: None,
            out: None,
            removed: None,
            unmoved: None,
            parent: None,
            acted: None,
            folder: None,
            notes: Vec::new(),
            result: None,
        }
    }

    pub fn path(&self) -> &[u8] {
        &self.entry.path
    }

    pub fn name(&self) -> &[u8] {
        names::split(&self.entry.path).1
    }

    /// What was there is out: to be looked at again, from the folder in which that was done.
    pub fn await_second_look(&mut self, parent: &Arc<Parent>) {
        self.parent = Some(parent.clone());
        self.acted = Some(Instant::now());
    }

    pub fn open(&self) -> bool {
        self.result.is_none()
    }

    /// What came out is kept, or never did: nobody waits for its lease any more.
    pub fn done(&mut self) {
        self.out = None;
        self.result = Some(Ok(()));
    }

    /// What came out is back, or kept.
    pub fn stop(&mut self, stop: Stop) {
        self.out = None;
        self.result = Some(Err(stop));
    }

    pub fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub fn outcome(self) -> Outcome {
        let note = self.notes.join(", ");
        let path = self.entry.path;
        match self.result {
            Some(Ok(())) => Outcome {
                path,
                status: Status::Done,
                reason: "",
                detail: String::new(),
                found: None,
                note,
            },
            Some(Err(stop)) => Outcome {
                path,
                status: stop.status,
                reason: stop.reason,
                detail: stop.detail,
                found: stop.found,
                note,
            },
            None => Outcome {
                path,
                status: Status::Failed,
                reason: "io-error",
                detail: "the operation ended before this path was reached".to_string(),
                found: None,
                note,
            },
        }
    }
}

/// Judges a look against what the guard expects.
pub fn judge(look: &Look, entry: &ApplyEntry) -> Result<(), Stop> {
    if look.writer == crate::path::look::Writer::Open && !entry.force {
        return Err(Stop::refused("open-for-write", Some(look.version.clone())));
    }
    if look.version == entry.expect {
        return Ok(());
    }
    match &look.version {
        Version::Uncovered {
            reason: Reason::Unreadable,
            ..
        } => Err(Stop::refused("uncovered", Some(look.version.clone()))),
        found => Err(Stop::changed(found.clone())),
    }
}

/// The folder of the path before, kept open: neighbours come one after the other.
#[derive(Default)]
pub struct LastFolder {
    last: Option<(Vec<u8>, Arc<Parent>)>,
}

impl LastFolder {
    pub fn of(&mut self, root: &Root, path: &[u8]) -> Result<Arc<Parent>, WalkError> {
        names::check(path)?;
        let folder = names::split(path).0;
        if let Some((known, parent)) = &self.last
            && known == folder
        {
            return Ok(parent.clone());
        }
        // The old one closes first: an operation holds no more descriptors than it needs.
        self.last = None;
        let parent = Arc::new(root.folder(folder)?);
        self.last = Some((folder.to_vec(), parent.clone()));
        Ok(parent)
    }
}

/// A thread holds two descriptors for each of its acts between two looks (`removals::HELD`): so many threads stay below
/// the 1,024 that a process may have open where nobody raised that.
const MOST_THREADS: usize = 6;

/// Runs `each` over the items on all cores.
pub fn in_parallel(items: &mut [Item], each: impl Fn(&mut LastFolder, &mut Item) + Sync) {
    // Small chunks, so that no core waits long for the other, but neighbours share their folder.
    in_chunks(items, 16, |folder, chunk| {
        chunk.iter_mut().for_each(|item| each(folder, item))
    });
}

/// Runs `each` over chunks of the items on all cores.
pub fn in_chunks(items: &mut [Item], size: usize, each: impl Fn(&mut LastFolder, &mut [Item]) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = cores.min(MOST_THREADS).min(items.len().div_ceil(size));
    let queue = Mutex::new(items.chunks_mut(size));
    let work = || {
        let mut folder = LastFolder::default();
        loop {
            let chunk = queue.lock().map(|mut q| q.next()).unwrap_or(None);
            let Some(chunk) = chunk else { return };
            each(&mut folder, chunk);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}
