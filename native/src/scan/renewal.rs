//! The next rules snapshot: what a boundary's scan read, and what git tracks although a rule hides it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::rules::View;
use super::set::Pending;
use crate::error::Result;
use crate::ignore::GitKey;
use crate::index::{Entry, Index, flag};
use crate::rules::{Frozen, Present, Snapshot};
use crate::wire::{FileKind, Problem, RelPath, encode_paths};

/// What a whole scan saw that the new snapshot needs.
pub(crate) struct Gathered {
    /// Folders that could not be entered: what the old snapshot has of them stays.
    pub closed: Vec<RelPath>,
    pub submodules: Vec<RelPath>,
}

/// The outcome of a boundary's reading of rules.
pub(crate) struct Renewal {
    /// None where they are the old ones.
    pub rules: Option<Arc<Frozen>>,
    pub keys: BTreeMap<RelPath, GitKey>,
    pub problems: Vec<Problem>,
}

/// Makes the snapshot of a boundary; none within a turn.
pub(crate) fn renewal(
    view: &View,
    index: &Index,
    pending: &BTreeMap<RelPath, Pending>,
    gathered: Gathered,
) -> Result<Option<Renewal>> {
    let View::Renewed { old, present } = view else {
        return Ok(None);
    };
    let mut collected = present.collected();
    if let Some(old) = old {
        keep_closed(&mut collected.entries, &old.snapshot, present, &gathered.closed);
    }
    let mut tracked = gathered.submodules;
    let is_tracked = |path: &[u8], entry: &Entry| match entry.stat.kind {
        _ if !entry.has(flag::DESPITE) => false,
        FileKind::Dir => old.as_ref().is_some_and(|old| old.is_submodule(path)),
        // Of an included file the mark doesn't say whether git has it, too.
        _ => !present.base.included(path, false) || present.tracks_name(path),
    };
    index.each_below(index.root(), |path, node| {
        if is_tracked(path, index.entry(node)) && !pending.contains_key(path) {
            tracked.push(path.to_vec());
        }
    });
    let found = |(path, pending): (&RelPath, &Pending)| {
        let entry = pending.entry.as_ref()?;
        is_tracked(path, entry).then(|| path.clone())
    };
    tracked.extend(pending.iter().filter_map(found));
    tracked.sort_unstable();
    tracked.dedup();
    let mut entries = collected.entries;
    if !tracked.is_empty() {
        entries.insert(b"tracked".to_vec(), encode_paths(&tracked));
    }
    let snapshot = Snapshot { entries };
    let rules = match old {
        Some(old) if old.snapshot == snapshot => None,
        _ => Some(Arc::new(Frozen::new(
            snapshot,
            present.root_path().as_os_str().as_bytes(),
        )?)),
    };
    Ok(Some(Renewal {
        rules,
        keys: collected.keys,
        problems: collected.problems,
    }))
}

/// Takes over what the old snapshot has of folders that could not be entered.
fn keep_closed(
    entries: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    old: &Snapshot,
    present: &Present,
    closed: &[RelPath],
) {
    for (key, content) in &old.entries {
        let plain = key.strip_prefix(b"unreadable:").unwrap_or(key);
        let kept = closed.iter().any(|folder| {
            let within = |path: &[u8], folder: &[u8]| crate::ignore::names::is_within(path, folder);
            plain
                .strip_prefix(b"top:")
                .is_some_and(|path| within(path, &present.base.full(folder)))
                || plain
                    .strip_prefix(b"info:")
                    .is_some_and(|path| within(path, folder))
        });
        if kept {
            entries.entry(key.clone()).or_insert_with(|| content.clone());
        }
    }
}
