//! Files of the data directory, named by their path: made, written, synced, moved and removed through the seam.
//!
//! Reading them needs no seam, so `std::fs::File` does. What can be written is an [`OutFile`], which has only calls of
//! this module.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Stat};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A file of ours that is open for writing.
#[derive(Debug)]
pub struct OutFile(OwnedFd);

impl OutFile {
    /// Makes the file (0600); `AlreadyExists` where the name is taken.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = super::openat(CWD, bytes(path), flags, Mode::from_raw_mode(0o600))?;
        Ok(OutFile(fd))
    }

    /// Opens a file that is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        Ok(OutFile(super::openat(CWD, bytes(path), flags, Mode::empty())?))
    }

    /// Opens a file that is there; writes go to its end.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(OutFile(super::openat(CWD, bytes(path), flags, Mode::empty())?))
    }

    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        Ok(super::write_all(&self.0, bytes)?)
    }

    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        Ok(super::pwrite_all(&self.0, bytes, at)?)
    }

    pub fn set_len(&self, length: u64) -> io::Result<()> {
        Ok(super::ftruncate(&self.0, length)?)
    }

    pub fn sync_data(&self) -> io::Result<()> {
        sync_data(self)
    }

    pub fn stat(&self) -> io::Result<Stat> {
        Ok(super::fstat(&self.0)?)
    }
}

impl AsFd for OutFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Makes the bytes of a file durable, whoever wrote them.
pub fn sync_data(file: &impl AsFd) -> io::Result<()> {
    Ok(super::fdatasync(file)?)
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = super::openat(CWD, bytes(path), flags, Mode::empty())?;
    Ok(super::fsync(folder)?)
}

/// Makes a folder that only its owner can enter; `AlreadyExists` where the name is taken.
pub fn make_folder(path: &Path) -> io::Result<()> {
    Ok(super::mkdirat(CWD, bytes(path), Mode::from_raw_mode(0o700))?)
}

/// The same with the folders above it; one that is there is fine.
pub fn make_folders(path: &Path) -> io::Result<()> {
    match make_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().ok_or(error)?;
            make_folders(above)?;
            make_folders(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

pub fn remove(path: &Path) -> io::Result<()> {
    Ok(super::unlinkat(CWD, bytes(path), AtFlags::empty())?)
}

/// Renames over what is there.
pub fn rename(old: &Path, new: &Path) -> io::Result<()> {
    let empty = RenameFlags::empty();
    Ok(super::renameat_with(CWD, bytes(old), (CWD, bytes(new)), empty)?)
}

/// Renames; `EEXIST` where the new name is taken, `EINVAL` or `ENOSYS` where the file system has no such rename.
pub fn rename_new(old: &Path, new: &Path) -> super::Sys<()> {
    super::renameat_with(CWD, bytes(old), (CWD, bytes(new)), RenameFlags::NOREPLACE)
}
