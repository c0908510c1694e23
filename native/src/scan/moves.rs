//! Moves that inodes prove: a covered file or link that is gone, and one that came, are the same inode.
//!
//! A number alone proves nothing, since file systems give it again at once. Birth times do: what was born at or before
//! the change time under which the index saw the old path is what stood there, because another inode of that number
//! can only have been born after that look. Where there are no birth times, size and modification time must be the
//! old ones, so that a move with an edit is not found there. Folders and special files are left to themselves.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};

use super::set::{ChangeSet, Pending};
use super::sys::{key_of, open_beneath};
use crate::ignore::names::base_name;
use crate::index::{Entry, Index, flag};
use crate::wire::{FileKind, RelPath, StatKey, Version, row_flag};

/// A path of before, and where its file is now.
pub type Move = (RelPath, RelPath);

type Identity = (u64, u64, FileKind);

/// The moves of a set, by new path. Looks at the disk for few paths: those whose number was at a path that is gone.
pub fn moves(set: &ChangeSet, index: &Index, root: BorrowedFd<'_>) -> Vec<Move> {
    let mut gone: HashMap<Identity, Vec<(&RelPath, &Entry)>> = HashMap::new();
    for (path, pending) in changed(set) {
        let Some(node) = index.find(path) else { continue };
        let entry = index.entry(node);
        if pending.after() == Version::Absent && may_move(&pending.before) && entry.stat.ino != 0 {
            gone.entry(identity(&entry.stat)).or_default().push((path, entry));
        }
    }
    let mut found = Vec::new();
    for (path, pending) in changed(set) {
        let Some(entry) = pending.entry else { continue };
        if pending.before != Version::Absent || !may_move(&pending.after()) {
            continue;
        }
        let Some(sources) = gone.get_mut(&identity(&entry.stat)) else {
            continue;
        };
        let Some(born) = birth(root, path, &entry.stat) else {
            continue;
        };
        sources.retain(|(_, old)| !is_another(old, &entry.stat, born));
        let same_name = sources
            .iter()
            .position(|(from, _)| base_name(from) == base_name(path));
        if !sources.is_empty() {
            let (from, _) = sources.remove(same_name.unwrap_or(0));
            found.push((from.clone(), path.clone()));
        }
    }
    found
}

fn changed(set: &ChangeSet) -> impl Iterator<Item = (&RelPath, &Pending)> {
    set.pending
        .iter()
        .filter(|(_, pending)| !pending.suspect && pending.flags & (row_flag::COVERAGE | row_flag::LATE) == 0)
}

fn may_move(version: &Version) -> bool {
    matches!(version, Version::File { .. } | Version::Symlink { .. })
}

fn identity(stat: &StatKey) -> Identity {
    (stat.dev, stat.ino, stat.kind)
}

/// The inode of that number is another one than the index saw.
fn is_another(old: &Entry, now: &StatKey, born: Birth) -> bool {
    let settled = old.flags & flag::UNTRUSTED == 0;
    match born {
        Birth::At(ns) if settled => ns > old.stat.ctime_ns,
        // Something may have happened in the tick in which it was seen.
        Birth::At(ns) => ns >= old.stat.ctime_ns,
        Birth::Unknown => {
            !settled
                || now.mtime_ns != old.stat.mtime_ns
                || now.size != old.stat.size
                || now.ctime_ns < old.stat.ctime_ns
        }
    }
}

#[derive(Clone, Copy)]
enum Birth {
    At(i64),
    Unknown,
}

/// None where something else is at the path by now.
fn birth(root: BorrowedFd<'_>, path: &[u8], seen: &StatKey) -> Option<Birth> {
    let fd = open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).ok()?;
    let key = key_of(&rustix::fs::fstat(&fd).ok()?);
    if identity(&key) != identity(seen) {
        return None;
    }
    let Ok(found) = statx(fd.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) else {
        return Some(Birth::Unknown);
    };
    let time = found.stx_btime;
    let ns = time
        .tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(time.tv_nsec));
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) && ns > 0;
    Some(if known { Birth::At(ns) } else { Birth::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ctime_ns: i64) -> StatKey {
        StatKey {
            kind: FileKind::File,
            mode: 0o644,
            size: 3,
            mtime_ns: 50,
            ctime_ns,
            ino: 7,
            dev: 1,
        }
    }

    fn old(flags: u32) -> Entry {
        let mut entry = Entry::file(seen(100), [0; 16]);
        entry.flags = flags;
        entry
    }

    #[test]
    fn a_number_that_was_given_again_is_another_inode_by_its_birth() {
        let edited = StatKey {
            size: 9,
            mtime_ns: 300,
            ..seen(300)
        };
        assert!(!is_another(&old(0), &edited, Birth::At(20)));
        assert!(!is_another(&old(0), &edited, Birth::At(100)));
        assert!(is_another(&old(0), &edited, Birth::At(101)));
    }

    #[test]
    fn in_the_tick_of_the_look_only_an_older_birth_proves_it() {
        assert!(!is_another(&old(flag::UNTRUSTED), &seen(300), Birth::At(99)));
        assert!(is_another(&old(flag::UNTRUSTED), &seen(300), Birth::At(100)));
    }

    #[test]
    fn without_birth_times_size_and_time_of_change_must_be_the_old_ones() {
        assert!(!is_another(&old(0), &seen(300), Birth::Unknown));
        let edited = StatKey {
            mtime_ns: 51,
            ..seen(300)
        };
        assert!(is_another(&old(0), &edited, Birth::Unknown));
        let grown = StatKey { size: 4, ..seen(300) };
        assert!(is_another(&old(0), &grown, Birth::Unknown));
        assert!(is_another(&old(0), &seen(99), Birth::Unknown));
        assert!(is_another(&old(flag::UNTRUSTED), &seen(300), Birth::Unknown));
    }
}
