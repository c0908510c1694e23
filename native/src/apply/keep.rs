//! What leaves a path: moved to the trash, judged there, put back where it is not what was expected. And the one thing
//! that is unlinked: our own temp, with its bytes unchanged.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::guard::{At, Context, Put, note_writer};
use super::item::{Item, Stop};
use super::out::judge_out;
use crate::path::leaf::{self, Sys};
use crate::path::look::{Look, OpenFile, Writer, stat_key};
use crate::path::{FileId, Parent};
use crate::segment::SegmentStore;
use crate::trash::Slot;
use crate::wire::{StatKey, Version};

/// Older writes than this have a time that no later one can have, whatever the file system's tick (at most 2 s, FAT's).
const SETTLED_NS: i64 = 2_500_000_000;

/// Unlinks a temp that never was at its path: nobody but us can have written to it.
/// False where it can't be unlinked: it stays under a name that no scan looks at; `finish` and recovery try again.
pub fn discard_temp(dir: BorrowedFd<'_>, item: &Item) -> bool {
    match leaf::stat(dir, &item.temp) {
        Ok(Some(stat)) if item.prepared == Some(FileId::of(&stat)) => leaf::unlink(dir, &item.temp).is_ok(),
        _ => true,
    }
}

/// Ends the temp's name: our own file, unchanged and closed, is unlinked; anything else is moved to the trash. An error
/// where it stays, as in an append-only folder: no scan looks at its name, recovery and `finish` try again.
pub fn drop_temp(context: &Context<'_>, dir: BorrowedFd<'_>, item: &Item) -> Sys<()> {
    let mine = Put {
        id: item.prepared,
        version: item.entry.target.clone(),
    };
    let foreign = [&item.trash[..], b"-foreign"].concat();
    let temp = At {
        dir,
        name: &item.temp,
    };
    end_temp(context, temp, &mine, &foreign)
}

pub fn end_temp(context: &Context<'_>, temp: At<'_>, mine: &Put, foreign: &[u8]) -> Sys<()> {
    let Some(stat) = leaf::stat(temp.dir, temp.name)? else {
        return Ok(());
    };
    if mine.id != Some(FileId::of(&stat)) {
        return context.trash.keep(temp.dir, temp.name, foreign).map(drop);
    }
    if unlink_unchanged(temp, &mine.version, context.store)? {
        return Ok(());
    }
    context.trash.keep(temp.dir, temp.name, foreign).map(drop)
}

/// Unlinks a file whose bytes are known to be stored, holding a lease while it goes. False: it is something else.
pub fn unlink_unchanged(at: At<'_>, version: &Version, store: &SegmentStore) -> Sys<bool> {
    match version {
        Version::File { content, .. } => {
            let mut open = match OpenFile::open(at.dir, at.name) {
                Ok(open) => open,
                Err(Errno::INVAL | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => return Ok(false),
                Err(errno) => return Err(errno),
            };
            open.lease();
            if open.writer() == Writer::Open
                || open.hash(store)?.0 != *content
                || open.writer() == Writer::Open
            {
                return Ok(false);
            }
            leaf::unlink(at.dir, at.name).map(|()| true)
        }
        Version::Symlink { .. } | Version::Special { .. } => {
            if at.look(store)?.version != *version {
                return Ok(false);
            }
            leaf::unlink(at.dir, at.name).map(|()| true)
        }
        Version::Dir { .. } => match leaf::remove_folder(at.dir, at.name) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno),
        },
        Version::Absent | Version::Uncovered { .. } => Ok(false),
    }
}

/// The stat key under which a kept file need not be read again: when it was judged nobody had it open for writing, its
/// last write was too long ago for another to bear the same time, and since then nothing but the move touched it.
pub fn unmoved(context: &Context<'_>, slot: &Slot, judged: &Look) -> Option<(Vec<u8>, StatKey)> {
    let was = stat_key(judged.stat.as_ref()?);
    let age = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos() as i64 - was.mtime_ns;
    if judged.writer != Writer::None || age < SETTLED_NS {
        return None;
    }
    let now = stat_key(&leaf::stat(context.trash.fd(slot.place).ok()?, &slot.name).ok()??);
    let moved = StatKey {
        ctime_ns: now.ctime_ns,
        ..was
    };
    (moved == now).then(|| (slot.name.clone(), now))
}

/// Unlinks a kept file unread, under a lease: nobody writes, and by its stat key nobody did. False: it has to be read.
pub fn unlink_unmoved(at: At<'_>, key: &StatKey) -> Sys<bool> {
    let Ok(mut open) = OpenFile::open(at.dir, at.name) else {
        return Ok(false);
    };
    open.lease();
    let now = stat_key(&crate::sys::fstat(&open.fd)?);
    if now != *key || open.writer() != Writer::None {
        return Ok(false);
    }
    leaf::unlink(at.dir, at.name).map(|()| true)
}

/// Moves what is at the path to the trash. The caller judges it there.
pub fn remove(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    match context.trash.keep(parent.dir.as_fd(), item.name(), &item.trash) {
        Ok(slot) => {
            item.removed = Some(slot);
            Ok(())
        }
        Err(Errno::NOENT) => Err(Stop::changed(Version::Absent)),
        Err(errno) => Err(Stop::errno("move it to the trash", errno)),
    }
}

/// Judges what `remove` moved away.
pub fn check_removed(context: &Context<'_>, item: &mut Item) -> Result<(), Stop> {
    let Some(slot) = item.removed.clone() else {
        return Ok(());
    };
    let dir = context
        .trash
        .fd(slot.place)
        .map_err(|errno| Stop::errno("open the trash", errno))?;
    let at = At {
        dir,
        name: &slot.name,
    };
    let out = judge_out(context, at, item)?;
    if matches!(out.version, Version::File { .. }) && out.links() > 1 {
        item.note("hardlink-broken");
    }
    note_writer(item, &out);
    item.unmoved = unmoved(context, &slot, &out);
    Ok(())
}

/// Puts back what `remove` moved away; where the name is taken by now, it stays in the trash and the stop says so.
pub fn put_back_removed(context: &Context<'_>, parent: &Parent, item: &mut Item, stop: Stop) -> Stop {
    let Some(slot) = item.removed.take() else {
        return stop;
    };
    let back = context.trash.put_back(&slot, parent.dir.as_fd(), item.name());
    item.out = None;
    match back {
        Ok(()) => stop,
        Err(errno) => {
            let kept = String::from_utf8_lossy(&slot.name).into_owned();
            item.removed = Some(slot);
            stop.with_detail(format!("what was there is kept in the trash as {kept}: {errno}"))
        }
    }
}
