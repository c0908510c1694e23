//! Deletions, and what gives way to a folder: moved to the trash first, judged there, put back where it isn't what was
//! expected. Folders go when they are empty, deepest first, after the second look at what was in them.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::guard::{At, Context, folder_stop, pause_since};
use super::item::{Act, Item, LastFolder, Stop, in_chunks};
use super::keep::{check_removed, put_back_removed, remove};
use super::out::Places;
use super::sightings::look_before;
use crate::path::look::Look;
use crate::path::{Parent, WalkError, leaf};
use crate::wire::Version;

/// Acts between two looks, and so the folders, and the files under a lease, that one thread holds open. So many that the
/// last one's pause is over when the others were looked at again.
pub const HELD: usize = 64;

/// Runs all removals of an operation.
pub fn run(context: &Context<'_>, items: &mut [Item]) {
    in_chunks(items, HELD, |folders, chunk| {
        for item in chunk.iter_mut().filter(|i| i.open() && i.act.removes()) {
            if context.work.cancel.is_cancelled() {
                return;
            }
            if let Err(stop) = with_parent(context, folders, item, take_away) {
                item.stop(stop);
            }
        }
        second_looks(chunk, |item, at| look_again(context, at, item));
    });
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

/// Looks again at all that left its path in this chunk, each no sooner than a pause after it did.
pub fn second_looks(
    chunk: &mut [Item],
    look: impl Fn(&mut Item, (&Parent, &mut Places)) -> Result<(), Stop>,
) {
    let mut places = Places::default();
    for item in chunk.iter_mut() {
        let Some(parent) = item.parent.take() else {
            continue;
        };
        if !item.open() {
            continue;
        }
        pause_since(item.acted.unwrap_or_else(Instant::now));
        if let Err(stop) = look(item, (&parent, &mut places)) {
            item.stop(stop);
        }
    }
}

/// Runs `act` with the folder of the item's path. A folder that is gone took a path that must exist with it.
pub fn with_parent(
    context: &Context<'_>,
    folders: &mut LastFolder,
    item: &mut Item,
    act: impl FnOnce(&Context<'_>, &Arc<Parent>, &mut Item) -> Result<(), Stop>,
) -> Result<(), Stop> {
    match folders.of(context.root, &item.entry.path) {
        Ok(parent) => act(context, &parent, item),
        Err(WalkError::Missing) if item.entry.expect != Version::Absent => {
            Err(Stop::changed(Version::Absent))
        }
        Err(error) => Err(error.into()),
    }
}

fn take_away(context: &Context<'_>, parent: &Arc<Parent>, item: &mut Item) -> Result<(), Stop> {
    let at = At {
        dir: parent.dir.as_fd(),
        name: item.name(),
    };
    let _seen: Look = look_before(context, at, item)?;
    remove(context, parent, item)?;
    let verdict = check_removed(context, item);
    item.await_second_look(parent);
    verdict.map_err(|stop| put_back_removed(context, parent, item, stop))
}

fn look_again(
    context: &Context<'_>,
    (parent, places): (&Parent, &mut Places),
    item: &mut Item,
) -> Result<(), Stop> {
    match check_removed(context, item).and_then(|()| places.check(context, parent, item)) {
        Ok(()) => {
            item.out = None;
            if item.act == Act::Remove {
                item.done();
            }
            Ok(())
        }
        Err(stop) => Err(put_back_removed(context, parent, item, stop)),
    }
}

fn remove_folder(context: &Context<'_>, parent: &Arc<Parent>, item: &mut Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let found = At {
        dir,
        name: item.name(),
    }
    .look(context.store)
    .map_err(|errno| Stop::errno("look at the folder", errno))?;
    if found.version != item.entry.expect && !item.is_loosened(&found) {
        return Err(Stop::changed(found.version));
    }
    leaf::remove_folder(dir, item.name()).map_err(|errno| match folder_stop(errno) {
        stop if stop.reason == "not-empty" => Stop::skipped("not-empty"),
        stop => stop,
    })
}
