//! On to the new tree: what was begun is judged, the rest is done as in any apply, with the same guard.

use std::os::fd::AsFd;

use super::roll_back::{bring_back_from_temp, drop_anew, drop_unswapped, now, path_of, standing, temp_left};
use super::{PathState, Settled};
use crate::apply;
use crate::apply::guard::{self, At, Context};
use crate::apply::item::{Act, ApplyEntry, Item, Stop};
use crate::apply::keep;
use crate::error::{Code, EngineError, IoContext, Result};
use crate::journal::JournalFile;
use crate::path::{Parent, WalkError, leaf};
use crate::wire::Version;

/// What is left to do of an item, if anything.
enum Next {
    Settled(Settled),
    /// From this version on.
    From(Version),
}

/// Completes the items, which are in path order; `swapping`: swaps may have begun.
pub fn complete(
    context: &Context<'_>,
    items: &mut [Item],
    (file, swapping): (&mut JournalFile, bool),
) -> Result<Vec<Settled>> {
    let mut out: Vec<Option<Settled>> = items.iter().map(|_| None).collect();
    let mut todo = Vec::new();
    for (item, out) in items.iter_mut().zip(&mut out) {
        let next = match context.root.parent(item.path()) {
            Ok(parent) => judge_begun(context, &parent, (item, swapping)),
            // Its folder went as the plan has it, or is still to be made.
            Err(WalkError::Missing | WalkError::NotFolder) if item.entry.target == Version::Absent => {
                Next::Settled(Settled::at(PathState::New))
            }
            // So is what stands below a thing that the plan replaces by a folder; the guard looks again.
            Err(WalkError::Missing | WalkError::NotFolder) if item.entry.expect == Version::Absent => {
                Next::From(Version::Absent)
            }
            Err(error) => Next::Settled(Settled::unreached(error)),
        };
        match next {
            Next::Settled(settled) => *out = Some(settled),
            Next::From(version) => todo.push(rest_of(item, version)),
        }
    }
    announce(context, &todo, file)?;
    let ran = apply::run(context, &mut todo, file);
    ran.map_err(|stop: Stop| EngineError::new(Code::Io, stop.detail))?;
    for rest in todo {
        let original = &items[rest.index];
        out[rest.index] = Some(settle_rest(context, &rest, original));
    }
    let unreached = || Settled::fault("recovery did not reach it");
    Ok(out
        .into_iter()
        .map(|settled| settled.unwrap_or_else(unreached))
        .collect())
}

/// A temp that is written anew has an inode that the journal doesn't know; should this recovery die, the next must not
/// take it for what a swap brought out. What the temps' names held before has left them for good by then.
fn announce(context: &Context<'_>, todo: &[Item], file: &mut JournalFile) -> Result<()> {
    let swaps = todo.iter().filter(|item| item.act.swaps());
    let indices: Vec<usize> = swaps.map(|item| item.index).collect();
    if indices.is_empty() {
        return Ok(());
    }
    crate::sys::syncfs(context.root.fd()).doing_at("sync", context.root.shown())?;
    file.prepares_anew(&indices)?;
    file.sync()
}

fn settle_rest(context: &Context<'_>, rest: &Item, original: &Item) -> Settled {
    let state = match context.root.parent(original.path()) {
        Ok(parent) => now(context, &parent, original),
        Err(WalkError::Missing | WalkError::NotFolder) if original.entry.target == Version::Absent => {
            Settled::at(PathState::New)
        }
        Err(error) => Settled::unreached(error),
    };
    match &rest.result {
        Some(Err(stop)) => Settled {
            detail: format!("{} {}", stop.reason, stop.detail).trim().to_string(),
            fault: state.fault || super::is_fault(stop, original),
            ..state
        },
        _ => state,
    }
}

fn rest_of(item: &Item, from: Version) -> Item {
    let entry = ApplyEntry {
        path: item.entry.path.clone(),
        expect: from,
        target: item.entry.target.clone(),
        force: false,
    };
    let mut rest = Item::new(&[0; 16], item.index, entry);
    rest.temp = item.temp.clone();
    rest.trash = item.trash.clone();
    rest
}

fn judge_begun(context: &Context<'_>, parent: &Parent, (item, swapping): (&mut Item, bool)) -> Next {
    if let Some(stays) = drop_anew(parent.dir.as_fd(), item) {
        return Next::Settled(stays);
    }
    let stands = match standing(context, parent, item) {
        Ok(stands) => stands,
        Err(errno) => return Next::Settled(Settled::fault(format!("look at it: {errno}"))),
    };
    let mut taken = stands.kept.is_some();
    if item.act.swaps() && !swapping {
        let dropped = drop_unswapped(parent.dir.as_fd(), item);
        if let Some(left) = temp_left(dropped) {
            return Next::Settled(left);
        }
    } else if item.act.swaps() {
        if stands.temp == Some(false) {
            taken |= settle_exchange(context, parent, item, stands.ours_at_path);
        }
        let dropped = keep::drop_temp(context, parent.dir.as_fd(), item);
        if let Some(left) = temp_left(dropped) {
            return Next::Settled(left);
        }
    }
    let look = match path_of(parent, item).look(context.store) {
        Ok(look) => look,
        Err(errno) => return Next::Settled(Settled::fault(format!("look at it: {errno}"))),
    };
    if look.version == item.entry.target {
        return Next::Settled(Settled::at(PathState::New));
    }
    match (&item.entry.expect, &look.version) {
        (expect, found) if expect == found => Next::From(look.version),
        // Taken out, and the new thing not put there yet.
        (_, Version::Absent) if taken || item.act == Act::ReplaceFolder => Next::From(Version::Absent),
        // A folder that we made or loosened, without its final mode.
        (expect, Version::Dir { mode })
            if interim(item, *mode) && (taken || matches!(expect, Version::Absent | Version::Dir { .. })) =>
        {
            Next::From(look.version)
        }
        _ => Next::Settled(Settled::by(&look, item)),
    }
}

fn interim(item: &Item, mode: u32) -> bool {
    let old = match item.entry.expect {
        Version::Dir { mode } => mode,
        _ => 0,
    };
    let Version::Dir { mode: new } = item.entry.target else {
        return false;
    };
    mode == 0o700 || mode == 0o700 | (old & new & 0o077) || mode == old | 0o700
}

/// An exchange whose result nobody judged: right → the old thing goes to the trash; wrong → back. True: kept.
fn settle_exchange(context: &Context<'_>, parent: &Parent, item: &Item, ours_at_path: bool) -> bool {
    let dir = parent.dir.as_fd();
    let temp = At {
        dir,
        name: &item.temp,
    };
    if !ours_at_path || guard::check(temp, &item.entry, context.store).is_err() {
        bring_back_from_temp(context, parent, item, ours_at_path);
        return false;
    }
    if let Version::Dir { .. } = item.entry.expect {
        if leaf::remove_folder(dir, &item.temp).is_err() {
            bring_back_from_temp(context, parent, item, true);
        }
        return false;
    }
    match context.trash.keep(dir, &item.temp, &item.trash) {
        Ok(_) => true,
        Err(_) => {
            bring_back_from_temp(context, parent, item, true);
            false
        }
    }
}
