//! Where a scan stands: a folder that is to be visited, how it is reached, and what the folders above hand down to it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::rules::View;
use super::{Before, Scan};
use crate::ignore::Frame;
use crate::index::NodeId;
use crate::rules::Inside;
use crate::wire::{Reason, RelPath};

/// A folder to visit.
pub(crate) struct Task {
    /// None: the index lacks it.
    pub node: Option<NodeId>,
    pub path: RelPath,
    pub base: Base,
    pub dev: u64,
    pub before: Option<Before>,
    /// `DESPITE`, `HELD`.
    pub marks: u32,
    pub ctx: Ctx,
}

/// A folder that is open, above the one in question.
#[derive(Clone)]
pub(crate) struct Base {
    pub fd: Arc<OwnedFd>,
    /// Bytes of the path that lead to it, slash included.
    pub len: usize,
}

impl Base {
    /// What leads from it to a folder; empty for itself.
    pub fn rest<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        path.get(self.len..).unwrap_or_default()
    }
}

/// What a folder hands down to those below it.
#[derive(Clone, Default)]
pub(crate) struct Ctx {
    pub inside: Inside,
    /// Names that the index lacks were there before, unseen for this reason.
    pub entering: Option<Reason>,
    /// It could not be observed at the last look.
    pub incomplete: bool,
    /// At a boundary: the stack of rules.
    pub frame: Option<Arc<Frame>>,
    /// At a boundary: the rules differ from the frozen ones; known names are asked about again.
    pub changed: bool,
    /// At a boundary: what git tracks could differ.
    pub git_changed: bool,
    /// Known folders below are not entered: events tell of them.
    pub shallow: bool,
}

impl Ctx {
    /// The same for a folder that is entered with all below it.
    pub fn deep(&self) -> Self {
        Ctx {
            shallow: false,
            ..self.clone()
        }
    }
}

/// The folder whose names are being looked at.
pub(crate) struct Here<'a> {
    pub fd: BorrowedFd<'a>,
    pub shared: &'a Arc<OwnedFd>,
    pub path: &'a [u8],
    pub dev: u64,
    pub ctx: Ctx,
}

impl Here<'_> {
    /// For the folders in it.
    pub fn base(&self) -> Base {
        let len = self.path.len() + usize::from(!self.path.is_empty());
        Base {
            fd: self.shared.clone(),
            len,
        }
    }
}

impl Task {
    pub fn root(scan: &Scan<'_>) -> Self {
        let ctx = match &scan.view {
            View::Turn { .. } => Ctx::default(),
            View::Renewed { old, present } => Ctx {
                frame: Some(present.base.above.clone()),
                changed: old.as_ref().is_none_or(|old| !present.same_above(&old.snapshot)),
                git_changed: scan.git_keys.get(&b""[..]) != Some(&present.base.above.repo.key()),
                ..Ctx::default()
            },
        };
        Task {
            node: Some(scan.index.root()),
            path: Vec::new(),
            base: Base {
                fd: scan.root.fd.clone(),
                len: 0,
            },
            dev: scan.root.dev,
            before: None,
            marks: 0,
            ctx,
        }
    }

    /// Its path below the open folder above it; empty for that itself.
    pub fn below_base(&self) -> &[u8] {
        self.base.rest(&self.path)
    }
}
