use super::scene::{Scene, anew, assert_all, check_end, die_at, new_tree, scene};
use super::{Mode, PathState, Recovered};
use crate::apply::kit::{Kit, entry};
use crate::sys::sim::{at_change, die};
use crate::wire::Version;

fn recover_from_every_kill(mode: Mode, exchange: bool) {
    let new = new_tree(exchange);
    for nth in 1.. {
        let scene = scene(exchange);
        let died = die_at(&scene, nth);
        if died && crate::journal::read(&scene.kit.journal()).unwrap().is_none() {
            scene.kit.recover(mode);
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
            assert!(nth > 40, "the operation has many changes: {nth}");
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
        for nth in (8..).step_by(9) {
            let mut finished = false;
            for second in (1..).step_by(7) {
                let scene = scene(true);
                finished = !die_at(&scene, nth);
                let other = anew(&scene.kit, true);
                let (ended, _) = at_change(second, die, || other.recover(mode));
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
    die_at(&scene, 30);
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
