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
use std::os::unix::fs::FileExt;
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

pub(crate) fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Pack {
    /// Opens `stem` with the extensions `pack` and `idx`, which must be of each other.
    pub fn open(stem: &Path, kind: Kind) -> io::Result<Self> {
        let idx = Idx::open(&stem.with_extension("idx"), kind)?;
        let file = File::open(stem.with_extension("pack"))?;
        let length = file.metadata()?.len();
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
            length,
            idx,
            cache: Mutex::default(),
        })
    }

    pub fn idx(&self) -> &Idx {
        &self.idx
    }

    /// Other names that the pack's file has.
    pub fn links(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.nlink())
    }

    fn head(&self, offset: u64, buffer: &mut [u8; HEAD]) -> io::Result<(Head, usize)> {
        let room = self.length.saturating_sub(offset).min(HEAD as u64) as usize;
        self.file.read_exact_at(&mut buffer[..room], offset)?;
        let mut bytes = buffer[..room].iter().copied();
        let mut next = || {
            bytes
                .next()
                .ok_or_else(|| damaged("an object's header is cut off"))
        };
        let first = next()?;
        let (kind, mut size) = ((first >> 4) & 7, u64::from(first & 15));
        let (mut shift, mut more, mut used) = (4, first & 128 != 0, 1);
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
                let id = buffer.get(used..used + length).filter(|_| used + length <= room);
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

    /// Bytes of an object, by as much of the pack as it takes.
    pub fn size(&self, offset: u64, inflate: &mut Decompress) -> io::Result<u64> {
        let mut buffer = [0; HEAD];
        let (head, used) = self.head(offset, &mut buffer)?;
        if head.base.is_none() {
            return Ok(head.size);
        }
        // A delta begins with the sizes of its base and of what it makes.
        let mut begin = [0; 20];
        inflate.reset(true);
        let room = self.length.saturating_sub(offset).min(HEAD as u64) as usize;
        inflate
            .decompress(&buffer[used..room], &mut begin, FlushDecompress::None)
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
            let mut buffer = [0; HEAD];
            let (head, _) = self.head(at, &mut buffer)?;
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
