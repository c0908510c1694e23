//! The N-th call failing, for every N: no byte is lost, what failed is named, and doing it again works.

use rustix::io::Errno;

use super::memory_folder;
use crate::apply::kit::{Kit, entry};
use crate::apply::{ApplyEntry, Outcome, Status, apply};
use crate::error::EngineError;
use crate::recover::scene::{Scene, Tree, anew, die_at, new_tree, scene};
use crate::recover::{Mode, RecoverRequest, finish, recover};
use crate::sys::Sys;
use crate::sys::sim::{at_call, call};
use crate::trash::{Trash, empty};
use crate::wire::Version;

const ERRNOS: [Errno; 9] = [
    Errno::IO,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::ACCESS,
    Errno::MFILE,
    Errno::INTR,
    Errno::XDEV,
    Errno::ROFS,
    Errno::NAMETOOLONG,
];

fn long() -> bool {
    std::env::var_os("TAKEBACK_SIM_STEPS").is_some()
}

/// Runs `round` for every N until it answers false: with all errnos in the long form, else with one, each in its turn.
fn at_every_call(mut round: impl FnMut(usize, Errno) -> bool) {
    for nth in 1.. {
        let errnos = match long() {
            true => &ERRNOS[..],
            false => &ERRNOS[nth % ERRNOS.len()..][..1],
        };
        let reached = errnos.iter().map(|errno| round(nth, *errno)).collect::<Vec<_>>();
        if !reached.contains(&true) {
            assert!(nth > 1, "it has calls");
            return;
        }
    }
}

/// A walk that ends at a mount, or at a name that no file can have, tells of what is there; no error of the moment.
fn fails(errno: Errno) -> impl FnOnce() -> Sys<()> {
    move || match (errno, call()) {
        (Errno::XDEV | Errno::NAMETOOLONG, "openat2") => Err(Errno::IO),
        _ => Err(errno),
    }
}

fn names_a_path(error: &EngineError, base: &std::path::Path) -> bool {
    let named = |path: &Vec<u8>| !path.is_empty();
    error.path.as_ref().is_some_and(named) || error.message.contains(&*base.to_string_lossy())
}

/// Every file's bytes below the root and in the trash.
fn all_bytes(kit: &Kit) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut folders = vec![kit.base.join("root"), kit.trash.clone()];
    while let Some(folder) = folders.pop() {
        for found in std::fs::read_dir(folder)
            .unwrap()
            .map(|found| found.unwrap().path())
        {
            match found.symlink_metadata().unwrap() {
                meta if meta.is_dir() => folders.push(found),
                meta if meta.is_file() => out.push(std::fs::read(found).unwrap()),
                _ => {}
            }
        }
    }
    out
}

/// Without what was put into the root because the data directory's trash could not take it.
fn tree(kit: &Kit) -> Tree {
    let mut tree = kit.tree();
    tree.retain(|(path, _)| path != ".takeback" && !path.starts_with(".takeback/"));
    tree
}

fn difference(tree: &Tree, expected: &Tree) -> (Tree, Tree) {
    let without = |a: &Tree, b: &Tree| a.iter().filter(|e| !b.contains(e)).cloned().collect();
    (without(tree, expected), without(expected, tree))
}

fn assert_tree(kit: &Kit, expected: &Tree, what: &str) {
    let none = (Tree::new(), Tree::new());
    assert_eq!(
        difference(&tree(kit), expected),
        none,
        "{what}: (there, in place of)"
    );
}

fn assert_old_bytes(scene: &Scene, what: &str) {
    let found = all_bytes(&scene.kit);
    for file in ["a", "b", "d/x", "m", "r/f", "s", "t/z", "u"] {
        let bytes = format!("old {file}").into_bytes();
        assert!(found.contains(&bytes), "{what}: the old bytes of {file} are gone");
    }
}

/// What is at a path; absent where its folder is none.
fn at(kit: &Kit, entry: &ApplyEntry) -> Version {
    match kit.hands.root.parent(&entry.path) {
        Ok(_) => kit.now(std::str::from_utf8(&entry.path).unwrap()),
        Err(_) => Version::Absent,
    }
}

fn assert_as_told(scene: &Scene, outcomes: &[Outcome], what: &str) {
    for (entry, outcome) in scene.entries.iter().zip(outcomes) {
        let now = at(&scene.kit, entry);
        let expected = match outcome.status {
            Status::Done => &entry.target,
            _ => &entry.expect,
        };
        // A folder's bits may be those that the operation worked with, where setting the last ones failed.
        let worked_in = matches!(entry.target, Version::Dir { .. }) && matches!(now, Version::Dir { .. });
        let told = worked_in && outcome.status == Status::Failed;
        assert!(now == *expected || told, "{what}: {outcome:?} but {now:?}");
    }
}

/// Asks again for what isn't done, from what is there now.
fn ask_again(scene: &Scene, what: &str) {
    let owed = scene.entries.iter().filter(|e| at(&scene.kit, e) != e.target);
    let owed = owed.map(|e| ApplyEntry {
        expect: at(&scene.kit, e),
        ..e.clone()
    });
    let outcomes = scene.kit.apply(owed.collect());
    let wrong: Vec<_> = outcomes.iter().filter(|o| o.status != Status::Done).collect();
    assert!(wrong.is_empty(), "{what}, asked again: {wrong:?}");
}

fn an_operation_with_errors(exchange: bool) {
    let new = new_tree(exchange);
    at_every_call(|nth, errno| {
        let scene = scene(exchange);
        let what = format!("{errno:?} at {nth}, exchange {exchange}");
        let request = scene.kit.request(scene.entries.clone());
        let run = || apply(&scene.kit.hands, request, &Default::default());
        let (result, came) = at_call(nth, fails(errno), run);
        match result.unwrap() {
            Err(error) => {
                assert_tree(&scene.kit, &scene.old, &what);
                assert!(names_a_path(&error, &scene.kit.base), "{what}: {error:?}");
                assert!(!scene.kit.journal().exists(), "{what}: {error:?}");
            }
            Ok(outcomes) => {
                assert_as_told(&scene, &outcomes, &what);
                finish(&scene.kit.hands, &scene.kit.journal()).unwrap();
            }
        }
        assert_old_bytes(&scene, &what);
        ask_again(&scene, &what);
        assert_tree(&scene.kit, &new, &format!("{what}, asked again"));
        came
    });
}

#[test]
fn an_error_at_every_call_of_an_operation_loses_nothing_and_asking_again_works() {
    an_operation_with_errors(true);
}

#[test]
fn the_same_without_an_exchange() {
    an_operation_with_errors(false);
}

/// Recovers what died at `died`, with an error, then again without.
fn a_recovery_with_errors(mode: Mode, died: usize) {
    let new = new_tree(true);
    at_every_call(|nth, errno| {
        let scene = scene(true);
        die_at(&scene, died);
        let what = format!("{mode:?} after a kill at {died}, {errno:?} at {nth}");
        let other = anew(&scene.kit, true);
        let request = RecoverRequest {
            journal: other.journal(),
            trash: other.trash.clone(),
            mode,
        };
        let run = || recover(&other.hands, &request, &Default::default());
        let (result, came) = at_call(nth, fails(errno), run);
        if let Err(error) = result.unwrap() {
            assert!(names_a_path(&error, &other.base), "{what}: {error:?}");
        }
        let what = format!("{what}, {}", call());
        assert_old_bytes(&scene, &what);
        let last = anew(&scene.kit, true);
        last.recover(mode);
        let expected = match mode {
            Mode::Rollback => &scene.old,
            Mode::Complete => &new,
        };
        assert_tree(&last, expected, &what);
        last.assert_no_temps();
        assert!(!last.journal().exists(), "{what}: the journal is gone");
        came
    });
}

/// Moments to die at: each kind of state that an operation passes through.
fn moments() -> impl Iterator<Item = usize> {
    let calls = (1..).find(|nth| !die_at(&scene(true), nth * 20)).unwrap() * 20;
    let parts: &[usize] = match long() {
        true => &[1, 2, 3, 4, 5],
        false => &[3, 5],
    };
    parts.iter().map(move |part| calls * part / 6)
}

#[test]
fn an_error_at_every_call_of_a_rollback_is_mended_by_the_next() {
    moments().for_each(|died| a_recovery_with_errors(Mode::Rollback, died));
}

#[test]
fn an_error_at_every_call_of_a_completion_is_mended_by_the_next() {
    moments().for_each(|died| a_recovery_with_errors(Mode::Complete, died));
}

#[test]
fn an_error_at_every_call_of_finish_leaves_no_temp_after_the_next() {
    at_every_call(|nth, errno| {
        let scene = scene(true);
        scene.kit.begin(scene.entries.clone());
        let run = || finish(&scene.kit.hands, &scene.kit.journal());
        let (_told, came) = at_call(nth, fails(errno), run);
        finish(&scene.kit.hands, &scene.kit.journal()).unwrap();
        assert_old_bytes(&scene, &format!("{errno:?} at {nth}"));
        scene.kit.assert_no_temps();
        came
    });
}

#[test]
fn an_error_at_every_call_of_emptying_the_trash_loses_no_late_write() {
    at_every_call(|nth, errno| {
        let kit = Kit::in_memory();
        let what = format!("{errno:?} at {nth}");
        for path in ["a", "b"] {
            kit.write(path, &format!("old {path}"));
        }
        let gone = |path: &str| entry(path, kit.text(&format!("old {path}")), Version::Absent);
        kit.apply(vec![gone("a"), gone("b")]);
        let late = std::fs::read_dir(&kit.trash).unwrap().map(|e| e.unwrap().path());
        let late = late
            .filter(|p| p.is_file() && p.extension().is_none())
            .max()
            .unwrap();
        std::fs::write(late, "late").unwrap();
        let open = || Trash::open(&kit.hands.root, &kit.trash).unwrap();
        let trash = open();
        let run = || empty::empty(&trash, &kit.store, &Default::default());
        let (result, came) = at_call(nth, fails(errno), run);
        if let Err(error) = result.unwrap() {
            assert!(names_a_path(&error, &kit.base), "{what}: {error:?}");
        }
        let kept = empty::empty(&open(), &kit.store, &Default::default())
            .unwrap()
            .kept;
        assert_eq!((kept, kit.trashed()), (0, vec![]), "{what}");
        let hash = kit.store.hash(b"late");
        assert_eq!(kit.store.read(&hash).unwrap(), b"late", "{what}");
        came
    });
}

#[test]
fn an_error_at_every_call_of_a_journal_leaves_none_that_stands_in_the_way() {
    let scene = scene(true);
    die_at(&scene, 300);
    let journal = crate::journal::read(&scene.kit.journal())
        .unwrap()
        .unwrap()
        .journal;
    at_every_call(|nth, errno| {
        let folder = memory_folder();
        let path = folder.path().join("op.journal");
        let begin = || crate::journal::JournalFile::begin(&path, &journal).map(drop);
        let (result, came) = at_call(nth, fails(errno), begin);
        let what = format!("{errno:?} at {nth}");
        match result.unwrap() {
            Ok(()) => crate::journal::remove(&path).unwrap(),
            Err(error) => assert!(names_a_path(&error, folder.path()), "{what}: {error:?}"),
        }
        assert!(!path.exists(), "{what}");
        begin().unwrap();
        came
    });
}
