//! Reads and checks every record of every segment, and what is borrowed.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::SegmentStore;
use super::file::{Fault, Segment};
use super::format::{Location, RECORD_HEADER, RecordHeader};
use crate::error::Result;
use crate::task::Work;
use crate::wire::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyProblem {
    /// None where the segment as a whole is meant.
    pub hash: Option<Hash>,
    /// File name of the segment.
    pub segment: String,
    pub detail: String,
}

#[derive(Debug, Default)]
pub struct Verified {
    /// Records that were read.
    pub checked: u64,
    pub problems: Vec<VerifyProblem>,
}

impl SegmentStore {
    pub fn verify(&self, work: &Work) -> Result<Verified> {
        self.open_check()?;
        self.refresh()?;
        let segments = self.snapshot();
        let mut out = Verified::default();
        self.foreign_files(&segments, &mut out)?;
        let records: Vec<_> = segments
            .iter()
            .map(|segment| (segment, segment.records()))
            .collect();
        let total = records.iter().map(|(_, list)| list.len() as u64).sum();
        for (segment, mut list) in records {
            list.sort_unstable_by_key(|(_, at)| at.offset);
            for (hash, at) in list {
                work.cancel.check()?;
                let detail = match self.check(segment, &hash, at) {
                    Ok(()) => None,
                    Err(Fault::Gone) => break,
                    Err(Fault::Damaged(detail)) => Some(detail),
                    Err(Fault::Io(error)) => Some(error.to_string()),
                };
                out.checked += 1;
                if let Some(detail) = detail {
                    let segment = format!("{}.seg", segment.stem);
                    out.problems.push(VerifyProblem {
                        hash: Some(hash),
                        segment,
                        detail,
                    });
                }
                work.report("verify", out.checked, Some(total));
            }
            if let Some(bytes) = self.hidden_behind_damage(segment) {
                let detail = format!("a damaged header hides the records in its last {bytes} bytes");
                out.problems.push(VerifyProblem {
                    hash: None,
                    segment: format!("{}.seg", segment.stem),
                    detail,
                });
            }
        }
        self.loans().verify(work, |problem| {
            out.checked += 1;
            out.problems.extend(problem);
        })?;
        Ok(out)
    }

    /// A record, read and checked; a large content a chunk at a time. A list whose chunks are gone is one that nobody
    /// names any more, or `has` says that it is missing.
    fn check(&self, segment: &Segment, hash: &Hash, at: Location) -> std::result::Result<(), Fault> {
        let Some(chunks) = self.list_in(segment, hash, at)? else {
            return self.read_at(segment, hash, at).map(drop);
        };
        if !chunks.iter().all(|(chunk, _)| self.has(chunk)) {
            return Ok(());
        }
        let mut hasher = self.hasher();
        for chunk in &chunks {
            hasher.update(&self.join(std::slice::from_ref(chunk), chunk.1)?);
        }
        if hasher.finish() == *hash {
            Ok(())
        } else {
            Err(Fault::Damaged("its chunks do not hash to its name".to_string()))
        }
    }

    /// Files that are named like segments and are none of this store.
    fn foreign_files(&self, known: &[Arc<Segment>], out: &mut Verified) -> Result<()> {
        let listed = self.list().map_err(|error| self.fault(&self.dir, error))?;
        for (stem, path) in listed
            .into_iter()
            .filter(|(stem, _)| !known.iter().any(|s| s.stem == *stem))
        {
            // A writer that died before its first record leaves less than a header.
            let torn = std::fs::metadata(&path).map_or(true, |m| m.len() < super::format::FILE_HEADER);
            // It may only have been renamed since, as it was closed or taken over.
            if !torn && matches!(Segment::load(path, stem.clone(), self.seed), Ok(None)) {
                let detail = "its header is damaged, or of another store".to_string();
                out.problems.push(VerifyProblem {
                    hash: None,
                    segment: format!("{stem}.seg"),
                    detail,
                });
            }
        }
        Ok(())
    }

    /// Bytes after the last whole record, where they hold another record: no torn tail looks like that.
    pub(super) fn hidden_behind_damage(&self, segment: &Segment) -> Option<u64> {
        let (end, size) = segment.extent();
        let length = usize::try_from(size.checked_sub(end)?).ok()?;
        if length < RECORD_HEADER {
            return None;
        }
        let file = self.files.get(&segment.path).ok()?;
        let mut tail = vec![0; length];
        file.read_exact_at(&mut tail, end).ok()?;
        let headers = tail
            .windows(RECORD_HEADER)
            .skip(1)
            .filter_map(|w| w.first_chunk());
        let hidden = headers
            .filter(|head| RecordHeader::has_magic(head))
            .any(|h| RecordHeader::decode(h).is_some());
        hidden.then_some(length as u64)
    }
}
