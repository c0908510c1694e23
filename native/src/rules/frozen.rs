//! The rules of the last boundary: judges names by a snapshot, without a look at the disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::base::{Base, Context, Inside, Look, Verdict};
use super::{Snapshot, Source, Sources, info_key, top_key};
use crate::error::Result;
use crate::ignore::Repo;
use crate::ignore::names::parent_of;
use crate::wire::decode_paths;

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
