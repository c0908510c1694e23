//! What a borrowed file was before it changed: its bytes go from the loan into the store, for rows name blobs of ours only.

use crate::error::{Code, Result};
use crate::index::{Entry, Index};
use crate::ingest::{Ingested, Request};
use crate::scan::set::ChangeSet;
use crate::segment::{Batch, SegmentStore};
use crate::wire::{Problem, ProblemKind, Reason, Version};

/// Takes the old bytes of what changed out of the loan: rows name blobs of ours only. What can't be read any more was
/// lost with git's pack; that is told, and costs no other path.
pub fn give_back(
    set: &mut ChangeSet,
    index: &Index,
    (store, request): (&SegmentStore, &Request),
    result: &mut Ingested,
) -> Result<()> {
    let mut batch = Batch::new(store);
    let mut queued = Vec::new();
    for path in set.owed(index) {
        let Some((node, pending)) = index.find(&path).zip(set.pending.get_mut(&path)) else {
            continue;
        };
        let Version::File { mode, size, content } = pending.before else {
            continue;
        };
        match store.read(&content) {
            Ok(bytes) => {
                let real = match request.hash_only {
                    true => store.hash(&bytes),
                    false => {
                        queued.push((batch.put(&bytes)?, size));
                        store.hash(&bytes)
                    }
                };
                pending.before = Version::File {
                    mode,
                    size,
                    content: real,
                };
            }
            Err(error) if matches!(error.code, Code::BlobCorrupt | Code::BlobMissing) => {
                pending.before = Entry::uncovered(Reason::Unreadable, index.entry(node).stat).version(&[]);
                result.problems.push(Problem {
                    path,
                    kind: ProblemKind::UnreadableFile,
                    detail: format!("what it was before is lost: {}", error.message),
                });
            }
            Err(error) => return Err(error.with_path(&path)),
        }
    }
    batch.flush()?;
    for (blob, size) in queued {
        if batch.stored(blob).is_some() {
            result.stored_files += 1;
            result.stored_bytes += size;
        }
    }
    Ok(())
}
