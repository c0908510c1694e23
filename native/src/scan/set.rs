//! A change set: what a look found against the index, path by path.
//!
//! A pending path is a change where its version differs; else it only refreshes what the index knows (a stat key, an
//! ignored name). Suspects are no changes until `ingest` has read them, or left them (`uncovered: out-of-time`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::clock::Clock;
use super::renewal::{Gathered, renewal};
use super::rules::View;
use crate::error::Result;
use crate::ignore::GitKey;
use crate::ignore::names::parent_of;
use crate::index::{Entry, Index, Step, flag, kind};
use crate::rules::Frozen;
use crate::watch::Armed;
use crate::wire::{Change, FileKind, Problem, Reason, RelPath, Version, row_flag};

/// Work done, for tests and results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub entries: u64,
    pub stat_calls: u64,
    pub dirs_read: u64,
    pub rules_evaluated: u64,
}

impl Counters {
    pub(super) fn add(&mut self, other: &Counters) {
        self.entries += other.entries;
        self.stat_calls += other.stat_calls;
        self.dirs_read += other.dirs_read;
        self.rules_evaluated += other.rules_evaluated;
    }
}

/// What a scan did for the watch of its tree.
#[derive(Debug, Default)]
pub struct Watched {
    pub armed: Vec<Armed>,
    /// Files with several names that were looked at.
    pub linked: Vec<RelPath>,
    /// Why a folder could get no watch.
    pub failed: Option<rustix::io::Errno>,
    /// The whole tree was looked at, also where only a part was to be.
    pub walked: bool,
}

impl Watched {
    pub(super) fn add(&mut self, other: &mut Watched) {
        self.armed.append(&mut other.armed);
        self.linked.append(&mut other.linked);
        self.failed = self.failed.or(other.failed);
        self.walked |= other.walked;
    }
}

/// What is to become of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// None: it is gone.
    pub entry: Option<Entry>,
    /// Target of a symlink.
    pub extra: Vec<u8>,
    pub before: Version,
    /// Row flags.
    pub flags: u8,
    /// Its bytes are to be read.
    pub suspect: bool,
}

impl Pending {
    pub fn gone(before: Version, flags: u8) -> Self {
        Pending {
            entry: None,
            extra: Vec::new(),
            before,
            flags,
            suspect: false,
        }
    }

    pub fn now(entry: Entry, before: Version) -> Self {
        Pending {
            entry: Some(entry),
            extra: Vec::new(),
            before,
            flags: 0,
            suspect: false,
        }
    }

    pub fn after(&self) -> Version {
        self.entry
            .map_or(Version::Absent, |entry| entry.version(&self.extra))
    }
}

/// The result of a scan, until it is committed or discarded.
pub struct ChangeSet {
    pub pending: BTreeMap<RelPath, Pending>,
    pub clock: Clock,
    pub view: View,
    pub counters: Counters,
    pub problems: Vec<Problem>,
    /// The scan looked at the whole tree.
    pub whole: bool,
    /// New frozen rules, where a boundary's scan found other ones.
    pub rules: Option<Arc<Frozen>>,
    /// What git's indexes were, where the scan was a boundary's.
    pub git_keys: Option<BTreeMap<RelPath, GitKey>>,
    pub watched: Watched,
}

impl ChangeSet {
    pub(super) fn new(clock: Clock, view: View) -> Self {
        ChangeSet {
            pending: BTreeMap::new(),
            clock,
            view,
            counters: Counters::default(),
            problems: Vec::new(),
            whole: true,
            rules: None,
            git_keys: None,
            watched: Watched::default(),
        }
    }

    pub(super) fn renew(&mut self, index: &Index, gathered: Gathered) -> Result<()> {
        let Some(renewed) = renewal(&self.view, index, &self.pending, gathered)? else {
            return Ok(());
        };
        self.problems.extend(renewed.problems);
        self.git_keys = Some(renewed.keys);
        self.rules = renewed.rules;
        Ok(())
    }

    /// Takes in what a second look at `paths` found; what it found nothing of is as the index says.
    pub(super) fn absorb(&mut self, index: &Index, paths: &[RelPath], found: Vec<(RelPath, Pending)>) {
        let mut found: BTreeMap<RelPath, Pending> = found.into_iter().collect();
        // A look at a path whose folder is gone says so of the folder.
        let looked: BTreeSet<RelPath> = paths.iter().chain(found.keys()).cloned().collect();
        for path in &looked {
            if let (Some(new), Some(old)) = (found.get_mut(path), self.pending.get(path))
                && old.flags & row_flag::COVERAGE != 0
                && new.before == index.version_at(path)
                && (new.before == Version::Absent
                    || new.before == old.before
                    || index
                        .find(path)
                        .is_some_and(|node| index.entry(node).is_borrowed()))
            {
                // It entered coverage in this set; a second look doesn't make that somebody's change.
                new.before = old.before.clone();
                new.flags |= row_flag::COVERAGE;
            }
            let is_folder = match found.get(path) {
                Some(new) => new.entry.is_some_and(|entry| entry.stat.kind == FileKind::Dir),
                None => index.find(path).is_some(),
            };
            if !is_folder {
                let below: Vec<RelPath> = self
                    .pending
                    .range(path.clone()..)
                    .map(|(p, _)| p)
                    .take_while(|p| p.starts_with(path))
                    .cloned()
                    .collect();
                for inner in below
                    .iter()
                    .filter(|inner| crate::ignore::names::is_within(inner, path))
                {
                    self.pending.remove(inner);
                }
            }
            self.pending.remove(path);
        }
        self.pending.extend(found);
    }

    pub fn suspects(&self) -> impl Iterator<Item = &RelPath> {
        self.pending
            .iter()
            .filter(|(_, pending)| pending.suspect)
            .map(|(path, _)| path)
    }

    /// Paths that `ingest` has something to read for.
    pub fn to_read(&self, index: &Index) -> u64 {
        let suspects = self.suspects().count() as u64;
        suspects
            + self
                .owed(index)
                .iter()
                .filter(|path| !self.pending[*path].suspect)
                .count() as u64
    }

    /// Paths of which the old bytes are borrowed, and that are something else now: a row is to name a blob of ours.
    pub fn owed(&self, index: &Index) -> Vec<RelPath> {
        if index.known() == 0 {
            return Vec::new();
        }
        let is_owed = |(path, pending): &(&RelPath, &Pending)| {
            let Version::File { content, .. } = &pending.before else {
                return false;
            };
            let borrowed = |entry: &Entry| entry.is_borrowed() && entry.hash == *content;
            index.find(path).is_some_and(|node| borrowed(index.entry(node)))
                && pending.before != pending.after()
        };
        let owed = self.pending.iter().filter(is_owed);
        owed.map(|(path, _)| path.clone()).collect()
    }

    /// Covered files and symlinks once the set is taken in; suspects count as files.
    pub fn files(&self, index: &Index) -> u64 {
        let is_new = index.known() == 0;
        let was = |path: &RelPath| {
            let node = if is_new { None } else { index.find(path) };
            node.is_some_and(|node| index.entry(node).is_covered_file())
        };
        let mut files = index.covered_files();
        for (path, pending) in &self.pending {
            let is = pending.suspect || pending.entry.is_some_and(|entry| entry.is_covered_file());
            files = files + u64::from(is) - u64::from(was(path));
        }
        files
    }

    /// Changes of versions, sorted by path. The root has no row.
    pub fn changes(&self) -> Vec<Change> {
        self.pending
            .iter()
            .filter(|(path, pending)| !path.is_empty() && !pending.suspect)
            .filter_map(|(path, pending)| {
                let after = pending.after();
                (after != pending.before).then(|| Change {
                    path: path.clone(),
                    before: pending.before.clone(),
                    after,
                    flags: pending.flags,
                })
            })
            .collect()
    }

    /// What moves the index forward. Of suspects that nobody read nothing is said: a folder that holds a new one
    /// is read again.
    pub fn into_steps(self) -> Vec<Step> {
        let folders: BTreeSet<RelPath> = self.suspects().map(|path| parent_of(path).to_vec()).collect();
        let step = |(path, pending): (RelPath, Pending)| match pending.entry {
            None => Step::Remove { path },
            Some(mut entry) => {
                if folders.contains(&path) {
                    entry.flags |= flag::UNTRUSTED;
                }
                Step::Put {
                    path,
                    entry,
                    extra: pending.extra,
                }
            }
        };
        let read = self.pending.into_iter().filter(|(_, pending)| !pending.suspect);
        read.map(step).collect()
    }

    /// What the set says of a path stands.
    fn is_settled(&self, path: &[u8]) -> bool {
        self.pending.get(path).is_some_and(|pending| !pending.suspect)
    }

    /// All versions of the tree with the set taken in, sorted by path bytes.
    pub fn versions(&self, index: &Index) -> Vec<(Cow<'_, [u8]>, Version)> {
        let mut out: Vec<(Cow<'_, [u8]>, Version)> =
            Vec::with_capacity(index.known() as usize + self.pending.len());
        index.each_below(index.root(), |path, node| {
            if index.entry(node).is_known() && !self.is_settled(path) {
                out.push((Cow::Owned(path.to_vec()), index.version(node)));
            }
        });
        for (path, pending) in &self.pending {
            let after = pending.after();
            if after != Version::Absent && !path.is_empty() && !pending.suspect {
                out.push((Cow::Borrowed(path), after));
            }
        }
        out.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        out
    }

    /// Known and not covered, with the set taken in, sorted; a reason, or none for special files. What is below a
    /// folder that left coverage is not listed beside it.
    pub fn uncovered(&self, index: &Index) -> Vec<(RelPath, Option<Reason>)> {
        let mut found: Vec<(RelPath, Entry)> = Vec::new();
        let mut see = |path: &[u8], entry: &Entry| {
            if matches!(entry.kind, kind::UNCOVERED | kind::SPECIAL) {
                found.push((path.to_vec(), *entry));
            }
        };
        index.each_below(index.root(), |path, node| {
            let entry = index.entry(node);
            // Asked in this order: of most names nothing is to be looked up.
            if matches!(entry.kind, kind::UNCOVERED | kind::SPECIAL) && !self.is_settled(path) {
                see(path, entry);
            }
        });
        for (path, pending) in &self.pending {
            if let Some(entry) = pending
                .entry
                .as_ref()
                .filter(|_| !path.is_empty() && !pending.suspect)
            {
                see(path, entry);
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let is_hidden_folder = |entry: &Entry| entry.is(Reason::Ignored) && entry.stat.kind == FileKind::Dir;
        let hidden: Vec<RelPath> = found
            .iter()
            .filter(|(_, entry)| is_hidden_folder(entry))
            .map(|(path, _)| path.clone())
            .collect();
        let mut out: Vec<(RelPath, Option<Reason>)> = found
            .into_iter()
            .map(|(path, entry)| (path, entry.reason()))
            .collect();
        if !hidden.is_empty() {
            let below = |path: &RelPath| {
                let mut rest = parent_of(path);
                while !rest.is_empty() {
                    if hidden.binary_search_by(|h| h.as_slice().cmp(rest)).is_ok() {
                        return true;
                    }
                    rest = parent_of(rest);
                }
                false
            };
            out.retain(|(path, _)| !below(path));
        }
        out
    }
}
