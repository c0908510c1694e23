//! What the last peek saw of files, so that an apply that follows need not read them again before it writes its temps.
//!
//! The look before a swap only spares a swap that everybody could see; the guard is the look at what came out. So a file
//! whose stat key is still the one of the peek counts as seen: an edit that left the key as it was is found by the guard.
//!
//! Not covered: anything but files that nobody had open for writing. An apply takes all of it: nothing is used twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rustix::fs::Stat;

use super::guard::{At, Context, check_item};
use super::item::{Item, Stop};
use crate::path::leaf;
use crate::path::look::{Look, Writer, stat_key};
use crate::wire::{RelPath, Version};

/// More than these are looked at again: memory is worth more.
const MOST: usize = 1 << 14;

/// Files by their path, as they were under a lease.
#[derive(Default)]
pub struct Sightings(Mutex<HashMap<RelPath, Look>>);

/// Those that one apply goes by.
#[derive(Default)]
pub struct Seen(HashMap<RelPath, Look>);

impl Sightings {
    pub fn note(&self, path: &[u8], look: &Look) {
        if look.writer != Writer::None || !matches!(look.version, Version::File { .. }) {
            return;
        }
        let mut files = self.locked();
        if files.len() < MOST {
            files.insert(path.to_vec(), look.clone());
        }
    }

    pub fn forget(&self) {
        self.locked().clear();
    }

    pub fn take(&self) -> Seen {
        Seen(std::mem::take(&mut *self.locked()))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<RelPath, Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// The look at a path, where what is there now is by its stat key what it was then.
    pub fn still(&self, path: &[u8], now: &Stat) -> Option<&Look> {
        let look = self.0.get(path)?;
        (stat_key(look.stat.as_ref()?) == stat_key(now)).then_some(look)
    }
}

/// What is at the path of an item and as the guard expects it: as the peek saw it where it still is that, else by a look
/// of its own.
pub fn look_before(context: &Context<'_>, at: At<'_>, item: &Item) -> Result<Look, Stop> {
    let now = leaf::stat(at.dir, at.name).map_err(|errno| Stop::errno("look at it", errno))?;
    let seen = now.as_ref().and_then(|now| context.seen.still(item.path(), now));
    match seen.filter(|look| look.version == item.entry.expect) {
        Some(look) => Ok(look.clone()),
        None => check_item(at, item, context.store),
    }
}
