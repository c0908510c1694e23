//! Borrowed baseline (DESIGN §4.3): at a first capture, files that git's index proves clean are not read; the manifest
//! names the object of a pack, and the pack is pinned by a hard link.
//!
//! A borrowed file has a name like any blob, made of the object's id, by which the store reads it (`loans`). It is not
//! the name that its bytes would have: so an index entry says that its name is borrowed, a file is compared with it by
//! the object's id, and a row gets the real one (`ingest` takes the bytes into the store first). `proof` says which
//! files are clean, `attributes` where git may have given a file other bytes than the object has, `loan` is one loan
//! on disk. Nothing is ever written to a `.git`; a hard link changes the link count and ctime of a pack's inode.
//!
//! Not covered: loose objects, packs of alternates, sparse and split indexes (nothing is borrowed there), and what git
//! itself can't see: an edit in the tick of the clock in which git looked, attributes and filters that are gone.

mod attributes;
mod give_back;
pub mod loan;
mod loans;
mod proof;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use gix_hash::{Kind, ObjectId};
use twox_hash::XxHash3_128;

use crate::error::Result;
use crate::index::Entry;
use crate::pack::{Pack, Window};
use crate::scan::Against;
use crate::scan::set::ChangeSet;
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::wire::Hash;
pub use give_back::give_back;
use loan::Lent;
pub use loans::Loans;

/// Sets borrowed names apart from those of blobs.
const APART: u64 = 0x7462_6b2d_6c6f_616e;
/// Where objects lie no further apart than this on average, in bytes, a pack is read in pieces of `WINDOW` bytes: that copies
/// more and asks the kernel less. Guessed.
const DENSE: u64 = 4 << 10;
const WINDOW: usize = 64 << 10;
/// Below this many files a loan costs more than it saves. Guessed.
const FEW: usize = 16;

/// The repository to borrow from. Made by `src/git/borrow.ts`, which looked at its config.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub top: PathBuf,
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
    /// Attribute files outside the tree; any may be missing.
    pub attributes: Vec<PathBuf>,
}

/// The name by which a store of this seed knows an object.
pub fn name_of(seed: u64, id: &ObjectId) -> Hash {
    XxHash3_128::oneshot_with_seed(seed ^ APART, id.as_slice()).to_be_bytes()
}

/// A file that git proves clean.
struct Clean {
    /// Its number among the set's pending paths.
    number: usize,
    size: u64,
    id: ObjectId,
}

/// Borrows what can be borrowed of a first capture's suspects; answers how many. Whatever is in the way means that less
/// is borrowed, or nothing: the rest is read.
pub fn borrow(
    set: &mut ChangeSet,
    against: Against<'_>,
    (store, sources): (&SegmentStore, &Sources),
    work: &Work,
) -> Result<u64> {
    if against.index.known() > 0 {
        return Ok(0);
    }
    let Some((kind, clean)) = proof::clean_files(set, against.root, sources) else {
        return Ok(0);
    };
    work.cancel.check()?;
    let found = find(clean, sources, kind, against.limits.threads);
    if found.files.len() < FEW {
        return Ok(0);
    }
    let mut entries: Vec<Lent> = found
        .files
        .iter()
        .map(|(clean, at)| lent(store, clean, *at))
        .collect();
    let mut names: Vec<Option<Hash>> = vec![None; set.pending.len()];
    for ((clean, _), entry) in found.files.iter().zip(&entries) {
        names[clean.number] = Some(entry.name);
    }
    // As one number: byte by byte a comparison costs several times as much.
    entries.sort_unstable_by_key(|entry| u128::from_be_bytes(entry.name));
    entries.dedup_by(|a, b| a.name == b.name);
    if store.lend(kind, &found.packs, &mut entries).is_err() {
        return Ok(0);
    }
    for (pending, name) in set.pending.values_mut().zip(names) {
        if let (Some(name), Some(sighted)) = (name, pending.entry) {
            pending.suspect = false;
            pending.entry = Some(Entry::borrowed(sighted.stat, name).with(sighted.flags));
        }
    }
    Ok(found.files.len() as u64)
}

fn lent(store: &SegmentStore, clean: &Clean, (pack, offset): (u32, u64)) -> Lent {
    Lent {
        name: name_of(store.seed(), &clean.id),
        real: None,
        pack,
        offset,
        size: clean.size,
        id: clean.id,
    }
}

/// Objects of the files' sizes, and the packs that they are in.
#[derive(Default)]
struct Found {
    /// With their inodes.
    packs: Vec<(PathBuf, u64)>,
    files: Vec<(Clean, (u32, u64))>,
}

fn find(mut clean: Vec<Clean>, sources: &Sources, kind: Kind, threads: usize) -> Found {
    clean.sort_unstable_by(|a, b| {
        beginning(&a.id)
            .cmp(&beginning(&b.id))
            .then_with(|| a.id.cmp(&b.id))
    });
    let mut found = Found::default();
    for stem in packs(sources) {
        if clean.is_empty() {
            break;
        }
        // A pack that can't be read lends nothing.
        let Ok(pack) = Pack::open(&stem, kind) else {
            continue;
        };
        let ids: Vec<ObjectId> = clean.iter().map(|file| file.id).collect();
        let Ok(offsets) = pack.idx().find_all(&ids) else {
            continue;
        };
        let sizes = sizes(&pack, &offsets, threads);
        let number = found.packs.len() as u32;
        let before = found.files.len();
        let mut rest = Vec::new();
        for ((file, offset), size) in clean.into_iter().zip(&offsets).zip(sizes) {
            match offset {
                Some(offset) if size == Some(file.size) => found.files.push((file, (number, *offset))),
                // Another copy has the same size.
                Some(_) => {}
                None => rest.push(file),
            }
        }
        clean = rest;
        if found.files.len() > before {
            found.packs.push((stem, pack.ino()));
        }
    }
    found
}

/// Ids nearly always differ in their first bytes, which compare as a number.
fn beginning(id: &ObjectId) -> u64 {
    id.as_slice()
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Paths of a repository's own packs that have an index, without extension; sorted.
fn packs(sources: &Sources) -> Vec<PathBuf> {
    let Ok(listed) = std::fs::read_dir(sources.common_dir.join("objects/pack")) else {
        return Vec::new();
    };
    let paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let mut stems: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "idx"))
        .map(|path| path.with_extension(""))
        .collect();
    stems.sort();
    stems
}

fn sizes(pack: &Pack, offsets: &[Option<u64>], threads: usize) -> Vec<Option<u64>> {
    let mut order: Vec<(u64, usize)> = offsets
        .iter()
        .enumerate()
        .filter_map(|(at, o)| Some(((*o)?, at)))
        .collect();
    order.sort_unstable();
    let span = order.last().map_or(0, |last| last.0 - order[0].0);
    let is_dense = span / (order.len().max(1) as u64) <= DENSE;
    let of = |part: &[(u64, usize)]| -> Vec<(usize, Option<u64>)> {
        let mut window = Window::new(if is_dense { WINDOW } else { 0 });
        part.iter()
            .map(|(offset, at)| (*at, pack.size(*offset, &mut window).ok()))
            .collect()
    };
    let mut out = vec![None; offsets.len()];
    std::thread::scope(|scope| {
        let mut parts = order.chunks(order.len().div_ceil(threads.max(1)).max(1));
        let own = parts.next();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || of(part))).collect();
        let mut take =
            |found: Vec<(usize, Option<u64>)>| found.into_iter().for_each(|(at, size)| out[at] = size);
        take(own.map(of).unwrap_or_default());
        for other in others {
            take(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
    });
    out
}
