//! All loans of a store: reading through them, and their care.
//!
//! Tables are read when a name is asked for that no segment has, and read again where they moved. Gc, under the
//! workspace's lock, takes what is needed of a pack that has no other name any more into the store, and lets go of
//! loans that nothing names.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gix_hash::Kind;

use super::loan::{Lent, Loan};
use crate::error::{Code, EngineError, IoContext, Result};
use crate::pack::Pack;
use crate::segment::owner::Owner;
use crate::segment::{SegmentStore, VerifyProblem, random_hex};
use crate::task::Work;
use crate::wire::Hash;

pub struct Loans {
    dir: PathBuf,
    known: Mutex<Vec<Arc<Loan>>>,
    /// Made and not synced yet.
    unsynced: Mutex<Vec<PathBuf>>,
}

impl Loans {
    pub fn new(dir: PathBuf) -> Self {
        Loans {
            dir,
            known: Mutex::default(),
            unsynced: Mutex::default(),
        }
    }

    /// Reads what moved. A folder without a table is one that is being made, or that a dead process left.
    fn refresh(&self) -> Vec<Arc<Loan>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Vec::new();
        for dir in folders(&self.dir) {
            let Some(key) = Loan::key_of(&dir) else { continue };
            match known.iter().find(|loan| loan.dir == dir && loan.key == key) {
                Some(loan) => now.push(loan.clone()),
                None => now.extend(Loan::load(&dir).ok().map(Arc::new)),
            }
        }
        known.clone_from(&now);
        now
    }

    fn known(&self) -> Vec<Arc<Loan>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every place of a borrowed name.
    fn places(&self, name: &Hash) -> Vec<(Arc<Loan>, Lent)> {
        let of = |loans: Vec<Arc<Loan>>| -> Vec<(Arc<Loan>, Lent)> {
            let find = |loan: Arc<Loan>| loan.find(name).map(|lent| (loan, lent));
            loans.into_iter().filter_map(find).collect()
        };
        let found = of(self.known());
        if found.is_empty() {
            of(self.refresh())
        } else {
            found
        }
    }

    pub fn find(&self, name: &Hash) -> Option<(Arc<Loan>, Lent)> {
        self.places(name).into_iter().next()
    }

    /// The blob that has a borrowed name's bytes, where they were taken into the store.
    pub fn real(&self, name: &Hash) -> Option<Hash> {
        self.places(name).into_iter().find_map(|(_, lent)| lent.real)
    }

    /// The bytes of a borrowed name; none where it is none.
    pub fn read(&self, store: &SegmentStore, name: &Hash) -> Result<Option<Vec<u8>>> {
        let mut fault = None;
        for again in [false, true] {
            if again {
                // Another process may have taken the bytes into the store, and let go of the pack.
                self.refresh();
            }
            for (loan, lent) in self.places(name) {
                if let Some(real) = &lent.real {
                    return store.read(real).map(Some);
                }
                match loan.read(&lent) {
                    Ok(bytes) => return Ok(Some(bytes.to_vec())),
                    Err(error) => fault = Some((lent.id, error)),
                }
            }
        }
        let Some((id, error)) = fault else { return Ok(None) };
        let text = format!("the borrowed git object {id} can't be read: {error}");
        Err(EngineError::new(Code::BlobCorrupt, text))
    }

    /// Pins packs of a repository, and names what is borrowed from them. `packs`: paths without extension, and inodes; entries name
    /// them by number. On a fault nothing is pinned; nothing is durable before `sync`.
    pub fn lend(&self, kind: Kind, packs: &[(PathBuf, u64)], entries: &mut [Lent]) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.dir)?;
        let me = Owner::this_process();
        let dir = self
            .dir
            .join(format!("{}-{}-{}", me.pid, me.started, random_hex()));
        builder.recursive(false).create(&dir)?;
        let made = (|| {
            let mut names = Vec::with_capacity(packs.len());
            for (stem, ino) in packs {
                let name = stem.file_name().unwrap_or_default();
                for extension in ["pack", "idx"] {
                    fs::hard_link(
                        stem.with_extension(extension),
                        dir.join(name).with_extension(extension),
                    )?;
                }
                // Not symlinks, nor another pack that came under the name meanwhile.
                let pinned = fs::symlink_metadata(dir.join(name).with_extension("pack"))?;
                let is_idx = fs::symlink_metadata(dir.join(name).with_extension("idx"))?.is_file();
                if pinned.ino() != *ino || !is_idx || Pack::open(&dir.join(name), kind).is_err() {
                    return Err(io::Error::other("the pack was replaced"));
                }
                let name = name
                    .to_str()
                    .ok_or_else(|| io::Error::other("a pack's name is no text"))?;
                names.push(name.to_string());
            }
            Loan::write(&dir, (kind, &names), entries)
        })();
        match &made {
            Ok(()) => self.unsynced().push(dir),
            Err(_) => {
                remove(&dir).ok();
            }
        }
        made
    }

    fn unsynced(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what was lent durable: packs, too, for git may not have synced them.
    pub fn sync(&self) -> io::Result<()> {
        let mut unsynced = self.unsynced();
        for dir in unsynced.iter() {
            for entry in fs::read_dir(dir)? {
                File::open(entry?.path())?.sync_data()?;
            }
            for folder in [Some(dir.as_path()), Some(self.dir.as_path()), self.dir.parent()]
                .into_iter()
                .flatten()
            {
                File::open(folder)?.sync_all()?;
            }
        }
        unsynced.clear();
        Ok(())
    }

    /// Adds the names of blobs that stand for borrowed ones in `live`.
    pub fn add_real(&self, live: &mut HashSet<Hash>) {
        for loan in self.refresh() {
            for lent in loan
                .all()
                .filter(|lent| live.contains(&lent.name))
                .collect::<Vec<_>>()
            {
                live.extend(lent.real);
            }
        }
    }

    /// Gc: see the module's header. Answers the bytes that this returned. Under the workspace's lock.
    pub fn collect(&self, store: &SegmentStore, live: &HashSet<Hash>, work: &Work) -> Result<u64> {
        let mut freed = 0;
        let loans = self.refresh();
        let folders = folders(&self.dir);
        for dir in &folders {
            let owner = dir.file_name().and_then(|name| Owner::of_name(name.to_str()?));
            let ours = owner.is_some_and(|owner| owner == Owner::this_process());
            let Some(loan) = loans.iter().find(|loan| loan.dir == *dir) else {
                // One that is damaged stays: what it names may be of use to somebody.
                if !dir.join("loan").exists() && owner.is_some_and(|owner| ours || !owner.lives()) {
                    freed += remove(dir).doing("let go of a pack")?;
                }
                continue;
            };
            if loan.all().any(|lent| live.contains(&lent.name)) {
                freed += settle(store, loan, live, work)?;
            } else if owner.is_some_and(|owner| ours || !owner.lives()) {
                freed += remove(dir).doing("let go of a pack")?;
            }
        }
        self.refresh();
        Ok(freed)
    }

    /// Reads every borrowed object that is not in the store yet.
    pub fn verify(&self, work: &Work, mut tell: impl FnMut(Option<VerifyProblem>)) -> Result<()> {
        let loans = self.refresh();
        for dir in folders(&self.dir) {
            let named = |detail: String, hash| VerifyProblem {
                hash,
                segment: format!(
                    "borrowed/{}",
                    dir.file_name().unwrap_or_default().to_string_lossy()
                ),
                detail,
            };
            let Some(loan) = loans.iter().find(|loan| loan.dir == dir) else {
                if dir.join("loan").exists() {
                    tell(Some(named(
                        "its table of borrowed names is damaged".to_string(),
                        None,
                    )));
                }
                continue;
            };
            let mut entries: Vec<Lent> = loan.all().filter(|lent| lent.real.is_none()).collect();
            entries.sort_unstable_by_key(|lent| (lent.pack, lent.offset));
            for lent in entries {
                work.cancel.check()?;
                let fault = loan.read(&lent).err();
                tell(fault.map(|error| {
                    named(
                        format!("the git object {} can't be read: {error}", lent.id),
                        Some(lent.name),
                    )
                }));
            }
        }
        Ok(())
    }
}

/// Takes what lives of packs that have no other name into the store, and lets go of these.
fn settle(store: &SegmentStore, loan: &Loan, live: &HashSet<Hash>, work: &Work) -> Result<u64> {
    let last: Vec<u32> = (0..loan.packs.len() as u32)
        .filter(|number| {
            loan.pack(*number)
                .and_then(|pack| pack.links())
                .is_ok_and(|links| links == 1)
        })
        .collect();
    if last.is_empty() {
        return Ok(0);
    }
    let mut entries: Vec<Lent> = loan
        .all()
        .filter(|lent| live.contains(&lent.name) || !last.contains(&lent.pack))
        .collect();
    entries.sort_unstable_by_key(|lent| (lent.pack, lent.offset));
    let mut kept = HashSet::new();
    for lent in &mut entries {
        work.cancel.check()?;
        if lent.real.is_some() || !last.contains(&lent.pack) {
            continue;
        }
        match loan.read(lent) {
            Ok(bytes) => lent.real = Some(store.put(&bytes)?.hash),
            // It may be of use to somebody as it is.
            Err(_) => {
                kept.insert(lent.pack);
            }
        }
    }
    store.sync()?;
    Loan::write(&loan.dir, (loan.kind, &loan.packs), &mut entries).doing("write what is borrowed")?;
    loan.sync().doing("sync what is borrowed")?;
    let mut freed = 0;
    for number in last.iter().filter(|number| !kept.contains(*number)) {
        for extension in ["pack", "idx"] {
            let path = loan.stem(*number).with_extension(extension);
            freed += fs::metadata(&path).map_or(0, |meta| meta.len());
            fs::remove_file(&path).doing("let go of a pack")?;
        }
    }
    Ok(freed)
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let Ok(listed) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut out: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    out.sort();
    out
}

/// Removes a loan; answers the bytes that nothing else names.
fn remove(dir: &Path) -> io::Result<u64> {
    let mut freed = 0;
    // The table goes first: without it the rest is nobody's.
    fs::remove_file(dir.join("loan")).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        freed += if meta.nlink() == 1 { meta.len() } else { 0 };
        fs::remove_file(&path)?;
    }
    fs::remove_dir(dir)?;
    Ok(freed)
}
