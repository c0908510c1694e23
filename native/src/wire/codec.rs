//! Bytes of single values: an appending writer, and a reader that trusts no length.

use super::frame::{FRAME_HEAD, check64};
use super::{Change, FileKind, Position, Problem, Reason, SpecialType, StatKey, Version};
use crate::error::{EngineError, Result};

#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }
    /// Goes on behind `out`, with room for `bytes` in all.
    pub fn with_room(mut out: Vec<u8>, bytes: usize) -> Self {
        out.reserve_exact(bytes.saturating_sub(out.len()));
        Writer { out }
    }
    /// Begins a frame of which the length is not known yet; answers where it begins, for [`Writer::close_frame`].
    pub fn open_frame(&mut self, kind: u32) -> usize {
        let at = self.len();
        self.u32(kind).u32(0).u64(0);
        at
    }
    /// Ends the frame that begins at `at`.
    pub fn close_frame(&mut self, at: usize) {
        let length = (self.len() - at - FRAME_HEAD) as u64;
        self.out[at + FRAME_HEAD - 8..at + FRAME_HEAD].copy_from_slice(&length.to_le_bytes());
        self.u64(check64(&self.out[at..]));
    }
    /// Keeps four bytes free; answers where, for [`Writer::put_u32`].
    pub fn hold_u32(&mut self) -> usize {
        let at = self.len();
        self.u32(0);
        at
    }
    pub fn put_u32(&mut self, at: usize, value: u32) {
        self.out[at..at + 4].copy_from_slice(&value.to_le_bytes());
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
