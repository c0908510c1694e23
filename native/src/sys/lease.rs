//! Read leases: refused while anybody has the file open for writing, or mapped shared and writable; broken when
//! somebody tries.
//!
//! `F_SETSIG(SIGURG)` comes before each: the default signal of a broken lease would end the process, SIGURG is ignored
//! by default.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::before;

/// Linux's fcntl command; libc names it for few targets only.
const F_SETSIG: libc::c_int = 10;

/// What came of asking for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    Taken,
    /// Somebody has the file open for writing.
    Writers,
    /// None to be had here.
    Unknown,
}

pub fn take_lease(fd: BorrowedFd<'_>) -> Lease {
    if before("lease").is_err() {
        return Lease::Unknown;
    }
    let raw = fd.as_raw_fd();
    // SAFETY: fcntl with integer arguments on a descriptor that is open for as long as `fd` is borrowed.
    let taken = unsafe {
        if libc::fcntl(raw, F_SETSIG, libc::SIGURG) != 0 {
            return Lease::Unknown;
        }
        libc::fcntl(raw, libc::F_SETLEASE, libc::F_RDLCK)
    };
    if taken == 0 {
        return Lease::Taken;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Lease::Writers,
        _ => Lease::Unknown,
    }
}

/// False once somebody asked to open the file for writing.
pub fn lease_holds(fd: BorrowedFd<'_>) -> bool {
    // It can't fail; somebody may act before it.
    let _ = before("lease");
    // SAFETY: fcntl with integer arguments on an open descriptor.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
}

/// Gives a lease back; one that is gone already is none to give back.
pub fn drop_lease(fd: BorrowedFd<'_>) {
    // SAFETY: fcntl with integer arguments on an open descriptor.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// True where a lease is refused while somebody has the file mapped shared and writable, though open no more: an overlay
/// doesn't see that. `writable`: a file with a byte in it, open for reading and writing; `reader`: the same file.
pub fn lease_sees_maps(writable: OwnedFd, reader: BorrowedFd<'_>) -> bool {
    // SAFETY: the file is ours and new; nobody cuts it, and no byte of the map is used.
    let Ok(map) = (unsafe { memmap2::MmapMut::map_mut(&writable) }) else {
        return false;
    };
    drop(writable);
    let lease = take_lease(reader);
    drop(map);
    lease == Lease::Writers
}
