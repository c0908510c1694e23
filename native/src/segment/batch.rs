//! Blobs of one thread on their way to the own segment: hashed and packed one by one, appended many in one write.
//!
//! A write of a few kilobytes costs the kernel nearly as much as packing them does, and threads that write each file by
//! itself wait for each other. What is in a batch is in no segment yet: `flush` puts it there, and only then is it known
//! which blobs were new, for another thread may have stored the same bytes meanwhile. Dropped without a flush, it stores
//! nothing.

use std::collections::HashMap;

use super::append::{Packed, push_record};
use super::chunks::{Large, OVER};
use super::codec::{CHUNKS, RAW, ZSTD};
use super::format::RecordHeader;
use super::{SegmentStore, collision};
use crate::error::{IoContext, Result};
use crate::wire::Hash;

/// A batch of this many bytes is written.
const FULL: usize = 1 << 20;

/// A blob that went through a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    pub hash: Hash,
    /// Its number among those that the batch was to store; none where it was stored, or queued, before.
    number: Option<usize>,
}

pub struct Batch<'a> {
    store: &'a SegmentStore,
    /// Whole records, one behind the other.
    records: Vec<u8>,
    waiting: Vec<Packed>,
    /// Of those that wait.
    by_hash: HashMap<Hash, usize>,
    /// Bytes that each blob to be stored took, by its number; 0 where another thread had stored it.
    stored: Vec<u64>,
}

impl<'a> Batch<'a> {
    pub fn new(store: &'a SegmentStore) -> Self {
        Batch {
            store,
            records: Vec::new(),
            waiting: Vec::new(),
            by_hash: HashMap::new(),
            stored: Vec::new(),
        }
    }

    /// Takes bytes, and writes what it has where it is full. Two contents of one name are an error of code `Collision`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<Queued> {
        let store = self.store;
        store.open_check()?;
        if bytes.len() as u64 > OVER {
            let mut large = Large::new(store);
            large.push(bytes, self)?;
            return large.finish(self);
        }
        let hash = store.hash(bytes);
        store.unsettled().push(hash);
        if let Some(at) = self.by_hash.get(&hash) {
            if self.bytes_of(&self.waiting[*at])? != bytes {
                return Err(collision(&hash));
            }
            return Ok(Queued { hash, number: None });
        }
        if store.is_stored(&hash, bytes)? {
            return Ok(Queued { hash, number: None });
        }
        let packed = store.codec.pack(bytes).doing("compress a blob")?;
        let (codec, payload) = packed.as_deref().map_or((RAW, bytes), |payload| (ZSTD, payload));
        let header = RecordHeader {
            codec,
            raw: bytes.len() as u64,
            stored: payload.len() as u64,
            hash,
        };
        self.add(header, payload)
    }

    /// Takes the list of chunks of a content of `raw` bytes; its chunks have been put.
    pub(super) fn put_list(&mut self, hash: Hash, raw: u64, list: &[u8]) -> Result<Queued> {
        self.store.unsettled().push(hash);
        if let Some(at) = self.by_hash.get(&hash) {
            if self.records[self.waiting[*at].payload()] != *list {
                return Err(collision(&hash));
            }
            return Ok(Queued { hash, number: None });
        }
        if self.store.is_listed(&hash, list, raw)? {
            return Ok(Queued { hash, number: None });
        }
        let header = RecordHeader {
            codec: CHUNKS,
            raw,
            stored: list.len() as u64,
            hash,
        };
        self.add(header, list)
    }

    fn add(&mut self, header: RecordHeader, payload: &[u8]) -> Result<Queued> {
        let hash = header.hash;
        self.by_hash.insert(hash, self.waiting.len());
        self.waiting.push(push_record(&mut self.records, header, payload));
        self.stored.push(0);
        let number = Some(self.stored.len() - 1);
        if self.records.len() >= FULL {
            self.flush()?;
        }
        Ok(Queued { hash, number })
    }

    /// Writes what waits.
    pub fn flush(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut own = self.store.lock_own();
        self.store.open_check()?;
        let first = self.stored.len() - self.waiting.len();
        let mut kept = Vec::with_capacity(self.waiting.len());
        for (at, packed) in self.waiting.iter().enumerate() {
            let known = own
                .as_ref()
                .is_some_and(|own| own.segment.find(&packed.header.hash).is_some());
            if !(known && self.is_stored(packed)?) {
                kept.push((at, *packed));
            }
        }
        if kept.len() < self.waiting.len() {
            self.leave_out_others(&mut kept);
        }
        let packed: Vec<Packed> = kept.iter().map(|(_, packed)| *packed).collect();
        self.store.append(&mut own, &self.records, &packed)?;
        drop(own);
        for (at, packed) in kept {
            self.stored[first + at] = packed.bytes();
        }
        self.records.clear();
        self.waiting.clear();
        self.by_hash.clear();
        Ok(())
    }

    fn is_stored(&self, packed: &Packed) -> Result<bool> {
        let header = &packed.header;
        if header.codec == CHUNKS {
            let list = &self.records[packed.payload()];
            return self.store.is_listed(&header.hash, list, header.raw);
        }
        self.store.is_stored(&header.hash, &self.bytes_of(packed)?)
    }

    /// Moves the records that are kept together.
    fn leave_out_others(&mut self, kept: &mut [(usize, Packed)]) {
        let mut records = Vec::with_capacity(self.records.len());
        for (_, packed) in kept {
            let from = packed.at;
            packed.at = records.len();
            records.extend_from_slice(&self.records[from..from + packed.bytes() as usize]);
        }
        self.records = records;
    }

    /// Bytes that a blob took in the store; none where it was there already. Known after the flush.
    pub fn stored(&self, queued: Queued) -> Option<u64> {
        queued
            .number
            .map(|number| self.stored[number])
            .filter(|bytes| *bytes > 0)
    }

    fn bytes_of(&self, packed: &Packed) -> Result<Vec<u8>> {
        let payload = self.records[packed.payload()].to_vec();
        let header = &packed.header;
        self.store
            .codec
            .unpack(header.codec, payload, header.raw)
            .doing("unpack a blob")
    }
}
