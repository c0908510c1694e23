//! Contained paths: the root, opened once, and the folder that holds a path, as a descriptor.
//!
//! [`Root::parent`] resolves all of a path but its last name with `openat2(BENEATH | NO_SYMLINKS | NO_XDEV |
//! NO_MAGICLINKS)`, in chunks below PATH_MAX; where the kernel (or a seccomp filter) has none, component by component
//! with `O_NOFOLLOW`, which is remembered. Every act on the last name is an `*at` call on that descriptor (`leaf`).
//! A symlink, a mount or anything else that is no folder ends the walk; nothing is followed.
//!
//! Not covered: a folder that is moved out of the root while its descriptor is open stays usable. Callers resolve
//! again after the act ([`Root::still_at`]) and take the act back where the folder is another one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::{Code, EngineError, IoContext, Result};
use crate::sys;

pub mod leaf;
pub mod look;
pub mod names;
#[cfg(test)]
mod tests;

/// One openat2 takes at most PATH_MAX (4096) bytes; a name has at most 255, so a chunk always ends at a slash.
const CHUNK: usize = 3800;
/// libpathrs found 0.1 % of walks still refused after 128 tries under attack.
const RETRIES: usize = 128;

/// Device and inode: which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    pub dev: u64,
    pub ino: u64,
}

/// How parents are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolver {
    /// openat2 where the kernel has it.
    Auto,
    /// Component by component, as on a kernel without openat2.
    Component,
}

/// Why a walk to a folder ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    #[error("a folder above it does not exist")]
    Missing,
    #[error("a symlink or another thing that is no folder stands above it")]
    NotFolder,
    #[error("another file system is mounted above it")]
    Mount,
    #[error("a folder above it can't be entered")]
    Denied,
    #[error("the path has a part that no file can have")]
    BadName,
    #[error("the walk to it failed: {0}")]
    Io(Errno),
}

/// The folder that holds a path, and the last name of the path.
#[derive(Debug)]
pub struct Parent {
    pub dir: OwnedFd,
    pub id: FileId,
}

/// The tree's top folder. Shared by threads; holds one descriptor.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
    id: FileId,
    mount: Option<u64>,
    component: AtomicBool,
}

impl Root {
    /// Opens `path`, which must be a folder and no symlink. `ERR_ROOT_CHANGED` where it is gone or something else.
    pub fn open(path: &Path, resolver: Resolver) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            sys::openat(CWD, path.as_os_str().as_bytes(), flags, Mode::empty()).map_err(
                |errno| match errno {
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP => EngineError::new(
                        Code::RootChanged,
                        format!("{} is not a folder any more", path.display()),
                    ),
                    other => EngineError::io(&format!("open the root {}", path.display()), other),
                },
            )?;
        let id = identity(fd.as_fd()).doing_at("stat the root", path.as_os_str().as_bytes())?;
        let mount = mount_id(fd.as_fd()).doing_at("stat the root", path.as_os_str().as_bytes())?;
        Ok(Root {
            fd,
            path: path.to_path_buf(),
            id,
            mount,
            component: AtomicBool::new(resolver == Resolver::Component),
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// The path that it was opened by, for messages.
    pub fn shown(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// The resolver in use: false once openat2 was found missing.
    pub fn uses_openat2(&self) -> bool {
        !self.component.load(Ordering::Relaxed)
    }

    /// `ERR_ROOT_CHANGED` where the root's path names another inode by now, or none.
    pub fn check(&self) -> Result<()> {
        let now = sys::statat(CWD, self.path.as_os_str().as_bytes())
            .ok()
            .map(|s| FileId::of(&s));
        if now == Some(self.id) {
            return Ok(());
        }
        let shown = self.path.display();
        Err(EngineError::new(
            Code::RootChanged,
            format!("another folder, or none, stands at {shown} now; nothing was touched"),
        ))
    }

    /// True where `fd` is on the root's mount, so that a rename between the two works.
    pub fn same_mount(&self, fd: BorrowedFd<'_>) -> sys::Sys<bool> {
        let id = identity(fd)?;
        Ok(id.dev == self.id.dev && (self.mount.is_none() || mount_id(fd)? == self.mount))
    }

    /// Resolves the folder that holds `path`.
    pub fn parent(&self, path: &[u8]) -> std::result::Result<Parent, WalkError> {
        names::check(path)?;
        self.folder(names::split(path).0)
    }

    /// Resolves a folder; an empty path is the root.
    pub fn folder(&self, path: &[u8]) -> std::result::Result<Parent, WalkError> {
        if !path.is_empty() {
            names::check(path)?;
        }
        let dir = self.walk(path)?;
        let id = identity(dir.as_fd()).map_err(WalkError::Io)?;
        Ok(Parent { dir, id })
    }

    /// True where the folder at `path` is still the one that `id` names. An error: it can't be told at this moment.
    pub fn still_at(&self, path: &[u8], id: FileId) -> std::result::Result<bool, WalkError> {
        match self.folder(path) {
            Ok(now) => Ok(now.id == id),
            Err(error) if error.is_fault() => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn walk(&self, path: &[u8]) -> std::result::Result<OwnedFd, WalkError> {
        if path.is_empty() {
            return self.fd.try_clone().map_err(|_| WalkError::Io(Errno::MFILE));
        }
        if self.uses_openat2() {
            match self.walk_openat2(path) {
                Err(WalkError::Io(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG)) => {
                    self.component.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        self.walk_components(path)
    }

    fn walk_openat2(&self, path: &[u8]) -> std::result::Result<OwnedFd, WalkError> {
        let mut rest = path;
        let mut at: Option<OwnedFd> = None;
        loop {
            let (chunk, after) = take_chunk(rest);
            let from = at.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            let fd = openat2_folder(from, chunk)?;
            if after.is_empty() {
                return Ok(fd);
            }
            at = Some(fd);
            rest = after;
        }
    }

    fn walk_components(&self, path: &[u8]) -> std::result::Result<OwnedFd, WalkError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at: Option<OwnedFd> = None;
        for name in path.split(|b| *b == b'/') {
            let from = at.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            let fd = sys::openat(from, name, flags, Mode::empty()).map_err(walk_error)?;
            if !self.same_mount(fd.as_fd()).map_err(WalkError::Io)? {
                return Err(WalkError::Mount);
            }
            at = Some(fd);
        }
        at.ok_or(WalkError::BadName)
    }
}

impl WalkError {
    /// The system's, and perhaps gone next time; not what somebody put there.
    pub fn is_fault(self) -> bool {
        matches!(self, WalkError::Denied | WalkError::Io(_))
    }
}

impl FileId {
    /// No file's.
    pub const NONE: FileId = FileId { dev: 0, ino: 0 };

    pub fn of(stat: &rustix::fs::Stat) -> Self {
        FileId {
            dev: stat.st_dev,
            ino: stat.st_ino,
        }
    }
}

fn openat2_folder(from: BorrowedFd<'_>, path: &[u8]) -> std::result::Result<OwnedFd, WalkError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_XDEV
        | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES {
        match sys::openat2(from, path, flags, resolve) {
            // Somebody renames folders: the kernel can't tell whether the walk stayed below. Walk again.
            Err(Errno::AGAIN | Errno::INTR) => continue,
            other => return other.map_err(walk_error),
        }
    }
    Err(WalkError::Io(Errno::AGAIN))
}

/// Splits off as many leading components as one call takes.
fn take_chunk(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= CHUNK {
        return (path, &[]);
    }
    match path[..CHUNK].iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, &[]),
    }
}

fn walk_error(errno: Errno) -> WalkError {
    match errno {
        Errno::NOENT => WalkError::Missing,
        Errno::NOTDIR | Errno::LOOP => WalkError::NotFolder,
        Errno::XDEV => WalkError::Mount,
        Errno::ACCESS => WalkError::Denied,
        Errno::NAMETOOLONG => WalkError::BadName,
        other => WalkError::Io(other),
    }
}

pub fn identity(fd: BorrowedFd<'_>) -> std::result::Result<FileId, Errno> {
    sys::fstat(fd).map(|s| FileId::of(&s))
}

/// The mount that a descriptor is on; None on kernels before 5.8.
fn mount_id(fd: BorrowedFd<'_>) -> sys::Sys<Option<u64>> {
    match sys::statx(fd, StatxFlags::MNT_ID) {
        Ok(found) => Ok((found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)),
        // No such call, or none that a filter lets through.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}
