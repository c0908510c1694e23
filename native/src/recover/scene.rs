//! A tree and a plan with every kind of act, for tests that kill, disturb or fault an operation.

use super::{PathState, Recovered};
use crate::apply::kit::{Kit, dir, entry, link};
use crate::apply::{ApplyEntry, Status};
use crate::path::Resolver;
use crate::sys::sim::{at_change, die};
use crate::wire::Version;

pub type Tree = Vec<(String, Version)>;

/// Every kind of act once, and what depends on another.
pub fn lay_out(kit: &Kit) -> Vec<ApplyEntry> {
    for folder in ["d", "t", "g", "r"] {
        kit.mkdir(folder);
    }
    for file in ["a", "b", "m", "s", "u", "d/x", "t/z", "r/f"] {
        kit.write(file, &format!("old {file}"));
    }
    kit.symlink("old", "l");
    kit.chmod("r", 0o555);
    let old = |path: &str| kit.text(&format!("old {path}"));
    let new = |path: &str| kit.text(&format!("new {path}"));
    vec![
        entry("a", old("a"), new("a")),
        entry("b", old("b"), Version::Absent),
        entry("c", Version::Absent, new("c")),
        entry("d", dir(0o755), Version::Absent),
        entry("d/x", old("d/x"), Version::Absent),
        entry("g", dir(0o755), dir(0o700)),
        entry("l", link("old"), new("l")),
        entry("m", old("m"), kit.file("old m", 0o755)),
        entry("n", Version::Absent, dir(0o555)),
        entry("n/y", Version::Absent, new("n/y")),
        entry("r", dir(0o555), dir(0o755)),
        entry("r/f", old("r/f"), new("r/f")),
        entry("s", old("s"), link("new")),
        entry("t", dir(0o755), new("t")),
        entry("t/z", old("t/z"), Version::Absent),
        entry("u", old("u"), dir(0o755)),
    ]
}

pub struct Scene {
    pub kit: Kit,
    pub entries: Vec<ApplyEntry>,
    pub old: Tree,
}

pub fn scene(exchange: bool) -> Scene {
    let kit = Kit::in_memory();
    kit.hands.ladder.probed(exchange);
    kit.hands.abilities().unwrap();
    let entries = lay_out(&kit);
    let old = kit.tree();
    Scene { kit, entries, old }
}

pub fn new_tree(exchange: bool) -> Tree {
    let scene = scene(exchange);
    let outcomes = scene.kit.apply(scene.entries);
    assert!(outcomes.iter().all(|o| o.status == Status::Done), "{outcomes:?}");
    scene.kit.tree()
}

/// Another process on the same folders.
pub fn anew(kit: &Kit, exchange: bool) -> Kit {
    let other = Kit::at(&kit.base, Resolver::Auto);
    other.hands.ladder.probed(exchange);
    other
}

/// Dies at its n-th change of the disk. False: it came to its end first.
pub fn die_at(scene: &Scene, nth: usize) -> bool {
    at_change(nth, die, || scene.kit.begin(scene.entries.clone()))
        .0
        .is_none()
}

pub fn assert_all(recovered: &Recovered, state: PathState, what: &str) {
    let wrong: Vec<_> = recovered.paths.iter().filter(|(_, s)| s.state != state).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

pub fn check_end(kit: &Kit, expected: &Tree, what: &str) {
    assert_eq!(&kit.tree(), expected, "{what}");
    kit.assert_no_temps();
    assert!(!kit.journal().exists(), "{what}: the journal is gone");
}
