//! Temp files: the new bytes, complete and with their final mode, beside the path that they will take.
//!
//! Made exclusively, with no more rights than its final owner and group will give; owner, attributes and mode follow on
//! the descriptor where they differ, the mode last (a change of owner clears bits). A path that the guard refuses gets
//! no temp.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::attributes;
use super::guard::{At, Context, check, check_folder, check_item, note_writer};
use super::item::{Act, Item, Stop};
use super::keep::discard_temp;
use super::sightings::look_before;
use crate::error::{Code, EngineError};
use crate::path::look::{OpenFile, look};
use crate::path::{FileId, Parent, leaf};
use crate::sys;
use crate::wire::Version;

/// Looks at the path and writes the temp. `sync`: make it durable here, where there are too few for one barrier.
pub fn prepare(context: &Context<'_>, parent: &Parent, item: &mut Item, sync: bool) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let at = At {
        dir,
        name: item.name(),
    };
    let found = look_before(context, at, item)?;
    if item.act == Act::Replace && found.links() > 1 {
        item.note("hardlink-broken");
    }
    item.seen = found.stat;
    let made = match item.entry.target.clone() {
        Version::File { mode, content, .. } => write_file(context, parent, item, (mode, content, sync)),
        Version::Symlink { target } => {
            let made = leaf::make_symlink(dir, &item.temp, &target);
            made.map_err(|errno| Stop::errno("make the symlink", errno))
        }
        _ => Ok(()),
    };
    let made = made.and_then(|()| remember(parent, item));
    made.inspect_err(|_| {
        discard_temp(dir, item);
    })
}

/// A file's identity is known from its descriptor; a symlink has none.
fn remember(parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    if item.prepared.is_some() {
        return Ok(());
    }
    match leaf::stat(parent.dir.as_fd(), &item.temp) {
        Ok(Some(stat)) => {
            item.prepared = Some(FileId::of(&stat));
            Ok(())
        }
        Ok(None) => Err(Stop::failed("io-error", "the temp file was taken away")),
        Err(errno) => Err(Stop::errno("stat the temp file", errno)),
    }
}

fn write_file(
    context: &Context<'_>,
    parent: &Parent,
    item: &mut Item,
    (mode, content, sync): (u32, crate::wire::Hash, bool),
) -> Result<(), Stop> {
    let unread = |error: EngineError| match error.code {
        Code::BlobMissing => Stop::failed("blob-missing", error.message),
        Code::BlobCorrupt => Stop::failed("blob-corrupt", error.message),
        _ => Stop::failed("io-error", error.message),
    };
    let pieces = context.store.pieces(&content).map_err(unread)?;
    let dir = parent.dir.as_fd();
    let stopped = |errno| Stop::errno("write the new file", errno);
    let fd = leaf::create_file_with(dir, &item.temp, attributes::first_mode(mode)).map_err(stopped)?;
    let stat = sys::fstat(&fd).map_err(stopped)?;
    // From here on the temp is known as ours, whatever fails.
    item.prepared = Some(FileId::of(&stat));
    for piece in pieces {
        leaf::write_all(fd.as_fd(), &piece.map_err(unread)?).map_err(stopped)?;
    }
    let copied = copy_attributes(parent, item, (fd.as_fd(), &stat), mode);
    if copied || stat.st_mode & 0o7777 != mode & 0o777 {
        attributes::set_mode(fd.as_fd(), mode).map_err(stopped)?;
    }
    if sync {
        sys::fsync(&fd).map_err(stopped)?;
    }
    Ok(())
}

/// True where anything was set, which may have moved the mode.
fn copy_attributes(parent: &Parent, item: &mut Item, temp: (BorrowedFd<'_>, &Stat), mode: u32) -> bool {
    let Some(seen) = item.seen.filter(|s| leaf::kind(s) == crate::wire::FileKind::File) else {
        return false;
    };
    let mut set = !attributes::same_owner(temp.1, &seen);
    if set && !attributes::copy_owner(temp, &seen) {
        item.note("owner-not-kept");
    }
    let dir = parent.dir.as_fd();
    // Not readable, or gone: the guard judges that at the swap.
    if leaf::may_have_xattrs(dir, item.name())
        && let Ok((old, _)) = leaf::open_file(dir, item.name())
    {
        attributes::copy_xattrs(temp.0, old.as_fd(), mode);
        set = true;
    }
    set
}

/// A mode-only entry: the bits of the checked inode are set, its bytes are not written.
pub fn change_mode(context: &Context<'_>, parent: &Parent, item: &mut Item) -> Result<(), Stop> {
    let name = item.name().to_vec();
    let at = At {
        dir: parent.dir.as_fd(),
        name: &name,
    };
    let (&Version::File { mode: new, .. }, &Version::File { mode: old, .. }) =
        (&item.entry.target, &item.entry.expect)
    else {
        return Err(Stop::failed("unsupported", "not a file"));
    };
    let found = check(at, &item.entry, context.store)?;
    let stopped = |errno| Stop::errno("change the mode", errno);
    note_writer(item, &found);
    let open = OpenFile::open(at.dir, at.name).map_err(stopped)?;
    if found.id() != Some(FileId::of(&open.stat)) {
        return Err(changed(at, context));
    }
    attributes::set_mode(open.fd.as_fd(), new).map_err(stopped)?;
    let still = leaf::stat(at.dir, at.name).map(|found| found.map(|s| FileId::of(&s)));
    let here = check_folder(context, parent, item);
    if still == Ok(found.id()) && here.is_ok() {
        return Ok(());
    }
    // Another file took the name, or nobody knows: the one that was changed gets its bits back.
    attributes::set_mode(open.fd.as_fd(), old).map_err(stopped)?;
    let other = || here.err().unwrap_or_else(|| changed(at, context));
    Err(still.err().map_or_else(other, stopped))
}

fn changed(at: At<'_>, context: &Context<'_>) -> Stop {
    match look(at.dir, at.name, context.store) {
        Ok(found) => Stop::changed(found.version),
        Err(errno) => Stop::errno("look at it", errno),
    }
}

/// Before the swap: the temp is still ours, and the path, where its stat moved since the temp was written, still holds
/// what the guard expects. Spares a swap that everybody could see; the check that counts comes after it.
pub fn recheck(context: &Context<'_>, parent: &Parent, item: &Item) -> Result<(), Stop> {
    let dir = parent.dir.as_fd();
    let stopped = |errno: Errno| Stop::errno("look at it", errno);
    let temp = leaf::stat(dir, &item.temp).map_err(stopped)?;
    if temp.map(|s| FileId::of(&s)) != item.prepared {
        return Err(Stop::failed("io-error", "the temp file was taken away"));
    }
    let key = |stat: &rustix::fs::Stat| crate::path::look::stat_key(stat);
    let now = leaf::stat(dir, item.name()).map_err(stopped)?;
    if now.as_ref().map(key) == item.seen.as_ref().map(key) {
        return Ok(());
    }
    let at = At {
        dir,
        name: item.name(),
    };
    check_item(at, item, context.store).map(|_seen| ())
}
