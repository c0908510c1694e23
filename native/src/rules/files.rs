//! Reading one rule file. A missing one is no rule; one that is no regular file is no rule either, as for git.

#![allow(clippy::disallowed_methods, reason = "only reads")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// git reads no pattern file above 100 MiB.
const LARGEST: u64 = 100 << 20;

/// Bytes of a rule file, or none.
pub type Content = io::Result<Option<Vec<u8>>>;

/// A `.gitignore` in an open folder. Links are not followed: git doesn't either inside a tree.
pub fn read_ignore(folder: BorrowedFd<'_>) -> Content {
    read(openat(
        folder,
        c".gitignore",
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ))
}

/// A rule file outside the tree (global excludes, info/exclude). Links are followed, as by git.
pub fn read_path(path: &Path) -> Content {
    read(openat(
        CWD,
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ))
}

fn read(opened: rustix::io::Result<std::os::fd::OwnedFd>) -> Content {
    use rustix::io::Errno;
    let fd = match opened {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(fd.as_fd())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut content = Vec::new();
    File::from(fd).take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return Err(io::Error::other("larger than 100 MiB"));
    }
    Ok(Some(content))
}
