//! The segment that this store appends to: made at the first new blob, indexed when it is closed.

use std::fs::File;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::codec::{RAW, ZSTD};
use super::file::{Fault, Segment};
use super::format::{FILE_HEADER, Location, RECORD_OVERHEAD, RecordHeader, file_header};
use super::owner::Owner;
use super::{Put, SegmentStore, create_new, hex};
use crate::error::{Code, EngineError, IoContext, Result};
use crate::wire::{Hash, check64};

pub struct Own {
    pub segment: Arc<Segment>,
    file: File,
    length: u64,
}

/// What is to be appended: a record's header and its packed payload.
pub struct Packed<'a> {
    pub header: RecordHeader,
    pub payload: &'a [u8],
}

impl SegmentStore {
    /// Stores bytes, or finds them stored. Two contents of one name are an error of code [`Code::Collision`].
    pub fn put(&self, bytes: &[u8]) -> Result<Put> {
        self.open_check()?;
        let hash = self.hash(bytes);
        self.unsettled().push(hash);
        if self.is_stored(&hash, bytes)? {
            return Ok(Put {
                hash,
                new: false,
                stored: 0,
            });
        }
        let packed = self.codec.pack(bytes).doing("compress a blob")?;
        let (codec, payload) = packed.as_deref().map_or((RAW, bytes), |payload| (ZSTD, payload));
        let stored = payload.len() as u64;
        let header = RecordHeader {
            codec,
            raw: bytes.len() as u64,
            stored,
            hash,
        };
        let mut own = self.lock_own();
        self.open_check()?;
        // Another thread may have stored it while this one packed.
        if own.as_ref().is_some_and(|own| own.segment.find(&hash).is_some())
            && self.is_stored(&hash, bytes)?
        {
            return Ok(Put {
                hash,
                new: false,
                stored: 0,
            });
        }
        self.append(&mut own, &Packed { header, payload })?;
        Ok(Put {
            hash,
            new: true,
            stored: stored + RECORD_OVERHEAD,
        })
    }

    /// True where the store holds these very bytes. A damaged copy doesn't count: they are stored anew.
    fn is_stored(&self, hash: &Hash, bytes: &[u8]) -> Result<bool> {
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
                Ok(_) => {
                    let message = format!(
                        "two contents have the name {}; the second was not stored",
                        hex(hash)
                    );
                    return Err(EngineError::new(Code::Collision, message));
                }
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

    /// Appends a record to the own segment, which is made where there is none.
    pub(super) fn append(&self, own: &mut Option<Own>, packed: &Packed<'_>) -> Result<()> {
        if own.is_none() {
            *own = Some(
                self.make_own()
                    .doing_at("make a segment in", self.dir.as_os_str().as_encoded_bytes())?,
            );
        }
        let Some(open) = own.as_mut() else {
            unreachable!("made above")
        };
        match open.write(packed) {
            Ok(at) => {
                open.segment.appended(packed.header.hash, at);
                open.segment.want(at);
                Ok(())
            }
            Err(error) => {
                if open.file.set_len(open.length).is_err() {
                    // The torn record can't be cut off: leave it as a tail, and go on in another segment.
                    *own = None;
                }
                Err(EngineError::io("append to a segment", error))
            }
        }
    }

    fn make_own(&self) -> io::Result<Own> {
        let me = Owner::this_process();
        let stem = format!("{}-{}-{}", me.pid, me.started, random_hex());
        let path = self.dir.join(format!("{stem}.seg"));
        let file = create_new(&path)?;
        if let Err(error) = file.write_all_at(&file_header(self.seed), 0) {
            let _ = std::fs::remove_file(&path);
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
        for segment in self.snapshot() {
            match segment.sync(&self.files) {
                Ok(false) => {}
                // The folder, too: the segment may be another process's that has not synced it yet.
                Ok(true) => self.dir_dirty.store(true, Ordering::Release),
                // It was collected: what lived in it was written and synced elsewhere first.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(EngineError::io("sync a segment", error)),
            }
        }
        self.sync_folder()
    }

    fn sync_folder(&self) -> Result<()> {
        if self.dir_dirty.swap(false, Ordering::AcqRel) {
            let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
            if let Err(error) = synced {
                self.dir_dirty.store(true, Ordering::Release);
                return Err(EngineError::io("sync the folder of the segments", error));
            }
        }
        Ok(())
    }

    /// Ends the own segment: synced, with its index file, under a name that says that nobody appends to it.
    pub(super) fn seal(&self) -> Result<()> {
        let mut own = self.lock_own();
        let Some(open) = own.as_ref() else { return Ok(()) };
        open.file.sync_data().doing("sync a segment")?;
        let path = open.rename(&self.dir).doing("close a segment")?;
        self.dir_dirty.store(true, Ordering::Release);
        // A cache: a reader without it reads the segment instead.
        let _ = open.segment.write_index(&path);
        self.files.forget(&open.segment.path);
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let closed = Segment::load(path, stem, self.seed).doing("read a closed segment")?;
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.retain(|known| !Arc::ptr_eq(known, &open.segment));
        segments.extend(closed.map(Arc::new));
        drop(segments);
        *own = None;
        Ok(())
    }

    /// Syncs and ends the own segment. Later calls answer `ERR_CLOSED`.
    pub fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.seal()?;
        self.sync_folder()
    }
}

impl Drop for SegmentStore {
    fn drop(&mut self) {
        // Nobody is left to tell. What wasn't synced was promised to nobody.
        let _ = self.seal();
    }
}

/// Eight hex digits that no other writer of this process has.
fn random_hex() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
}

impl Own {
    /// Takes a name that says that nobody appends to it; answers the new path.
    fn rename(&self, dir: &Path) -> io::Result<PathBuf> {
        loop {
            let path = dir.join(format!("0-0-{}.seg", random_hex()));
            match renameat_with(CWD, &self.segment.path, CWD, &path, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(path),
                Err(Errno::EXIST) => {}
                // This file system knows no rename that replaces nothing: look, then rename.
                Err(Errno::INVAL | Errno::NOSYS) if !path.exists() => {
                    return std::fs::rename(&self.segment.path, &path).map(|()| path);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One write of a whole record, at the end.
    fn write(&mut self, packed: &Packed<'_>) -> io::Result<Location> {
        let mut record = Vec::with_capacity(packed.payload.len() + RECORD_OVERHEAD as usize);
        record.extend_from_slice(&packed.header.encode());
        record.extend_from_slice(packed.payload);
        record.extend_from_slice(&check64(packed.payload).to_le_bytes());
        self.file.write_all_at(&record, self.length)?;
        let at = Location {
            offset: self.length,
            raw: packed.header.raw,
            stored: packed.header.stored,
        };
        self.length += record.len() as u64;
        Ok(at)
    }
}
