//! The seam to the kernel: every call that writes, and the reads that the guard decides by, one function each.
//!
//! Direct calls, with rustix's names. In tests `sim` stands before each (it fails, somebody else acts, the process dies)
//! and behind each that changed something (a log, from which what a power cut may leave is built). `file` is the same
//! for files that are named by a path. clippy.toml holds that nobody writes past it. Names are bytes and are never
//! followed, where the call can be told so.
//!
//! Not covered: scans and capture, which only read; SQLite, which does its own calls; plain reads of our own store.

#![allow(
    clippy::disallowed_methods,
    reason = "this is where the calls are that no other module may make"
)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Statx, StatxFlags, Timestamps,
    Uid, XattrFlags,
};
use rustix::io::Errno;

pub mod file;
mod lease;
#[cfg(test)]
pub mod sim;

pub use lease::{Lease, drop_lease, lease_holds, lease_sees_maps, take_lease};

pub type Sys<T> = Result<T, Errno>;

/// Tells the simulation what a call did. Nothing, outside of tests.
#[cfg(test)]
macro_rules! did {
    ($effect:expr) => {
        sim::did(|| $effect)
    };
}
#[cfg(not(test))]
macro_rules! did {
    ($effect:expr) => {};
}

#[cfg(test)]
use sim::{Effect, before, seen};

#[cfg(not(test))]
#[inline(always)]
fn before(_call: &'static str) -> Sys<()> {
    Ok(())
}

#[cfg(not(test))]
#[inline(always)]
fn seen(stat: Stat) -> Stat {
    stat
}

/// For calls that a signal may cut short without having done anything.
fn uncut<T>(mut call: impl FnMut() -> Sys<T>) -> Sys<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

pub fn openat(dir: impl AsFd, name: &[u8], flags: OFlags, mode: Mode) -> Sys<OwnedFd> {
    uncut(|| {
        let makes = flags.intersects(OFlags::CREATE | OFlags::TRUNC);
        before(if makes { "create" } else { "openat" })?;
        #[cfg(test)]
        let was = sim::was(&dir, name);
        let fd = rustix::fs::openat(&dir, name, flags, mode)?;
        did!(Effect::opened((&dir, name), (&fd, was), flags));
        Ok(fd)
    })
}

pub fn openat2(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, resolve: ResolveFlags) -> Sys<OwnedFd> {
    before("openat2")?;
    rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)
}

pub fn fstat(fd: impl AsFd) -> Sys<Stat> {
    before("fstat")?;
    rustix::fs::fstat(fd).map(seen)
}

/// lstat of a name.
pub fn statat(dir: impl AsFd, name: &[u8]) -> Sys<Stat> {
    before("statat")?;
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(seen)
}

pub fn statx(fd: impl AsFd, mask: StatxFlags) -> Sys<Statx> {
    before("statx")?;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, mask)
}

pub fn readlinkat(dir: impl AsFd, name: &[u8]) -> Sys<Vec<u8>> {
    before("readlinkat")?;
    rustix::fs::readlinkat(dir, name, Vec::new()).map(|target| target.into_bytes())
}

pub fn pread(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Sys<usize> {
    uncut(|| {
        before("pread")?;
        rustix::io::pread(&fd, &mut *buffer, at)
    })
}

/// Writes all at the descriptor's place, or at its end where it appends.
pub fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> Sys<()> {
    while !bytes.is_empty() {
        let wrote = uncut(|| {
            before("write")?;
            rustix::io::write(&fd, bytes)
        })?;
        did!(Effect::wrote(&fd, None, &bytes[..wrote]));
        bytes = rest(bytes, wrote)?;
    }
    Ok(())
}

pub fn pwrite_all(fd: impl AsFd, mut bytes: &[u8], mut at: u64) -> Sys<()> {
    while !bytes.is_empty() {
        let wrote = uncut(|| {
            before("pwrite")?;
            rustix::io::pwrite(&fd, bytes, at)
        })?;
        did!(Effect::wrote(&fd, Some(at), &bytes[..wrote]));
        bytes = rest(bytes, wrote)?;
        at += wrote as u64;
    }
    Ok(())
}

fn rest(bytes: &[u8], wrote: usize) -> Sys<&[u8]> {
    match wrote {
        0 => Err(Errno::IO),
        wrote => Ok(&bytes[wrote..]),
    }
}

pub fn ftruncate(fd: impl AsFd, length: u64) -> Sys<()> {
    uncut(|| {
        before("ftruncate")?;
        rustix::fs::ftruncate(&fd, length)
    })?;
    did!(Effect::cut(&fd, length));
    Ok(())
}

pub fn fchmod(fd: impl AsFd, mode: Mode) -> Sys<()> {
    before("fchmod")?;
    rustix::fs::fchmod(&fd, mode)?;
    did!(Effect::mode(&fd, mode));
    Ok(())
}

/// The same on a descriptor that was opened as a path only, which fchmod refuses: its name below /proc leads to the same
/// inode, never through a link of ours. `ENOENT` without /proc.
pub fn chmod_path_fd(fd: &OwnedFd, mode: Mode) -> Sys<()> {
    before("chmod")?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)?;
    did!(Effect::mode(fd, mode));
    Ok(())
}

pub fn fchown(fd: impl AsFd, uid: Option<Uid>, gid: Option<Gid>) -> Sys<()> {
    before("fchown")?;
    rustix::fs::fchown(fd, uid, gid)
}

pub fn flistxattr(fd: impl AsFd) -> Sys<Vec<u8>> {
    before("flistxattr")?;
    let mut list = vec![0u8; rustix::fs::flistxattr_query(&fd)?];
    let length = rustix::fs::flistxattr(&fd, &mut list[..])?;
    list.truncate(length);
    Ok(list)
}

/// How long the list of a name's extended attributes is, by its name below /proc, which opens nothing.
pub fn xattrs_length(dir: impl AsFd, name: &[u8]) -> Sys<usize> {
    before("llistxattr")?;
    let dir = dir.as_fd().as_raw_fd();
    let by_proc = [format!("/proc/self/fd/{dir}/").as_bytes(), name].concat();
    rustix::fs::llistxattr_query(&by_proc[..])
}

pub fn fgetxattr(fd: impl AsFd, name: &[u8]) -> Sys<Vec<u8>> {
    before("fgetxattr")?;
    let mut value = vec![0u8; rustix::fs::fgetxattr_query(&fd, name)?];
    let length = rustix::fs::fgetxattr(&fd, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

pub fn fsetxattr(fd: impl AsFd, name: &[u8], value: &[u8]) -> Sys<()> {
    before("fsetxattr")?;
    rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())
}

pub fn futimens(fd: impl AsFd, times: &Timestamps) -> Sys<()> {
    before("futimens")?;
    rustix::fs::futimens(fd, times)
}

pub fn ioctl_ficlone(to: impl AsFd, from: impl AsFd) -> Sys<()> {
    before("ficlone")?;
    rustix::fs::ioctl_ficlone(to, from)
}

pub fn symlinkat(target: &[u8], dir: impl AsFd, name: &[u8]) -> Sys<()> {
    before("symlinkat")?;
    rustix::fs::symlinkat(target, &dir, name)?;
    did!(Effect::made(&dir, name));
    Ok(())
}

pub fn mkdirat(dir: impl AsFd, name: &[u8], mode: Mode) -> Sys<()> {
    before("mkdirat")?;
    rustix::fs::mkdirat(&dir, name, mode)?;
    did!(Effect::made(&dir, name));
    Ok(())
}

/// An empty regular file.
pub fn mknodat(dir: impl AsFd, name: &[u8], mode: Mode) -> Sys<()> {
    before("mknodat")?;
    rustix::fs::mknodat(&dir, name, FileType::RegularFile, mode, 0)?;
    did!(Effect::made(&dir, name));
    Ok(())
}

pub fn unlinkat(dir: impl AsFd, name: &[u8], flags: AtFlags) -> Sys<()> {
    before("unlinkat")?;
    #[cfg(test)]
    let was = sim::was(&dir, name);
    rustix::fs::unlinkat(&dir, name, flags)?;
    did!(Effect::unlinked(&dir, name, was));
    Ok(())
}

pub fn linkat(from: impl AsFd, old: &[u8], to: impl AsFd, new: &[u8]) -> Sys<()> {
    before("linkat")?;
    rustix::fs::linkat(&from, old, &to, new, AtFlags::empty())?;
    did!(Effect::made(&to, new));
    Ok(())
}

pub fn renameat_with(
    from: impl AsFd,
    old: &[u8],
    (to, new): (impl AsFd, &[u8]),
    flags: RenameFlags,
) -> Sys<()> {
    before("renameat2")?;
    match flags.is_empty() {
        true => rustix::fs::renameat(&from, old, &to, new)?,
        false => rustix::fs::renameat_with(&from, old, &to, new, flags)?,
    }
    did!(Effect::renamed((&from, old), (&to, new), flags));
    Ok(())
}

pub fn fsync(fd: impl AsFd) -> Sys<()> {
    uncut(|| {
        before("fsync")?;
        rustix::fs::fsync(&fd)
    })?;
    did!(Effect::synced(&fd));
    Ok(())
}

pub fn fdatasync(fd: impl AsFd) -> Sys<()> {
    uncut(|| {
        before("fdatasync")?;
        rustix::fs::fdatasync(&fd)
    })?;
    did!(Effect::synced(&fd));
    Ok(())
}

pub fn syncfs(fd: impl AsFd) -> Sys<()> {
    uncut(|| {
        before("syncfs")?;
        rustix::fs::syncfs(&fd)
    })?;
    did!(Effect::SyncAll);
    Ok(())
}
