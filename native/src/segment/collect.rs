//! Gc of the segments: what lives in a segment with dead blobs moves to the own segment, then the old file goes.
//!
//! Old files go only after what was saved from them is synced. A segment whose writer lives, whose name says no
//! writer, or that holds a living blob which can't be read, stays. While a segment is being collected, `put` relies on
//! none of its blobs. What lives keeps its chunks; a living list that can't be read might need any, so then nothing
//! goes. Call under the workspace's lock, with every name that rows and manifests hold, borrowed ones too; what was put
//! since the last sync, which a row may be about to name, is kept without.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::SegmentStore;
use super::append::push_record;
use super::file::{Fault, Segment};
use super::format::{FILE_HEADER, Location};
use super::owner::Owner;
use crate::error::{Code, EngineError, Result};
use crate::sys::file;
use crate::task::Work;
use crate::wire::Hash;

/// Old segments go whenever this much was copied out of them: bounds the disk that gc itself takes.
const BATCH_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    pub freed_bytes: u64,
    pub kept_bytes: u64,
}

impl SegmentStore {
    pub fn collect(&self, live: &[Hash], work: &Work) -> Result<Collected> {
        self.open_check()?;
        let mut live: HashSet<Hash> = live.iter().chain(self.unsettled().iter()).copied().collect();
        self.refresh()?;
        let before = self.stats().bytes + self.loans().collect(self, &live, work)?;
        self.loans().add_real(&mut live);
        // The own segment becomes one of the old ones.
        self.seal()?;
        self.refresh()?;
        let all_known = self.add_chunks(&mut live)?;
        let before = before + self.remove_leftovers()?;
        let segments = self.snapshot();
        let doomed: Vec<_> = segments
            .into_iter()
            .filter(|s| all_known && s.owner.is_some_and(|writer| !writer.lives()) && self.has_dead(s, &live))
            .collect();
        doomed
            .iter()
            .for_each(|segment| segment.doomed.store(true, Ordering::Release));
        let moved = self.move_all(&doomed, &live, work);
        doomed
            .iter()
            .for_each(|segment| segment.doomed.store(false, Ordering::Release));
        moved?;
        let kept_bytes = self.stats().bytes;
        Ok(Collected {
            freed_bytes: before.saturating_sub(kept_bytes),
            kept_bytes,
        })
    }

    /// Adds the chunks of large contents to what lives; false where a list can't be read.
    fn add_chunks(&self, live: &mut HashSet<Hash>) -> Result<bool> {
        let mut chunks = Vec::new();
        for hash in live.iter() {
            match self.chunks_of(hash) {
                Ok(list) => chunks.extend(list.into_iter().flatten().map(|(chunk, _)| chunk)),
                Err(error) if error.code == Code::BlobCorrupt => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        live.extend(chunks);
        Ok(true)
    }

    fn move_all(&self, doomed: &[Arc<Segment>], live: &HashSet<Hash>, work: &Work) -> Result<()> {
        let mut emptied = Vec::new();
        let mut copied = 0;
        for (done, segment) in doomed.iter().enumerate() {
            if self.move_living(segment, live, work, &mut copied)? {
                emptied.push(segment.clone());
            }
            if copied >= BATCH_BYTES {
                self.remove(&emptied)?;
                emptied.clear();
                copied = 0;
            }
            work.report("gc", done as u64 + 1, Some(doomed.len() as u64));
        }
        self.remove(&emptied)
    }

    fn has_dead(&self, segment: &Segment, live: &HashSet<Hash>) -> bool {
        if self.hidden_behind_damage(segment).is_some() {
            return false;
        }
        let (end, size) = segment.extent();
        let records = segment.records();
        end < size || records.is_empty() || records.iter().any(|(hash, _)| !live.contains(hash))
    }

    /// Copies what lives to the own segment; false where a living blob can't be read: the segment has to stay.
    fn move_living(
        &self,
        segment: &Arc<Segment>,
        live: &HashSet<Hash>,
        work: &Work,
        copied: &mut u64,
    ) -> Result<bool> {
        let mut records = segment.records();
        records.retain(|(hash, _)| live.contains(hash));
        records.sort_unstable_by_key(|(_, at)| at.offset);
        let mut whole = true;
        for (hash, at) in records {
            work.cancel.check()?;
            if self.lives_elsewhere(&hash)? {
                continue;
            }
            match self.copy(segment, &hash, at) {
                Ok(bytes) => *copied += bytes,
                Err(Fault::Gone | Fault::Damaged(_)) => whole = false,
                Err(Fault::Io(error)) => {
                    let path = segment.path.as_os_str().as_encoded_bytes();
                    return Err(EngineError::io("collect a segment", error).with_path(path));
                }
            }
        }
        Ok(whole)
    }

    /// True where a segment that stays has the blob, readable.
    fn lives_elsewhere(&self, hash: &Hash) -> Result<bool> {
        for (other, at) in self.places(hash) {
            if !other.doomed.load(Ordering::Acquire) && self.is_whole(&other, hash, at).is_ok() {
                other.want(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A list by itself: its chunks are looked after each for itself.
    fn is_whole(&self, segment: &Segment, hash: &Hash, at: Location) -> std::result::Result<(), Fault> {
        match self.list_in(segment, hash, at)? {
            Some(_) => Ok(()),
            None => self.read_at(segment, hash, at).map(drop),
        }
    }

    fn copy(&self, segment: &Segment, hash: &Hash, at: Location) -> std::result::Result<u64, Fault> {
        self.is_whole(segment, hash, at)?;
        let (header, payload) = segment.read(&self.files, hash, at)?;
        let mut record = Vec::new();
        let packed = push_record(&mut record, header, &payload);
        let appended = self.append(&mut self.lock_own(), &record, &[packed]);
        appended
            .map_err(|error| Fault::Io(error.cause.unwrap_or_else(|| io::Error::other(error.message))))?;
        Ok(at.stored)
    }

    /// Syncs what was saved, then removes the files.
    fn remove(&self, emptied: &[Arc<Segment>]) -> Result<()> {
        if emptied.is_empty() {
            return Ok(());
        }
        self.sync()?;
        for segment in emptied {
            gone(file::remove(&segment.path)).map_err(|error| self.fault(&segment.path, error))?;
            let index = segment.path.with_extension("idx");
            gone(file::remove(&index)).map_err(|error| self.fault(&index, error))?;
            self.files.forget(&segment.path);
            let mut segments = self
                .segments
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            segments.retain(|kept| !Arc::ptr_eq(kept, segment));
        }
        Ok(())
    }

    /// Removes what dead writers left: segments shorter than a header, and index files without a segment. Answers
    /// their bytes.
    fn remove_leftovers(&self) -> Result<u64> {
        let fault = |error| self.fault(&self.dir, error);
        let mut bytes = 0;
        for entry in std::fs::read_dir(&self.dir).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else {
                continue;
            };
            // An index file that is being written is named `<stem>.idx.<pid>`.
            let stem = stem.strip_suffix(".idx").unwrap_or(stem);
            if Owner::of_name(stem).is_none_or(|writer| writer.lives()) {
                continue;
            }
            let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
            let segment = self.dir.join(format!("{stem}.seg"));
            let torn = path == segment && size < FILE_HEADER;
            // Left by a process that died while it wrote an index file.
            let torn = torn
                || path
                    .extension()
                    .and_then(|e| e.to_str()?.parse().ok())
                    .is_some_and(is_gone);
            if torn || (path != segment && !segment.exists()) {
                gone(file::remove(&path)).map_err(fault)?;
                bytes += size;
            }
        }
        Ok(bytes)
    }
}

fn is_gone(pid: u32) -> bool {
    !Owner { pid, started: 0 }.lives()
}

/// A file that is gone already is as good as removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
