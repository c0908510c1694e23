//! What is at one name now: its version, its identity, and whether anybody has it open for writing.
//!
//! A file is read under a read lease where the file system grants one: the lease is refused while somebody has the file
//! open for writing (or mapped shared and writable), and is broken when somebody tries. So a look whose lease held from
//! before the first byte to after the last saw a file that nobody was writing.
//!
//! A thread holds the lease of one file at a time, but for [`look_and_hold`], whose caller keeps it until its last look.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::leaf::{self, Sys};
use super::{FileId, names};
use crate::segment::SegmentStore;
use crate::sys::{self, Lease};
use crate::wire::{FileKind, Hash, Reason, StatKey, Version};

/// Reads of a file that moves while it is read, before it counts as unstable.
const TRIES: usize = 3;
const BLOCK: usize = 128 * 1024;

/// Whether anybody has a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A lease held over the whole look.
    None,
    /// The lease was refused, or broken while we read.
    Open,
    /// No lease to be had here; or it is no file.
    Unknown,
}

/// What a look found. Absent: `stat` is None.
#[derive(Debug, Clone)]
pub struct Look {
    pub version: Version,
    pub stat: Option<Stat>,
    pub writer: Writer,
}

/// What a look may read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Larger files are `too-large`. None: read all.
    pub max_bytes: Option<u64>,
    /// The name is a secret: never opened.
    pub secret: bool,
}

impl Look {
    pub fn id(&self) -> Option<FileId> {
        self.stat.as_ref().map(FileId::of)
    }

    pub fn links(&self) -> u64 {
        self.stat.as_ref().map_or(0, |s| s.st_nlink)
    }

    pub fn absent() -> Self {
        Look {
            version: Version::Absent,
            stat: None,
            writer: Writer::Unknown,
        }
    }

    fn of(version: Version, stat: Stat) -> Self {
        Look {
            version,
            stat: Some(stat),
            writer: Writer::Unknown,
        }
    }

    fn uncovered(reason: Reason, stat: Stat) -> Self {
        Look::of(uncovered(reason, &stat), stat)
    }
}

pub fn uncovered(reason: Reason, stat: &Stat) -> Version {
    Version::Uncovered {
        reason,
        stat: stat_key(stat),
    }
}

pub fn stat_key(stat: &Stat) -> StatKey {
    StatKey {
        kind: leaf::kind(stat),
        mode: leaf::mode(stat),
        size: stat.st_size as u64,
        mtime_ns: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64,
        ctime_ns: stat.st_ctime * 1_000_000_000 + stat.st_ctime_nsec as i64,
        ino: stat.st_ino,
        dev: stat.st_dev,
    }
}

/// Looks at a name, reading and hashing it where it is a file.
pub fn look(dir: BorrowedFd<'_>, name: &[u8], store: &SegmentStore) -> Sys<Look> {
    look_within(dir, name, store, Limits::default())
}

/// The same within limits. Faults of reading are versions (`unreadable`, `unstable`), others are errors.
pub fn look_within(dir: BorrowedFd<'_>, name: &[u8], store: &SegmentStore, limits: Limits) -> Sys<Look> {
    match leaf::stat(dir, name)? {
        Some(stat) => look_on(dir, name, store, (stat, limits)),
        None => Ok(Look::absent()),
    }
}

/// The same from a stat that was just taken.
pub fn look_on(
    dir: BorrowedFd<'_>,
    name: &[u8],
    store: &SegmentStore,
    (first, limits): (Stat, Limits),
) -> Sys<Look> {
    let mut known = Some(first);
    for _ in 0..TRIES {
        let stat = match known.take() {
            Some(stat) => stat,
            None => match leaf::stat(dir, name)? {
                Some(stat) => stat,
                None => return Ok(Look::absent()),
            },
        };
        match leaf::kind(&stat) {
            FileKind::File => {
                if let Some(look) = look_at_file(dir, name, store, (stat, limits))? {
                    return Ok(look);
                }
            }
            FileKind::Symlink => match leaf::read_link(dir, name) {
                Ok(target) => return Ok(Look::of(Version::Symlink { target }, stat)),
                Err(Errno::NOENT | Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            },
            FileKind::Dir => {
                let mode = leaf::mode(&stat);
                return Ok(Look::of(Version::Dir { mode }, stat));
            }
            other => {
                let kind = other.special().expect("neither file, link nor folder");
                let ino = stat.st_ino;
                return Ok(Look::of(Version::Special { kind, ino }, stat));
            }
        }
    }
    match leaf::stat(dir, name)? {
        None => Ok(Look::absent()),
        Some(stat) => Ok(Look::uncovered(Reason::Unstable, stat)),
    }
}

/// None: it moved; look again.
fn look_at_file(
    dir: BorrowedFd<'_>,
    name: &[u8],
    store: &SegmentStore,
    (stat, limits): (Stat, Limits),
) -> Sys<Option<Look>> {
    if limits.secret {
        return Ok(Some(Look::uncovered(Reason::Secret, stat)));
    }
    if limits.max_bytes.is_some_and(|max| stat.st_size as u64 > max) {
        return Ok(Some(Look::uncovered(Reason::TooLarge, stat)));
    }
    let mut open = match OpenFile::open(dir, name) {
        Ok(open) => open,
        Err(Errno::ACCESS | Errno::PERM) => return Ok(Some(Look::uncovered(Reason::Unreadable, stat))),
        Err(Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    if FileId::of(&open.stat) != FileId::of(&stat) {
        return Ok(None);
    }
    read_leased(&mut open, store)
}

/// Reads a file under a lease. None: it moved meanwhile.
fn read_leased(open: &mut OpenFile, store: &SegmentStore) -> Sys<Option<Look>> {
    open.lease();
    let (content, size) = open.hash(store)?;
    let writer = open.writer();
    // Under a lease only what came between stat and lease can make a difference. The older stat is the safer one: what
    // was written after it has another key.
    let moved = match writer {
        Writer::None => size != open.stat.st_size as u64,
        _ => {
            let after = sys::fstat(&open.fd)?;
            stat_key(&after) != stat_key(&open.stat) || size != after.st_size as u64
        }
    };
    let mode = leaf::mode(&open.stat);
    Ok((!moved).then_some(Look {
        version: Version::File { mode, size, content },
        stat: Some(open.stat),
        writer,
    }))
}

/// The same look, and where it is a file, the file with its lease, so that [`OpenFile::is_as_read`] tells later whether the
/// look still stands. None: it is no file, or had to be looked at once more.
pub fn look_and_hold(
    dir: BorrowedFd<'_>,
    name: &[u8],
    store: &SegmentStore,
) -> Sys<(Look, Option<OpenFile>)> {
    let stat = leaf::stat(dir, name)?;
    if stat.is_none_or(|stat| leaf::kind(&stat) != FileKind::File) {
        return look(dir, name, store).map(|look| (look, None));
    }
    match OpenFile::open(dir, name) {
        Ok(mut open) => {
            if let Some(look) = read_leased(&mut open, store)? {
                return Ok((look, Some(open)));
            }
        }
        Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::LOOP | Errno::INVAL | Errno::NXIO) => {}
        Err(errno) => return Err(errno),
    }
    look(dir, name, store).map(|look| (look, None))
}

/// A regular file, open for reading. Closing it gives the lease back.
#[derive(Debug)]
pub struct OpenFile {
    pub fd: OwnedFd,
    pub stat: Stat,
    lease: Option<Writer>,
}

impl OpenFile {
    pub fn open(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<Self> {
        let (fd, stat) = leaf::open_file(dir, name)?;
        Ok(OpenFile {
            fd,
            stat,
            lease: None,
        })
    }

    /// Takes a descriptor that was opened otherwise.
    pub fn of(fd: OwnedFd) -> Sys<Self> {
        let stat = sys::fstat(&fd)?;
        Ok(OpenFile {
            fd,
            stat,
            lease: None,
        })
    }

    /// Asks for a read lease. What came of it: [`OpenFile::writer`].
    pub fn lease(&mut self) {
        self.lease = Some(match sys::take_lease(self.fd.as_fd()) {
            Lease::Taken => Writer::None,
            Lease::Writers => Writer::Open,
            Lease::Unknown => Writer::Unknown,
        });
    }

    /// Whether anybody writes, by the lease: `None` only where it has held until now.
    pub fn writer(&self) -> Writer {
        match self.lease {
            Some(Writer::None) if !sys::lease_holds(self.fd.as_fd()) => Writer::Open,
            Some(state) => state,
            None => Writer::Unknown,
        }
    }

    /// True where the lease under which it was read still holds, and nothing else of it changed: nobody opened it for
    /// writing since then.
    pub fn is_as_read(&self) -> bool {
        let now = sys::fstat(&self.fd);
        now.is_ok_and(|now| stat_key(&now) == stat_key(&self.stat)) && self.writer() == Writer::None
    }

    /// Hash and length of the bytes, from the start.
    pub fn hash(&self, store: &SegmentStore) -> Sys<(Hash, u64)> {
        let mut hasher = store.hasher();
        let mut size = 0;
        self.blocks(|block| {
            hasher.update(block);
            size += block.len() as u64;
        })?;
        Ok((hasher.finish(), size))
    }

    pub fn read(&self) -> Sys<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.stat.st_size as usize);
        self.blocks(|block| bytes.extend_from_slice(block))?;
        Ok(bytes)
    }

    fn blocks(&self, mut each: impl FnMut(&[u8])) -> Sys<()> {
        // One byte more than the size: the end is seen without another call.
        let room = (self.stat.st_size as usize + 1).clamp(512, BLOCK);
        let mut block = vec![0u8; room];
        let mut at = 0u64;
        loop {
            match sys::pread(&self.fd, &mut block, at) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    each(&block[..n]);
                    at += n as u64;
                    if n < room && at == self.stat.st_size as u64 {
                        return Ok(());
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Limits of a name: secrets are never opened unless an `include` pattern names them.
pub fn limits_of(path: &[u8], included: bool, max_bytes: u64) -> Limits {
    Limits {
        max_bytes: Some(max_bytes),
        secret: !included && names::is_secret(names::split(path).1),
    }
}
