//! Takes over a closed segment instead of making one, so that many short processes don't leave a segment each.
//!
//! A closed segment is nobody's (`0-0-…`). Renaming it to a name of our own is what takes it: of several processes that
//! try, one succeeds, and the others find it gone. Its index file goes, for it covers less than the segment will soon
//! hold; closing writes it anew. Readers that know the old name find it gone, list the folder again, and read on, as
//! they do when a segment is closed. Whoever dies on the way leaves a segment of a dead writer: its whole records count.
//!
//! Only whole segments are taken over, and only small ones, since each close writes the index of all that it holds. Not
//! covered: segments whose writer died (a writer of another pid namespace looks dead, and may live).

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::SegmentStore;
use super::append::{Own, own_stem};
use super::file::Segment;
use super::owner::Owner;
use crate::sys::file::{self, OutFile};

/// Larger ones are left closed. Guessed: 1 GiB of changes is 64 files to open, and an index is some 200 KB to write.
const LARGEST_BYTES: u64 = 16 << 20;
const MOST_RECORDS: usize = 8192;

impl SegmentStore {
    /// A closed segment that is ours now; None where there is none to be had.
    pub(super) fn adopt(&self) -> Option<Own> {
        let mut candidates: Vec<_> = self.snapshot().into_iter().filter(is_adoptable).collect();
        // The fullest first: the others stay whole, and each is filled once.
        candidates.sort_by_key(|segment| std::cmp::Reverse(segment.extent().1));
        candidates.iter().find_map(|segment| self.take_over(segment).ok())
    }

    fn take_over(&self, closed: &Arc<Segment>) -> io::Result<Own> {
        let stem = own_stem();
        let path = self.dir.join(format!("{stem}.seg"));
        file::rename_new(&closed.path, &path)?;
        self.files.forget(&closed.path);
        let file = OutFile::open(&path)
            .and_then(|file| as_long(file, closed.extent().1))
            .inspect_err(|_| give_back(&path, &closed.path))?;
        // Missing, or left behind: either way it is only a cache.
        let _ = file::remove(&closed.path.with_extension("idx"));
        let segment = Arc::new(closed.renamed(path, stem));
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.retain(|known| !Arc::ptr_eq(known, closed));
        segments.push(segment.clone());
        drop(segments);
        let length = segment.extent().1;
        Ok(Own {
            segment,
            file,
            length,
        })
    }
}

fn is_adoptable(segment: &Arc<Segment>) -> bool {
    let (end, size) = segment.extent();
    segment.owner.is_some_and(|owner: Owner| owner.is_nobody())
        && !segment.doomed.load(Ordering::Acquire)
        && end == size
        && size < LARGEST_BYTES
        && segment.count() < MOST_RECORDS
}

/// What we know of the segment must be all of it: what is appended goes behind its last record.
fn as_long(file: OutFile, expected: u64) -> io::Result<OutFile> {
    if file.stat()?.st_size as u64 == expected {
        Ok(file)
    } else {
        Err(io::Error::other("the segment is not as long as it was"))
    }
}

/// Where that fails, it is a segment of a writer that will be gone soon.
fn give_back(path: &Path, name: &Path) {
    let _ = file::rename_new(path, name);
}
