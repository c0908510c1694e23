//! The trash: where every inode goes that leaves its path. Nothing in it is unlinked before it was hashed again.
//!
//! One folder in the data directory; where that is on another mount than the root, `.takeback/trash/` in the root
//! (0700, with a `.gitignore` of `*`, made when first needed, removed when empty). `<operation>.kept` in the data
//! directory's trash lists what the things of an operation must still be when they are dropped (docs/formats.md).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{IoContext, Result};
use crate::path::Root;
use crate::path::leaf::{self, Sys};
use crate::sys;

pub mod empty;
#[cfg(test)]
mod tests;

const HIDDEN: &[u8] = b".takeback";
const FOLDER: &[u8] = b"trash";

/// Where a kept thing lies: the folder and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub place: Place,
    pub name: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The data directory's trash.
    Store,
    /// `.takeback/trash/` of the root.
    Root,
}

pub struct Trash<'a> {
    root: &'a Root,
    path: PathBuf,
    store: OwnedFd,
    /// The store's trash can take things of the root by rename.
    near: bool,
    inside: OnceLock<OwnedFd>,
}

impl<'a> Trash<'a> {
    /// Opens the data directory's trash, and makes it (0700) where it is missing.
    pub fn open(root: &'a Root, path: &Path) -> Result<Self> {
        match sys::file::make_folder(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).doing_at("make the trash folder", path.as_os_str().as_bytes()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let store = sys::openat(CWD, path.as_os_str().as_bytes(), flags, Mode::empty())
            .doing_at("open the trash folder", path.as_os_str().as_bytes())?;
        let near = root
            .same_mount(store.as_fd())
            .doing_at("stat the trash folder", path.as_os_str().as_bytes())?;
        Ok(Trash {
            root,
            path: path.to_path_buf(),
            store,
            near,
            inside: OnceLock::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path, for messages.
    pub fn shown(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    pub fn store_fd(&self) -> BorrowedFd<'_> {
        self.store.as_fd()
    }

    /// Moves a thing out of its folder. A name that is taken gets a suffix.
    pub fn keep(&self, dir: BorrowedFd<'_>, name: &[u8], as_name: &[u8]) -> Sys<Slot> {
        if self.near {
            match self.keep_in(Place::Store, (dir, name), as_name) {
                // Another project quota, or an overlay's folder: the rename works within the tree only.
                Err(Errno::XDEV) => {}
                other => return other,
            }
        }
        self.keep_in(Place::Root, (dir, name), as_name)
    }

    fn keep_in(&self, place: Place, (dir, name): (BorrowedFd<'_>, &[u8]), as_name: &[u8]) -> Sys<Slot> {
        let to = match place {
            Place::Store => self.store.as_fd(),
            Place::Root => self.inside()?,
        };
        for attempt in 0..1000 {
            let mut new = as_name.to_vec();
            if attempt > 0 {
                new.extend_from_slice(format!("-{attempt}").as_bytes());
            }
            match leaf::rename_new(dir, name, to, &new) {
                Ok(()) => return Ok(Slot { place, name: new }),
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Puts a kept thing (back) under a name that must be free.
    pub fn put_back(&self, slot: &Slot, dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
        leaf::rename_new(self.fd(slot.place)?, &slot.name, dir, name)
    }

    /// The folder of a place, made where it is missing.
    pub fn fd(&self, place: Place) -> Sys<BorrowedFd<'_>> {
        match place {
            Place::Store => Ok(self.store.as_fd()),
            Place::Root => self.inside(),
        }
    }

    /// Where a thing of that name was kept.
    pub fn find(&self, name: &[u8]) -> Sys<Option<Slot>> {
        for place in [Place::Store, Place::Root] {
            let dir = match place {
                Place::Store => Some(self.store.as_fd()),
                Place::Root => self.inside_if_there()?,
            };
            if let Some(dir) = dir
                && leaf::stat(dir, name)?.is_some()
            {
                let name = name.to_vec();
                return Ok(Some(Slot { place, name }));
            }
        }
        Ok(None)
    }

    /// `.takeback/trash/` of the root, where it was made.
    pub fn inside_if_there(&self) -> Sys<Option<BorrowedFd<'_>>> {
        if let Some(fd) = self.inside.get() {
            return Ok(Some(fd.as_fd()));
        }
        match self.root.folder(b".takeback/trash") {
            Ok(found) => Ok(Some(self.inside.get_or_init(|| found.dir).as_fd())),
            Err(crate::path::WalkError::Missing) => Ok(None),
            Err(crate::path::WalkError::Io(errno)) => Err(errno),
            Err(crate::path::WalkError::Denied) => Err(Errno::ACCESS),
            Err(_) => Err(Errno::NOTDIR),
        }
    }

    fn inside(&self) -> Sys<BorrowedFd<'_>> {
        if let Some(fd) = self.inside_if_there()? {
            return Ok(fd);
        }
        make_if_missing(self.root.fd(), HIDDEN)?;
        let hidden = self.root.folder(HIDDEN).map_err(|_| Errno::NOTDIR)?;
        make_if_missing(hidden.dir.as_fd(), FOLDER)?;
        let Some(trash) = self.inside_if_there()? else {
            return Err(Errno::NOENT);
        };
        match leaf::create_file(trash, b".gitignore") {
            Ok(fd) => leaf::write_all(fd.as_fd(), b"*\n")?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        Ok(trash)
    }

    /// Makes what was moved here durable.
    pub fn sync(&self) -> Sys<()> {
        leaf::sync_folder(self.store.as_fd())?;
        match self.inside.get() {
            Some(fd) => leaf::sync_folder(fd.as_fd()),
            None => Ok(()),
        }
    }
}

fn make_if_missing(dir: BorrowedFd<'_>, name: &[u8]) -> Sys<()> {
    match leaf::make_folder(dir, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}
