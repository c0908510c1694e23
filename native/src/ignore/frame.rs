//! The stack of rule sources that holds in a folder, deepest first: git's precedence.
//!
//! A frame is one source and the frames above it; folders without a source share their parent's frame. A nested
//! repository starts a stack of its own with the global rules at its bottom. What is below an ignored folder is not
//! decided here: a caller that enters one knows it.

use std::sync::Arc;

use gix_glob::pattern::Case;

use super::patterns::Patterns;
use super::tracked::Repo;

/// What the stack says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Ignored,
    /// A negation matches, or nothing does.
    Visible,
    /// A source that could hold the deciding line can't be read.
    Blind,
}

/// One source of rules and those above it.
#[derive(Debug)]
pub struct Frame {
    up: Option<Arc<Frame>>,
    patterns: Arc<Patterns>,
    /// Bytes of the path (relative to the repository's top) that the source's own folder takes.
    base: usize,
    blind: bool,
    /// The repository whose rules these are.
    pub repo: Arc<Repo>,
}

impl Frame {
    /// The bottom of a stack.
    pub fn bottom(repo: Arc<Repo>) -> Arc<Frame> {
        Arc::new(Frame {
            up: None,
            patterns: Arc::default(),
            base: repo.base,
            blind: false,
            repo,
        })
    }

    /// A source on top of `self`, with the rules of a folder whose path takes `base` bytes, slash included.
    pub fn push(self: &Arc<Self>, patterns: Arc<Patterns>, base: usize) -> Arc<Frame> {
        if patterns.is_empty() {
            return self.clone();
        }
        self.stacked(patterns, base, false)
    }

    /// A source that can't be read.
    pub fn push_blind(self: &Arc<Self>, base: usize) -> Arc<Frame> {
        self.stacked(Arc::default(), base, true)
    }

    fn stacked(self: &Arc<Self>, patterns: Arc<Patterns>, base: usize, blind: bool) -> Arc<Frame> {
        Arc::new(Frame {
            up: Some(self.clone()),
            patterns,
            base,
            blind,
            repo: self.repo.clone(),
        })
    }

    /// What the rules say of `path`, which is relative to the top of the root's repository.
    pub fn matches(&self, path: &[u8], is_dir: bool, case: Case) -> Match {
        let mut frame = Some(self);
        while let Some(here) = frame {
            if here.blind {
                return Match::Blind;
            }
            match here.patterns.verdict(&path[here.base..], is_dir, case) {
                Some(true) => return Match::Ignored,
                Some(false) => return Match::Visible,
                None => frame = here.up.as_deref(),
            }
        }
        Match::Visible
    }
}
