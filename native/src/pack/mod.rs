//! Git packs, read only: one object by its offset, delta chains included.
//!
//! Reads by position, never by a map: a pack that somebody cuts short is a fault, not a signal. Whatever does not fit is
//! an error of kind `InvalidData`; nothing is allocated on the word of a length alone. That an object's bytes have its
//! id is for the caller to check. Not covered: loose objects, `.idx` of version 1, multi-pack indexes, thin packs.

mod delta;
mod idx;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};
use gix_hash::{Kind, ObjectId};

pub use idx::Idx;

const BLOB: u8 = 3;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;
/// Git itself makes no chain longer than 4095.
const CHAIN: usize = 5000;
/// Bytes of objects that are kept for the deltas which build on them.
const CACHE_BYTES: usize = 16 << 20;
/// Room for an object's header, and for the first bytes of its stream.
const HEAD: usize = 320;
/// No more is set aside on the word of a header.
const TRUSTED: u64 = 1 << 20;

type Object = (u8, Arc<Vec<u8>>);

/// A pack with its index.
pub struct Pack {
    file: File,
    ino: u64,
    length: u64,
    idx: Idx,
    cache: Mutex<(HashMap<u64, Object>, usize)>,
}

/// What stands before an object's stream.
struct Head {
    kind: u8,
    /// Of what the stream unpacks to.
    size: u64,
    /// Offset of what a delta builds on.
    base: Option<u64>,
    stream: u64,
}

/// A part of a pack in which the first bytes of many objects are looked at.
pub struct Window {
    start: u64,
    buffer: Vec<u8>,
    length: usize,
    inflate: Decompress,
}

impl Window {
    /// Of so many bytes; never less than one object's first ones.
    pub fn new(bytes: usize) -> Self {
        Window {
            start: 0,
            buffer: vec![0; bytes.max(HEAD)],
            length: 0,
            inflate: Decompress::new(true),
        }
    }

    fn move_to(&mut self, pack: &Pack, offset: u64) -> io::Result<()> {
        let left = pack.length.saturating_sub(offset);
        let end = self.start + self.length as u64;
        if offset >= self.start && offset + left.min(HEAD as u64) <= end {
            return Ok(());
        }
        let room = left.min(self.buffer.len() as u64) as usize;
        (self.start, self.length) = (offset, 0);
        pack.file.read_exact_at(&mut self.buffer[..room], offset)?;
        self.length = room;
        Ok(())
    }
}

pub(crate) fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Pack {
    /// Opens `stem` with the extensions `pack` and `idx`, which must be of each other.
    pub fn open(stem: &Path, kind: Kind) -> io::Result<Self> {
        let idx = Idx::open(&stem.with_extension("idx"), kind)?;
        let file = File::open(stem.with_extension("pack"))?;
        let meta = file.metadata()?;
        let (length, ino) = (meta.len(), meta.ino());
        let mut header = [0; 12];
        file.read_exact_at(&mut header, 0)?;
        let mut trailer = vec![0; kind.len_in_bytes()];
        let end = length.checked_sub(trailer.len() as u64);
        file.read_exact_at(&mut trailer, end.ok_or_else(|| damaged("the pack is too short"))?)?;
        let objects = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let version = header[7];
        if &header[..7] != b"PACK\0\0\0" || !matches!(version, 2 | 3) || objects != idx.count() {
            return Err(damaged("it is no pack, or not the one of its index"));
        }
        if trailer != idx.pack_checksum() {
            return Err(damaged("the pack is not the one of its index"));
        }
        Ok(Pack {
            file,
            ino,
            length,
            idx,
            cache: Mutex::default(),
        })
    }

    pub fn idx(&self) -> &Idx {
        &self.idx
    }

    /// Names that the pack's file has.
    pub fn links(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.nlink())
    }

    /// Inode of the pack's file.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// `first`: as many of the object's first bytes as there are, up to `HEAD`. Also answers how many of them are the
    /// header.
    fn head(&self, offset: u64, first: &[u8]) -> io::Result<(Head, usize)> {
        let mut bytes = first.iter().copied();
        let mut next = || {
            bytes
                .next()
                .ok_or_else(|| damaged("an object's header is cut off"))
        };
        let begin = next()?;
        let (kind, mut size) = ((begin >> 4) & 7, u64::from(begin & 15));
        let (mut shift, mut more, mut used) = (4, begin & 128 != 0, 1);
        while more {
            let byte = next()?;
            if shift > 57 {
                return Err(damaged("an object's size is out of bounds"));
            }
            size |= u64::from(byte & 127) << shift;
            (shift, more, used) = (shift + 7, byte & 128 != 0, used + 1);
        }
        let base = match kind {
            1..=4 => None,
            OFS_DELTA => {
                let mut byte = next()?;
                let mut back = u64::from(byte & 127);
                used += 1;
                while byte & 128 != 0 {
                    byte = next()?;
                    used += 1;
                    let wider = back.checked_add(1).and_then(|b| b.checked_mul(128));
                    back = wider.ok_or_else(|| damaged("a delta's base is out of bounds"))?
                        | u64::from(byte & 127);
                }
                Some(offset.checked_sub(back).filter(|at| *at >= 12 && *at < offset))
            }
            REF_DELTA => {
                let length = self.idx.kind().len_in_bytes();
                let id = first.get(used..used + length);
                used += length;
                let id =
                    ObjectId::from_bytes_or_panic(id.ok_or_else(|| damaged("a delta's base is cut off"))?);
                Some(self.idx.find(&id)?)
            }
            _ => return Err(damaged(format!("an object of the unknown type {kind}"))),
        };
        let base = match base {
            Some(None) => return Err(damaged("a delta's base is not in the pack")),
            Some(Some(at)) => Some(at),
            None => None,
        };
        let stream = offset + used as u64;
        Ok((
            Head {
                kind,
                size,
                base,
                stream,
            },
            used,
        ))
    }

    fn read_head(&self, offset: u64) -> io::Result<Head> {
        let mut buffer = [0; HEAD];
        let room = self.length.saturating_sub(offset).min(HEAD as u64) as usize;
        self.file.read_exact_at(&mut buffer[..room], offset)?;
        Ok(self.head(offset, &buffer[..room])?.0)
    }

    /// Bytes of an object, by no more than its first bytes. Cheapest in the order of offsets.
    pub fn size(&self, offset: u64, window: &mut Window) -> io::Result<u64> {
        window.move_to(self, offset)?;
        let from = (offset - window.start) as usize;
        let first = &window.buffer[from..window.length.min(from + HEAD)];
        let (head, used) = self.head(offset, first)?;
        if head.base.is_none() {
            return Ok(head.size);
        }
        // A delta begins with the sizes of its base and of what it makes.
        let mut begin = [0; 20];
        let inflate = &mut window.inflate;
        inflate.reset(true);
        inflate
            .decompress(&first[used..], &mut begin, FlushDecompress::None)
            .map_err(|error| damaged(error.to_string()))?;
        let got = inflate.total_out() as usize;
        delta::sizes(&begin[..got]).map(|(_, made, _)| made)
    }

    /// The bytes of a blob.
    pub fn blob(&self, offset: u64) -> io::Result<Arc<Vec<u8>>> {
        match self.object(offset)? {
            (BLOB, bytes) => Ok(bytes),
            (kind, _) => Err(damaged(format!("an object of type {kind} is no file"))),
        }
    }

    fn object(&self, offset: u64) -> io::Result<Object> {
        let mut chain = Vec::new();
        let mut at = offset;
        let (kind, mut bytes) = loop {
            if let Some(known) = self.cached(at) {
                break known;
            }
            let head = self.read_head(at)?;
            let unpacked = self.unpack(&head)?;
            let Some(base) = head.base else {
                break self.keep(at, (head.kind, Arc::new(unpacked)));
            };
            chain.push((at, unpacked));
            if chain.len() > CHAIN {
                return Err(damaged("a chain of deltas has no end"));
            }
            at = base;
        };
        while let Some((at, delta)) = chain.pop() {
            let made = Arc::new(delta::apply(&bytes, &delta)?);
            (_, bytes) = self.keep(at, (kind, made));
        }
        Ok((kind, bytes))
    }

    fn cached(&self, at: u64) -> Option<Object> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.0.get(&at).cloned()
    }

    fn keep(&self, at: u64, object: Object) -> Object {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = object.1.len();
        if bytes <= CACHE_BYTES / 4 {
            if cache.1 + bytes > CACHE_BYTES {
                *cache = (HashMap::new(), 0);
            }
            cache.1 += bytes;
            cache.0.insert(at, object.clone());
        }
        object
    }

    fn unpack(&self, head: &Head) -> io::Result<Vec<u8>> {
        let mut inflate = Decompress::new(true);
        let mut out = Vec::with_capacity(head.size.min(TRUSTED) as usize + 1);
        let mut input = vec![0; (head.size.min(TRUSTED) as usize / 2).clamp(512, 64 << 10)];
        let mut at = head.stream;
        loop {
            let read = self.file.read_at(&mut input, at)?;
            let mut given = &input[..read];
            loop {
                let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress_vec(given, &mut out, FlushDecompress::None)
                    .map_err(|error| damaged(error.to_string()))?;
                let took = (inflate.total_in() - before_in) as usize;
                given = &given[took..];
                at += took as u64;
                if out.len() as u64 > head.size {
                    return Err(damaged("an object is longer than it says"));
                }
                if status == Status::StreamEnd {
                    let whole = out.len() as u64 == head.size;
                    return whole
                        .then_some(out)
                        .ok_or_else(|| damaged("an object is shorter than it says"));
                }
                if out.len() == out.capacity() {
                    out.reserve(out.len().clamp(64, 4 << 20));
                } else if given.is_empty() || (took == 0 && inflate.total_out() == before_out) {
                    break;
                }
            }
            if read == 0 {
                return Err(damaged("an object is cut off"));
            }
        }
    }
}
