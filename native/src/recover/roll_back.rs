//! Back to the old tree: swaps undone, made folders removed, removed things put back, old modes set. In that order,
//! which is the order of an apply backwards.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::{PathState, Settled, folders};
use crate::apply::guard::{self, At, Context, Put};
use crate::apply::item::{Act, ApplyEntry, Item, Stop};
use crate::apply::out::Places;
use crate::apply::{Status, keep, temps};
use crate::path::look::Look;
use crate::path::{FileId, Parent, WalkError, leaf};
use crate::trash::Slot;
use crate::wire::Version;

/// Rolls back the items, which are in path order. `swapping`: swaps may have begun.
pub fn roll_back(context: &Context<'_>, items: &mut [&mut Item], swapping: bool) -> Vec<Settled> {
    let mut out: Vec<Option<Settled>> = items.iter().map(|_| None).collect();
    folders::loosen(context, items);
    each(context, items, &mut out, |context, parent, item| match item.act {
        act if act.swaps() => Some(undo_swap(context, parent, (item, swapping))),
        Act::FileMode => Some(undo_mode(context, parent, item)),
        Act::Verify | Act::Unsupported => Some(now(context, parent, item)),
        _ => None,
    });
    let count = items.len();
    for at in (0..count).rev() {
        each(
            context,
            &mut items[at..=at],
            &mut out[at..=at],
            folders::undo_folder,
        );
    }
    each(context, items, &mut out, |context, parent, item| {
        folders::undo_removal(context, parent, item)
    });
    for at in (0..count).rev() {
        folders::finish_folder(context, items[at], &mut out[at]);
    }
    let unreached = || Settled::fault("recovery did not reach it");
    out.into_iter()
        .map(|settled| settled.unwrap_or_else(unreached))
        .collect()
}

fn each(
    context: &Context<'_>,
    items: &mut [&mut Item],
    out: &mut [Option<Settled>],
    mut act: impl FnMut(&Context<'_>, &Parent, &mut Item) -> Option<Settled>,
) {
    for (item, out) in items.iter_mut().zip(out) {
        if out.is_some() {
            continue;
        }
        *out = match context.root.parent(item.path()) {
            Ok(parent) => act(context, &parent, item),
            // Its folder may come back in a later step.
            Err(WalkError::Missing) if !matches!(item.act, Act::MakeFolder | Act::Create) => None,
            Err(WalkError::Missing) => Some(Settled::at(PathState::Old)),
            Err(WalkError::NotFolder) if item.entry.expect == Version::Absent => {
                Some(Settled::at(PathState::Old))
            }
            Err(error) => Some(Settled::unreached(error)),
        };
    }
}

/// The state by what is at the path now.
pub fn now(context: &Context<'_>, parent: &Parent, item: &Item) -> Settled {
    match path_of(parent, item).look(context.store) {
        Ok(look) => Settled::by(&look, item),
        Err(errno) => Settled::fault(format!("look at it: {errno}")),
    }
}

pub fn path_of<'a>(parent: &'a Parent, item: &'a Item) -> At<'a> {
    At {
        dir: parent.dir.as_fd(),
        name: item.name(),
    }
}

/// Where an interrupted swap stands.
pub struct Standing {
    /// The temp's name holds something, and whether that is our temp.
    pub temp: Option<bool>,
    pub kept: Option<Slot>,
    pub path: Look,
    /// Our file is at the path, by inode, or by its bytes where what it replaced is at hand.
    pub ours_at_path: bool,
}

pub fn standing(context: &Context<'_>, parent: &Parent, item: &Item) -> leaf::Sys<Standing> {
    let dir = parent.dir.as_fd();
    let temp = leaf::stat(dir, &item.temp)?.map(|s| item.prepared == Some(FileId::of(&s)));
    let kept = context.trash.find(&item.trash)?;
    let path = path_of(parent, item).look(context.store)?;
    if super::unreadable_for_now(&path.version, item) {
        return Err(Errno::ACCESS);
    }
    let by_inode = item.prepared.is_some() && path.id() == item.prepared;
    // Inode numbers that don't last (some network file systems): the bytes decide, with the proof that we swapped.
    let evidence = item.prepared.is_some() && temp != Some(true) && (temp.is_some() || kept.is_some());
    let ours_at_path = by_inode || (evidence && path.version == item.entry.target);
    Ok(Standing {
        temp,
        kept,
        path,
        ours_at_path,
    })
}

fn undo_swap(context: &Context<'_>, parent: &Parent, (item, swapping): (&mut Item, bool)) -> Settled {
    let dir = parent.dir.as_fd();
    if !swapping {
        let dropped = drop_unswapped(dir, item);
        return temp_left(dropped).unwrap_or_else(|| now(context, parent, item));
    }
    if let Some(stays) = drop_anew(dir, item) {
        return stays;
    }
    let stands = match standing(context, parent, item) {
        Ok(stands) => stands,
        Err(errno) => return Settled::fault(format!("look at it: {errno}")),
    };
    match (stands.temp, stands.kept) {
        (Some(false), _) => {
            bring_back_from_temp(context, parent, item, stands.ours_at_path);
            if let Some(fault) = not_brought_back(context, parent, item) {
                return fault;
            }
        }
        (_, Some(slot)) => {
            if let Some(kept) = bring_back_from_trash(context, parent, (item, &slot), &stands.path) {
                return kept;
            }
        }
        // Killed between link and unlink: the new file has both names.
        (Some(true), None) if stands.path.id() == item.prepared => {
            let _stays = leaf::unlink(dir, &item.temp);
            return undo_alone(context, parent, item, &stands.path);
        }
        (None, None) if stands.ours_at_path => return undo_alone(context, parent, item, &stands.path),
        // An emptied folder made way, and the new file isn't there, or not any more.
        (Some(true) | None, None) => {
            if item.prepared.is_some()
                && stands.path.version == Version::Absent
                && let Err(errno) = folders::remake_folder(parent, item)
            {
                return Settled::fault(format!("make the folder again: {errno}"));
            }
        }
    }
    let dropped = keep::drop_temp(context, dir, item);
    temp_left(dropped).unwrap_or_else(|| now(context, parent, item))
}

/// A temp that no swap can have touched.
pub fn drop_unswapped(dir: BorrowedFd<'_>, item: &Item) -> leaf::Sys<()> {
    match leaf::stat(dir, &item.temp)? {
        Some(stat) if leaf::kind(&stat) != crate::wire::FileKind::Dir => leaf::unlink(dir, &item.temp),
        _ => Ok(()),
    }
}

/// Some: the temp stays, and is to be tried again. Where nothing is ever removed (append-only), it stays for good,
/// under a name that no scan looks at.
pub fn temp_left(dropped: leaf::Sys<()>) -> Option<Settled> {
    match dropped {
        Ok(()) | Err(Errno::PERM) => None,
        Err(errno) => Some(Settled::fault(format!("its temp file was left: {errno}"))),
    }
}

/// A temp that an earlier recovery was writing anew, perhaps in half. Some: it can't be taken away.
pub fn drop_anew(dir: BorrowedFd<'_>, item: &mut Item) -> Option<Settled> {
    if item.prepared != Some(FileId::NONE) {
        return None;
    }
    item.prepared = None;
    let fault = |errno| Settled::fault(format!("remove a new file that was not finished: {errno}"));
    drop_unswapped(dir, item).err().map(fault)
}

/// What came out by exchange is under the temp's name.
pub fn bring_back_from_temp(context: &Context<'_>, parent: &Parent, item: &Item, ours_at_path: bool) {
    let dir = parent.dir.as_fd();
    let ends = (
        At {
            dir,
            name: &item.temp,
        },
        path_of(parent, item),
    );
    if ours_at_path {
        let id = item.prepared;
        let version = item.entry.target.clone();
        guard::exchange_back(context, ends, Put { id, version });
    } else {
        // Fails where the name is taken; then it is moved to the trash by `drop_temp`.
        let _taken = leaf::rename_new(dir, &item.temp, dir, item.name());
    }
}

/// Some: the new file is there all the same, so that what was to come back is under the temp's name still.
fn not_brought_back(context: &Context<'_>, parent: &Parent, item: &Item) -> Option<Settled> {
    match path_of(parent, item).look(context.store) {
        Ok(look) if look.version == item.entry.target => Some(Settled::fault("it could not be brought back")),
        Ok(_) => None,
        Err(errno) => Some(Settled::fault(format!("look at it: {errno}"))),
    }
}

/// What came out is in the trash already. Some: it has to stay there.
fn bring_back_from_trash(
    context: &Context<'_>,
    parent: &Parent,
    (item, slot): (&mut Item, &Slot),
    path: &Look,
) -> Option<Settled> {
    let dir = parent.dir.as_fd();
    let kept = format!(
        "what was there is kept in the trash as {}",
        String::from_utf8_lossy(&slot.name)
    );
    let fault = |errno| Some(Settled::fault(format!("put it back: {errno}")));
    let by_inode = item.prepared.is_some() && path.id() == item.prepared;
    if path.version == Version::Absent {
        return context
            .trash
            .put_back(slot, dir, item.name())
            .err()
            .and_then(fault);
    }
    let temp_free = matches!(leaf::stat(dir, &item.temp), Ok(None));
    if path.version == item.entry.expect || !(by_inode || (temp_free && path.version == item.entry.target)) {
        let dropped = keep::drop_temp(context, dir, item);
        if let Some(left) = temp_left(dropped) {
            return Some(left);
        }
        return Some(Settled {
            detail: kept,
            ..Settled::by(path, item)
        });
    }
    if path.version != item.entry.target {
        return Some(Settled::neither(format!(
            "somebody wrote to the new file; {kept}"
        )));
    }
    // Killed between link and unlink, the new file has both names.
    if by_inode
        && matches!(leaf::stat(dir, &item.temp), Ok(Some(stat)) if Some(FileId::of(&stat)) == item.prepared)
    {
        let _stays = leaf::unlink(dir, &item.temp);
    }
    if let Err(errno) = context.trash.put_back(slot, dir, &item.temp) {
        return fault(errno);
    }
    // A link that was made straight at the path had no temp.
    item.prepared = item.prepared.or(path.id());
    if context.ladder.exchange() {
        bring_back_from_temp(context, parent, item, true);
        return not_brought_back(context, parent, item);
    }
    back_without_exchange(context, parent, item)
}

/// Our file leaves, then the old one takes the free name.
fn back_without_exchange(context: &Context<'_>, parent: &Parent, item: &Item) -> Option<Settled> {
    let dir = parent.dir.as_fd();
    let ours = [&item.trash[..], b"-new"].concat();
    let fault = |errno| Some(Settled::fault(format!("put it back: {errno}")));
    match context.trash.keep(dir, item.name(), &ours) {
        Ok(_) => leaf::rename_new(dir, &item.temp, dir, item.name())
            .err()
            .and_then(fault),
        Err(errno) => fault(errno),
    }
}

/// Our file is at the path, and nothing came out that is still at hand: a created file, an emptied folder, or a trash
/// that somebody emptied.
fn undo_alone(context: &Context<'_>, parent: &Parent, item: &mut Item, path: &Look) -> Settled {
    if path.version != item.entry.target {
        return Settled::neither("somebody wrote to the new file");
    }
    let stopped = match item.entry.expect {
        Version::Absent | Version::Dir { .. } => {
            item.swapped = Some(crate::apply::item::Swapped::Nothing);
            guard::swap_back(context, parent, item);
            // Where it could not be dropped there: the folder that holds it may be one that has to go.
            let dropped = keep::drop_temp(context, parent.dir.as_fd(), item);
            if let Some(fault) = temp_left(dropped).or_else(|| not_brought_back(context, parent, item)) {
                return fault;
            }
            Ok(())
        }
        _ => replace_again(context, parent, item),
    };
    match stopped {
        Ok(()) => now(context, parent, item),
        Err(stop) => Settled::fault(stop.detail),
    }
}

/// The old bytes from the store, guarded like any replacement.
fn replace_again(context: &Context<'_>, parent: &Parent, item: &Item) -> Result<(), Stop> {
    let mut back = inverse(item);
    temps::prepare(context, parent, &mut back, true)?;
    guard::swap_in(context, parent, &mut back)?;
    guard::pause_since(std::time::Instant::now());
    guard::second_look(context, (parent, &mut Places::default()), &mut back)
}

fn inverse(item: &Item) -> Item {
    let entry = ApplyEntry {
        path: item.entry.path.clone(),
        expect: item.entry.target.clone(),
        target: item.entry.expect.clone(),
        force: false,
    };
    let mut back = Item::new(&[0; 16], item.index, entry);
    back.temp = item.temp.clone();
    back.trash = [&item.trash[..], b"-new"].concat();
    back
}

fn undo_mode(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Settled {
    let settled = now(context, parent, item);
    if settled.state != PathState::New {
        return settled;
    }
    match temps::change_mode(context, parent, &mut inverse(item)) {
        Ok(()) => now(context, parent, item),
        Err(stop) if stop.status == Status::Failed || super::is_fault(&stop, item) => {
            Settled::fault(stop.detail)
        }
        Err(_) => now(context, parent, item),
    }
}
