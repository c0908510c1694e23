//! Deletions, and what gives way to a folder: moved to the trash first, judged there, put back where it isn't what was
//! expected. Folders go when they are empty, deepest first, after the second look at what was in them.

use std::os::fd::AsFd;
use std::time::Instant;

use super::guard::{At, Context, check, check_folder, folder_stop, pause_since};
use super::item::{Act, Item, LastFolder, Stop, in_parallel};
use super::keep::{check_removed, put_back_removed, remove};
use crate::path::look::Look;
use crate::path::{Parent, WalkError, leaf};
use crate::wire::Version;

/// Runs all removals of an operation.
pub fn run(context: &Context<'_>, items: &mut [Item]) {
    let removing = |item: &Item| item.open() && item.act.removes();
    in_parallel(items, |folders, item| {
        if removing(item) && !context.work.cancel.is_cancelled() {
            let taken = with_parent(context, folders, item, take_away);
            settle(item, taken);
        }
    });
    if items.iter().any(|item| item.removed.is_some()) {
        pause_since(Instant::now());
        in_parallel(items, |folders, item| {
            if item.open() && item.removed.is_some() {
                let looked = with_parent(context, folders, item, look_again);
                settle(item, looked);
            }
        });
    }
    for item in items.iter_mut().rev().filter(|i| i.act == Act::RemoveFolder) {
        if item.open() && !context.work.cancel.is_cancelled() {
            let gone = with_parent(context, &mut LastFolder::default(), item, remove_folder);
            match gone {
                Ok(()) => item.done(),
                Err(stop) => item.stop(stop),
            }
        }
    }
}

/// A removal is done; what makes way for a folder goes on.
fn settle(item: &mut Item, result: Result<(), Stop>) {
    if let Err(stop) = result {
        item.stop(stop);
    }
}

/// Runs `act` with the folder of the item's path. A folder that is gone took a path that must exist with it.
pub fn with_parent(
    context: &Context<'_>,
    folders: &mut LastFolder,
    item: &mut Item,
    act: impl FnOnce(&Context<'_>, &Parent, &mut Item) -> Result<(), Stop>,
) -> Result<(), Stop> {
    match folders.of(context.root, &item.entry.path) {
        Ok(parent) => act(context, parent, item),
        Err(WalkError::Missing) if item.entry.expect != Version::Absent => {
            Err(Stop::changed(Version::Absent))
        }
        Err(error) => Err(error.into()),
    }
}

fn take_away(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let at = At {
        dir: parent.dir.as_fd(),
        name: item.name(),
    };
    let _seen: Look = check(at, &item.entry.expect, context.store)?;
    remove(context, parent, item)?;
    let verdict = check_removed(context, item).and_then(|()| check_folder(context, parent, item));
    verdict.map_err(|stop| put_back_removed(context, parent, item, stop))
}

fn look_again(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    match check_removed(context, item) {
        Ok(()) => {
            if item.act == Act::Remove {
                item.done();
            }
            Ok(())
        }
        Err(stop) => Err(put_back_removed(context, parent, item, stop)),
    }
}

fn remove_folder(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let found = At {
        dir,
        name: item.name(),
    }
    .look(context.store)
    .map_err(|errno| Stop::errno("look at the folder", errno))?;
    let loosened = item.folder.is_some() && found.id() == item.folder;
    if found.version != item.entry.expect && !(loosened && matches!(found.version, Version::Dir { .. })) {
        return Err(Stop::changed(found.version));
    }
    leaf::remove_folder(dir, item.name()).map_err(|errno| match folder_stop(errno) {
        stop if stop.reason == "not-empty" => Stop::skipped("not-empty"),
        stop => stop,
    })
}
