//! Guarded apply: brings each path from what the guard must find to what is to be there, one outcome a path.
//!
//! Owns the order of DESIGN §7: journal, synced → removals, moved aside → folders, top down → temp files → one barrier
//! → guarded swaps, second looks → folder modes, deepest first → folders synced. The journal stays: the caller commits
//! its rows, then calls `finish`. The acts themselves: `guard` (swap and judge), `temps`, `removals`, `folders`,
//! `attributes`; recovery of what a dead process left is `recover`.
//!
//! Not covered: the caller's lock keeps other operations away, and nothing here knows sessions or plans.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Code, EngineError, IoContext, Result};
use crate::journal::{Durability, Journal, JournalEntry, JournalFile, Owner};
use crate::path::{Parent, leaf, names};
use crate::recover::{PathState, roll_back};
use crate::sys;
use crate::task::Work;
use crate::trash::Trash;
use crate::wire::{Id, Version};

#[cfg(test)]
mod attack;
pub mod attributes;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod folder_tests;
pub mod folders;
pub mod guard;
mod hands;
pub mod item;
pub mod keep;
#[cfg(test)]
pub mod kit;
#[cfg(test)]
mod late;
pub mod out;
pub mod removals;
pub mod sightings;
#[cfg(test)]
mod stress;
pub mod temps;
#[cfg(test)]
mod tests;

pub use hands::{Hands, HandsOptions};
pub use item::{ApplyEntry, Outcome, Status};

use guard::Context;
use item::{Act, Item, Stop, in_chunks, in_parallel};
use removals::{HELD, second_looks, with_parent};

/// Up to so many new files are synced one by one; more by one sync of the file system, which flushes others' data too.
const SYNC_EACH: usize = 3;

pub struct ApplyRequest {
    pub operation: Id,
    pub journal: PathBuf,
    pub trash: PathBuf,
    pub durability: Durability,
    pub entries: Vec<ApplyEntry>,
}

/// Applies a request. An error means that nothing of it was begun; all else is in the outcomes, sorted by path.
pub fn apply(hands: &Hands, request: ApplyRequest, work: &Work) -> Result<Vec<Outcome>> {
    let mut items = items_of(&request)?;
    hands.root.check()?;
    let trash = Trash::open(&hands.root, &request.trash)?;
    hands.learn_from(&trash)?;
    let journal = journal_of(hands, &request, &items);
    crate::trash::empty::record(&trash, &journal)?;
    let mut file = JournalFile::begin(&request.journal, &journal)?;
    let context = Context {
        seen: hands.sightings.take(),
        ..hands.context(&trash, work)
    };
    if let Err(stop) = run(&context, &mut items, &mut file) {
        put_all_back(&context, &mut items, &stop);
        return Ok(outcomes(items));
    }
    if request.durability == Durability::Full {
        sync_names(&context, &mut items);
    }
    let settled: Vec<_> = items
        .iter()
        .map(|i| (i.index, i.result == Some(Ok(()))))
        .collect();
    // Spares looks only: without them `finish` looks for each temp, and what has no stat key is read again when the
    // trash is emptied.
    let _for_finish = file.settled(&settled);
    let done = items.iter_mut().filter(|i| i.result == Some(Ok(())));
    let unmoved: Vec<_> = done.filter_map(|i| i.unmoved.take()).collect();
    let _for_gc = crate::trash::empty::record_unmoved(&trash, &request.operation, &unmoved);
    Ok(outcomes(items))
}

/// Sorts the entries and refuses what no plan may ask for.
fn items_of(request: &ApplyRequest) -> Result<Vec<Item>> {
    let mut entries = request.entries.clone();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].path == pair[1].path) {
        let message = "two entries of one apply have the same path";
        return Err(EngineError::new(Code::InvalidArgument, message).with_path(&pair[0].path));
    }
    let items = entries.into_iter().enumerate();
    Ok(items
        .map(|(index, entry)| {
            let mut item = Item::new(&request.operation, index, entry);
            if let Some(stop) = forbidden(&item) {
                item.stop(stop);
            }
            item
        })
        .collect())
}

fn forbidden(item: &Item) -> Option<Stop> {
    if let Err(error) = names::check(item.path()) {
        return Some(error.into());
    }
    if names::touches_git(item.path()) {
        return Some(Stop::refused("uncovered", None).with_detail("nothing is ever written to a .git"));
    }
    match (&item.act, &item.entry.expect, &item.entry.target) {
        (Act::Unsupported, Version::Uncovered { .. }, _)
        | (Act::Unsupported, _, Version::Uncovered { .. }) => Some(Stop::refused("uncovered", None)),
        (Act::Unsupported, ..) => Some(Stop::failed("unsupported", "special files are not made anew")),
        _ => None,
    }
}

fn journal_of(hands: &Hands, request: &ApplyRequest, items: &[Item]) -> Journal {
    let entries = items.iter().map(|item| JournalEntry {
        path: item.entry.path.clone(),
        expect: item.entry.expect.clone(),
        target: item.entry.target.clone(),
        temp: item.temp.clone(),
        trash: item.trash.clone(),
        prepared: None,
        done: false,
    });
    Journal {
        operation: request.operation,
        owner: Owner::current(),
        root: hands.root.id(),
        trash: request.trash.clone(),
        durability: request.durability,
        entries: entries.collect(),
        swapping: false,
    }
}

/// The phases, from the first act to the final folder modes. A stop: nothing was swapped in, all can be put back.
pub fn run(
    context: &Context<'_>,
    items: &mut [Item],
    file: &mut JournalFile,
) -> std::result::Result<(), Stop> {
    before_swaps(context, items, file)?;
    swap_all(context, items);
    folders::finish(context, items);
    Ok(())
}

/// All that can still be put back as a whole. A stop ends the operation.
fn before_swaps(
    context: &Context<'_>,
    items: &mut [Item],
    file: &mut JournalFile,
) -> std::result::Result<(), Stop> {
    let go_on = || match context.work.cancel.is_cancelled() {
        true => Err(Stop::failed(
            "cancelled",
            "cancelled before anything was swapped in",
        )),
        false => Ok(()),
    };
    go_on()?;
    folders::loosen(context, items);
    removals::run(context, items);
    go_on()?;
    folders::make(context, items);
    go_on()?;
    let files = items.iter().filter(|i| i.open() && i.act.swaps()).count();
    let links = items
        .iter()
        .any(|i| i.open() && matches!(i.entry.target, Version::Symlink { .. }));
    let sync_each = files <= SYNC_EACH && !links;
    in_parallel(items, |folders, item| {
        if item.open() && item.act.swaps() && !context.work.cancel.is_cancelled() {
            let made = with_parent(context, folders, item, |context, parent, item| {
                temps::prepare(context, parent, item, sync_each)
            });
            if let Err(stop) = made {
                item.stop(stop);
            }
        }
    });
    go_on()?;
    barrier(context, items, file, sync_each).map_err(|error| match error.code {
        Code::NoSpace => Stop::failed("no-space", error.message),
        _ => Stop::failed("io-error", error.message),
    })
}

/// The new files are on the disk, and the journal knows them, before the first one is swapped in: a swap whose file
/// isn't synced leaves an empty file at power loss.
fn barrier(context: &Context<'_>, items: &[Item], file: &mut JournalFile, synced: bool) -> Result<()> {
    let temps: Vec<_> = items
        .iter()
        .filter(|i| i.open())
        .filter_map(|i| Some((i.index, i.prepared?)))
        .collect();
    if temps.is_empty() {
        return Ok(());
    }
    file.prepared(&temps)?;
    if !synced {
        sys::syncfs(context.root.fd()).doing_at("sync the new files in", context.root.shown())?;
        if file.device() == Some(context.root.id().dev) {
            return Ok(());
        }
    }
    file.sync()
}

/// Swaps the temps in, looks again, and does what needs no temp. Runs to its end.
fn swap_all(context: &Context<'_>, items: &mut [Item]) {
    let total = items.iter().filter(|i| i.open()).count() as u64;
    let count = AtomicU64::new(0);
    in_chunks(items, HELD, |folders, chunk| {
        for item in chunk.iter_mut().filter(|i| i.open()) {
            if let Err(stop) = with_parent(context, folders, item, act_on) {
                item.stop(stop);
            }
            let done = count.fetch_add(1, Ordering::Relaxed) + 1;
            context.work.report("apply", done, Some(total));
        }
        second_looks(chunk, |item, at| {
            guard::second_look(context, at, item)?;
            item.done();
            Ok(())
        });
    });
}

fn act_on(context: &Context<'_>, parent: &Arc<Parent>, item: &mut Item) -> std::result::Result<(), Stop> {
    match item.act {
        Act::FileMode => temps::change_mode(context, parent, item).map(|()| item.done()),
        Act::Verify => verify(context, parent, item),
        act if act.swaps() => {
            let rechecked = temps::recheck(context, parent, item);
            rechecked.inspect_err(|_| {
                keep::discard_temp(parent.dir.as_fd(), item);
            })?;
            guard::swap_in(context, parent, item)?;
            item.await_second_look(parent);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn verify(context: &Context<'_>, parent: &Parent, item: &mut Item) -> std::result::Result<(), Stop> {
    let at = guard::At {
        dir: parent.dir.as_fd(),
        name: item.name(),
    };
    guard::check(at, &item.entry, context.store)?;
    item.done();
    Ok(())
}

/// Before the first swap the whole operation can be taken back, as after a crash: every entry that was not stopped on
/// its own ends as it began.
fn put_all_back(context: &Context<'_>, items: &mut [Item], stop: &Stop) {
    let mut begun: Vec<&mut Item> = items
        .iter_mut()
        .filter(|i| !matches!(i.result, Some(Err(_))))
        .collect();
    let states = roll_back::roll_back(context, &mut begun, false);
    for (item, state) in begun.into_iter().zip(states) {
        item.stop(match state.state {
            PathState::Old => stop.clone(),
            _ => stop
                .clone()
                .with_detail(format!("{}; not put back: {}", stop.detail, state.detail)),
        });
    }
}

/// Makes names and modes durable. Where that fails, the paths in that folder can't be called done for good.
fn sync_names(context: &Context<'_>, items: &mut [Item]) {
    let folders = folders::touched(items);
    if folders.is_empty() {
        return;
    }
    let whole = || sys::syncfs(context.root.fd()).and_then(|()| context.trash.sync());
    let each = || -> leaf::Sys<()> {
        for folder in &folders {
            let open = context
                .root
                .folder(folder)
                .map_err(|_| rustix::io::Errno::NOENT)?;
            leaf::sync_folder(open.dir.as_fd())?;
        }
        context.trash.sync()
    };
    let synced = match folders.len() > SYNC_EACH {
        true => whole(),
        // A folder that is gone or unreadable by now: sync all.
        false => each().or_else(|_| whole()),
    };
    if let Err(errno) = synced {
        let done = items.iter_mut().filter(|item| item.result == Some(Ok(())));
        done.for_each(|item| item.stop(Stop::errno("written, but not synced", errno)));
    }
}

fn outcomes(items: Vec<Item>) -> Vec<Outcome> {
    items.into_iter().map(Item::outcome).collect()
}
