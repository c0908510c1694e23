//! What one call did to the disk, told by inode numbers and places. All that a simulation touches is on one device.
//!
//! Owners, attributes and times are left out: no promise is about them.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

/// Inode number.
pub type Ino = u64;

/// A name in a folder.
pub type Place = (Ino, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A new inode, or another name of a known one, came to a place.
    Made {
        at: Place,
        ino: Ino,
        kind: Kind,
    },
    Wrote {
        ino: Ino,
        at: u64,
        bytes: Vec<u8>,
    },
    Cut {
        ino: Ino,
        length: u64,
    },
    Mode {
        ino: Ino,
        mode: u32,
    },
    /// `swap`: what was at `to` comes to `from`; else it loses that name.
    Renamed {
        from: Place,
        to: Place,
        swap: bool,
    },
    /// `ino`: what had the name.
    Unlinked {
        at: Place,
        ino: Ino,
    },
    /// The bytes of a file, or the names of a folder, are on the disk.
    Synced {
        ino: Ino,
    },
    SyncAll,
    /// A read.
    Nothing,
}

/// What an inode is; files and folders with the bits that they were made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File(u32),
    Folder(u32),
    Link(Vec<u8>),
}

impl Effect {
    /// `was`: what [`was`] answered before.
    pub fn opened((dir, name): (impl AsFd, &[u8]), (fd, was): (impl AsFd, Ino), flags: OFlags) -> Self {
        let made = flags.contains(OFlags::CREATE) && !flags.contains(OFlags::TMPFILE);
        if made && ino(&fd) != was {
            Effect::made(dir, name)
        } else if flags.contains(OFlags::TRUNC) {
            Effect::cut(fd, 0)
        } else {
            Effect::Nothing
        }
    }

    pub fn made(dir: impl AsFd, name: &[u8]) -> Self {
        let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).expect("made just now");
        let mode = stat.st_mode & 0o777;
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Folder(mode),
            libc::S_IFLNK => {
                let target = rustix::fs::readlinkat(&dir, name, Vec::new()).expect("made just now");
                Kind::Link(target.into_bytes())
            }
            _ => Kind::File(mode),
        };
        let at = place(dir, name);
        Effect::Made {
            at,
            ino: stat.st_ino,
            kind,
        }
    }

    /// `at`: none for what was written at the descriptor's place, which by now is behind it.
    pub fn wrote(fd: impl AsFd, at: Option<u64>, bytes: &[u8]) -> Self {
        let behind = || rustix::fs::tell(&fd).expect("a file's place");
        let at = at.unwrap_or_else(|| behind() - bytes.len() as u64);
        Effect::Wrote {
            ino: ino(&fd),
            at,
            bytes: bytes.to_vec(),
        }
    }

    pub fn cut(fd: impl AsFd, length: u64) -> Self {
        Effect::Cut { ino: ino(fd), length }
    }

    pub fn mode(fd: impl AsFd, mode: Mode) -> Self {
        Effect::Mode {
            ino: ino(fd),
            mode: mode.as_raw_mode(),
        }
    }

    pub fn renamed(
        (from, old): (impl AsFd, &[u8]),
        (to, new): (impl AsFd, &[u8]),
        flags: RenameFlags,
    ) -> Self {
        let swap = flags.contains(RenameFlags::EXCHANGE);
        Effect::Renamed {
            from: place(from, old),
            to: place(to, new),
            swap,
        }
    }

    pub fn unlinked(dir: impl AsFd, name: &[u8], ino: Ino) -> Self {
        let at = place(dir, name);
        Effect::Unlinked { at, ino }
    }

    pub fn synced(fd: impl AsFd) -> Self {
        Effect::Synced { ino: ino(fd) }
    }
}

fn ino(fd: impl AsFd) -> Ino {
    rustix::fs::fstat(fd).expect("an open file").st_ino
}

/// Files of the data directory are named by their whole path.
fn place(dir: impl AsFd, name: &[u8]) -> Place {
    match name.iter().rposition(|byte| *byte == b'/') {
        None => (ino(dir), name.to_vec()),
        Some(slash) => {
            let folder = rustix::fs::statat(&dir, &name[..slash], AtFlags::empty()).expect("its folder");
            (folder.st_ino, name[slash + 1..].to_vec())
        }
    }
}

/// Before a call: which inode is at the name, 0 where none.
pub fn was(dir: impl AsFd, name: &[u8]) -> Ino {
    let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    there.map_or(0, |stat| stat.st_ino)
}
