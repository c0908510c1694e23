//! Acts on one name of an open folder, by the calls of `sys`.
//!
//! No call follows a symlink in the last name. Names are single components: callers checked them (`names::check`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::sys;
pub use crate::sys::{Sys, write_all};
use crate::wire::FileKind;

/// lstat of a name; None where it is absent.
pub fn stat(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<Option<Stat>> {
    match sys::statat(dir, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

pub fn kind(stat: &Stat) -> FileKind {
    FileKind::of_mode(stat.st_mode)
}

/// The nine permission bits.
pub fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

/// Opens a regular file for reading, and waits for nobody: a FIFO or a device that came in between is an error.
pub fn open_file(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<(OwnedFd, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = sys::openat(dir, name, flags, Mode::empty())?;
    let stat = sys::fstat(&fd)?;
    if kind(&stat) != FileKind::File {
        return Err(Errno::INVAL);
    }
    Ok((fd, stat))
}

/// Makes a file that nobody else can open, for writing. `EEXIST` where the name is taken.
pub fn create_file(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<OwnedFd> {
    create_file_with(dir, name, 0o600)
}

/// The same with the given bits, less those of the process's mask.
pub fn create_file_with(dir: BorrowedFd<'_>, name: &[u8], bits: u32) -> Sys<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    sys::openat(dir, name, flags, Mode::from_raw_mode(bits))
}

/// False where a file has no extended attributes and no access list: by its name below /proc, which opens nothing.
pub fn may_have_xattrs(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    match sys::xattrs_length(dir, name) {
        Ok(length) => length > 0,
        Err(Errno::NOTSUP) => false,
        // No /proc, or a name that came or went: the file itself tells.
        Err(_) => true,
    }
}

pub fn make_symlink(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> Sys<()> {
    sys::symlinkat(target, dir, name)
}

pub fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<Vec<u8>> {
    sys::readlinkat(dir, name)
}

/// Makes a folder that only its owner can enter.
pub fn make_folder(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    sys::mkdirat(dir, name, Mode::from_raw_mode(0o700))
}

pub fn remove_folder(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    sys::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

pub fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    sys::unlinkat(dir, name, AtFlags::empty())
}

/// Swaps two names of one folder, in one step.
pub fn exchange(dir: BorrowedFd<'_>, a: &[u8], b: &[u8]) -> Sys<()> {
    sys::renameat_with(dir, a, (dir, b), RenameFlags::EXCHANGE)
}

/// Renames; `EEXIST` where the new name is taken. Where the file system has no such rename: a link, then an unlink of the old name.
pub fn rename_new(from: BorrowedFd<'_>, old: &[u8], to: BorrowedFd<'_>, new: &[u8]) -> Sys<()> {
    match sys::renameat_with(from, old, (to, new), RenameFlags::NOREPLACE) {
        // Some servers answer EINVAL even where the name is free.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            sys::linkat(from, old, to, new)?;
            sys::unlinkat(from, old, AtFlags::empty())
        }
        other => other,
    }
}

/// Sets the nine bits of the folder at `name`, provided that it is the one that `expected` names. Its setgid and sticky
/// bits stay. Works on a folder that can't be read.
pub fn chmod_folder(dir: BorrowedFd<'_>, name: &[u8], expected: super::FileId, bits: u32) -> Sys<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = sys::openat(dir, name, flags, Mode::empty())?;
    let stat = sys::fstat(&fd)?;
    if super::FileId::of(&stat) != expected {
        return Err(Errno::NOTDIR);
    }
    let wanted = Mode::from_raw_mode((stat.st_mode & 0o3000) | (bits & 0o777));
    match sys::chmod_path_fd(&fd, wanted) {
        Err(Errno::NOENT) => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = sys::openat(dir, name, flags, Mode::empty())?;
            if super::identity(fd.as_fd())? != expected {
                return Err(Errno::NOTDIR);
            }
            sys::fchmod(&fd, wanted)
        }
        other => other,
    }
}

/// Makes the names of a folder durable. One that can't be opened for reading is left to a sync of the whole file system.
pub fn sync_folder(dir: BorrowedFd<'_>) -> Sys<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match sys::openat(dir, b".", flags, Mode::empty()) {
        Ok(fd) => sys::fsync(&fd),
        Err(errno) => Err(errno),
    }
}
