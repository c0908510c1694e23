//! The guard: swap first, then look at what came out, so that no moment lies between check and write.
//!
//! What came out must be what was expected, with nobody writing to it, twice (`check_out`, and again after a pause:
//! `second_look`). Else it goes back, and keeps going back until what comes out is what we last put in, so that the
//! newest thing that anybody else put at the path ends there. Nothing that comes out is unlinked, but our own temp, and
//! that only with its bytes unchanged.
//!
//! Still possible: somebody who looked the name up before the swap and opens it after the second look writes into the
//! kept inode. Its bytes are found when the trash is emptied.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::item::{ApplyEntry, Item, Stop, Swapped, judge};
use super::keep::{check_removed, discard_temp, drop_temp, put_back_removed, remove, unmoved};
use super::out::{Places, judge_out};
use super::sightings::Seen;
use crate::path::leaf::{self, Sys};
use crate::path::look::{Look, Writer, look};
use crate::path::{FileId, Parent, Root, names};
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::trash::Trash;
use crate::wire::Version;

/// Between the first and the second look at what came out: an opener that was under way comes to its end.
const PAUSE: Duration = Duration::from_micros(300);
/// Swaps back before the rest is left to the trash. Each needs another writer's rename in the same microseconds.
const SWAPS_BACK: usize = 64;

/// Which rung of the ladder is in use: probed, and stepped down where a call shows that it isn't there.
#[derive(Debug)]
pub struct Ladder {
    exchange: AtomicBool,
}

impl Ladder {
    pub fn new(exchange: bool) -> Self {
        Ladder {
            exchange: AtomicBool::new(exchange),
        }
    }

    pub fn exchange(&self) -> bool {
        self.exchange.load(Ordering::Relaxed)
    }

    /// Takes what a probe found. A call that failed before counts more.
    pub fn probed(&self, exchange: bool) {
        self.exchange.fetch_and(exchange, Ordering::Relaxed);
    }

    pub fn without_exchange(&self) {
        self.exchange.store(false, Ordering::Relaxed);
    }
}

/// What the phases of one operation share.
pub struct Context<'a> {
    pub root: &'a Root,
    pub store: &'a SegmentStore,
    pub trash: &'a Trash<'a>,
    pub ladder: &'a Ladder,
    /// Leases see every writer here, by a mapping too: what was read under one that holds is as it was read.
    pub holds: bool,
    /// What the peek before saw; empty in recovery.
    pub seen: Seen,
    pub work: &'a Work,
}

/// A name in an open folder.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a [u8],
}

impl At<'_> {
    pub fn look(&self, store: &SegmentStore) -> Sys<Look> {
        look(self.dir, self.name, store)
    }
}

/// What we put at a path: which inode, holding what.
#[derive(Debug, Clone, PartialEq)]
pub struct Put {
    pub id: Option<FileId>,
    pub version: Version,
}

impl Put {
    fn of(look: &Look) -> Self {
        Put {
            id: look.id(),
            version: look.version.clone(),
        }
    }

    /// What is at a name. Where it can't be read, by its identity alone.
    fn at(at: At<'_>, store: &SegmentStore) -> (Self, Writer) {
        match at.look(store) {
            Ok(look) => (Put::of(&look), look.writer),
            Err(_) => {
                let id = leaf::stat(at.dir, at.name).ok().flatten().map(|s| FileId::of(&s));
                let version = Version::Absent;
                (Put { id, version }, Writer::Unknown)
            }
        }
    }

    /// It is there, and can't be read.
    fn is_unread(&self) -> bool {
        self.id.is_some() && self.version == Version::Absent
    }
}

/// Waits until the pause since `since` is over.
pub fn pause_since(since: Instant) {
    if let Some(left) = PAUSE.checked_sub(since.elapsed()) {
        std::thread::sleep(left);
    }
}

/// Looks at a name and judges it; a fault of the system becomes a stop.
pub fn check(at: At<'_>, entry: &ApplyEntry, store: &SegmentStore) -> Result<Look, Stop> {
    let look = at.look(store).map_err(|errno| Stop::errno("look at it", errno))?;
    judge(&look, entry)?;
    Ok(look)
}

/// The same for the thing of an item. A folder of the plan that we loosened is as expected but for its mode.
pub fn check_item(at: At<'_>, item: &Item, store: &SegmentStore) -> Result<Look, Stop> {
    let look = at.look(store).map_err(|errno| Stop::errno("look at it", errno))?;
    if !item.is_loosened(&look) {
        judge(&look, &item.entry)?;
    }
    Ok(look)
}

/// The note of a path whose temp file nobody can take away, as in an append-only folder.
const TEMP_LEFT: &str = "a temp file was left";

/// Puts the temp of `item` at its path and judges what came out. On a stop the path holds what it held, or what
/// somebody put there since, and the temp is gone.
pub fn swap_in(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let put = match item.entry.expect {
        Version::Absent => put_new(context, parent, item),
        _ => put_over(context, parent, item),
    };
    match put {
        Err(stop) => {
            if !discard_temp(parent.dir.as_fd(), item) {
                item.note(TEMP_LEFT);
            }
            Err(stop)
        }
        Ok(swapped) => {
            item.swapped = Some(swapped);
            check_out(context, parent, item).inspect_err(|_| swap_back(context, parent, item))
        }
    }
}

fn put_new(context: &Context<'_>, parent: &Parent, item: &Item) -> Result<Swapped, Stop> {
    let dir = parent.dir.as_fd();
    match leaf::rename_new(dir, &item.temp, dir, item.name()) {
        Ok(()) => Ok(Swapped::Nothing),
        Err(Errno::EXIST) => Err(taken(context, parent, item)),
        Err(errno) => Err(Stop::errno("put the new file in place", errno)),
    }
}

/// The stop for a name that somebody took first.
pub fn taken(context: &Context<'_>, parent: &Parent, item: &Item) -> Stop {
    let dir = parent.dir.as_fd();
    match look(dir, item.name(), context.store) {
        Ok(found) => Stop::changed(found.version),
        Err(errno) => {
            Stop::refused("changed-outside-session", None).with_detail(format!("the name is taken: {errno}"))
        }
    }
}

fn put_over(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<Swapped, Stop> {
    let dir = parent.dir.as_fd();
    if context.ladder.exchange() {
        match leaf::exchange(dir, &item.temp, item.name()) {
            Ok(()) => return Ok(Swapped::Exchanged),
            Err(Errno::NOENT) => return Err(Stop::changed(Version::Absent)),
            // An overlay swaps files but not its lower folders.
            Err(Errno::XDEV) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => context.ladder.without_exchange(),
            Err(errno) => return Err(Stop::errno("swap the new file in", errno)),
        }
    }
    take_out(context, parent, item)
}

/// Without an exchange: what is there leaves first, then the temp comes, provided that the name is still free.
fn take_out(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<Swapped, Stop> {
    let dir = parent.dir.as_fd();
    if let Version::Dir { .. } = item.entry.expect {
        leaf::remove_folder(dir, item.name()).map_err(folder_stop)?;
        put_new(context, parent, item).inspect_err(|_| remake_folder(parent, item))?;
        return Ok(Swapped::Nothing);
    }
    item.note("guard:take-out+link");
    remove(context, parent, item)?;
    let again = check_removed(context, item);
    match again.and_then(|()| put_new(context, parent, item)) {
        Ok(_) => Ok(Swapped::TakenOut),
        Err(stop) => Err(put_back_removed(context, parent, item, stop)),
    }
}

fn remake_folder(parent: &Parent, item: &Item) {
    let dir = parent.dir.as_fd();
    // The name may be taken by now: then somebody's thing is there, and the empty folder had no bytes.
    if let Version::Dir { mode } = item.entry.expect
        && leaf::make_folder(dir, item.name()).is_ok()
        && let Ok(Some(stat)) = leaf::stat(dir, item.name())
    {
        let _unchanged_bits_stay_private = leaf::chmod_folder(dir, item.name(), FileId::of(&stat), mode);
    }
}

pub fn folder_stop(errno: Errno) -> Stop {
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => Stop::refused("not-empty", None),
        Errno::NOENT => Stop::changed(Version::Absent),
        Errno::NOTDIR => Stop::failed("walk-failed", "it is no folder any more"),
        other => Stop::errno("remove the folder", other),
    }
}

/// Judges what came out, and empties the way for a folder: only an empty one goes.
fn check_out(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    match item.swapped {
        Some(Swapped::Exchanged) => {
            let out = judge_temp(context, parent, item)?;
            note_writer(item, &out);
            if let Version::Dir { .. } = out.version {
                leaf::remove_folder(dir, &item.temp).map_err(folder_stop)?;
                item.swapped = Some(Swapped::Nothing);
            }
            Ok(())
        }
        Some(Swapped::TakenOut) => check_removed(context, item),
        _ => Ok(()),
    }
}

/// What came out by exchange has the temp's name.
fn judge_temp(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<Look, Stop> {
    let name = item.temp.clone();
    let dir = parent.dir.as_fd();
    judge_out(context, At { dir, name: &name }, item)
}

/// Without a lease a writer that holds the file open can't be seen; the receipt says so. It also names the file that
/// was taken from under a writer's hands: what is written to it from now on is in the trash.
pub fn note_writer(item: &mut Item, out: &Look) {
    if out.writer == Writer::Open {
        item.note("open-for-write");
    }
    let file = matches!(out.version, Version::File { .. });
    if file && out.writer == Writer::Unknown && !item.notes.contains(&"guard:take-out+link") {
        item.note("guard:exchange");
    }
}

/// The folder must still be where it was: one that was moved out of the root takes nothing of ours along.
pub fn check_folder(context: &Context<'_>, parent: &Parent, item: &Item) -> Result<(), Stop> {
    let folder = names::split(item.path()).0;
    if context.root.still_at(folder, parent.id)? {
        return Ok(());
    }
    Err(Stop::failed(
        "walk-failed",
        "its folder was moved or replaced meanwhile",
    ))
}

/// Takes the new thing away again and brings back what came out.
pub fn swap_back(context: &Context<'_>, parent: &Parent, item: &mut Item) {
    let dir = parent.dir.as_fd();
    let put = Put {
        id: item.prepared,
        version: item.entry.target.clone(),
    };
    let path = item.entry.path.clone();
    let ends = (
        At {
            dir,
            name: &item.temp,
        },
        At {
            dir,
            name: names::split(&path).1,
        },
    );
    match item.swapped.take() {
        Some(Swapped::Exchanged) => exchange_back(context, ends, put),
        Some(Swapped::TakenOut) | Some(Swapped::Nothing) => {
            take_back(context, ends, &put);
            if let Some(slot) = item.removed.take() {
                // A name that is taken by now keeps what it has; what came out stays in the trash.
                if context.trash.put_back(&slot, dir, ends.1.name).is_err() {
                    item.removed = Some(slot);
                }
            } else if let Version::Dir { .. } = item.entry.expect {
                remake_folder(parent, item);
            }
        }
        None => {}
    }
    // It is where it belongs: whoever waits for the lease may write.
    item.out = None;
    if drop_temp(context, dir, item).is_err() {
        item.note(TEMP_LEFT);
    }
}

/// Swaps until what comes out is what we last put in.
pub fn exchange_back(context: &Context<'_>, (temp, path): (At<'_>, At<'_>), mut put: Put) {
    for _ in 0..SWAPS_BACK {
        let (going_in, _) = Put::at(temp, context.store);
        match leaf::exchange(temp.dir, temp.name, path.name) {
            Ok(()) => {}
            // Somebody took our file away: what came out goes back to the free name.
            Err(Errno::NOENT) => match leaf::rename_new(temp.dir, temp.name, path.dir, path.name) {
                Err(Errno::EXIST) => continue,
                _ => return,
            },
            Err(_) => return,
        }
        match Put::at(temp, context.store) {
            (out, writer) if out == put && writer != Writer::Open => return,
            // Ours, by its identity: to swap again would put it back. It is kept, whatever it holds by now.
            (out, _) if out.is_unread() && out.id == put.id => return,
            _ => put = going_in,
        }
    }
}

/// Takes our file from the path, if it is still ours and unchanged; anything else stays.
fn take_back(context: &Context<'_>, (temp, path): (At<'_>, At<'_>), put: &Put) {
    if leaf::rename_new(path.dir, path.name, temp.dir, temp.name).is_err() {
        return;
    }
    let (out, writer) = Put::at(temp, context.store);
    if out != *put || writer == Writer::Open {
        // Where the name is taken again, `drop_temp` moves it to the trash.
        let _stays = leaf::rename_new(temp.dir, temp.name, path.dir, path.name);
    }
}

/// Looks again, after the pause, and for the folder; a file that somebody wrote to meanwhile goes back.
pub fn second_look(
    context: &Context<'_>,
    (parent, places): (&Parent, &mut Places),
    item: &mut Item,
) -> Result<(), Stop> {
    let out = match item.swapped {
        Some(Swapped::Exchanged) => judge_temp(context, parent, item).map(Some),
        Some(Swapped::TakenOut) => check_removed(context, item).map(|()| None),
        _ => Ok(None),
    };
    let out = out.and_then(|out| places.check(context, parent, item).map(|()| out));
    let verdict = out.and_then(|out| match out {
        Some(out) => keep_out(context, parent, (item, &out)),
        None => Ok(()),
    });
    verdict.inspect_err(|_| swap_back(context, parent, item))
}

/// Moves what came out by exchange to the trash.
fn keep_out(context: &Context<'_>, parent: &Parent, (item, out): (&mut Item, &Look)) -> Result<(), Stop> {
    note_writer(item, out);
    let kept = context.trash.keep(parent.dir.as_fd(), &item.temp, &item.trash);
    let slot = kept.map_err(|errno| Stop::errno("keep what was there", errno))?;
    item.unmoved = unmoved(context, &slot, out);
    item.out = None;
    Ok(())
}
