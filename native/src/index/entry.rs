//! One entry of the index: a version, the stat key that it was seen under, and what is known of both.

use crate::error::{EngineError, Result};
use crate::wire::{FileKind, Hash, Reader, Reason, SpecialType, StatKey, Version, Writer};

/// Bits of [`Entry::flags`] (docs/formats.md).
pub mod flag {
    /// The stat key is unknown or racy: hash again; a folder: read again.
    pub const UNTRUSTED: u32 = 1;
    /// Was open for writing when it was read: never trusted.
    pub const WRITERS: u32 = 2;
    /// A rule hides it; it is covered as tracked or included, or (a folder) entered for what is below.
    pub const DESPITE: u32 = 4;
    /// A folder whose names are not all known.
    pub const NOT_WHOLE: u32 = 8;
    /// An ignored name: no version, and no rule needs to be asked again.
    pub const IGNORED: u32 = 16;
    /// A rule hides it; it is covered for the sake of an owed row.
    pub const HELD: u32 = 32;
}

/// The discriminants of `version` on the wire.
pub mod kind {
    pub const ABSENT: u8 = 0;
    pub const FILE: u8 = 1;
    pub const SYMLINK: u8 = 2;
    pub const DIR: u8 = 3;
    pub const SPECIAL: u8 = 4;
    pub const UNCOVERED: u8 = 5;
}

/// What [`Entry::read`] reads: the entry, first child and number of children, where its extra lies.
pub type ReadEntry = (Entry, (u32, u32), (u32, u16));

/// The hash of a file is a borrowed name: not that of its bytes.
pub const BORROWED: u8 = 1;

/// A version and its stat key; the target of a symlink is kept beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub kind: u8,
    /// Reason of `uncovered`, type of `special`; of a file [`BORROWED`] or 0.
    pub detail: u8,
    pub flags: u32,
    pub stat: StatKey,
    pub hash: Hash,
}

const NO_STAT: StatKey = StatKey {
    kind: FileKind::Other,
    mode: 0,
    size: 0,
    mtime_ns: 0,
    ctime_ns: 0,
    ino: 0,
    dev: 0,
};

impl Entry {
    /// A name without a version.
    pub fn absent() -> Self {
        Entry {
            kind: kind::ABSENT,
            detail: 0,
            flags: flag::UNTRUSTED,
            stat: NO_STAT,
            hash: [0; 16],
        }
    }

    /// An ignored name.
    pub fn ignored(file_kind: FileKind) -> Self {
        let stat = StatKey {
            kind: file_kind,
            ..NO_STAT
        };
        Entry {
            flags: flag::IGNORED,
            stat,
            ..Entry::absent()
        }
    }

    pub fn uncovered(reason: Reason, stat: StatKey) -> Self {
        let stat = match reason {
            Reason::Git | Reason::Mount => StatKey {
                kind: stat.kind,
                ino: stat.ino,
                dev: stat.dev,
                ..NO_STAT
            },
            _ => stat,
        };
        Entry {
            kind: kind::UNCOVERED,
            detail: reason as u8,
            flags: 0,
            stat,
            hash: [0; 16],
        }
    }

    pub fn file(stat: StatKey, hash: Hash) -> Self {
        Entry {
            kind: kind::FILE,
            detail: 0,
            flags: 0,
            stat,
            hash,
        }
    }

    /// A file under a borrowed name.
    pub fn borrowed(stat: StatKey, name: Hash) -> Self {
        Entry {
            detail: BORROWED,
            ..Entry::file(stat, name)
        }
    }

    pub fn symlink(stat: StatKey) -> Self {
        Entry {
            kind: kind::SYMLINK,
            detail: 0,
            flags: 0,
            stat,
            hash: [0; 16],
        }
    }

    pub fn dir(stat: StatKey) -> Self {
        Entry {
            kind: kind::DIR,
            detail: 0,
            flags: 0,
            stat,
            hash: [0; 16],
        }
    }

    pub fn special(stat: StatKey, special: SpecialType) -> Self {
        Entry {
            kind: kind::SPECIAL,
            detail: special as u8,
            flags: 0,
            stat,
            hash: [0; 16],
        }
    }

    /// A version that rows told of; its stat key is not known.
    pub fn of_version(version: &Version) -> (Self, Vec<u8>) {
        let stat = |kind, mode, size| StatKey {
            kind,
            mode,
            size,
            ..NO_STAT
        };
        let (entry, extra) = match version {
            Version::Absent => (Entry::absent(), Vec::new()),
            Version::File { mode, size, content } => (
                Entry::file(stat(FileKind::File, *mode, *size), *content),
                Vec::new(),
            ),
            Version::Symlink { target } => {
                (Entry::symlink(stat(FileKind::Symlink, 0o777, 0)), target.clone())
            }
            Version::Dir { mode } => (Entry::dir(stat(FileKind::Dir, *mode, 0)), Vec::new()),
            Version::Special { kind, ino } => {
                let stat = StatKey {
                    ino: *ino,
                    ..stat(file_kind(*kind), 0, 0)
                };
                (Entry::special(stat, *kind), Vec::new())
            }
            Version::Uncovered { reason, stat } => (Entry::uncovered(*reason, *stat), Vec::new()),
        };
        (entry.with(flag::UNTRUSTED), extra)
    }

    pub fn with(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// The version; `extra` is the target of a symlink.
    pub fn version(&self, extra: &[u8]) -> Version {
        match self.kind {
            kind::FILE => Version::File {
                mode: self.stat.mode,
                size: self.stat.size,
                content: self.hash,
            },
            kind::SYMLINK => Version::Symlink {
                target: extra.to_vec(),
            },
            kind::DIR => Version::Dir { mode: self.stat.mode },
            kind::SPECIAL => Version::Special {
                kind: self.special_type(),
                ino: self.stat.ino,
            },
            kind::UNCOVERED => Version::Uncovered {
                reason: self.reason().unwrap_or(Reason::Unreadable),
                stat: self.stat,
            },
            _ => Version::Absent,
        }
    }

    fn special_type(&self) -> SpecialType {
        SpecialType::from_wire(self.detail).unwrap_or(SpecialType::Other)
    }

    /// Why it is uncovered, where it is.
    pub fn reason(&self) -> Option<Reason> {
        if self.kind == kind::UNCOVERED {
            Reason::from_wire(self.detail).ok()
        } else {
            None
        }
    }

    pub fn is(&self, reason: Reason) -> bool {
        self.kind == kind::UNCOVERED && self.detail == reason as u8
    }

    pub fn is_borrowed(&self) -> bool {
        self.kind == kind::FILE && self.detail == BORROWED
    }

    /// It has a version: covered or uncovered.
    pub fn is_known(&self) -> bool {
        self.kind != kind::ABSENT
    }

    /// A covered file or symlink.
    pub fn is_covered_file(&self) -> bool {
        matches!(self.kind, kind::FILE | kind::SYMLINK)
    }

    /// A folder that scans enter, or would if they could.
    pub fn is_entered(&self) -> bool {
        self.kind == kind::DIR || (self.is(Reason::Unreadable) && self.stat.kind == FileKind::Dir)
    }

    /// The same inode, whatever else changed.
    pub fn same_identity(&self, stat: &StatKey) -> bool {
        self.stat.kind == stat.kind && self.stat.ino == stat.ino && self.stat.dev == stat.dev
    }

    /// The 74 bytes of a delta's entry; a base's entry has name and children around them.
    pub fn write(&self, writer: &mut Writer, children: Option<(u32, u32)>, extra: (u32, u16)) {
        writer.u8(self.kind).u8(self.detail);
        if let Some((first, count)) = children {
            writer.u32(first).u32(count);
        }
        writer.u32(self.stat.mode).u32(self.flags).u64(self.stat.size);
        writer
            .i64(self.stat.mtime_ns)
            .i64(self.stat.ctime_ns)
            .u64(self.stat.ino)
            .u64(self.stat.dev);
        writer
            .raw(&self.hash)
            .u32(extra.0)
            .u16(extra.1)
            .u8(self.stat.kind as u8)
            .u8(0);
    }

    /// A covered file of which [`Entry::write_file`] leaves nothing out.
    pub fn is_plain_file(&self) -> bool {
        let is_file = self.kind == kind::FILE && self.detail == 0 && self.stat.kind == FileKind::File;
        is_file && self.stat.mode <= u32::from(u16::MAX) && self.flags <= u32::from(u8::MAX)
    }

    /// The 59 bytes of a plain file's entry in a delta.
    pub fn write_file(&self, writer: &mut Writer) {
        let stat = &self.stat;
        writer.u16(stat.mode as u16).u8(self.flags as u8).u64(stat.size);
        writer.i64(stat.mtime_ns).i64(stat.ctime_ns);
        writer.u64(stat.ino).u64(stat.dev).raw(&self.hash);
    }

    /// Reads what [`Entry::write_file`] wrote.
    pub fn read_file(reader: &mut Reader<'_>) -> Result<Entry> {
        let (mode, flags) = (u32::from(reader.u16()?), u32::from(reader.u8()?));
        let stat = StatKey {
            kind: FileKind::File,
            mode,
            size: reader.u64()?,
            mtime_ns: reader.i64()?,
            ctime_ns: reader.i64()?,
            ino: reader.u64()?,
            dev: reader.u64()?,
        };
        Ok(Entry::file(stat, reader.array()?).with(flags))
    }

    /// Reads what [`Entry::write`] wrote.
    pub fn read(reader: &mut Reader<'_>, with_children: bool) -> Result<ReadEntry> {
        let (kind, detail) = (reader.u8()?, reader.u8()?);
        let children = if with_children {
            (reader.u32()?, reader.u32()?)
        } else {
            (0, 0)
        };
        let (mode, flags, size) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let (mtime_ns, ctime_ns) = (reader.i64()?, reader.i64()?);
        let (ino, dev, hash) = (reader.u64()?, reader.u64()?, reader.array()?);
        let extra = (reader.u32()?, reader.u16()?);
        let file_kind = FileKind::from_wire(reader.u8()?)?;
        reader.u8()?;
        match kind {
            kind::ABSENT | kind::FILE | kind::SYMLINK | kind::DIR => {}
            kind::SPECIAL => {
                SpecialType::from_wire(detail)?;
            }
            kind::UNCOVERED => {
                Reason::from_wire(detail)?;
            }
            _ => {
                return Err(EngineError::corrupt(format!(
                    "the index holds an unknown version kind: {kind}"
                )));
            }
        }
        let stat = StatKey {
            kind: file_kind,
            mode,
            size,
            mtime_ns,
            ctime_ns,
            ino,
            dev,
        };
        Ok((
            Entry {
                kind,
                detail,
                flags,
                stat,
                hash,
            },
            children,
            extra,
        ))
    }
}

fn file_kind(special: SpecialType) -> FileKind {
    match special {
        SpecialType::Fifo => FileKind::Fifo,
        SpecialType::Socket => FileKind::Socket,
        SpecialType::Char => FileKind::Char,
        SpecialType::Block => FileKind::Block,
        SpecialType::Other => FileKind::Other,
    }
}
