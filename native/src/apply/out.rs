//! What came out of a path, from its first look to its second.
//!
//! Where a lease sees every writer, those with a mapping too (probed), the lease of the first look is kept: while it holds
//! nobody can have opened the file for writing, so that with the stat key unchanged the second look needs no second
//! reading. Whoever wants to write meanwhile waits until the file is back at its path, or for the second look. Else the
//! second look is made anew, by name. And: whether the folders in which things were done are still where they were.
//!
//! Not covered: a lease that says nothing of writers elsewhere (a file system that other machines write to); the stat
//! key tells of those.

use std::time::Instant;

use super::guard::{At, Context, check_folder, check_item};
use super::item::{Item, Stop, judge};
use crate::path::look::{Look, OpenFile, look_and_hold};
use crate::path::{FileId, Parent, names};
use crate::wire::Version;

/// What the first look saw, and the file, with its lease.
#[derive(Debug)]
pub struct Out {
    look: Look,
    open: OpenFile,
}

/// Judges what came out of an item's path, which is at `at` now. The first time it is read; after that only where the
/// first look may not stand any more.
pub fn judge_out(context: &Context<'_>, at: At<'_>, item: &mut Item) -> Result<Look, Stop> {
    if let Some(out) = item.out.as_ref().filter(|out| out.open.is_as_read()) {
        return Ok(out.look.clone());
    }
    if item.out.is_some() || !context.holds || !matches!(item.entry.expect, Version::File { .. }) {
        return check_item(at, item, context.store);
    }
    let seen = look_and_hold(at.dir, at.name, context.store);
    let (look, open) = seen.map_err(|errno| Stop::errno("look at it", errno))?;
    // Before it is judged: one that goes back keeps its lease until it is there.
    item.out = open.map(|open| Out {
        look: look.clone(),
        open,
    });
    judge(&look, &item.entry)?;
    Ok(look)
}

/// The folder that was last found at its path. That counts for all acts in it before.
#[derive(Default)]
pub struct Places {
    last: Option<(Vec<u8>, FileId, Instant)>,
}

impl Places {
    /// Checks that the folder in which an item's act was done is still at its path.
    pub fn check(&mut self, context: &Context<'_>, parent: &Parent, item: &Item) -> Result<(), Stop> {
        let folder = names::split(item.path()).0;
        if let (Some((path, id, at)), Some(acted)) = (&self.last, item.acted)
            && path == folder
            && *id == parent.id
            && *at >= acted
        {
            return Ok(());
        }
        let began = Instant::now();
        check_folder(context, parent, item)?;
        self.last = Some((folder.to_vec(), parent.id, began));
        Ok(())
    }
}
