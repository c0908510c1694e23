//! One segment: where its blobs lie, and reading records from it.
//!
//! What an index file covers is found by binary search in it; what lies beyond is found by reading record headers and
//! kept in a map. Files are opened when needed and a few are kept open: a store may have more segments than the
//! process may have descriptors.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::append::Packed;
use super::format::{
    FILE_HEADER, Location, RECORD_HEADER, RECORD_OVERHEAD, RecordHeader, SortedIndex, is_file_header,
};
use super::owner::Owner;
use crate::sys::{self, file::OutFile};
use crate::wire::{Hash, check64};

/// Read-ahead while headers are looked for. Small files dominate, so that one read finds many headers.
const SCAN_BUFFER: usize = 256 << 10;
const OPEN_FILES: usize = 24;

/// Keeps the files that were read last open.
#[derive(Default)]
pub struct OpenFiles(Mutex<VecDeque<(PathBuf, Arc<File>)>>);

impl OpenFiles {
    pub fn get(&self, path: &Path) -> io::Result<Arc<File>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = files.iter().position(|(known, _)| known == path) {
            return Ok(files[at].1.clone());
        }
        let file = Arc::new(File::open(path)?);
        if files.len() >= OPEN_FILES {
            files.pop_front();
        }
        files.push_back((path.to_path_buf(), file.clone()));
        Ok(file)
    }

    pub fn forget(&self, path: &Path) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != path);
    }
}

/// Why a record could not be read.
#[derive(Debug)]
pub enum Fault {
    /// The segment's file is gone: it was collected.
    Gone,
    /// The bytes are not what was written.
    Damaged(String),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::Gone,
            io::ErrorKind::UnexpectedEof => Fault::Damaged("the segment ends inside the record".to_string()),
            _ => Fault::Io(error),
        }
    }
}

/// What lies beyond the index file.
#[derive(Default)]
struct Tail {
    found: HashMap<Hash, Location>,
    /// End of the last whole record.
    end: u64,
    /// Size of the file when it was last looked at.
    size: u64,
}

pub struct Segment {
    /// File name without its extension.
    pub stem: String,
    pub path: PathBuf,
    pub owner: Option<Owner>,
    sorted: SortedIndex,
    tail: RwLock<Tail>,
    /// Being collected: no new use may be made of its blobs.
    pub doomed: AtomicBool,
    /// Bytes that are known to be on disk.
    durable: AtomicU64,
    /// Bytes that the next sync must make durable.
    wanted: AtomicU64,
}

impl Segment {
    /// A segment that is new and empty.
    pub fn fresh(path: PathBuf, stem: String) -> Self {
        let tail = Tail {
            end: FILE_HEADER,
            size: FILE_HEADER,
            ..Tail::default()
        };
        Self::with(path, stem, SortedIndex::default(), tail)
    }

    /// Takes in what is on disk; None: no segment of this store (another seed, or shorter than a header).
    pub fn load(path: PathBuf, stem: String, seed: u64) -> io::Result<Option<Self>> {
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        let mut header = [0; FILE_HEADER as usize];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        if !is_file_header(&header, seed) {
            return Ok(None);
        }
        let sorted = match std::fs::read(path.with_extension("idx")) {
            Ok(bytes) => SortedIndex::decode(bytes, size).unwrap_or_default(),
            Err(_) => SortedIndex::default(),
        };
        let tail = Tail {
            end: sorted.covered.max(FILE_HEADER),
            size,
            ..Tail::default()
        };
        let segment = Self::with(path, stem, sorted, tail);
        segment.extend(&file)?;
        if segment.owner.is_some_and(|owner| owner.is_nobody()) {
            // Its writer synced it before it gave it up.
            segment.durable.store(size, Ordering::Relaxed);
        } else {
            segment.want_all();
        }
        Ok(Some(segment))
    }

    /// The same segment under another name. All that it holds is on disk.
    pub fn renamed(&self, path: PathBuf, stem: String) -> Self {
        let known = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        let tail = Tail {
            found: known.found.clone(),
            ..*known
        };
        let segment = Self::with(path, stem, self.sorted.clone(), tail);
        segment.durable.store(known.size, Ordering::Relaxed);
        segment
    }

    fn with(path: PathBuf, stem: String, sorted: SortedIndex, tail: Tail) -> Self {
        Segment {
            owner: Owner::of_name(&stem),
            stem,
            path,
            sorted,
            tail: RwLock::new(tail),
            doomed: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
        }
    }

    /// Looks for records that were appended since.
    pub fn refresh(&self) -> io::Result<()> {
        let size = std::fs::metadata(&self.path)?.len();
        let known = self.tail.read().unwrap_or_else(PoisonError::into_inner).size;
        if size == known {
            Ok(())
        } else {
            self.extend(&File::open(&self.path)?)
        }
    }

    fn extend(&self, file: &File) -> io::Result<()> {
        let size = file.metadata()?.len();
        let mut tail = self.tail.write().unwrap_or_else(PoisonError::into_inner);
        tail.size = size;
        if tail.end >= size {
            return Ok(());
        }
        let mut reader = BufReader::with_capacity(SCAN_BUFFER, file);
        reader.seek(SeekFrom::Start(tail.end))?;
        while let Some((hash, at)) = next_record(&mut reader, tail.end, size)? {
            tail.found.insert(hash, at);
            tail.end = at.offset + at.stored + RECORD_OVERHEAD;
        }
        Ok(())
    }

    pub fn find(&self, hash: &Hash) -> Option<Location> {
        let tail = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        tail.found.get(hash).copied().or_else(|| self.sorted.find(hash))
    }

    /// Takes in records that this store has just appended at `offset`. The next sync makes them durable.
    pub fn appended(&self, offset: u64, records: &[Packed]) {
        let mut tail = self.tail.write().unwrap_or_else(PoisonError::into_inner);
        for Packed { header, at } in records {
            let location = Location {
                offset: offset + *at as u64,
                raw: header.raw,
                stored: header.stored,
            };
            tail.found.insert(header.hash, location);
            tail.end = location.offset + header.stored + RECORD_OVERHEAD;
        }
        tail.size = tail.end;
        self.wanted.fetch_max(tail.end, Ordering::Relaxed);
    }

    /// Every blob that is known, in any order: of two records of one, the newer, which was stored as the older was damaged.
    pub fn records(&self) -> Vec<(Hash, Location)> {
        let tail = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        self.sorted
            .iter()
            .filter(|(hash, _)| !tail.found.contains_key(hash))
            .chain(tail.found.iter().map(|(hash, at)| (*hash, *at)))
            .collect()
    }

    pub fn count(&self) -> usize {
        let tail = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        self.sorted.len() + tail.found.len()
    }

    /// (End of the last whole record, size of the file).
    pub fn extent(&self) -> (u64, u64) {
        let tail = self.tail.read().unwrap_or_else(PoisonError::into_inner);
        (tail.end, tail.size)
    }

    /// True where an index file covers all that is whole.
    pub fn is_indexed(&self) -> bool {
        self.sorted.covered == self.extent().0
    }

    /// Writes the index file of the segment at `path`: its own, or the one that it has just been renamed to.
    pub fn write_index(&self, path: &Path) -> io::Result<()> {
        let temp = path.with_extension(format!("idx.{}", std::process::id()));
        let bytes = SortedIndex::encode(self.extent().0, self.records());
        let written = OutFile::create_new(&temp).and_then(|file| file.write_all(&bytes));
        let moved = written.and_then(|()| sys::file::rename(&temp, &path.with_extension("idx")));
        moved.inspect_err(|_| drop(sys::file::remove(&temp)))
    }

    /// Reads a record; its header, place and payload are checked, its name isn't yet.
    pub fn read(
        &self,
        files: &OpenFiles,
        hash: &Hash,
        at: Location,
    ) -> Result<(RecordHeader, Vec<u8>), Fault> {
        let file = files.get(&self.path)?;
        // Bounded: a location comes from a header or an index whose end was compared with the file's.
        let mut record = vec![0; at.stored as usize + RECORD_OVERHEAD as usize];
        file.read_exact_at(&mut record, at.offset)?;
        let mut payload = record.split_off(RECORD_HEADER);
        let head = record.first_chunk().and_then(RecordHeader::decode);
        let header = head.ok_or_else(|| Fault::Damaged("its header is damaged".to_string()))?;
        if header.hash != *hash || header.stored != at.stored || header.raw != at.raw {
            return Err(Fault::Damaged("another record lies in its place".to_string()));
        }
        let check = payload.split_off(at.stored as usize);
        if check64(&payload).to_le_bytes() != check[..] {
            return Err(Fault::Damaged("its payload is damaged".to_string()));
        }
        Ok((header, payload))
    }

    /// Another writer's records: rows of a process that ended without a sync may name them.
    fn want_all(&self) {
        self.wanted.fetch_max(self.extent().0, Ordering::Relaxed);
    }

    /// Asks for the record to be durable at the next sync.
    pub fn want(&self, at: Location) {
        self.wanted
            .fetch_max(at.end().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Makes what was asked for durable. True where there was anything to do.
    pub fn sync(&self, files: &OpenFiles) -> io::Result<bool> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted <= self.durable.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let file = files.get(&self.path)?;
        let size = file.metadata()?.len();
        sys::file::sync_data(&file)?;
        self.durable.fetch_max(size, Ordering::Relaxed);
        Ok(true)
    }
}

/// The record at `offset`, and the reader moved behind it; None where no whole record starts there.
fn next_record(
    reader: &mut BufReader<&File>,
    offset: u64,
    size: u64,
) -> io::Result<Option<(Hash, Location)>> {
    if size - offset < RECORD_OVERHEAD {
        return Ok(None);
    }
    let mut head = [0; RECORD_HEADER];
    reader.read_exact(&mut head)?;
    let Some(header) = RecordHeader::decode(&head) else {
        return Ok(None);
    };
    let at = Location {
        offset,
        raw: header.raw,
        stored: header.stored,
    };
    if at.end().is_none_or(|end| end > size) {
        return Ok(None);
    }
    reader.seek_relative((header.stored + 8) as i64)?;
    Ok(Some((header.hash, at)))
}
