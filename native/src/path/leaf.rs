//! Acts on one name of an open folder. The only place where apply, recovery and trash meet the kernel, so that a
//! simulated file system can take its place.
//!
//! No call follows a symlink in the last name. Names are single components: callers checked them (`names::check`).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::wire::FileKind;

pub type Sys<T> = Result<T, Errno>;

/// Before each act. Tests let one of them fail, or let the process "die" there.
#[cfg(not(test))]
#[inline(always)]
fn step(_act: &'static str) -> Sys<()> {
    Ok(())
}

#[cfg(test)]
use super::faults::step;

/// lstat of a name; None where it is absent.
pub fn stat(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<Option<Stat>> {
    step("stat")?;
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
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
    step("open_file")?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if kind(&stat) != FileKind::File {
        return Err(Errno::INVAL);
    }
    Ok((fd, stat))
}

/// Makes a file that nobody else can open, for writing. `EEXIST` where the name is taken.
pub fn create_file(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<OwnedFd> {
    step("create_file")?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))
}

/// False where a file has no extended attributes and no access list: by its name below /proc, which opens nothing.
pub fn may_have_xattrs(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    let by_proc = [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat();
    match rustix::fs::llistxattr_query(&by_proc[..]) {
        Ok(length) => length > 0,
        Err(Errno::NOTSUP) => false,
        // No /proc, or a name that came or went: the file itself tells.
        Err(_) => true,
    }
}

pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Sys<()> {
    step("write_all")?;
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub fn make_symlink(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> Sys<()> {
    step("make_symlink")?;
    rustix::fs::symlinkat(target, dir, name)
}

pub fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<Vec<u8>> {
    step("read_link")?;
    rustix::fs::readlinkat(dir, name, Vec::new()).map(|target| target.into_bytes())
}

/// Makes a folder that only its owner can enter.
pub fn make_folder(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    step("make_folder")?;
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700))
}

pub fn remove_folder(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    step("remove_folder")?;
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

pub fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    step("unlink")?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())
}

/// Swaps two names of one folder, in one step.
pub fn exchange(dir: BorrowedFd<'_>, a: &[u8], b: &[u8]) -> Sys<()> {
    step("exchange")?;
    rustix::fs::renameat_with(dir, a, dir, b, RenameFlags::EXCHANGE)
}

/// Renames; `EEXIST` where the new name is taken. Where the file system has no such rename: a link, then an unlink of the old name.
pub fn rename_new(from: BorrowedFd<'_>, old: &[u8], to: BorrowedFd<'_>, new: &[u8]) -> Sys<()> {
    step("rename_new")?;
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Some servers answer EINVAL even where the name is free.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        other => other,
    }
}

/// Sets the nine bits of the folder at `name`, provided that it is the one that `expected` names. Its setgid and sticky
/// bits stay. Works on a folder that can't be read.
pub fn chmod_folder(dir: BorrowedFd<'_>, name: &[u8], expected: super::FileId, bits: u32) -> Sys<()> {
    step("chmod_folder")?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if super::FileId::of(&stat) != expected {
        return Err(Errno::NOTDIR);
    }
    let wanted = Mode::from_raw_mode((stat.st_mode & 0o3000) | (bits & 0o777));
    // An O_PATH descriptor takes no fchmod; its name below /proc leads to the same inode, never through a link of ours.
    let by_proc = format!("/proc/self/fd/{}", fd.as_raw_fd());
    match rustix::fs::chmod(by_proc, wanted) {
        Err(Errno::NOENT) => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            if super::identity(fd.as_fd())? != expected {
                return Err(Errno::NOTDIR);
            }
            rustix::fs::fchmod(&fd, wanted)
        }
        other => other,
    }
}

/// Makes the names of a folder durable. One that can't be opened for reading is left to a sync of the whole file system.
pub fn sync_folder(dir: BorrowedFd<'_>) -> Sys<()> {
    step("sync_folder")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, c".", flags, Mode::empty()) {
        Ok(fd) => rustix::fs::fsync(&fd),
        Err(errno) => Err(errno),
    }
}
