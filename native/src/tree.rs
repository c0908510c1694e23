//! The handle of a tree: its root, its index and one change set at a time (the Tree contract of `backend.ts`).
//!
//! Scans compare, `ingest` reads, `commit` moves the index forward; nothing else does. Rows of other processes come in
//! by `catch_up`. What touches single paths (peek, apply) is a handle of its own.

mod watching;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Code, EngineError, Result};
use crate::ignore::GitKey;
use crate::index::file::RulesToWrite;
use crate::index::{BORROWED, Entry, Index, IndexFile, Step};
use crate::ingest::{self, Ingested};
use crate::rules::{Frozen, Snapshot};
use crate::scan::set::{ChangeSet, Counters};
use crate::scan::{self, Against, Limits, Root};
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::watch::{self, Watch};
use crate::wire::{
    Change, Hash, Id, Position, Problem, Reason, RelPath, Version, decode_versions, encode_versions,
};

use watching::Watching;

/// TreeOptions of `backend.ts`.
pub struct Options {
    pub root: PathBuf,
    pub index_file: PathBuf,
    pub store_id: Id,
    pub limits: Limits,
}

/// A tree under guard.
pub struct Tree {
    pub root: Root,
    pub limits: Limits,
    store: Arc<SegmentStore>,
    index: Index,
    file: IndexFile,
    frozen: Option<Arc<Frozen>>,
    /// The file has other rules, or none.
    rules_unsaved: bool,
    git_keys: BTreeMap<RelPath, GitKey>,
    /// Steps that the file lacks: rows of other processes.
    unsaved: Vec<Step>,
    set: Option<(u32, ChangeSet)>,
    sets: u32,
    watch: Watching,
}

/// ScanResult of `backend.ts`.
#[derive(Debug)]
pub struct Scanned {
    pub set: u32,
    pub files: u64,
    pub suspects: u64,
    pub counters: Counters,
    pub problems: Vec<Problem>,
}

impl Tree {
    pub fn open(options: Options, store: Arc<SegmentStore>) -> Result<Self> {
        Ok(Tree {
            root: Root::open(options.root)?,
            limits: options.limits,
            store,
            index: Index::new(),
            file: IndexFile::new(options.index_file, options.store_id),
            frozen: None,
            rules_unsaved: true,
            git_keys: BTreeMap::new(),
            unsaved: Vec::new(),
            set: None,
            sets: 0,
            watch: Watching::Off,
        })
    }

    /// Loads the index file; none where there is no use in it.
    pub fn load(&mut self) -> Option<Position> {
        self.forget();
        let loaded = self.file.load()?;
        let frozen = match loaded.rules.as_slice() {
            [] => None,
            bytes => Some(Arc::new(self.compile(bytes).ok()?)),
        };
        self.frozen = frozen;
        self.rules_unsaved = false;
        self.index = loaded.index;
        Some(loaded.at)
    }

    fn forget(&mut self) {
        self.index = Index::new();
        self.file.forget();
        self.git_keys.clear();
        self.unsaved.clear();
        self.set = None;
        self.watch.on().into_iter().for_each(Watch::lose);
    }

    /// Takes a manifest's versions as current, with no stat key.
    pub fn reset(&mut self, manifest: Option<&Hash>, at: Option<Position>) -> Result<()> {
        let versions = match manifest {
            Some(hash) => decode_versions(&self.store.read(hash)?)?,
            None => Vec::new(),
        };
        self.forget();
        if manifest.is_none() {
            self.frozen = None;
        }
        let steps: Vec<Step> = versions
            .iter()
            .map(|(path, version)| self.put_known(path, version))
            .collect();
        self.index.apply(steps);
        self.index.at = at;
        Ok(())
    }

    /// A version of a manifest, which may have a borrowed name.
    fn put_known(&self, path: &RelPath, version: &Version) -> Step {
        let mut step = put(path, version);
        if let Step::Put { entry, .. } = &mut step
            && matches!(version, Version::File { .. })
            && let Some((_, lent)) = self.store.loans().find(&entry.hash)
        {
            match self.store.loans().real(&entry.hash).or(lent.real) {
                Some(real) => entry.hash = real,
                None => entry.detail = BORROWED,
            }
        }
        step
    }

    /// Takes rows that others appended; their stat keys are unknown.
    pub fn catch_up(&mut self, rows: &[(RelPath, Version)], at: Position) {
        for (path, version) in rows {
            self.watch.on().into_iter().for_each(|watch| watch.touch(path));
            if self.index.version_at(path) == *version {
                continue;
            }
            let step = match version {
                Version::Absent => Step::Remove { path: path.clone() },
                version => put(path, version),
            };
            self.index.apply([step.clone()]);
            self.unsaved.push(step);
        }
        self.index.at = Some(at);
    }

    /// The frozen rules, encoded; a boundary's set already has the new ones.
    pub fn rules(&self) -> Option<Vec<u8>> {
        let of_set = self.set.as_ref().and_then(|(_, set)| set.rules.as_ref());
        of_set.or(self.frozen.as_ref()).map(|rules| rules.bytes.clone())
    }

    fn compile(&self, bytes: &[u8]) -> Result<Frozen> {
        Frozen::new(
            Snapshot::decode(bytes)?,
            self.root.path.as_os_str().as_encoded_bytes(),
        )
    }

    /// Takes rules that another process's boundary froze.
    pub fn set_rules(&mut self, bytes: &[u8]) -> Result<()> {
        if self.frozen.as_ref().is_some_and(|frozen| frozen.bytes == bytes) {
            return Ok(());
        }
        self.frozen = Some(Arc::new(self.compile(bytes)?));
        self.rules_unsaved = true;
        // Their verdicts were of other rules.
        self.index.forget_ignored();
        self.watch.on().into_iter().for_each(Watch::lose);
        Ok(())
    }

    pub fn included(&self, path: &[u8]) -> bool {
        let frozen = self
            .set
            .as_ref()
            .and_then(|(_, set)| set.rules.as_ref())
            .or(self.frozen.as_ref());
        frozen.is_some_and(|frozen| frozen.base.included(path, false))
    }

    /// Looks at the tree; drops an older set.
    pub fn scan(&mut self, mut request: scan::Request, work: &Work) -> Result<Scanned> {
        self.set = None;
        request.touched = self.watch.touched(&self.index, &request);
        let mut set = scan::scan(self.against(), request, work)?;
        self.watch.take(std::mem::take(&mut set.watched));
        self.sets += 1;
        let scanned = Scanned {
            set: self.sets,
            files: set.files(&self.index),
            suspects: set.to_read(&self.index),
            counters: set.counters,
            problems: set.problems.clone(),
        };
        self.set = Some((self.sets, set));
        Ok(scanned)
    }

    /// Has events tell where scans within a turn are to look, from the next scan on. Answers why that can't be, where it
    /// can't: each scan then looks everywhere.
    pub fn watch(&mut self) -> Option<String> {
        self.watch.start(self.root.fd.as_fd())
    }

    fn against(&self) -> Against<'_> {
        Against {
            root: &self.root,
            limits: &self.limits,
            index: &self.index,
            frozen: self.frozen.as_ref(),
            git_keys: &self.git_keys,
            watch: self.watch.watch(),
        }
    }

    /// Reads and stores the suspects of a set.
    pub fn ingest(&mut self, set: u32, request: &ingest::Request, work: &Work) -> Result<Ingested> {
        self.with_set(set, |tree, set| {
            ingest::ingest(set, tree.against(), (&tree.store, request), work)
        })
    }

    /// Looks again at paths of a set, and reads them where needed.
    pub fn look(&mut self, set: u32, paths: &[RelPath], work: &Work) -> Result<()> {
        self.with_set(set, |tree, set| {
            scan::look_again(set, tree.against(), paths, work)?;
            ingest::ingest(
                set,
                tree.against(),
                (&tree.store, &ingest::Request::default()),
                work,
            )?;
            Ok(())
        })
    }

    fn with_set<T>(&mut self, id: u32, body: impl FnOnce(&Self, &mut ChangeSet) -> Result<T>) -> Result<T> {
        self.set_of(id)?;
        let Some((id, mut set)) = self.set.take() else {
            return Err(no_set(id));
        };
        let done = body(self, &mut set);
        self.set = Some((id, set));
        done
    }

    fn set_of(&self, id: u32) -> Result<&ChangeSet> {
        match &self.set {
            Some((newest, set)) if *newest == id => Ok(set),
            _ => Err(no_set(id)),
        }
    }

    pub fn changes(&self, set: u32) -> Result<Vec<Change>> {
        Ok(self.set_of(set)?.changes())
    }

    /// What went from one path of a set to another, as inodes prove it.
    pub fn moves(&self, set: u32) -> Result<Vec<scan::moves::Move>> {
        let set = self.set_of(set)?;
        Ok(scan::moves::moves(set, &self.index, self.root.fd.as_fd()))
    }

    pub fn uncovered(&self, set: u32) -> Result<Vec<(RelPath, Option<Reason>)>> {
        Ok(self.set_of(set)?.uncovered(&self.index))
    }

    /// Stores the manifest of the tree with the set taken in.
    pub fn manifest(&self, set: u32) -> Result<(Hash, u64)> {
        let versions = self.set_of(set)?.versions(&self.index);
        let encoded = encode_versions(versions.iter().map(|(path, version)| (path.as_ref(), version)));
        Ok((self.store.put(&encoded)?.hash, versions.len() as u64))
    }

    /// Moves the index forward by a set, and its file with it.
    pub fn commit(&mut self, set: u32, at: Position) -> Result<()> {
        self.set_of(set)?;
        let Some((_, mut set)) = self.set.take() else {
            return Err(no_set(set));
        };
        self.index.at = Some(at);
        self.index.scanned_at_ns = if set.whole {
            set.clock.now_ns
        } else {
            set.clock.now_ns.max(self.index.scanned_at_ns)
        };
        if let Some(rules) = set.rules.take() {
            self.frozen = Some(rules);
            self.rules_unsaved = true;
        }
        if let Some(keys) = set.git_keys.take() {
            self.git_keys = keys;
        }
        let unsettled = self
            .watch
            .on()
            .map(|_| watch::unsettled(&set.problems, set.suspects()));
        let steps = set.into_steps();
        self.index.apply(&steps);
        if let (Some(watch), Some(unsettled)) = (self.watch.on(), unsettled) {
            watch.committed(&self.index, &steps, unsettled);
        }
        // A file that is written anew takes the index as it is.
        if !self.rules_unsaved && self.file.takes_steps() {
            self.unsaved.extend(steps);
        }
        let bytes = self.frozen.as_ref().map_or(&[][..], |frozen| &frozen.bytes);
        let rules = if self.rules_unsaved {
            RulesToWrite::Changed(bytes)
        } else {
            RulesToWrite::Same(bytes)
        };
        // The file is a cache: one that lags is caught up from the timeline, and the next commit writes it anew.
        if self.file.forward(&self.index, &self.unsaved, rules).is_ok() {
            self.unsaved.clear();
            self.rules_unsaved = false;
        }
        Ok(())
    }

    pub fn discard(&mut self, set: u32) {
        if self.set_of(set).is_ok() {
            self.set = None;
        }
    }

    pub fn versions(&self, paths: &[RelPath]) -> Vec<Version> {
        paths.iter().map(|path| self.index.version_at(path)).collect()
    }

    /// Paths with a version below a folder, sorted.
    pub fn list(&self, folder: &[u8]) -> Vec<RelPath> {
        let Some(node) = self.index.find(folder) else {
            return Vec::new();
        };
        let below = self.index.below(node).into_iter();
        let mut paths: Vec<RelPath> = below
            .filter(|(_, node)| self.index.entry(*node).is_known())
            .map(|(path, _)| path)
            .collect();
        paths.sort_unstable();
        paths
    }
}

fn put(path: &RelPath, version: &Version) -> Step {
    let (entry, extra) = Entry::of_version(version);
    Step::Put {
        path: path.clone(),
        entry,
        extra,
    }
}

fn no_set(id: u32) -> EngineError {
    let text = format!("there is no change set {id}: a newer scan, a commit or a discard dropped it");
    EngineError::new(Code::InvalidArgument, text)
}

#[cfg(test)]
mod tests;
