//! The one binary form of versions, changes and paths (docs/formats.md); `list` holds the lists of them, `frame` the
//! frames of index and journal.
//!
//! Twin of `src/wire.ts`: little-endian, no padding. A reader never trusts a length: what doesn't fit is an error of
//! code `ERR_STORE_CORRUPT`, never a panic, and nothing is allocated before its bytes are known to be there.

use crate::error::{EngineError, Result};

mod frame;
mod list;
#[cfg(test)]
mod tests;

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

#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.out.push(value);
        self
    }
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }
    /// Bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }
    /// u32 length, then the bytes. Paths, link targets and texts are written so.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }
    /// A count or length as u32. No list or name of the engine comes near 4 Gi.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.u32(u32::try_from(count).expect("a list or a name is below 4 Gi"))
    }
    pub fn len(&self) -> usize {
        self.out.len()
    }
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
    pub fn done(self) -> Vec<u8> {
        self.out
    }

    pub fn stat(&mut self, stat: &StatKey) -> &mut Self {
        self.u8(stat.kind as u8).u32(stat.mode).u64(stat.size);
        self.i64(stat.mtime_ns)
            .i64(stat.ctime_ns)
            .u64(stat.ino)
            .u64(stat.dev)
    }

    pub fn version(&mut self, version: &Version) -> &mut Self {
        match version {
            Version::Absent => self.u8(0),
            Version::File { mode, size, content } => self.u8(1).u32(*mode).u64(*size).raw(content),
            Version::Symlink { target } => self.u8(2).bytes(target),
            Version::Dir { mode } => self.u8(3).u32(*mode),
            Version::Special { kind, ino } => self.u8(4).u8(*kind as u8).u64(*ino),
            Version::Uncovered { reason, stat } => self.u8(5).u8(*reason as u8).stat(stat),
        }
    }

    pub fn change(&mut self, change: &Change) -> &mut Self {
        self.bytes(&change.path)
            .version(&change.before)
            .version(&change.after)
            .u8(change.flags)
    }

    pub fn position(&mut self, at: &Position) -> &mut Self {
        self.u64(at.seq).raw(&at.observation)
    }

    pub fn problems(&mut self, problems: &[Problem]) -> &mut Self {
        self.count(problems.len());
        for problem in problems {
            self.bytes(&problem.path)
                .u8(problem.kind as u8)
                .bytes(problem.detail.as_bytes());
        }
        self
    }
}

#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }
    /// Bytes that are not read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            let missing = length - self.rest.len();
            return Err(EngineError::corrupt(format!(
                "a stored record ends {missing} bytes early"
            )));
        };
        self.rest = rest;
        Ok(taken)
    }
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N)?);
        Ok(out)
    }
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        self.raw(length)
    }
    /// A path or name: bytes without a NUL.
    pub fn name(&mut self) -> Result<Vec<u8>> {
        let bytes = self.bytes()?;
        if bytes.contains(&0) {
            return Err(EngineError::corrupt("a stored name holds a NUL"));
        }
        Ok(bytes.to_vec())
    }
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| EngineError::corrupt("a stored text is not UTF-8"))
    }
    /// A count of items of at least `least` bytes each: one that cannot fit in what is left is damage.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count
            .checked_mul(least.max(1))
            .is_none_or(|bytes| bytes > self.left())
        {
            return Err(EngineError::corrupt(format!(
                "a stored list claims {count} items and ends before"
            )));
        }
        Ok(count)
    }
    /// Damage where anything is left: a record that is longer than its content is not what we wrote.
    pub fn end(&self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(EngineError::corrupt(format!(
                "a stored record holds {left} bytes too many"
            ))),
        }
    }

    pub fn stat(&mut self) -> Result<StatKey> {
        Ok(StatKey {
            kind: FileKind::from_wire(self.u8()?)?,
            mode: self.u32()?,
            size: self.u64()?,
            mtime_ns: self.i64()?,
            ctime_ns: self.i64()?,
            ino: self.u64()?,
            dev: self.u64()?,
        })
    }

    pub fn version(&mut self) -> Result<Version> {
        Ok(match self.u8()? {
            0 => Version::Absent,
            1 => Version::File {
                mode: self.u32()?,
                size: self.u64()?,
                content: self.array()?,
            },
            2 => Version::Symlink { target: self.name()? },
            3 => Version::Dir { mode: self.u32()? },
            4 => Version::Special {
                kind: SpecialType::from_wire(self.u8()?)?,
                ino: self.u64()?,
            },
            5 => Version::Uncovered {
                reason: Reason::from_wire(self.u8()?)?,
                stat: self.stat()?,
            },
            kind => {
                return Err(EngineError::corrupt(format!(
                    "a stored record holds an unknown version kind: {kind}"
                )));
            }
        })
    }

    pub fn change(&mut self) -> Result<Change> {
        Ok(Change {
            path: self.name()?,
            before: self.version()?,
            after: self.version()?,
            flags: self.u8()?,
        })
    }

    pub fn position(&mut self) -> Result<Position> {
        Ok(Position {
            seq: self.u64()?,
            observation: self.array()?,
        })
    }
}
