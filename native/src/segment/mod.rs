//! Blobs: bytes named by their hash, in append-only segment files (docs/formats.md, DESIGN §4.3).
//!
//! A store appends to a segment of its own and reads those of all processes, so writers never contend. The segment is
//! made, or a closed one taken over, at the first new blob. Records go out in whole; a write that fails is cut off again. `put` is safe to call
//! from several threads: hashing and compression happen outside the lock. Nothing is durable before `sync`, which also
//! covers what other writers have appended and not synced.
//!
//! Files: `format` bytes, `codec` compression, `file` one segment, `owner` who may append, `append` the own segment, `adopt` a closed one,
//! `batch` what is on its way there, `chunks` large contents, `collect` gc, `verify` checks. Not covered: who may call `collect` when (the workspace's lock), what is live.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128;

use crate::borrow::Loans;
use crate::borrow::loan::Lent;
use crate::error::{Code, EngineError, IoContext, Result};
use crate::wire::Hash;

mod adopt;
mod append;
mod batch;
mod chunks;
mod codec;
mod collect;
mod file;
mod format;
pub mod owner;
#[cfg(test)]
mod tests;
mod verify;

use append::Own;
pub use append::random_hex;
pub use batch::{Batch, Queued};
pub use chunks::{Large, OVER};
use codec::Codec;
pub use collect::Collected;
use file::{Fault, OpenFiles, Segment};
use format::Location;
pub use verify::{Verified, VerifyProblem};

/// What `put` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    pub hash: Hash,
    /// False where the blob was stored already.
    pub new: bool,
    /// Bytes that were appended; 0 where it isn't new.
    pub stored: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    pub segments: u64,
    /// Distinct blobs.
    pub blobs: u64,
    /// Bytes of the segment files.
    pub bytes: u64,
}

/// How often a read looks again for a blob whose segment went away under it. Once is enough but for a collector that
/// runs without pause.
const LOOKS: usize = 8;

type HashFn = fn(u64, &[u8]) -> Hash;

pub struct SegmentStore {
    dir: PathBuf,
    seed: u64,
    hash_fn: HashFn,
    codec: Codec,
    loans: Loans,
    files: OpenFiles,
    segments: RwLock<Vec<Arc<Segment>>>,
    own: Mutex<Option<Own>>,
    /// Put, or found stored, since the last sync: no row can name them yet, and `collect` keeps them.
    unsettled: Mutex<Vec<Hash>>,
    closed: AtomicBool,
    /// The folder was read once.
    is_read: AtomicBool,
    /// A segment was made, removed or first relied upon since the folder was last synced.
    dir_dirty: AtomicBool,
}

/// Hashes bytes that come in pieces; the same name as [`SegmentStore::hash`] of the whole.
pub struct Hasher(xxhash3_128::Hasher);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub fn finish(&self) -> Hash {
        self.0.finish_128().to_be_bytes()
    }
}

fn xxh3(seed: u64, bytes: &[u8]) -> Hash {
    XxHash3_128::oneshot_with_seed(seed, bytes).to_be_bytes()
}

impl SegmentStore {
    /// Opens the folder, making it (0700) where missing, and takes in the segments that it holds.
    pub fn open(dir: &Path, seed: u64) -> Result<Self> {
        Self::open_with(dir, seed, xxh3)
    }

    fn open_with(dir: &Path, seed: u64, hash_fn: HashFn) -> Result<Self> {
        crate::sys::file::make_folders(dir)
            .doing_at("make the folder", dir.as_os_str().as_encoded_bytes())?;
        let store = Self::unread_with(dir, seed, hash_fn);
        store.refresh()?;
        Ok(store)
    }

    /// A store whose folder is there, and is read by the first who asks for a blob or stores one: most looks at a tree find
    /// nothing changed, and do neither.
    pub fn unread(dir: &Path, seed: u64) -> Self {
        Self::unread_with(dir, seed, xxh3)
    }

    fn unread_with(dir: &Path, seed: u64, hash_fn: HashFn) -> Self {
        SegmentStore {
            dir: dir.to_path_buf(),
            seed,
            hash_fn,
            codec: Codec::default(),
            loans: Loans::new(dir.with_file_name("borrowed")),
            files: OpenFiles::default(),
            segments: RwLock::default(),
            own: Mutex::default(),
            unsettled: Mutex::default(),
            closed: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
            dir_dirty: AtomicBool::new(false),
        }
    }

    pub fn hash(&self, bytes: &[u8]) -> Hash {
        (self.hash_fn)(self.seed, bytes)
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What is borrowed from git's packs; a borrowed name can be read like a blob's.
    pub fn loans(&self) -> &Loans {
        &self.loans
    }

    /// Pins packs ([`Loans::lend`]). Like blobs, the names are kept until a row can name them.
    pub fn lend(
        &self,
        kind: gix_hash::Kind,
        packs: &[(PathBuf, u64)],
        entries: &mut [Lent],
    ) -> io::Result<()> {
        self.loans.lend(kind, packs, entries)?;
        self.unsettled().extend(entries.iter().map(|entry| entry.name));
        Ok(())
    }

    pub fn hasher(&self) -> Hasher {
        Hasher(xxhash3_128::Hasher::with_seed(self.seed))
    }

    /// Takes in segments, and records, that other processes have made since, and forgets those that are gone.
    pub fn refresh(&self) -> Result<()> {
        let listed = self
            .list()
            .doing_at("read the folder", self.dir.as_os_str().as_encoded_bytes())?;
        let known = self.snapshot();
        let mut kept = Vec::with_capacity(listed.len());
        for (stem, path) in listed {
            match known.iter().find(|segment| segment.stem == stem) {
                Some(segment) => match segment.refresh() {
                    Ok(()) => kept.push(segment.clone()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(self.fault(&path, error)),
                },
                None => match Segment::load(path.clone(), stem, self.seed) {
                    Ok(Some(segment)) => kept.push(Arc::new(self.indexed(segment))),
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(self.fault(&path, error)),
                },
            }
        }
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        // What another thread made or took in meanwhile stands: the own segment has one object, which knows its writes.
        let newer: Vec<_> = segments
            .iter()
            .filter(|s| !known.iter().any(|k| Arc::ptr_eq(k, s)))
            .cloned()
            .collect();
        kept.retain(|k| !newer.iter().any(|n| n.stem == k.stem));
        kept.extend(newer);
        *segments = kept;
        self.is_read.store(true, Ordering::Release);
        Ok(())
    }

    /// Two threads may both be first: reading twice is as good.
    fn read_once(&self) -> Result<()> {
        match self.is_read.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.refresh(),
        }
    }

    /// Leaves an index file for a segment whose writer is gone, so that nobody has to read it whole again.
    fn indexed(&self, segment: Segment) -> Segment {
        let ended = segment.owner.is_some_and(|owner| !owner.lives());
        if ended && !segment.is_indexed() {
            // A cache: where it can't be written, the next one reads the segment again.
            let _ = segment.write_index(&segment.path);
        }
        // Its entry in the folder may not be on disk yet.
        self.dir_dirty.store(true, Ordering::Release);
        segment
    }

    fn list(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "seg")
                && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
            {
                out.push((stem.to_string(), path.clone()));
            }
        }
        out.sort();
        Ok(out)
    }

    fn snapshot(&self) -> Vec<Arc<Segment>> {
        self.segments
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn fault(&self, path: &Path, error: io::Error) -> EngineError {
        let bytes = path.as_os_str().as_encoded_bytes();
        EngineError::io(&format!("read the segment {}", path.display()), error).with_path(bytes)
    }

    /// Every place of a blob, newest segment first.
    fn places(&self, hash: &Hash) -> Vec<(Arc<Segment>, Location)> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments
            .iter()
            .rev()
            .filter_map(|s| s.find(hash).map(|at| (s.clone(), at)))
            .collect()
    }

    /// True where the store knows the blob, and all chunks of a large one. Call [`refresh`](Self::refresh) first where
    /// other processes write.
    pub fn has(&self, hash: &Hash) -> bool {
        self.holds_all(hash)
            || match self.loans.find(hash) {
                Some((_, lent)) => lent.real.is_none_or(|real| self.holds_all(&real)),
                None => false,
            }
    }

    fn holds_all(&self, hash: &Hash) -> bool {
        let found = {
            let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
            segments.iter().rev().find_map(|segment| segment.find(hash))
        };
        found.is_some_and(|at| {
            // A list that can't be read is there; reading it tells of the damage.
            let chunks = match at.raw > OVER {
                true => self.chunks_of(hash).unwrap_or(None),
                false => None,
            };
            chunks.is_none_or(|chunks| chunks.iter().all(|(chunk, _)| self.holds_all(chunk)))
        })
    }

    /// The bytes of a blob, checked against its name. `ERR_BLOB_MISSING`, `ERR_BLOB_CORRUPT`.
    pub fn read(&self, hash: &Hash) -> Result<Vec<u8>> {
        self.open_check()?;
        let mut moved = false;
        for _ in 0..LOOKS {
            if let Some(bytes) = self.read_known(hash, &mut moved)? {
                return Ok(bytes);
            }
            // Another process may have made it; or moved it, while it collected or closed its segment.
            self.refresh()?;
            if !moved && self.places(hash).is_empty() {
                break;
            }
        }
        if let Some(bytes) = self.loans.read(self, hash)? {
            return Ok(bytes);
        }
        Err(EngineError::new(
            Code::BlobMissing,
            format!("the store holds no blob {}", hex(hash)),
        ))
    }

    /// None where no segment that is still there has it. `moved`: one that had it is gone.
    fn read_known(&self, hash: &Hash, moved: &mut bool) -> Result<Option<Vec<u8>>> {
        let mut damage = None;
        for (segment, at) in self.places(hash) {
            match self.read_at(&segment, hash, at) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Fault::Gone) => *moved = true,
                Err(Fault::Io(error)) => return Err(self.fault(&segment.path, error)),
                Err(Fault::Damaged(detail)) => damage = Some((segment, detail)),
            }
        }
        match damage {
            // The copy that went away may be a good one: look again first.
            _ if *moved => Ok(None),
            None => Ok(None),
            Some((segment, detail)) => {
                let message = format!("blob {} in {}.seg: {detail}", hex(hash), segment.stem);
                Err(EngineError::new(Code::BlobCorrupt, message))
            }
        }
    }

    fn read_at(&self, segment: &Segment, hash: &Hash, at: Location) -> std::result::Result<Vec<u8>, Fault> {
        if let Some(chunks) = self.list_in(segment, hash, at)? {
            return self.named(hash, self.join(&chunks, at.raw)?);
        }
        let (header, payload) = segment.read(&self.files, hash, at)?;
        let unpacked = self.codec.unpack(header.codec, payload, header.raw);
        let bytes = unpacked.map_err(|error| Fault::Damaged(format!("it can't be unpacked: {error}")))?;
        self.named(hash, bytes)
    }

    /// Bytes that are what their name says.
    fn named(&self, hash: &Hash, bytes: Vec<u8>) -> std::result::Result<Vec<u8>, Fault> {
        if self.hash(&bytes) == *hash {
            Ok(bytes)
        } else {
            Err(Fault::Damaged("its bytes do not hash to its name".to_string()))
        }
    }

    pub fn stats(&self) -> Stats {
        let segments = self.snapshot();
        let mut hashes: Vec<Hash> = segments
            .iter()
            .flat_map(|s| s.records())
            .map(|(hash, _)| hash)
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        Stats {
            segments: segments.len() as u64,
            blobs: hashes.len() as u64,
            bytes: segments.iter().map(|s| s.extent().1).sum(),
        }
    }

    /// What each use of the store begins with.
    fn open_check(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::closed("the blob store"));
        }
        self.read_once()
    }
}

fn collision(hash: &Hash) -> EngineError {
    let message = format!(
        "two contents have the name {}; the second was not stored",
        hex(hash)
    );
    EngineError::new(Code::Collision, message)
}

/// Lower-case hex of a hash or id.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
