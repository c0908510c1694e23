//! Somebody else, a cancel or an error at every act of an operation or a recovery.

use super::scene::{anew, die_at, new_tree, scene};
use super::{Mode, PathState};
use crate::apply::Status;
use crate::apply::kit::Kit;
use crate::sys::sim::at_call;

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

/// Somebody renames a new file over a path.
fn rename_over(kit: &Kit, path: &str) -> impl FnOnce() -> crate::sys::Sys<()> + 'static {
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
                let (outcomes, came) = at_call(nth, act, || scene.kit.begin(scene.entries.clone()));
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
        for died in (10..).step_by(11) {
            let mut finished = false;
            for path in ["a", "b", "c"] {
                for nth in (1..).step_by(7) {
                    let scene = scene(true);
                    finished = !die_at(&scene, died);
                    let other = anew(&scene.kit, true);
                    let (_, came) = at_call(nth, rename_over(&scene.kit, path), || other.recover(mode));
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
fn a_folder_that_is_moved_out_at_any_act_takes_nothing_of_ours_along_unreported() {
    for exchange in [true, false] {
        for nth in 1.. {
            let scene = scene(exchange);
            let kit = &scene.kit;
            let (from, to) = (kit.path("r"), kit.base.join("moved"));
            let moved = to.join("f");
            let hook = move || {
                std::fs::rename(&from, &to).unwrap();
                Ok(())
            };
            let (outcomes, came) = at_call(nth, hook, || kit.begin(scene.entries.clone()));
            if !came {
                break;
            }
            let outcomes = outcomes.unwrap();
            let outcome = outcomes.iter().find(|o| o.path == b"r/f").unwrap();
            let expected = match outcome.status {
                Status::Done => "new r/f",
                _ => "old r/f",
            };
            let what = format!("moved at {nth}, exchange {exchange}: {outcome:?}");
            assert_eq!(std::fs::read_to_string(moved).unwrap(), expected, "{what}");
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
        let (outcomes, came) = at_call(nth, hook, || {
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
