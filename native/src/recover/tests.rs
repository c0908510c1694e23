use rustix::io::Errno;

use super::{Mode, PathState, Recovered};
use crate::apply::kit::{Kit, dir, entry, link, told};
use crate::apply::{ApplyEntry, Status};
use crate::path::Resolver;
use crate::path::faults::{at_act, die};
use crate::wire::Version;

type Tree = Vec<(String, Version)>;

/// Every kind of act once, and what depends on another.
fn lay_out(kit: &Kit) -> Vec<ApplyEntry> {
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

struct Scene {
    kit: Kit,
    entries: Vec<ApplyEntry>,
    old: Tree,
}

fn scene(exchange: bool) -> Scene {
    let kit = Kit::in_memory();
    kit.hands.ladder.probed(exchange);
    kit.hands.abilities().unwrap();
    let entries = lay_out(&kit);
    let old = kit.tree();
    Scene { kit, entries, old }
}

fn new_tree(exchange: bool) -> Tree {
    let scene = scene(exchange);
    let outcomes = scene.kit.apply(scene.entries);
    assert!(outcomes.iter().all(|o| o.status == Status::Done), "{outcomes:?}");
    scene.kit.tree()
}

/// Another process on the same folders.
fn anew(kit: &Kit, exchange: bool) -> Kit {
    let other = Kit::at(&kit.base, Resolver::Auto);
    other.hands.ladder.probed(exchange);
    other
}

/// Dies at its n-th act. False: it came to its end first.
fn die_at(scene: &Scene, nth: usize) -> bool {
    at_act(nth, die, || scene.kit.begin(scene.entries.clone()))
        .0
        .is_none()
}

fn assert_all(recovered: &Recovered, state: PathState, what: &str) {
    let wrong: Vec<_> = recovered.paths.iter().filter(|(_, s)| s.state != state).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

fn check_end(kit: &Kit, expected: &Tree, what: &str) {
    assert_eq!(&kit.tree(), expected, "{what}");
    kit.assert_no_temps();
    assert!(!kit.journal().exists(), "{what}: the journal is gone");
}

fn recover_from_every_kill(mode: Mode, exchange: bool) {
    let new = new_tree(exchange);
    for nth in 1.. {
        let scene = scene(exchange);
        let died = die_at(&scene, nth);
        if died && !scene.kit.journal().exists() {
            check_end(
                &scene.kit,
                &scene.old,
                &format!("died at {nth}, before the journal"),
            );
            continue;
        }
        let what = format!("{mode:?}, exchange {exchange}, died at {nth}");
        let other = anew(&scene.kit, exchange);
        let recovered = other.recover(mode);
        match mode {
            Mode::Rollback => {
                assert_all(&recovered, PathState::Old, &what);
                check_end(&other, &scene.old, &what);
            }
            Mode::Complete => {
                assert_all(&recovered, PathState::New, &what);
                check_end(&other, &new, &what);
            }
        }
        if !died {
            assert!(nth > 100, "the operation has many acts: {nth}");
            return;
        }
    }
}

#[test]
fn rollback_gives_exactly_the_old_tree_from_a_kill_at_every_act() {
    recover_from_every_kill(Mode::Rollback, true);
}

#[test]
fn complete_gives_exactly_the_new_tree_from_a_kill_at_every_act() {
    recover_from_every_kill(Mode::Complete, true);
}

#[test]
fn rollback_without_an_exchange_gives_exactly_the_old_tree() {
    recover_from_every_kill(Mode::Rollback, false);
}

#[test]
fn complete_without_an_exchange_gives_exactly_the_new_tree() {
    recover_from_every_kill(Mode::Complete, false);
}

#[test]
fn a_recovery_that_is_killed_itself_is_taken_up_by_the_next() {
    let new = new_tree(true);
    for mode in [Mode::Rollback, Mode::Complete] {
        for nth in (20..).step_by(23) {
            let mut finished = false;
            for second in (1..).step_by(17) {
                let scene = scene(true);
                finished = !die_at(&scene, nth);
                let other = anew(&scene.kit, true);
                let (ended, _) = at_act(second, die, || other.recover(mode));
                let last = anew(&scene.kit, true);
                let what = format!("{mode:?}, died at {nth}, recovery died at {second}");
                let expected = if mode == Mode::Rollback { &scene.old } else { &new };
                last.recover(mode);
                check_end(&last, expected, &what);
                if ended.is_some() {
                    break;
                }
            }
            if finished {
                break;
            }
        }
    }
}

#[test]
fn a_journal_that_is_cut_at_any_byte_leads_to_the_old_tree() {
    // Died right after the prepared frame: no act came after any of the frames that a cut takes away.
    let nth = (1..).find(|nth| scene_at_prepared(*nth).is_some()).unwrap();
    let length = std::fs::metadata(scene_at_prepared(nth).unwrap().kit.journal())
        .unwrap()
        .len();
    for cut in (0..length).step_by(67).chain([length - 1]) {
        let scene = scene_at_prepared(nth).unwrap();
        let path = scene.kit.journal();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(cut)
            .unwrap();
        if crate::journal::read(&path).unwrap().is_none() {
            // A torn begin frame says that nothing was done, which its sync guarantees; here something was.
            continue;
        }
        let other = anew(&scene.kit, true);
        let recovered = other.recover(Mode::Rollback);
        assert_all(&recovered, PathState::Old, &format!("cut at {cut}"));
        check_end(&other, &scene.old, &format!("cut at {cut}"));
    }
}

/// A scene that died at `nth`, if that was after the prepared frame was written and before a swap.
fn scene_at_prepared(nth: usize) -> Option<Scene> {
    let scene = scene(true);
    die_at(&scene, nth);
    let stored = crate::journal::read(&scene.kit.journal()).ok().flatten()?;
    stored.journal.swapping.then_some(scene)
}

#[test]
fn a_torn_begin_frame_says_that_nothing_was_done() {
    let scene = scene(true);
    std::fs::write(scene.kit.journal(), [1, 0, 0, 0, 9]).unwrap();
    assert_eq!(scene.kit.recover(Mode::Complete), Recovered::default());
    check_end(&scene.kit, &scene.old, "torn");
}

#[test]
fn what_somebody_wrote_after_the_kill_stays_and_is_reported() {
    for mode in [Mode::Rollback, Mode::Complete] {
        for nth in (1..).step_by(9) {
            let scene = scene(true);
            let died = die_at(&scene, nth);
            let foreign = ["a", "b", "c", "l"];
            for path in foreign {
                let _absent = std::fs::remove_file(scene.kit.path(path));
                scene.kit.write(path, "foreign");
            }
            let other = anew(&scene.kit, true);
            let recovered = other.recover(mode);
            for path in foreign {
                assert_eq!(other.read(path), "foreign", "{mode:?}, died at {nth}");
            }
            let neither = recovered
                .paths
                .iter()
                .filter(|(_, s)| s.state == PathState::Neither)
                .count();
            assert!(
                recovered.paths.is_empty() || neither == foreign.len(),
                "{recovered:?}"
            );
            other.assert_no_temps();
            if !died {
                break;
            }
        }
    }
}

#[test]
fn an_edit_of_our_new_file_in_place_is_neither_old_nor_new_and_stays() {
    let kit = Kit::new();
    kit.write("a", "old");
    kit.begin(vec![
        entry("a", kit.text("old"), kit.text("new")),
        entry("c", Version::Absent, kit.text("new")),
    ]);
    for path in ["a", "c"] {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(kit.path(path))
            .unwrap();
        file.write_all(b", edited").unwrap();
    }
    let recovered = anew(&kit, true).recover(Mode::Rollback);
    assert_all(&recovered, PathState::Neither, "edited");
    assert_eq!(
        (kit.read("a"), kit.read("c")),
        ("new, edited".to_string(), "new, edited".to_string())
    );
    assert_eq!(kit.trashed(), ["old"]);
}

#[test]
fn a_live_owners_journal_is_left_alone() {
    let scene = scene(true);
    die_at(&scene, 60);
    let path = scene.kit.journal();
    let mut journal = crate::journal::read(&path).unwrap().unwrap().journal;
    // The test's parent lives, and is not this process.
    journal.owner.pid = u64::from(std::os::unix::process::parent_id());
    journal.owner.start_time = 0;
    std::fs::remove_file(&path).unwrap();
    crate::journal::JournalFile::begin(&path, &journal).unwrap();
    let request = super::RecoverRequest {
        journal: path.clone(),
        trash: scene.kit.base.join("trash"),
        mode: Mode::Rollback,
    };
    let error = super::recover(&scene.kit.hands, &request, &Default::default()).unwrap_err();
    assert_eq!(error.code(), "ERR_BUSY");
    assert!(path.exists());
}

/// Somebody renames a new file over a path.
fn rename_over(kit: &Kit, path: &str) -> impl FnOnce() -> Result<(), Errno> + 'static {
    let (from, to) = (kit.path("foreign.tmp"), kit.path(path));
    move || {
        std::fs::write(&from, "foreign").unwrap();
        // Refused where a folder is there at this moment.
        if std::fs::rename(&from, &to).is_err() {
            std::fs::remove_file(&from).unwrap();
        }
        Ok(())
    }
}

#[test]
fn a_rename_over_a_path_at_every_act_ends_at_the_path() {
    for exchange in [true, false] {
        for path in ["a", "b", "c", "l", "s"] {
            for nth in 1.. {
                let scene = scene(exchange);
                let act = rename_over(&scene.kit, path);
                let (outcomes, came) = at_act(nth, act, || scene.kit.begin(scene.entries.clone()));
                let what = format!("{path} at {nth}, exchange {exchange}");
                if !came {
                    break;
                }
                assert_eq!(scene.kit.read(path), "foreign", "{what}: {outcomes:?}");
                super::finish(&scene.kit.hands, &scene.kit.journal()).unwrap();
                scene.kit.assert_no_temps();
            }
        }
    }
}

#[test]
fn a_rename_over_a_path_at_every_act_of_a_recovery_ends_at_the_path() {
    for mode in [Mode::Rollback, Mode::Complete] {
        for died in (30..).step_by(29) {
            let mut finished = false;
            for path in ["a", "b", "c"] {
                for nth in (1..).step_by(3) {
                    let scene = scene(true);
                    finished = !die_at(&scene, died);
                    let other = anew(&scene.kit, true);
                    let (_, came) = at_act(nth, rename_over(&scene.kit, path), || other.recover(mode));
                    if !came {
                        break;
                    }
                    let what = format!("{mode:?}: {path} at {nth} after a kill at {died}");
                    assert_eq!(other.read(path), "foreign", "{what}");
                    other.assert_no_temps();
                }
            }
            if finished {
                break;
            }
        }
    }
}

#[test]
fn a_cancel_at_every_act_ends_in_the_old_or_the_new_tree() {
    let new = new_tree(true);
    for nth in 1.. {
        let scene = scene(true);
        let work = crate::task::Work::default();
        let cancel = work.cancel.clone();
        let request = scene.kit.request(scene.entries.clone());
        let hook = move || {
            cancel.cancel();
            Ok(())
        };
        let (outcomes, came) = at_act(nth, hook, || {
            crate::apply::apply(&scene.kit.hands, request, &work)
        });
        let outcomes = outcomes.unwrap().unwrap();
        let all = |status| outcomes.iter().all(|o| o.status == status);
        let tree = scene.kit.tree();
        assert!(
            (all(Status::Failed) && tree == scene.old) || (all(Status::Done) && tree == new),
            "cancelled at {nth}: {outcomes:?} {tree:?}"
        );
        if !came {
            break;
        }
    }
}

#[test]
fn an_error_at_every_act_leaves_each_path_old_or_new_as_its_outcome_says() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::ACCESS] {
        for nth in 1.. {
            let scene = scene(true);
            let what = format!("{errno:?} at {nth}");
            let run = || {
                let request = scene.kit.request(scene.entries.clone());
                crate::apply::apply(&scene.kit.hands, request, &Default::default())
            };
            let (result, came) = at_act(nth, move || Err(errno), run);
            match result.unwrap() {
                Err(_) => assert_eq!(scene.kit.tree(), scene.old, "{what}"),
                Ok(outcomes) => {
                    for (entry, outcome) in scene.entries.iter().zip(&outcomes) {
                        let path = std::str::from_utf8(&entry.path).unwrap();
                        let now = match scene.kit.hands.root.parent(&entry.path) {
                            Ok(_) => scene.kit.now(path),
                            Err(_) => Version::Absent,
                        };
                        let expected = match outcome.status {
                            Status::Done => &entry.target,
                            _ => &entry.expect,
                        };
                        // A folder that holds what was made in it can't go again because its bits could not be set.
                        let made = (path, &now, outcome.status) == ("n", &dir(0o700), Status::Failed);
                        if made {
                            continue;
                        }
                        assert_eq!(
                            &now,
                            expected,
                            "{what}: {path} {:?} {}",
                            told(outcome),
                            outcome.detail
                        );
                    }
                    super::finish(&scene.kit.hands, &scene.kit.journal()).unwrap();
                    scene.kit.assert_no_temps();
                }
            }
            if !came {
                break;
            }
        }
    }
}
