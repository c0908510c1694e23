//! The few system calls of a scan, and the stat key that they give. Nothing follows a link; nothing opens a device.

#![allow(clippy::disallowed_methods, reason = "only reads")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;

use crate::wire::{FileKind, StatKey};

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// The types of `Stat` differ between architectures, hence the casts.
#[allow(clippy::unnecessary_cast)]
pub fn key_of(stat: &Stat) -> StatKey {
    let ns = |s: i64, n: i64| s.saturating_mul(1_000_000_000).saturating_add(n);
    StatKey {
        kind: FileKind::of_mode(stat.st_mode as u32),
        mode: stat.st_mode as u32 & 0o777,
        size: stat.st_size as u64,
        mtime_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        ctime_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        ino: stat.st_ino as u64,
        dev: stat.st_dev as u64,
    }
}

pub fn stat_name(folder: BorrowedFd<'_>, name: &CStr) -> Result<StatKey, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
    statat(folder, name, flags).map(|stat| key_of(&stat))
}

pub fn stat_bytes(folder: BorrowedFd<'_>, name: &[u8]) -> Result<StatKey, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
    statat(folder, name, flags).map(|stat| key_of(&stat))
}

/// The same, with the number of the file's names.
pub fn stat_links(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(StatKey, u64), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
    #[allow(clippy::unnecessary_cast)]
    statat(folder, name, flags).map(|stat| (key_of(&stat), stat.st_nlink as u64))
}

pub fn stat_open(fd: BorrowedFd<'_>) -> Result<StatKey, Errno> {
    fstat(fd).map(|stat| key_of(&stat))
}

/// Opens a folder by one name; a link or anything else fails.
pub fn open_dir(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(folder, name, DIR_FLAGS, Mode::empty())
}

/// Opens a folder of the tree by its path without following a link anywhere.
pub fn open_dir_beneath(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    Ok(open_below(root, path)?)
}

/// The same, with the system's own error.
pub fn open_below(folder: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    open_beneath(folder, path, DIR_FLAGS)
}

/// Opens `path` below `root` without following a link anywhere; a mount on the way fails.
pub fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return openat(root, ".", flags, Mode::empty());
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    for _ in 0..128 {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if !flags.contains(OFlags::NONBLOCK) => {}
            // A sandbox or an old kernel, or a path that one call can't take.
            Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN) => break,
            opened => return opened,
        }
    }
    open_by_component(root, path, flags)
}

fn open_by_component(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let walk = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dev = fstat(root)?.st_dev;
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.split(|b| *b == b'/').peekable();
    while let Some(part) = parts.next() {
        let from = at.as_ref().map_or(root, |fd| fd.as_fd());
        let last = parts.peek().is_none();
        let next = openat(
            from,
            part,
            if last { flags | OFlags::NOFOLLOW } else { walk },
            Mode::empty(),
        )?;
        if fstat(&next)?.st_dev != dev {
            return Err(Errno::XDEV);
        }
        at = Some(next);
    }
    at.ok_or(Errno::NOENT)
}

/// The names of a folder, read whole into buffers that are kept from folder to folder.
#[derive(Default)]
pub struct Names {
    bytes: Vec<u8>,
    items: Vec<Item>,
    buffer: Vec<std::mem::MaybeUninit<u8>>,
}

#[derive(Clone, Copy)]
struct Item {
    at: u32,
    len: u16,
    kind: Option<FileKind>,
}

impl Names {
    /// Reads all names, sorted by bytes; `.` and `..` are left out.
    pub fn read(&mut self, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        use rustix::fs::FileType;
        self.bytes.clear();
        self.items.clear();
        self.buffer.resize(32 * 1024, std::mem::MaybeUninit::uninit());
        let mut entries = RawDir::new(folder, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => Some(FileKind::File),
                FileType::Directory => Some(FileKind::Dir),
                FileType::Symlink => Some(FileKind::Symlink),
                FileType::Fifo => Some(FileKind::Fifo),
                FileType::Socket => Some(FileKind::Socket),
                FileType::CharacterDevice => Some(FileKind::Char),
                FileType::BlockDevice => Some(FileKind::Block),
                FileType::Unknown => None,
            };
            let at = self.bytes.len() as u32;
            self.bytes.extend_from_slice(name);
            self.items.push(Item {
                at,
                len: name.len() as u16,
                kind,
            });
        }
        let bytes = &self.bytes;
        self.items
            .sort_unstable_by(|a, b| name_of(bytes, a).cmp(name_of(bytes, b)));
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn name(&self, index: usize) -> &[u8] {
        name_of(&self.bytes, &self.items[index])
    }

    /// What the folder says that the name is; not every file system tells.
    pub fn kind(&self, index: usize) -> Option<FileKind> {
        self.items[index].kind
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.items
            .binary_search_by(|item| name_of(&self.bytes, item).cmp(name))
            .is_ok()
    }
}

fn name_of<'a>(bytes: &'a [u8], item: &Item) -> &'a [u8] {
    &bytes[item.at as usize..item.at as usize + item.len as usize]
}
