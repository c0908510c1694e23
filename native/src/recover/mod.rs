//! Ends an operation whose owner died: back to exactly the old tree, or on to the new one.
//!
//! Decides by inode and hash, never by how far the journal says that things went: our temp's inode at the path, or what
//! came out under the temp's name or in the trash, tells what was done. What is neither old nor new is somebody else's
//! and stays. Running it again, or dying in the middle of it and running it again, ends in the same tree: each step
//! leaves one of the states that it knows.
//!
//! Not covered: an empty folder that somebody made or removed in the same moments can't be told from ours.

use std::path::PathBuf;

use crate::apply::guard::Context;
use crate::apply::item::{Act, ApplyEntry, Item, Stop};
use crate::apply::{Hands, keep};
use crate::error::{Code, EngineError, IoContext, Result};
use crate::journal::{self, Journal, JournalFile};
use crate::path::{FileId, WalkError, leaf, look::Look, names};
use crate::task::Work;
use crate::trash::Trash;
use crate::wire::{Id, Reason, RelPath, Version};

mod complete;
mod folders;
#[cfg(test)]
mod interference;
pub mod roll_back;
#[cfg(test)]
pub mod scene;
#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Rollback,
    Complete,
}

pub struct RecoverRequest {
    pub journal: PathBuf,
    pub trash: PathBuf,
    pub mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PathState {
    Old = 0,
    New = 1,
    /// Left as it was found.
    Neither = 2,
}

/// What one path came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub state: PathState,
    pub detail: String,
    /// A fault of the system, not somebody's content: the journal stays, so that recovery is tried again.
    pub fault: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    pub operation: Id,
    pub paths: Vec<(RelPath, Settled)>,
}

impl Settled {
    fn at(state: PathState) -> Self {
        Settled {
            state,
            detail: String::new(),
            fault: false,
        }
    }

    fn neither(detail: impl Into<String>) -> Self {
        Settled {
            state: PathState::Neither,
            detail: detail.into(),
            fault: false,
        }
    }

    fn fault(detail: impl Into<String>) -> Self {
        Settled {
            fault: true,
            ..Settled::neither(detail)
        }
    }

    /// The walk to the path's folder ended.
    fn unreached(error: WalkError) -> Self {
        Settled {
            fault: error.is_fault(),
            ..Settled::neither(error.to_string())
        }
    }

    /// By what is at the path now.
    fn by(look: &Look, item: &Item) -> Self {
        if look.version == item.entry.expect {
            Settled::at(PathState::Old)
        } else if look.version == item.entry.target {
            Settled::at(PathState::New)
        } else if unreadable_for_now(&look.version, item) {
            Settled::fault("it can't be read")
        } else {
            Settled::neither("it holds what this operation neither found nor wrote")
        }
    }
}

/// A file with the bits of one that we know, which yet can't be opened: the system's fault, not somebody's content.
fn unreadable_for_now(found: &Version, item: &Item) -> bool {
    let Version::Uncovered {
        reason: Reason::Unreadable,
        stat,
    } = found
    else {
        return false;
    };
    let is_like = |version: &Version| matches!(version, Version::File { mode, .. } if *mode == stat.mode);
    stat.mode & 0o400 != 0 && (is_like(&item.entry.expect) || is_like(&item.entry.target))
}

/// The system's fault, and perhaps gone next time; not somebody's content.
fn is_fault(stop: &Stop, item: &Item) -> bool {
    let system = [
        "io-error",
        "no-space",
        "permission-denied",
        "blob-missing",
        "blob-corrupt",
    ];
    let found = stop.found.as_ref();
    system.contains(&stop.reason) || found.is_some_and(|found| unreadable_for_now(found, item))
}

/// Tries once more to take away temps that are still there. One that stays keeps the journal, unless nothing is ever
/// removed from its folder (append-only): it lies under a name that no scan looks at.
fn clear_temps(context: &Context<'_>, items: &[Item], (settled, swapping): (&mut [Settled], bool)) {
    for (item, settled) in items.iter().zip(settled) {
        let Ok(parent) = context.root.parent(item.path()) else {
            continue;
        };
        let dir = std::os::fd::AsFd::as_fd(&parent.dir);
        let ended = match leaf::stat(dir, &item.temp) {
            _ if !item.act.swaps() => continue,
            Ok(None) => continue,
            Ok(Some(_)) if swapping => keep::drop_temp(context, dir, item),
            Ok(Some(_)) => leaf::unlink(dir, &item.temp),
            Err(errno) => Err(errno),
        };
        if let Some(left) = roll_back::temp_left(ended) {
            *settled = left;
        }
    }
}

/// Recovers the operation of a journal. No journal, or one that was torn before anything was done: nothing to do.
pub fn recover(hands: &Hands, request: &RecoverRequest, work: &Work) -> Result<Recovered> {
    let Some(stored) = journal::read(&request.journal)? else {
        journal::remove(&request.journal)?;
        return Ok(Recovered::default());
    };
    if stored.journal.owner.lives_elsewhere() {
        let pid = stored.journal.owner.pid;
        return Err(EngineError::new(
            Code::Busy,
            format!("process {pid} still runs the operation"),
        ));
    }
    hands.root.check()?;
    same_root(hands, &stored.journal)?;
    let trash = Trash::open(&hands.root, &request.trash)?;
    let context = hands.context(&trash, work);
    let mut items = items_of(&stored.journal, hands.root.id().dev);
    let mut settled = match request.mode {
        Mode::Rollback => {
            let mut all: Vec<&mut Item> = items.iter_mut().collect();
            roll_back::roll_back(&context, &mut all, stored.journal.swapping)
        }
        Mode::Complete => {
            let mut file = JournalFile::reopen(&request.journal, stored.whole)?;
            complete::complete(&context, &mut items, (&mut file, stored.journal.swapping))?
        }
    };
    clear_temps(&context, &items, (&mut settled, stored.journal.swapping));
    if !settled.iter().any(|s| s.fault) {
        crate::sys::syncfs(hands.root.fd()).doing_at("sync the recovered tree", hands.root.shown())?;
        trash.sync().doing_at("sync the trash", trash.shown())?;
        journal::remove(&request.journal)?;
        journal::sync_parent(&request.journal)?;
    }
    let paths = items.into_iter().map(|item| item.entry.path).zip(settled);
    Ok(Recovered {
        operation: stored.journal.operation,
        paths: paths.collect(),
    })
}

/// Removes the journal of an operation that is in the timeline, and what is left of its temps.
pub fn finish(hands: &Hands, path: &std::path::Path) -> Result<()> {
    if let Some(stored) = journal::read(path)? {
        same_root(hands, &stored.journal)?;
        if stored.journal.entries.iter().all(|entry| entry.done) {
            return journal::remove(path);
        }
        let trash = Trash::open(&hands.root, &stored.journal.trash)?;
        let work = Work::default();
        let context = hands.context(&trash, &work);
        let items = items_of(&stored.journal, hands.root.id().dev);
        for (item, entry) in items.iter().zip(&stored.journal.entries) {
            if item.act.swaps()
                && !entry.done
                && let Ok(parent) = hands.root.parent(item.path())
            {
                let _stays = keep::drop_temp(&context, std::os::fd::AsFd::as_fd(&parent.dir), item);
            }
        }
    }
    journal::remove(path)
}

/// The journal is this root's: same inode, and same device unless the machine was booted since (devices may be
/// numbered anew).
fn same_root(hands: &Hands, journal: &Journal) -> Result<()> {
    let now = hands.root.id();
    let booted = journal.owner.boot_id != journal::Owner::current().boot_id;
    if now.ino == journal.root.ino && (booted || now.dev == journal.root.dev) {
        return Ok(());
    }
    let message = "the journal is of another folder that stood at the root's path; nothing was touched";
    Err(EngineError::new(Code::RootChanged, message))
}

/// `dev`: the root's device as it is numbered now.
fn items_of(journal: &Journal, dev: u64) -> Vec<Item> {
    let now = |id: FileId| match id.dev == journal.root.dev {
        true => FileId { dev, ..id },
        false => id,
    };
    let entries = journal.entries.iter().enumerate();
    entries
        .map(|(index, entry)| {
            let mut item = Item::new(
                &journal.operation,
                index,
                ApplyEntry {
                    path: entry.path.clone(),
                    expect: entry.expect.clone(),
                    target: entry.target.clone(),
                    // Not in the journal: whoever recovers has nobody's leave to go on under a writer.
                    force: false,
                },
            );
            // An apply refused it, so there is nothing to end; a journal that says otherwise isn't believed.
            if names::touches_git(item.path()) {
                item.act = Act::Verify;
            }
            item.temp = entry.temp.clone();
            item.trash = entry.trash.clone();
            item.prepared = entry.prepared.map(now);
            item
        })
        .collect()
}
