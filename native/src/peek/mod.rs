//! What is on disk at a path now, whatever the index and the rules say. Reads and hashes, stores nothing.
//!
//! Secrets and large files are stat-ed only; special files are never opened. A path whose folder is gone, or is a
//! symlink or a file by now, is absent. One below a mount, or in a folder that can't be entered, is uncovered.
//! What was seen of files is kept for the apply that follows (`sightings`).

use std::os::fd::AsFd;
use std::sync::Mutex;

#[cfg(test)]
mod tests;

use crate::apply::Hands;
use crate::apply::item::LastFolder;
use crate::error::Result;
use crate::path::look::{Look, Writer, limits_of, look_on};
use crate::path::{Parent, WalkError, leaf, names};
use crate::task::Work;
use crate::trash::empty::list;
use crate::wire::{FileKind, Reason, RelPath, StatKey, Version};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    pub path: RelPath,
    pub version: Version,
    /// 0 where absent.
    pub ino: u64,
    pub nlink: u32,
    /// None: it can't be told.
    pub open_for_write: Option<bool>,
    /// The names in it, sorted, where it is a folder that could be read.
    pub names: Option<Vec<Vec<u8>>>,
}

/// Looks at the paths on all cores; answers in their order. `included`: a secret name doesn't count (by index; missing: false).
pub fn peek(hands: &Hands, paths: &[RelPath], included: &[bool], work: &Work) -> Result<Vec<Peek>> {
    const CHUNK: usize = 16;
    hands.sightings.forget();
    let mut out: Vec<Option<Peek>> = paths.iter().map(|_| None).collect();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = cores.min(paths.len().div_ceil(CHUNK)).max(1);
    let queue = Mutex::new(out.chunks_mut(CHUNK).enumerate());
    let run = || {
        let mut folders = LastFolder::default();
        loop {
            let next = queue.lock().map(|mut q| q.next()).unwrap_or(None);
            let Some((chunk, slots)) = next else { return };
            for (at, slot) in slots.iter_mut().enumerate() {
                if work.cancel.is_cancelled() {
                    return;
                }
                let index = chunk * CHUNK + at;
                let allowed = included.get(index).copied().unwrap_or(false);
                *slot = Some(peek_one(hands, &mut folders, (&paths[index], allowed)));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    work.cancel.check()?;
    Ok(out.into_iter().flatten().collect())
}

fn peek_one(hands: &Hands, folders: &mut LastFolder, (path, included): (&[u8], bool)) -> Peek {
    let parent = match folders.of(&hands.root, path) {
        Ok(parent) => parent,
        Err(error) => return without_look(path, unreachable_version(error)),
    };
    match look_at(hands, &parent, path, included) {
        Ok(look) => {
            hands.sightings.note(path, &look);
            told(&parent, path, look)
        }
        Err(_) => without_look(path, nameless(Reason::Unreadable)),
    }
}

fn look_at(hands: &Hands, parent: &Parent, path: &[u8], included: bool) -> leaf::Sys<Look> {
    let dir = parent.dir.as_fd();
    let name = names::split(path).1;
    let limits = limits_of(path, included, hands.max_file_bytes);
    let Some(stat) = leaf::stat(dir, name)? else {
        return Ok(Look::absent());
    };
    let mounted = stat.st_dev != parent.id.dev;
    if mounted || names::touches_git(path) {
        let reason = if mounted { Reason::Mount } else { Reason::Git };
        let stat_key = StatKey {
            kind: leaf::kind(&stat),
            ino: stat.st_ino,
            dev: stat.st_dev,
            ..no_stat()
        };
        let version = Version::Uncovered {
            reason,
            stat: stat_key,
        };
        let writer = Writer::Unknown;
        let stat = Some(stat);
        return Ok(Look {
            version,
            stat,
            writer,
        });
    }
    look_on(dir, name, &hands.store, (stat, limits))
}

fn told(parent: &Parent, path: &[u8], look: Look) -> Peek {
    let folder = matches!(look.version, Version::Dir { .. });
    Peek {
        path: path.to_vec(),
        ino: look.stat.as_ref().map_or(0, |s| s.st_ino),
        nlink: look.links() as u32,
        open_for_write: match look.writer {
            Writer::None => Some(false),
            Writer::Open => Some(true),
            Writer::Unknown => None,
        },
        names: folder.then(|| names_in(parent, path)).flatten(),
        version: look.version,
    }
}

fn names_in(parent: &Parent, path: &[u8]) -> Option<Vec<Vec<u8>>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened: leaf::Sys<_> = crate::sys::openat(&parent.dir, names::split(path).1, flags, Mode::empty());
    opened.and_then(|fd| list(fd.as_fd())).ok()
}

fn without_look(path: &[u8], version: Version) -> Peek {
    Peek {
        path: path.to_vec(),
        version,
        ino: 0,
        nlink: 0,
        open_for_write: None,
        names: None,
    }
}

fn unreachable_version(error: WalkError) -> Version {
    match error {
        WalkError::Missing | WalkError::NotFolder | WalkError::BadName => Version::Absent,
        WalkError::Mount => nameless(Reason::Mount),
        WalkError::Denied | WalkError::Io(_) => nameless(Reason::Unreadable),
    }
}

fn nameless(reason: Reason) -> Version {
    Version::Uncovered {
        reason,
        stat: no_stat(),
    }
}

fn no_stat() -> StatKey {
    StatKey {
        kind: FileKind::Other,
        mode: 0,
        size: 0,
        mtime_ns: 0,
        ctime_ns: 0,
        ino: 0,
        dev: 0,
    }
}
