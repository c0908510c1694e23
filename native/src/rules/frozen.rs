//! The rules of the last boundary: judges names by a snapshot, without a look at the disk.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::base::{Base, Context, Inside, Look, Verdict};
use super::{Snapshot, Source, Sources, info_key, top_key};
use crate::error::Result;
use crate::ignore::Repo;
use crate::ignore::names::{join, parent_of};
use crate::wire::decode_paths;

fn trimmed(path: &[u8]) -> Vec<u8> {
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

/// A compiled snapshot.
#[derive(Debug)]
pub struct Frozen {
    pub snapshot: Snapshot,
    /// The snapshot, encoded.
    pub bytes: Vec<u8>,
    pub base: Base,
    /// Sorted.
    tracked: Vec<Vec<u8>>,
    contexts: Mutex<HashMap<Vec<u8>, Context>>,
}

impl Frozen {
    pub fn new(snapshot: Snapshot, root: &[u8]) -> Result<Self> {
        let sources = Sources::from_json(snapshot.entries.get(&b"sources"[..]).map_or(b"", |s| s))?;
        let mut tracked = match snapshot.entries.get(&b"tracked"[..]) {
            Some(bytes) => decode_paths(bytes)?,
            None => Vec::new(),
        };
        tracked.sort_unstable();
        Ok(Frozen {
            base: Base::new(sources, root, &snapshot, Repo::new(0, None)),
            bytes: snapshot.encode(),
            snapshot,
            tracked,
            contexts: Mutex::default(),
        })
    }

    /// The `.gitignore` of a folder, and the info/exclude of the nested repository that it is.
    pub fn sources_of(&self, folder: &[u8]) -> (Source<'_>, Source<'_>) {
        let info = match folder {
            b"" => Source::Missing,
            folder => self.snapshot.source(&info_key(folder)),
        };
        (self.snapshot.source(&top_key(&self.base.full(folder))), info)
    }

    /// Folders of the tree that have an ignore file, or are a repository of their own.
    pub fn ruled_folders(&self) -> HashSet<Vec<u8>> {
        let plain = |key: &Vec<u8>| key.strip_prefix(b"unreadable:").unwrap_or(key).to_vec();
        let folder = |key: Vec<u8>| match key.strip_prefix(b"top:") {
            Some(top) if self.base.prefix.is_empty() => Some(top.to_vec()),
            Some(top) => join(top, b"").strip_prefix(&self.base.prefix[..]).map(trimmed),
            None => key.strip_prefix(b"info:").map(<[u8]>::to_vec),
        };
        self.snapshot
            .entries
            .keys()
            .map(plain)
            .filter_map(folder)
            .collect()
    }

    /// The stack that held in `folder`, and whether the rules hid the folder itself.
    fn context(&self, folder: &[u8]) -> Context {
        let cached = self
            .contexts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(folder)
            .cloned();
        if let Some(context) = cached {
            return context;
        }
        let context = self.context_of(folder);
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.insert(folder.to_vec(), context.clone());
        context
    }

    fn context_of(&self, folder: &[u8]) -> Context {
        let mut context = match folder {
            b"" => Context {
                frame: self.base.above.clone(),
                inside: Inside::No,
            },
            folder => {
                let parent = self.context(parent_of(folder));
                let verdict = self.judge(folder, true);
                parent.below(self.base.inside_after(folder, verdict))
            }
        };
        if context.inside != Inside::No && !self.is_submodule(folder) {
            return context;
        }
        let (own, info) = self.sources_of(folder);
        if info != Source::Missing {
            let base = self.base.full(folder).len() + 1;
            context = Context {
                frame: self.base.nested(folder, Arc::new(Repo::new(base, None)), info),
                inside: Inside::No,
            };
        }
        context.frame = self.base.enter(&context.frame, folder, own);
        context
    }

    /// Judges a name; what hides a folder above it hides it, too.
    pub fn judge(&self, path: &[u8], is_dir: bool) -> Verdict {
        let Context { frame, inside } = self.context(parent_of(path));
        let look = Look {
            frame: &frame,
            inside,
            path,
            is_dir,
        };
        self.base.judge(&look, || self.tracks(path, is_dir))
    }

    fn tracks(&self, path: &[u8], is_dir: bool) -> bool {
        let at = self.tracked.partition_point(|p| p.as_slice() < path);
        if self.tracked.get(at).is_some_and(|p| p == path) {
            return true;
        }
        let below = [path, b"/"].concat();
        let at = self.tracked.partition_point(|p| *p < below);
        is_dir && self.tracked.get(at).is_some_and(|p| p.starts_with(&below))
    }

    /// The tracked list names this folder itself: a submodule.
    pub fn is_submodule(&self, folder: &[u8]) -> bool {
        self.tracked
            .binary_search_by(|p| p.as_slice().cmp(folder))
            .is_ok()
    }
}
