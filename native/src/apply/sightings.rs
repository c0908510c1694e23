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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::kit::{Kit, entry, told};
    use crate::apply::{ApplyEntry, Status};
    use crate::path::Resolver;
    use crate::peek::peek;
    use crate::task::Work;
    use crate::{journal, path::leaf};

    fn peeked(paths: &[&str]) -> Kit {
        let kit = Kit::with(Resolver::Auto);
        for path in paths {
            kit.write(path, "one");
        }
        look(&kit, paths);
        kit
    }

    fn look(kit: &Kit, paths: &[&str]) {
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        peek(&kit.hands, &paths, &[], &Work::default()).unwrap();
    }

    fn now(kit: &Kit, path: &str) -> Stat {
        leaf::stat(kit.hands.root.fd(), path.as_bytes()).unwrap().unwrap()
    }

    fn back(kit: &Kit, path: &str) -> ApplyEntry {
        kit.hands.store.put(b"zero").unwrap();
        entry(path, kit.text("one"), kit.text("zero"))
    }

    #[test]
    fn a_file_counts_as_seen_until_its_stat_key_moves() {
        let kit = peeked(&["a", "b"]);
        let before = now(&kit, "b");
        kit.write("b", "two");
        let seen = kit.hands.sightings.take();
        let version =
            |path: &str, stat: &Stat| seen.still(path.as_bytes(), stat).map(|look| look.version.clone());
        assert_eq!(version("a", &now(&kit, "a")), Some(kit.text("one")));
        assert_eq!(
            version("b", &before),
            Some(kit.text("one")),
            "the key is what counts"
        );
        assert_eq!(version("b", &now(&kit, "b")), None);
        assert_eq!(version("c", &before), None, "nobody looked there");
        assert!(kit.hands.sightings.take().0.is_empty(), "taken once");
    }

    #[test]
    fn only_files_that_nobody_writes_to_are_remembered_and_only_of_the_last_peek() {
        let kit = peeked(&["a", "b"]);
        kit.mkdir("d");
        let writer = std::fs::File::options().append(true).open(kit.path("b")).unwrap();
        look(&kit, &["b", "d", "gone"]);
        assert!(kit.hands.sightings.take().0.is_empty());
        drop(writer);
        look(&kit, &["b"]);
        assert_eq!(kit.hands.sightings.take().0.len(), 1);
    }

    #[test]
    fn what_changed_between_peek_and_apply_is_refused_and_stays() {
        let kit = peeked(&["a", "b"]);
        let entries = vec![back(&kit, "a"), back(&kit, "b")];
        kit.write("b", "two");
        let outcomes = kit.begin(entries);
        assert_eq!(told(&outcomes[0]), (Status::Done, ""));
        assert_eq!(told(&outcomes[1]), (Status::Refused, "changed-outside-session"));
        assert_eq!(
            (kit.read("a"), kit.read("b")),
            ("zero".to_string(), "two".to_string())
        );
        let stored = journal::read(&kit.journal()).unwrap().unwrap();
        let done: Vec<_> = stored.journal.entries.iter().map(|entry| entry.done).collect();
        assert_eq!(
            done,
            [true, false],
            "the journal tells whose temps are still to be looked for"
        );
    }
}
