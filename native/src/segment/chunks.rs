//! Large contents: cut at places that their own bytes name, each chunk a blob of its own, and a list of them that has
//! the name of the whole (docs/formats.md). An edit in the middle of a large file costs the chunks around it.
//!
//! Cutting, storing and reading keep one chunk in memory. The list is a function of the content, as the format fixes
//! where to cut, so that two lists of one name are two contents. Not covered: what keeps the chunks of living lists
//! (`collect`).

use std::sync::atomic::Ordering;

use super::codec::CHUNKS;
use super::file::{Fault, Segment};
use super::format::Location;
use super::{Batch, Hasher, Queued, SegmentStore, hex};
use crate::error::{Code, EngineError, Result};
use crate::wire::{Hash, Reader};

/// Longer contents are stored in chunks; no chunk is longer.
pub const OVER: u64 = MOST as u64;
const LEAST: usize = 256 << 10;
const MOST: usize = 4 << 20;
/// Bytes that the rolling hash remembers.
const WINDOW: usize = 32;
/// A cut lies where the hash is below this: once in a mebibyte.
const CUT_BELOW: u32 = 1 << 12;
const GEAR: [u32; 256] = gear();
const ENTRY: usize = 20;

const fn gear() -> [u32; 256] {
    let mut table = [0; 256];
    let mut state: u32 = 0x9e37_79b9;
    let mut at = 0;
    while at < table.len() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        table[at] = state;
        at += 1;
    }
    table
}

/// Finds the ends of chunks in bytes that come in pieces.
#[derive(Default)]
struct Cutter {
    length: usize,
    rolling: u32,
}

impl Cutter {
    /// How many of `bytes` belong to the chunk, and whether it ends there.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        // What the hash will have forgotten by the first place where a cut may lie.
        let skipped = (LEAST - WINDOW).saturating_sub(self.length).min(bytes.len());
        self.length += skipped;
        for (at, byte) in bytes.iter().enumerate().skip(skipped) {
            self.rolling = (self.rolling << 1).wrapping_add(GEAR[usize::from(*byte)]);
            self.length += 1;
            if (self.length >= LEAST && self.rolling < CUT_BELOW) || self.length == MOST {
                *self = Cutter::default();
                return (at + 1, true);
            }
        }
        (bytes.len(), false)
    }
}

/// A large content on its way into the store.
pub struct Large {
    cutter: Cutter,
    chunk: Vec<u8>,
    list: Vec<u8>,
    hasher: Hasher,
    length: u64,
}

impl Large {
    pub fn new(store: &SegmentStore) -> Self {
        Large {
            cutter: Cutter::default(),
            chunk: Vec::new(),
            list: Vec::new(),
            hasher: store.hasher(),
            length: 0,
        }
    }

    /// Takes the next bytes, and stores the chunks that they end.
    pub fn push(&mut self, mut bytes: &[u8], batch: &mut Batch<'_>) -> Result<()> {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let (taken, ends) = self.cutter.take(bytes);
            self.chunk.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if ends {
                self.end_chunk(batch)?;
            }
        }
        Ok(())
    }

    fn end_chunk(&mut self, batch: &mut Batch<'_>) -> Result<()> {
        let hash = batch.put(&self.chunk)?.hash;
        self.list.extend_from_slice(&hash);
        self.list
            .extend_from_slice(&(self.chunk.len() as u32).to_le_bytes());
        self.chunk.clear();
        Ok(())
    }

    /// Stores the list. More than [`OVER`] bytes must have come.
    pub fn finish(mut self, batch: &mut Batch<'_>) -> Result<Queued> {
        if !self.chunk.is_empty() {
            self.end_chunk(batch)?;
        }
        batch.put_list(self.hasher.finish(), self.length, &self.list)
    }
}

/// The chunks of a list, in order; None where it can't be one of a content of `raw` bytes.
fn parse(list: &[u8], raw: u64) -> Option<Vec<(Hash, u64)>> {
    if raw <= OVER || !list.len().is_multiple_of(ENTRY) {
        return None;
    }
    let mut reader = Reader::new(list);
    let mut chunks = Vec::with_capacity(list.len() / ENTRY);
    let mut sum = 0;
    for _ in 0..list.len() / ENTRY {
        let (hash, length) = (reader.array().ok()?, u64::from(reader.u32().ok()?));
        if length == 0 || length > OVER {
            return None;
        }
        sum += length;
        chunks.push((hash, length));
    }
    (sum == raw).then_some(chunks)
}

/// A content piece by piece, checked against its name behind the last one.
pub struct Pieces<'a> {
    store: &'a SegmentStore,
    hash: Hash,
    /// What is still to come, last first; None: it is stored whole.
    chunks: Option<Vec<(Hash, u64)>>,
    hasher: Hasher,
    ended: bool,
}

impl Pieces<'_> {
    fn step(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(chunks) = &mut self.chunks else {
            self.ended = true;
            return self.store.read(&self.hash).map(Some);
        };
        let Some((chunk, length)) = chunks.pop() else {
            self.ended = true;
            if self.hasher.finish() == self.hash {
                return Ok(None);
            }
            let text = format!("the chunks of blob {} are not its bytes", hex(&self.hash));
            return Err(EngineError::new(Code::BlobCorrupt, text));
        };
        let bytes = self.store.read(&chunk)?;
        if bytes.len() as u64 != length {
            let text = format!("a chunk of blob {} has another length", hex(&self.hash));
            return Err(EngineError::new(Code::BlobCorrupt, text));
        }
        self.hasher.update(&bytes);
        Ok(Some(bytes))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step();
        self.ended |= step.is_err();
        step.transpose()
    }
}

impl SegmentStore {
    /// The bytes of a blob, at most a chunk at once. What came before an error is not to be used.
    pub fn pieces(&self, hash: &Hash) -> Result<Pieces<'_>> {
        self.open_check()?;
        let chunks = self.chunks_of(hash)?.map(|mut chunks| {
            chunks.reverse();
            chunks
        });
        Ok(Pieces {
            store: self,
            hash: *hash,
            chunks,
            hasher: self.hasher(),
            ended: false,
        })
    }

    /// The chunks of a large content; None where it is stored whole, or not at all. `ERR_BLOB_CORRUPT` where no copy
    /// of its list can be read.
    pub(super) fn chunks_of(&self, hash: &Hash) -> Result<Option<Vec<(Hash, u64)>>> {
        let mut damaged = None;
        for (segment, at) in self.places(hash) {
            if at.raw <= OVER {
                return Ok(None);
            }
            match self.list_in(&segment, hash, at) {
                Ok(chunks) => return Ok(chunks),
                Err(Fault::Gone) => {}
                Err(Fault::Io(error)) => return Err(self.fault(&segment.path, error)),
                Err(Fault::Damaged(detail)) => damaged = Some(detail),
            }
        }
        match damaged {
            None => Ok(None),
            Some(detail) => {
                let text = format!("the list of chunks of blob {}: {detail}", hex(hash));
                Err(EngineError::new(Code::BlobCorrupt, text))
            }
        }
    }

    /// None where the record holds its content whole.
    pub(super) fn list_in(
        &self,
        segment: &Segment,
        hash: &Hash,
        at: Location,
    ) -> std::result::Result<Option<Vec<(Hash, u64)>>, Fault> {
        if at.raw <= OVER {
            return Ok(None);
        }
        let (header, payload) = segment.read(&self.files, hash, at)?;
        if header.codec != CHUNKS {
            return Ok(None);
        }
        let chunks = parse(&payload, header.raw);
        chunks
            .map(Some)
            .ok_or_else(|| Fault::Damaged("its list of chunks makes no sense".to_string()))
    }

    /// Whether a list of that name is stored. Another one is a collision.
    pub(super) fn is_listed(&self, hash: &Hash, list: &[u8], raw: u64) -> Result<bool> {
        let Some(wanted) = parse(list, raw) else {
            return Ok(false);
        };
        for (segment, at) in self.places(hash) {
            if segment.doomed.load(Ordering::Acquire) {
                continue;
            }
            match self.list_in(&segment, hash, at) {
                Ok(Some(chunks)) if chunks == wanted => {
                    segment.want(at);
                    return Ok(true);
                }
                Ok(Some(_)) => return Err(super::collision(hash)),
                // What is damaged, gone or stored whole is no list: it is stored anew.
                Ok(None) | Err(Fault::Gone | Fault::Damaged(_)) => {}
                Err(Fault::Io(error)) => return Err(self.fault(&segment.path, error)),
            }
        }
        Ok(false)
    }

    /// The bytes of a large content, whole.
    pub(super) fn join(&self, chunks: &[(Hash, u64)], raw: u64) -> std::result::Result<Vec<u8>, Fault> {
        let mut bytes = Vec::with_capacity(usize::try_from(raw).unwrap_or(0));
        for (chunk, length) in chunks {
            let piece = self.read(chunk).map_err(|error| match error.cause {
                Some(cause) => Fault::Io(cause),
                None => Fault::Damaged(format!("a chunk of it: {}", error.message)),
            })?;
            if piece.len() as u64 != *length {
                return Err(Fault::Damaged("a chunk of it has another length".to_string()));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
pub(super) fn cuts(bytes: &[u8]) -> Vec<usize> {
    let mut cutter = Cutter::default();
    let (mut at, mut ends) = (0, Vec::new());
    while at < bytes.len() {
        // Pieces of odd lengths: where they end must not matter.
        let piece = &bytes[at..bytes.len().min(at + 65_537)];
        let (taken, end) = cutter.take(piece);
        at += taken;
        if end {
            ends.push(at);
        }
    }
    ends
}
