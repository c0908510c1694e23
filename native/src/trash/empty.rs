//! Emptying the trash: what is still what the operation expected is dropped; what somebody wrote to since is stored
//! first and named; what is open for writing stays for the next time.
//!
//! `<operation>.kept` (a `versions` list of trash names) is written before an operation moves anything. A thing that no
//! list names was nobody's expectation (a foreign file that lost its name to others in a race): it is stored and named.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Place, Trash};
use crate::apply::guard::At;
use crate::apply::item::Act;
use crate::apply::keep::{unlink_unchanged, unlink_unmoved};
use crate::error::{EngineError, IoContext, Result};
use crate::journal::Journal;
use crate::path::leaf::{self, Sys};
use crate::path::look::{self, OpenFile};
use crate::path::names;
use crate::segment::SegmentStore;
use crate::sys;
use crate::task::Work;
use crate::wire::{FileKind, Hash, Id, Reader, StatKey, Version, Writer, encode_versions};

const KEPT: &[u8] = b".kept";
const IGNORE: &[u8] = b".gitignore";
/// Fewer things than this are no work for a thread of its own.
const LEAST_SHARE: usize = 64;

/// What emptying came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emptied {
    pub freed: u64,
    /// Things that stay: open for writing, or not to be stored or removed now.
    pub kept: u64,
    /// Names and blobs of what was written to after it was kept, or was never expected.
    pub late: Vec<(Vec<u8>, Hash)>,
}

/// Writes the list of what an operation will move to the trash. Advisory for its bytes: without it all is stored again.
pub fn record(trash: &Trash<'_>, journal: &Journal) -> Result<()> {
    let moved: Vec<_> = journal.entries.iter().filter(|entry| moves(entry)).collect();
    if moved.is_empty() {
        return Ok(());
    }
    let list = encode_versions(moved.iter().map(|entry| (&entry.trash[..], &entry.expect)));
    let name = [names::hex(&journal.operation).as_bytes(), KEPT].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = sys::openat(trash.store_fd(), &name[..], flags, Mode::from_raw_mode(0o600));
    let fd = made.doing_at("make the list of the trash", trash.shown())?;
    leaf::write_all(fd.as_fd(), &list).doing_at("write the list of the trash", trash.shown())
}

/// Adds to that list the stat keys under which things of it need not be read again.
pub fn record_unmoved(trash: &Trash<'_>, operation: &Id, unmoved: &[(Vec<u8>, StatKey)]) -> Result<()> {
    if unmoved.is_empty() {
        return Ok(());
    }
    let mut writer = Writer::new();
    writer.count(unmoved.len());
    for (name, key) in unmoved {
        writer.bytes(name).stat(key);
    }
    let name = [names::hex(operation).as_bytes(), KEPT].concat();
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let list = sys::openat(trash.store_fd(), &name[..], flags, Mode::empty());
    let fd = list.doing_at("open the list of the trash", trash.shown())?;
    leaf::write_all(fd.as_fd(), &writer.done()).doing_at("write the list of the trash", trash.shown())
}

fn moves(entry: &crate::journal::JournalEntry) -> bool {
    let act = Act::of(&entry.expect, &entry.target);
    act.removes() || act == Act::Replace
}

/// Empties the trash of the data directory and that of the root. Call under the workspace's lock, with no journal left.
pub fn empty(trash: &Trash<'_>, store: &SegmentStore, work: &Work) -> Result<Emptied> {
    let mut out = Emptied::default();
    let mut lists = Vec::new();
    let mut expected = BTreeMap::new();
    let mut unmoved = BTreeMap::new();
    for name in list(trash.store_fd()).doing_at("list the trash", trash.shown())? {
        if name.ends_with(KEPT) {
            // A damaged list names nothing: what it named is stored again.
            let known = read_list(trash.store_fd(), &name).unwrap_or_default();
            expected.extend(known.versions);
            unmoved.extend(known.unmoved);
            lists.push(name);
        }
    }
    for place in [Place::Store, Place::Root] {
        let dir = match place {
            Place::Store => Some(trash.store_fd()),
            Place::Root => trash.inside_if_there().doing_at("open", ".takeback/trash")?,
        };
        if let Some(dir) = dir {
            let context = Emptying {
                dir,
                shown: trash.shown(),
                store,
                expected: &expected,
                unmoved: &unmoved,
            };
            context.run(&mut out, work)?;
        }
    }
    if out.kept == 0 {
        for name in &lists {
            leaf::unlink(trash.store_fd(), name).doing_at("remove the list of the trash", trash.shown())?;
        }
        trash.remove_inside();
    }
    Ok(out)
}

struct Emptying<'a> {
    dir: BorrowedFd<'a>,
    /// The path of the data directory's trash, for messages.
    shown: &'a [u8],
    store: &'a SegmentStore,
    expected: &'a BTreeMap<Vec<u8>, Version>,
    unmoved: &'a BTreeMap<Vec<u8>, StatKey>,
}

impl Emptying<'_> {
    fn run(&self, out: &mut Emptied, work: &Work) -> Result<()> {
        let mut names = list(self.dir).doing_at("list the trash", self.shown)?;
        names.retain(|name| !name.ends_with(KEPT) && name != IGNORE);
        let dropped = on_cores(&names, |name| {
            let size = self.size(name);
            work.cancel.check().map(|()| (size, self.drop_expected(name)))
        });
        let mut moved = Vec::new();
        for (name, dropped) in names.into_iter().zip(dropped) {
            match dropped? {
                (size, Ok(true)) => out.freed += size,
                (size, Ok(false)) => moved.push((name, size)),
                (_, Err(Errno::NOENT)) => {}
                (_, Err(_)) => out.kept += 1,
            }
        }
        self.store_moved(moved, out)
    }

    /// Only a thing with its last link gives its bytes back.
    fn size(&self, name: &[u8]) -> u64 {
        match leaf::stat(self.dir, name) {
            Ok(Some(stat)) if stat.st_nlink == 1 => stat.st_size as u64,
            _ => 0,
        }
    }

    fn drop_expected(&self, name: &[u8]) -> Sys<bool> {
        let at = At { dir: self.dir, name };
        if let Some(key) = self.unmoved.get(name)
            && unlink_unmoved(at, key)?
        {
            return Ok(true);
        }
        match self.expected.get(name) {
            Some(version) => unlink_unchanged(at, version, self.store),
            None => Ok(false),
        }
    }

    /// Stores all bytes that nobody expected, makes them durable, and then drops their files.
    fn store_moved(&self, moved: Vec<(Vec<u8>, u64)>, out: &mut Emptied) -> Result<()> {
        let mut stored = Vec::new();
        for (name, size) in moved {
            match self.take_in(&name)? {
                Some(version) => stored.push((name, size, version)),
                None => out.kept += 1,
            }
        }
        if stored.is_empty() {
            return Ok(());
        }
        self.store.sync()?;
        for (name, size, version) in stored {
            let at = At {
                dir: self.dir,
                name: &name,
            };
            match unlink_unchanged(at, &version, self.store) {
                Ok(true) => out.freed += size,
                // Written to once more: it stays, and is taken in again next time.
                Ok(false) | Err(_) => out.kept += 1,
            }
            if let Version::File { content, .. } = version {
                out.late.push((name, content));
            }
        }
        Ok(())
    }

    /// None: it stays. A full store is an error, all else a reason to keep the thing.
    fn take_in(&self, name: &[u8]) -> Result<Option<Version>> {
        let Ok(Some(stat)) = leaf::stat(self.dir, name) else {
            return Ok(None);
        };
        match leaf::kind(&stat) {
            FileKind::File => {}
            // A link's text, a special file's kind, an empty folder's name: nothing else would be lost.
            _ => {
                let look = At { dir: self.dir, name }.look(self.store);
                return Ok(look.ok().map(|look| look.version));
            }
        }
        let Ok(mut open) = OpenFile::open(self.dir, name) else {
            return Ok(None);
        };
        open.lease();
        if open.writer() == look::Writer::Open {
            return Ok(None);
        }
        let Ok(bytes) = open.read() else { return Ok(None) };
        let size = bytes.len() as u64;
        let content = self.store.put(&bytes)?.hash;
        let mode = leaf::mode(&stat);
        Ok(Some(Version::File { mode, size, content }))
    }
}

/// What `each` answers for each item, in their order, on all cores where there are many.
fn on_cores<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = items.len().div_ceil(cores).max(LEAST_SHARE);
    let run = |part: &[T]| part.iter().map(&each).collect::<Vec<R>>();
    let mut parts = items.chunks(share);
    let own = parts.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
        let mut all = run(own);
        for other in others {
            let rest = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(rest);
        }
        all
    })
}

/// An operation's list.
#[derive(Default)]
pub(super) struct List {
    versions: Vec<(Vec<u8>, Version)>,
    pub(super) unmoved: Vec<(Vec<u8>, StatKey)>,
}

pub(super) fn read_list(dir: BorrowedFd<'_>, name: &[u8]) -> Result<List> {
    let open = OpenFile::open(dir, name).map_err(|errno| EngineError::io("open the trash's list", errno))?;
    let bytes = open.read().doing("read the trash's list")?;
    let mut reader = Reader::new(&bytes);
    let mut versions = Vec::new();
    for _ in 0..reader.count(5)? {
        versions.push((reader.name()?, reader.version()?));
    }
    // Torn, or not written: all is read again.
    let unmoved = read_unmoved(&mut reader).unwrap_or_default();
    Ok(List { versions, unmoved })
}

fn read_unmoved(reader: &mut Reader<'_>) -> Result<Vec<(Vec<u8>, StatKey)>> {
    let mut unmoved = Vec::new();
    for _ in 0..reader.count(4)? {
        unmoved.push((reader.name()?, reader.stat()?));
    }
    reader.end()?;
    Ok(unmoved)
}

/// The names in a folder, sorted.
pub fn list(dir: BorrowedFd<'_>) -> Sys<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = sys::openat(dir, b".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

impl Trash<'_> {
    /// Removes `.takeback/trash/` of the root, and `.takeback/`, where they are empty.
    fn remove_inside(&self) {
        let Ok(Some(inside)) = self.inside_if_there() else {
            return;
        };
        let only_ours = list(inside).is_ok_and(|names| names.iter().all(|name| name == IGNORE));
        if !only_ours {
            return;
        }
        // Each step fails where somebody put something there: then it stays.
        let _gone = leaf::unlink(inside, IGNORE);
        if let Ok(hidden) = self.root.folder(super::HIDDEN)
            && leaf::remove_folder(hidden.dir.as_fd(), super::FOLDER).is_ok()
        {
            let _gone = leaf::remove_folder(self.root.fd(), super::HIDDEN);
        }
    }
}
