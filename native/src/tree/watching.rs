//! Whether events tell a tree where to look: what goes between its scans and the [`Watch`].

use std::os::fd::BorrowedFd;

use crate::index::Index;
use crate::scan;
use crate::scan::set::Watched;
use crate::watch::{Touched, Watch};

/// Off until it is asked for.
pub(super) enum Watching {
    Off,
    On(Box<Watch>),
    /// It was asked for and can't be had, for this reason.
    Cannot(String),
}

impl Watching {
    pub fn on(&mut self) -> Option<&mut Watch> {
        match self {
            Watching::On(watch) => Some(watch),
            _ => None,
        }
    }

    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Watching::On(watch) => Some(watch),
            _ => None,
        }
    }

    /// Answers why it can't be had, where it can't.
    pub fn start(&mut self, root: BorrowedFd<'_>) -> Option<String> {
        if matches!(self, Watching::Off) {
            *self = match Watch::start(root) {
                Ok(watch) => Watching::On(Box::new(watch)),
                Err(why) => Watching::Cannot(why),
            };
        }
        match self {
            Watching::Cannot(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Where a scan is to look; none: everywhere, or where the request says.
    pub fn touched(&mut self, index: &Index, request: &scan::Request) -> Option<Touched> {
        let watch = self.on()?;
        if request.only.is_some() {
            watch.leave();
            return None;
        }
        watch.next(index, request.renew.is_some() || request.rehash)
    }

    /// Takes in what a scan did. A folder without a watch would change unseen: events tell nothing from there on.
    pub fn take(&mut self, watched: Watched) {
        let Some(watch) = self.on() else { return };
        match watched.failed {
            Some(error) => *self = Watching::Cannot(format!("a folder can't be watched: {error}")),
            None => watch.armed(watched.armed, watched.linked, watched.walked),
        }
    }
}
