//! Read leases: who has a file open for writing is told by the kernel, before and after it is read.

use std::os::fd::{AsFd, OwnedFd};

use crate::sys;

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
        let taken = match sys::take_lease(file.as_fd()) {
            sys::Lease::Taken => Held::Whole,
            sys::Lease::Writers => Held::Writers,
            sys::Lease::Unknown => Held::Unknown,
        };
        Lease { file, taken }
    }

    pub fn held(&self) -> Held {
        if self.taken != Held::Whole {
            return self.taken;
        }
        if sys::lease_holds(self.file.as_fd()) {
            Held::Whole
        } else {
            Held::Broken
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.taken == Held::Whole {
            sys::drop_lease(self.file.as_fd());
        }
    }
}
