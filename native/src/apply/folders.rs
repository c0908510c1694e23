//! Folders: made top down and writable for their owner, given their final mode at the end, deepest first.
//!
//! A folder of the plan that its owner can't write to is loosened first, if the plan has something below it; a folder
//! that isn't in the plan is never touched: what lies below it fails with `permission-denied`.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::guard::{At, Context, check_folder, taken};
use super::item::{Act, Item, LastFolder, Stop};
use super::keep::put_back_removed;
use super::removals::with_parent;
use crate::path::{FileId, Parent, leaf, names};
use crate::wire::Version;

/// What the owner needs to work in a folder.
const OWNER: u32 = 0o700;

/// Loosens folders of the plan that aren't writable, top down.
pub fn loosen(context: &Context<'_>, items: &mut [Item]) {
    for at in 0..items.len() {
        let (before, rest) = items.split_at_mut(at + 1);
        let item = &mut before[at];
        let Version::Dir { mode } = item.entry.expect else {
            continue;
        };
        let below = rest
            .first()
            .is_some_and(|next| names::is_below(next.path(), item.path()));
        if !item.open() || mode & OWNER == OWNER || !below {
            continue;
        }
        let loosened = with_parent(
            context,
            &mut LastFolder::default(),
            item,
            |context, parent, item| {
                let found = folder_as_expected(context, parent, item)?;
                let mode = match item.entry.target {
                    Version::Dir { mode: target } => OWNER | (mode & target & 0o077),
                    _ => OWNER,
                };
                let set = leaf::chmod_folder(parent.dir.as_fd(), item.name(), found, mode);
                set.map_err(|errno| Stop::errno("make the folder writable", errno))?;
                item.folder = Some(found);
                Ok(())
            },
        );
        if let Err(stop) = loosened {
            item.stop(stop);
        }
    }
}

fn folder_as_expected(context: &Context<'_>, parent: &Parent, item: &Item) -> Result<FileId, Stop> {
    let at = At {
        dir: parent.dir.as_fd(),
        name: item.name(),
    };
    let found = at
        .look(context.store)
        .map_err(|errno| Stop::errno("look at the folder", errno))?;
    match found.id() {
        Some(id) if found.version == item.entry.expect => Ok(id),
        _ => Err(Stop::changed(found.version)),
    }
}

/// Makes the plan's new folders, top down (items are in path order).
pub fn make(context: &Context<'_>, items: &mut [Item]) {
    for item in items.iter_mut() {
        if !item.open() || !matches!(item.act, Act::MakeFolder | Act::RemoveThenFolder) {
            continue;
        }
        let made = with_parent(context, &mut LastFolder::default(), item, make_one);
        match made {
            Ok(()) if item.folder.is_none() => item.done(),
            Ok(()) => {}
            Err(stop) => {
                let stop = give_back(context, item, stop);
                item.stop(stop);
            }
        }
    }
}

/// What gave way to a folder that isn't made comes back, also where the walk to it failed before the act began.
fn give_back(context: &Context<'_>, item: &mut Item, stop: Stop) -> Stop {
    if item.removed.is_none() {
        return stop;
    }
    match context.root.parent(item.path()) {
        Ok(parent) => put_back_removed(context, &parent, item, stop),
        Err(error) => {
            let detail = format!("{}; what was there stays in the trash: {error}", stop.detail);
            stop.with_detail(detail)
        }
    }
}

fn make_one(context: &Context<'_>, parent: &Arc<Parent>, item: &mut Item) -> Result<(), Stop> {
    let made = try_make(context, parent, item);
    made.map_err(|stop| put_back_removed(context, parent, item, stop))
}

fn try_make(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    match leaf::make_folder(dir, item.name()) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(taken(context, parent, item)),
        Err(errno) => return Err(Stop::errno("make the folder", errno)),
    }
    let finished = give_mode(parent, item).and_then(|()| check_folder(context, parent, item));
    // Only an empty folder goes: what somebody put into it meanwhile stays.
    finished.inspect_err(|_| {
        let _stays = leaf::remove_folder(dir, item.name());
    })
}

/// Sets the final mode at once where its owner can still work in it; else later.
fn give_mode(parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let Version::Dir { mode } = item.entry.target else {
        return Ok(());
    };
    let stopped = |errno| Stop::errno("set the folder's mode", errno);
    let Some(stat) = leaf::stat(dir, item.name()).map_err(stopped)? else {
        return Err(Stop::failed("io-error", "the new folder was taken away"));
    };
    let id = FileId::of(&stat);
    if mode & OWNER == OWNER {
        return leaf::chmod_folder(dir, item.name(), id, mode).map_err(stopped);
    }
    item.folder = Some(id);
    Ok(())
}

/// Gives folders their final modes, deepest first; those that stay although they were to go get their old mode back.
pub fn finish(context: &Context<'_>, items: &mut [Item]) {
    for item in items.iter_mut().rev() {
        let final_mode = match (&item.entry.expect, &item.entry.target, &item.result) {
            (_, Version::Dir { mode }, None) => *mode,
            (Version::Dir { mode }, _, Some(Err(_))) if item.folder.is_some() => *mode,
            _ => continue,
        };
        let mut folders = LastFolder::default();
        let set = with_parent(context, &mut folders, item, |context, parent, item| {
            set_final_mode(context, parent, item, final_mode)
        });
        match set {
            Ok(()) if item.open() => item.done(),
            Ok(()) => {}
            Err(stop) => item.stop(stop),
        }
    }
}

fn set_final_mode(context: &Context<'_>, parent: &Parent, item: &Item, mode: u32) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let id = match item.folder {
        Some(id) => id,
        None => folder_as_expected(context, parent, item)?,
    };
    let set = leaf::chmod_folder(dir, item.name(), id, mode);
    let Err(errno) = set else {
        return check_folder(context, parent, item);
    };
    let at = At {
        dir,
        name: item.name(),
    };
    if at
        .look(context.store)
        .is_ok_and(|now| now.version == item.entry.target)
    {
        // Loosened to just that.
        return Ok(());
    }
    if let Version::Dir { mode: old } = item.entry.expect {
        // Fails as the other did, most likely: then the folder stays open to its owner, which the stop tells.
        let _stays = leaf::chmod_folder(dir, item.name(), id, old);
    }
    Err(Stop::errno("set the folder's mode", errno))
}

/// The folders whose names the operation changed.
pub fn touched(items: &[Item]) -> BTreeSet<Vec<u8>> {
    let wrote = items
        .iter()
        .filter(|item| item.result == Some(Ok(())) && item.act != Act::Verify);
    wrote.map(|item| names::split(item.path()).0.to_vec()).collect()
}
