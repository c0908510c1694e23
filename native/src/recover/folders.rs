//! Rolling back folders and removals: made ones go when empty, removed ones come back, loosened ones get their old mode.

use std::os::fd::AsFd;

use super::roll_back::{now, path_of};
use super::{PathState, Settled};
use crate::apply::guard::Context;
use crate::apply::item::{Act, Item};
use crate::path::look::Look;
use crate::path::{FileId, Parent, leaf};
use crate::wire::Version;

/// What the owner needs to work in a folder.
const OWNER: u32 = 0o700;

pub fn remake_folder(parent: &Parent, item: &Item) -> leaf::Sys<()> {
    let (Act::ReplaceFolder, Version::Dir { mode }) = (item.act, &item.entry.expect) else {
        return Ok(());
    };
    let dir = parent.dir.as_fd();
    leaf::make_folder(dir, item.name())?;
    match leaf::stat(dir, item.name())? {
        Some(stat) => leaf::chmod_folder(dir, item.name(), FileId::of(&stat), *mode),
        None => Ok(()),
    }
}

/// Removes a folder that the operation made, if nobody put anything into it.
pub fn undo_folder(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Option<Settled> {
    let dir = parent.dir.as_fd();
    let Version::Dir { mode } = item.entry.target else {
        return None;
    };
    let made_here = match item.act {
        Act::MakeFolder => true,
        // Only what gave way to it proves that the folder is ours.
        Act::RemoveThenFolder => match context.trash.find(&item.trash) {
            Ok(found) => found.is_some(),
            Err(errno) => return Some(Settled::fault(format!("look into the trash: {errno}"))),
        },
        _ => return None,
    };
    let last = item.act == Act::MakeFolder;
    match path_of(parent, item).look(context.store) {
        Ok(Look {
            version: Version::Dir { mode: found },
            ..
        }) if made_here && (found == mode || found == OWNER || found == mode | OWNER) => {
            match leaf::remove_folder(dir, item.name()) {
                Ok(()) => last.then(|| Settled::at(PathState::Old)),
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                    Some(Settled::neither("the new folder holds somebody's files"))
                }
                Err(errno) => Some(Settled::fault(format!("remove the new folder: {errno}"))),
            }
        }
        Ok(look) => last.then(|| Settled::by(&look, item)),
        Err(errno) => Some(Settled::fault(format!("look at it: {errno}"))),
    }
}

pub fn undo_removal(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Option<Settled> {
    let dir = parent.dir.as_fd();
    if item.act == Act::RemoveFolder {
        if matches!(leaf::stat(dir, item.name()), Ok(None)) {
            if let Err(errno) = leaf::make_folder(dir, item.name()) {
                return Some(Settled::fault(format!("make the folder again: {errno}")));
            }
            item.folder = leaf::stat(dir, item.name())
                .ok()
                .flatten()
                .map(|s| FileId::of(&s));
        }
        return None;
    }
    if !item.act.removes() {
        return None;
    }
    let slot = match context.trash.find(&item.trash) {
        Ok(Some(slot)) => slot,
        Ok(None) => return Some(now(context, parent, item)),
        Err(errno) => return Some(Settled::fault(format!("look into the trash: {errno}"))),
    };
    match context.trash.put_back(&slot, dir, item.name()) {
        Ok(()) => Some(now(context, parent, item)),
        Err(rustix::io::Errno::EXIST) => Some(Settled {
            detail: format!(
                "what was there is kept in the trash as {}",
                String::from_utf8_lossy(&slot.name)
            ),
            ..now(context, parent, item)
        }),
        Err(errno) => Some(Settled::fault(format!("put it back: {errno}"))),
    }
}

/// Makes folders of the plan writable, top down, so that what lies below can be put back.
pub fn loosen(context: &Context<'_>, items: &mut [&mut Item]) {
    for item in items.iter_mut() {
        let modes: Vec<u32> = [&item.entry.expect, &item.entry.target]
            .into_iter()
            .filter_map(|v| match v {
                Version::Dir { mode } => Some(*mode),
                _ => None,
            })
            .collect();
        let Ok(parent) = context.root.parent(item.path()) else {
            continue;
        };
        let Ok(Some(stat)) = leaf::stat(parent.dir.as_fd(), item.name()) else {
            continue;
        };
        let mode = leaf::mode(&stat);
        if leaf::kind(&stat) == crate::wire::FileKind::Dir && modes.contains(&mode) && mode & OWNER != OWNER {
            let id = FileId::of(&stat);
            if leaf::chmod_folder(parent.dir.as_fd(), item.name(), id, mode | OWNER).is_ok() {
                item.folder = Some(id);
            }
        }
    }
}

/// Sets the old mode of folders that were there before.
pub fn finish_folder(context: &Context<'_>, item: &mut Item, out: &mut Option<Settled>) {
    let Version::Dir { mode: old } = item.entry.expect else {
        return;
    };
    let remade = item.act == Act::ReplaceFolder && matches!(out, Some(s) if s.state == PathState::Neither);
    if out.is_some() && item.folder.is_none() && !remade {
        return;
    }
    let parent = match context.root.parent(item.path()) {
        Ok(parent) => parent,
        Err(error) => {
            *out = Some(Settled::unreached(error));
            return;
        }
    };
    let dir = parent.dir.as_fd();
    let new = match item.entry.target {
        Version::Dir { mode } => mode,
        _ => old,
    };
    let known = [
        old,
        new,
        OWNER,
        old | OWNER,
        new | OWNER,
        OWNER | (old & new & 0o077),
    ];
    let set = match leaf::stat(dir, item.name()) {
        Ok(Some(stat))
            if leaf::kind(&stat) == crate::wire::FileKind::Dir && known.contains(&leaf::mode(&stat)) =>
        {
            match leaf::mode(&stat) == old {
                true => Ok(()),
                false => leaf::chmod_folder(dir, item.name(), FileId::of(&stat), old),
            }
        }
        Ok(_) if remade => return,
        Ok(_) => Ok(()),
        Err(errno) => Err(errno),
    };
    *out = Some(match set {
        Ok(()) => now(context, &parent, item),
        Err(errno) => Settled::fault(format!("set the folder's mode: {errno}")),
    });
}
