//! The segment that this store appends to: made at the first new blob, indexed when it is closed.

use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rustix::io::Errno;

use super::batch::Batch;
use super::file::{Fault, Segment};
use super::format::{FILE_HEADER, RECORD_HEADER, RECORD_OVERHEAD, RecordHeader, file_header};
use super::owner::Owner;
use super::{Put, SegmentStore, collision};
use crate::error::{IoContext, Result};
use crate::sys::file::{self, OutFile};
use crate::wire::{Hash, check64};

pub struct Own {
    pub segment: Arc<Segment>,
    pub(super) file: OutFile,
    pub(super) length: u64,
}

/// A whole record in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    pub header: RecordHeader,
    /// Where it begins.
    pub at: usize,
}

impl Packed {
    pub fn bytes(&self) -> u64 {
        self.header.stored + RECORD_OVERHEAD
    }

    /// Where its payload lies.
    pub fn payload(&self) -> Range<usize> {
        let from = self.at + RECORD_HEADER;
        from..from + self.header.stored as usize
    }
}

/// Puts a record behind those in `records`.
pub fn push_record(records: &mut Vec<u8>, header: RecordHeader, payload: &[u8]) -> Packed {
    let at = records.len();
    records.reserve(payload.len() + RECORD_OVERHEAD as usize);
    records.extend_from_slice(&header.encode());
    records.extend_from_slice(payload);
    records.extend_from_slice(&check64(payload).to_le_bytes());
    Packed { header, at }
}

impl SegmentStore {
    /// Stores bytes, or finds them stored. Two contents of one name are an error of code [`Code::Collision`].
    pub fn put(&self, bytes: &[u8]) -> Result<Put> {
        let mut batch = Batch::new(self);
        let queued = batch.put(bytes)?;
        batch.flush()?;
        let stored = batch.stored(queued);
        Ok(Put {
            hash: queued.hash,
            new: stored.is_some(),
            stored: stored.unwrap_or(0),
        })
    }

    /// True where the store holds these very bytes. A damaged copy doesn't count: they are stored anew.
    pub(super) fn is_stored(&self, hash: &Hash, bytes: &[u8]) -> Result<bool> {
        let mut moved = false;
        if self.holds(hash, bytes, &mut moved)? {
            return Ok(true);
        }
        if !moved {
            return Ok(false);
        }
        self.refresh()?;
        self.holds(hash, bytes, &mut moved)
    }

    /// Sets `moved` where a segment that was known is gone: it was closed, and has another name now, or collected.
    fn holds(&self, hash: &Hash, bytes: &[u8], moved: &mut bool) -> Result<bool> {
        for (segment, at) in self.places(hash) {
            if segment.doomed.load(Ordering::Acquire) {
                continue;
            }
            match self.read_at(&segment, hash, at) {
                Ok(found) if found == bytes => {
                    segment.want(at);
                    return Ok(true);
                }
                Ok(_) => return Err(collision(hash)),
                Err(Fault::Gone) => *moved = true,
                Err(Fault::Damaged(_)) => {}
                Err(Fault::Io(error)) => return Err(self.fault(&segment.path, error)),
            }
        }
        Ok(false)
    }

    pub(super) fn lock_own(&self) -> MutexGuard<'_, Option<Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends records to the own segment, which is made where there is none. `records` holds `packed`, in that order,
    /// and nothing else.
    pub(super) fn append(&self, own: &mut Option<Own>, records: &[u8], packed: &[Packed]) -> Result<()> {
        if packed.is_empty() {
            return Ok(());
        }
        if own.is_none() {
            let found = match self.adopt() {
                Some(adopted) => Ok(adopted),
                None => self.make_own(),
            };
            *own = Some(found.doing_at("make a segment in", self.dir.as_os_str().as_encoded_bytes())?);
        }
        let Some(open) = own.as_mut() else {
            unreachable!("made above")
        };
        match open.file.write_all_at(records, open.length) {
            Ok(()) => {
                open.segment.appended(open.length, packed);
                open.length += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                let path = open.segment.path.clone();
                if open.file.set_len(open.length).is_err() {
                    // The torn record can't be cut off: leave it as a tail, and go on in another segment.
                    *own = None;
                }
                Err(error).doing_at("append to the segment", path.as_os_str().as_encoded_bytes())
            }
        }
    }

    fn make_own(&self) -> io::Result<Own> {
        let stem = own_stem();
        let path = self.dir.join(format!("{stem}.seg"));
        let file = OutFile::create_new(&path)?;
        if let Err(error) = file.write_all_at(&file_header(self.seed), 0) {
            let _ = file::remove(&path);
            return Err(error);
        }
        let segment = Arc::new(Segment::fresh(path, stem));
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(segment.clone());
        self.dir_dirty.store(true, Ordering::Release);
        Ok(Own {
            segment,
            file,
            length: FILE_HEADER,
        })
    }

    /// Makes all that was appended, or found stored, durable.
    pub fn sync(&self) -> Result<()> {
        let settled = std::mem::take(&mut *self.unsettled());
        let synced = self.sync_all();
        if synced.is_err() {
            self.unsettled().extend(settled);
        }
        synced
    }

    pub(super) fn unsettled(&self) -> MutexGuard<'_, Vec<Hash>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync_all(&self) -> Result<()> {
        self.loans().sync().doing("sync what is borrowed")?;
        self.read_once()?;
        for segment in self.snapshot() {
            match segment.sync(&self.files) {
                Ok(false) => {}
                // The folder, too: the segment may be another process's that has not synced it yet.
                Ok(true) => self.dir_dirty.store(true, Ordering::Release),
                // It was collected: what lived in it was written and synced elsewhere first.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error)
                        .doing_at("sync the segment", segment.path.as_os_str().as_encoded_bytes());
                }
            }
        }
        self.sync_folder()
    }

    fn sync_folder(&self) -> Result<()> {
        if self.dir_dirty.swap(false, Ordering::AcqRel)
            && let Err(error) = file::sync_folder(&self.dir)
        {
            self.dir_dirty.store(true, Ordering::Release);
            return Err(error).doing_at("sync the folder of the segments", shown(&self.dir));
        }
        Ok(())
    }

    /// Ends the own segment: synced, with its index file, under a name that says that nobody appends to it. True where
    /// there was one.
    pub(super) fn seal(&self) -> Result<bool> {
        let mut own = self.lock_own();
        let Some(open) = own.as_ref() else {
            return Ok(false);
        };
        let old = open.segment.path.as_os_str().as_encoded_bytes();
        open.segment.sync(&self.files).doing_at("sync the segment", old)?;
        // Once its entry in the folder is on disk, under whichever name, a power cut leaves it under one of its names.
        let path = open.rename(&self.dir).doing_at("close the segment", old)?;
        // A cache: a reader without it reads the segment instead.
        let _ = open.segment.write_index(&path);
        self.files.forget(&open.segment.path);
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let closed =
            Segment::load(path, stem, self.seed).doing_at("read a closed segment in", shown(&self.dir))?;
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.retain(|known| !Arc::ptr_eq(known, &open.segment));
        segments.extend(closed.map(Arc::new));
        drop(segments);
        *own = None;
        Ok(true)
    }

    /// Syncs and ends the own segment. Later calls answer `ERR_CLOSED`. A store that has appended nothing owes nothing.
    pub fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        if self.seal()? { self.sync_folder() } else { Ok(()) }
    }
}

impl Drop for SegmentStore {
    fn drop(&mut self) {
        // Nobody is left to tell. What wasn't synced was promised to nobody.
        let _ = self.seal();
    }
}

/// A name that says that this process appends to the segment, without its extension.
pub(super) fn own_stem() -> String {
    let me = Owner::this_process();
    format!("{}-{}-{}", me.pid, me.started, random_hex())
}

fn shown(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Eight hex digits that no other writer of this process has.
pub fn random_hex() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
}

impl Own {
    /// Takes a name that says that nobody appends to it; answers the new path.
    fn rename(&self, dir: &Path) -> io::Result<PathBuf> {
        loop {
            let path = dir.join(format!("0-0-{}.seg", random_hex()));
            match file::rename_new(&self.segment.path, &path) {
                Ok(()) => return Ok(path),
                Err(Errno::EXIST) => {}
                // This file system knows no rename that replaces nothing: look, then rename.
                Err(Errno::INVAL | Errno::NOSYS) if !path.exists() => {
                    return file::rename(&self.segment.path, &path).map(|()| path);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
