//! Read leases: who has a file open for writing is told by the kernel, before and after it is read.

use std::os::fd::{AsRawFd, OwnedFd};

const F_SETSIG: libc::c_int = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nobody had it open for writing.
    Whole,
    /// Somebody wants to write, or did.
    Broken,
    /// Somebody has it open for writing.
    Writers,
    /// No lease is to be had here.
    Unknown,
}

/// A read lease: it is refused while anybody has the file open for writing, and breaks when somebody opens it so.
pub struct Lease<'a> {
    file: &'a OwnedFd,
    taken: Held,
}

impl<'a> Lease<'a> {
    pub fn take(file: &'a OwnedFd) -> Self {
        let fd = file.as_raw_fd();
        // The default signal of a broken lease, SIGIO, ends the process; SIGURG is ignored by default.
        // SAFETY: fcntl with integer arguments on a descriptor that `file` keeps open.
        let taken = unsafe {
            if libc::fcntl(fd, F_SETSIG, libc::SIGURG) != 0 {
                Held::Unknown
            } else if libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0 {
                Held::Whole
            } else if *libc::__errno_location() == libc::EAGAIN {
                Held::Writers
            } else {
                Held::Unknown
            }
        };
        Lease { file, taken }
    }

    pub fn held(&self) -> Held {
        if self.taken != Held::Whole {
            return self.taken;
        }
        // SAFETY: as above.
        let now = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) };
        if now == libc::F_RDLCK {
            Held::Whole
        } else {
            Held::Broken
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.taken == Held::Whole {
            // SAFETY: as above. A lease that is gone already is none to give back.
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        }
    }
}
