//! The one binary form of versions, changes and paths (docs/formats.md): the types here, `codec` their
//! bytes; `list` holds the lists of them, `frame` the
//! frames of index and journal.
//!
//! Twin of `src/wire.ts`: little-endian, no padding. A reader never trusts a length: what doesn't fit is an error of
//! code `ERR_STORE_CORRUPT`, never a panic, and nothing is allocated before its bytes are known to be there.

use crate::error::{EngineError, Result};

mod codec;
mod frame;
mod list;
#[cfg(test)]
mod tests;

pub use codec::{Reader, Writer};
pub use frame::{FRAME_OVERHEAD, Frame, Frames, check64, write_frame};
pub use list::{
    decode_changes, decode_paths, decode_versions, encode_changes, encode_paths, encode_versions,
};

/// Raw bytes of a path relative to the root, `/`-separated; empty for the root itself.
pub type RelPath = Vec<u8>;
/// XXH3-128 of the bytes, seeded with the store's seed, canonical (big-endian).
pub type Hash = [u8; 16];
/// Random; names an observation, an operation or a store.
pub type Id = [u8; 16];

/// Where an index stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    pub seq: u64,
    pub observation: Id,
}

/// What a directory entry is, as lstat tells. The discriminant is the wire's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    File = 0,
    Symlink = 1,
    Dir = 2,
    Fifo = 3,
    Socket = 4,
    Char = 5,
    Block = 6,
    Other = 7,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpecialType {
    Fifo = 0,
    Socket = 1,
    Char = 2,
    Block = 3,
    Other = 4,
}

/// Why the bytes of a path that exists are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    TooLarge = 0,
    Unreadable = 1,
    Secret = 2,
    Ignored = 3,
    Unstable = 4,
    OutOfTime = 5,
    Git = 6,
    Mount = 7,
}

macro_rules! from_wire {
    ($name:ident, $what:literal, $($variant:ident),+) => {
        impl $name {
            pub fn from_wire(value: u8) -> Result<Self> {
                $(if value == $name::$variant as u8 { return Ok($name::$variant); })+
                Err(EngineError::corrupt(format!("a stored record holds an unknown {}: {value}", $what)))
            }
        }
    };
}
from_wire!(
    FileKind,
    "file kind",
    File,
    Symlink,
    Dir,
    Fifo,
    Socket,
    Char,
    Block,
    Other
);
from_wire!(SpecialType, "special type", Fifo, Socket, Char, Block, Other);
from_wire!(
    Reason, "reason", TooLarge, Unreadable, Secret, Ignored, Unstable, OutOfTime, Git, Mount
);

impl FileKind {
    /// From `st_mode`.
    pub fn of_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::File,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFDIR => FileKind::Dir,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::Char,
            libc::S_IFBLK => FileKind::Block,
            _ => FileKind::Other,
        }
    }

    /// The special type of what is neither file, link nor folder.
    pub fn special(self) -> Option<SpecialType> {
        match self {
            FileKind::Fifo => Some(SpecialType::Fifo),
            FileKind::Socket => Some(SpecialType::Socket),
            FileKind::Char => Some(SpecialType::Char),
            FileKind::Block => Some(SpecialType::Block),
            FileKind::Other => Some(SpecialType::Other),
            FileKind::File | FileKind::Symlink | FileKind::Dir => None,
        }
    }
}

/// What lstat says. `mode` is the nine permission bits. For reasons `git` and `mount` only kind, ino and dev are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatKey {
    pub kind: FileKind,
    pub mode: u32,
    pub size: u64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub ino: u64,
    pub dev: u64,
}

impl StatKey {
    /// Of what is there but can't be looked at; no lstat answers it.
    pub fn unseen(kind: FileKind) -> Self {
        StatKey {
            kind,
            mode: 0,
            size: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            ino: 0,
            dev: 0,
        }
    }
}

/// What is at a path. Two are equal where their encodings are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    Absent,
    File { mode: u32, size: u64, content: Hash },
    Symlink { target: Vec<u8> },
    Dir { mode: u32 },
    Special { kind: SpecialType, ino: u64 },
    Uncovered { reason: Reason, stat: StatKey },
}

/// Bits of [`Change::flags`] and of a row's flags.
pub mod row_flag {
    pub const INCOMPLETE: u8 = 1;
    pub const IN_FLUX: u8 = 2;
    pub const LATE: u8 = 4;
    pub const COVERAGE: u8 = 8;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: RelPath,
    pub before: Version,
    pub after: Version,
    pub flags: u8,
}

/// Kind of a soft fault of a look at the tree. The discriminant is the addon contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProblemKind {
    UnreadableDir = 0,
    UnreadableFile = 1,
    Vanished = 2,
    UnreadableRules = 3,
    RootIgnored = 4,
    Collision = 5,
}

/// A soft fault of a look at the tree. The rest of the look went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: RelPath,
    pub kind: ProblemKind,
    pub detail: String,
}
