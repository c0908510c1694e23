//! Which suspects git's index proves clean: regular files of which size, times and inode are what the index says, older
//! than the index itself, and that no attribute converts.
//!
//! The index is read through one descriptor, and must be the same before and after. In doubt a file is not clean, and
//! where it can't be told what git's attributes say, none is.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bstr::ByteSlice;
use gix_hash::Kind;
use gix_index::entry::{Flags, Mode, Stage, stat::Time};
use gix_index::{Entry as GitEntry, State};
use rustix::fs::OFlags;

use super::attributes::Doubts;
use super::{Clean, Sources};
use crate::ignore::names::{base_name, join, parent_of};
use crate::ignore::object_format;
use crate::index::flag;
use crate::scan::Root;
use crate::scan::set::{ChangeSet, Pending};
use crate::scan::sys::{key_of, open_beneath, stat_open};
use crate::wire::{FileKind, RelPath, StatKey};

const ATTRIBUTES: &[u8] = b".gitattributes";
/// No file of attributes is larger.
const ATTRIBUTES_BYTES: u64 = 1 << 20;

/// git's index, and when it was written.
struct GitIndex {
    state: State,
    written: Time,
}

/// The clean ones among the set's suspects; none where nothing can be told.
pub fn clean_files(set: &ChangeSet, root: &Root, sources: &Sources) -> Option<(Kind, Vec<Clean>)> {
    let kind = object_format(&sources.common_dir);
    let index = read_index(&sources.git_dir.join("index"), kind)?;
    let above = above(root, sources)?;
    let doubts = doubts(set, (root, sources), (&index, &above))?;
    let mut clean = Vec::new();
    let entries = index.state.entries();
    let mut at = 0;
    for (number, (path, pending)) in set.pending.iter().enumerate() {
        let full = match above.as_slice() {
            b"" => Cow::Borrowed(path),
            above => Cow::Owned(join(above, path)),
        };
        let mut order = Ordering::Less;
        while let Some(entry) = entries.get(at) {
            order = entry.path(&index.state).cmp(full.as_bstr());
            if order != Ordering::Less {
                break;
            }
            at += 1;
        }
        let Some(entry) = entries.get(at) else { break };
        if order != Ordering::Equal || !is_readable(pending) {
            continue;
        }
        let Some(stat) = pending.entry.map(|sighted| sighted.stat) else {
            continue;
        };
        if index.proves(entry, &stat) && !doubts.has(&full) {
            clean.push(Clean {
                number,
                size: stat.size,
                id: entry.id,
            });
        }
    }
    Some((kind, clean))
}

/// A suspect whose stat key is not racy.
fn is_readable(pending: &Pending) -> bool {
    let racy = |entry: &crate::index::Entry| entry.has(flag::UNTRUSTED | flag::WRITERS);
    pending.suspect && pending.entry.is_some_and(|entry| !racy(&entry))
}

/// The root, relative to the repository's top.
fn above(root: &Root, sources: &Sources) -> Option<RelPath> {
    let below = root.path.strip_prefix(&sources.top).ok()?;
    Some(below.as_os_str().as_bytes().to_vec())
}

fn read_index(path: &Path, kind: Kind) -> Option<GitIndex> {
    let mut file = File::open(path).ok()?;
    let before = file.metadata().ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).ok()?);
    file.read_to_end(&mut bytes).ok()?;
    let (after, named) = (file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    let key = |meta: &fs::Metadata| {
        (
            meta.ino(),
            meta.dev(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec(),
        )
    };
    if key(&before) != key(&after) || key(&after) != key(&named) || bytes.len() as u64 != after.len() {
        return None;
    }
    let time = filetime::FileTime::from_last_modification_time(&after);
    let options = gix_index::decode::Options {
        thread_limit: Some(1),
        ..Default::default()
    };
    // The decoder has been seen to trust what it reads.
    let decoded = std::panic::catch_unwind(|| State::from_bytes(&bytes, time, kind, options));
    let (state, _) = decoded.ok()?.ok()?;
    let whole = state.link().is_none() && !state.is_sparse();
    let in_order = |two: &[GitEntry]| two[0].path(&state) <= two[1].path(&state);
    if !whole || !state.entries().windows(2).all(in_order) {
        return None;
    }
    let written = Time {
        secs: u32::try_from(after.mtime()).ok()?,
        nsecs: after.mtime_nsec() as u32,
    };
    Some(GitIndex { state, written })
}

impl GitIndex {
    /// The file of this stat key holds what the entry's object holds, but for conversions.
    fn proves(&self, entry: &GitEntry, stat: &StatKey) -> bool {
        let excluded = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD;
        let time = |ns: i64| Time {
            secs: (ns.div_euclid(1_000_000_000)) as u32,
            nsecs: ns.rem_euclid(1_000_000_000) as u32,
        };
        let known = &entry.stat;
        // As git does: what is not older than the index may have changed after git looked.
        let newest = known.mtime.max(known.ctime);
        let racy = newest >= self.written || (self.written.nsecs == 0 && newest.secs >= self.written.secs);
        stat.kind == FileKind::File
            && matches!(entry.mode, Mode::FILE | Mode::FILE_EXECUTABLE)
            && entry.stage() == Stage::Unconflicted
            && !entry.flags.intersects(excluded)
            && !racy
            && u64::from(known.size) == stat.size
            && known.mtime == time(stat.mtime_ns)
            && known.ctime == time(stat.ctime_ns)
            && known.ino != 0
            && known.ino == stat.ino as u32
    }
}

/// What attributes put in doubt; none where it can't be told.
fn doubts(
    set: &ChangeSet,
    (root, sources): (&Root, &Sources),
    (index, above): (&GitIndex, &RelPath),
) -> Option<Doubts> {
    let mut doubts = Doubts::default();
    let info = sources.common_dir.join("info/attributes");
    for file in sources.attributes.iter().chain([&info]) {
        match File::open(file) {
            Ok(file) => doubts.add(Vec::new(), &text_of(file)?),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
            Err(_) => return None,
        }
    }
    let mut folder = above.clone();
    while !folder.is_empty() {
        folder = parent_of(&folder).to_vec();
        let path = sources
            .top
            .join(std::ffi::OsStr::from_bytes(&join(&folder, ATTRIBUTES)));
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => doubts.add(folder.clone(), &text_of(File::open(&path).ok()?)?),
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    for path in set.pending.keys().filter(|path| base_name(path) == ATTRIBUTES) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open_beneath(root.fd.as_fd(), path, flags).ok()?;
        doubts.add(join(above, parent_of(path)), &text_of(file.into())?);
    }
    all_as_indexed((root, sources), (index, above)).then_some(doubts)
}

/// Where git may have gone by other attributes than those that stand in the tree now, nothing is told by these.
fn all_as_indexed((root, sources): (&Root, &Sources), (index, above): (&GitIndex, &RelPath)) -> bool {
    let counts = |folder: &[u8]| {
        crate::ignore::names::is_within(folder, above) || crate::ignore::names::is_within(above, folder)
    };
    index
        .state
        .entries()
        .iter()
        .filter(|entry| base_name(entry.path(&index.state)) == ATTRIBUTES)
        .filter(|entry| above.is_empty() || counts(parent_of(entry.path(&index.state))))
        .all(|entry| {
            let full = entry.path(&index.state);
            let stat = match full.strip_prefix(above.as_slice()) {
                Some(below) => open_beneath(
                    root.fd.as_fd(),
                    below.trim_start_with(|c| c == '/'),
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                )
                .and_then(|fd| stat_open(fd.as_fd())),
                None => rustix::fs::lstat(sources.top.join(std::ffi::OsStr::from_bytes(full)))
                    .map(|stat| key_of(&stat)),
            };
            stat.is_ok_and(|stat| index.proves(entry, &stat))
        })
}

/// None where it is no regular file, or can't be read.
fn text_of(file: File) -> Option<Vec<u8>> {
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > ATTRIBUTES_BYTES {
        return None;
    }
    let mut text = Vec::new();
    file.take(ATTRIBUTES_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}
