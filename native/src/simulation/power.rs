//! A power cut at any moment of an operation, of its recovery, and of that recovery's recovery.

use std::collections::HashMap;

use super::{memory_folder, steps};
use crate::apply::kit::Kit;
use crate::apply::{Status, apply};
use crate::journal::Durability;
use crate::path::Resolver;
use crate::recover::scene::{Scene, Tree, new_tree, scene};
use crate::recover::{Mode, PathState};
use crate::sys::sim::image::{Dice, Disk, Order};
use crate::sys::sim::{Effect, Ino, known, known_as, logged};

/// A run whose effects are known.
struct Run {
    scene: Scene,
    start: Disk,
    log: Vec<Effect>,
    exchange: bool,
    new: Tree,
}

fn run(exchange: bool, durability: Durability) -> Run {
    let scene = scene(exchange);
    let start = Disk::of(&scene.kit.base);
    let mut request = scene.kit.request(scene.entries.clone());
    request.durability = durability;
    let (outcomes, log) = logged(|| apply(&scene.kit.hands, request, &Default::default()).unwrap());
    assert!(outcomes.iter().all(|o| o.status == Status::Done), "{outcomes:?}");
    let new = new_tree(exchange);
    Run {
        scene,
        start,
        log,
        exchange,
        new,
    }
}

/// What came up after a cut, and where its inodes' numbers come from.
struct Up {
    _dir: tempfile::TempDir,
    kit: Kit,
    numbers: HashMap<Ino, Ino>,
}

fn come_up(disk: &Disk, exchange: bool) -> Up {
    let dir = memory_folder();
    let mut numbers = disk.lay_out(dir.path());
    numbers.values_mut().for_each(|was| *was = known(*was));
    let kit = known_as(numbers.clone(), || Kit::at(dir.path(), Resolver::Auto));
    kit.hands.ladder.probed(exchange);
    Up {
        _dir: dir,
        kit,
        numbers,
    }
}

fn order(dice: &mut Dice) -> Order {
    match dice.below(2) {
        0 => Order::Kept,
        _ => Order::Loose,
    }
}

fn mode(dice: &mut Dice) -> Mode {
    match dice.below(2) {
        0 => Mode::Rollback,
        _ => Mode::Complete,
    }
}

/// Recovers, and answers what is wrong with the tree then, or with a second recovery.
fn recover_and_check(kit: &Kit, mode: Mode, run: &Run) -> Result<(), String> {
    let recovered = kit.recover(mode);
    let state = match mode {
        Mode::Rollback => PathState::Old,
        Mode::Complete => PathState::New,
    };
    if let Some(wrong) = recovered.paths.iter().find(|(_, s)| s.state != state) {
        return Err(format!("{wrong:?}"));
    }
    let expected = match mode {
        // No journal: nothing was done.
        Mode::Complete if !recovered.paths.is_empty() => &run.new,
        _ => &run.scene.old,
    };
    let tree = kit.tree();
    if tree != *expected {
        let other: Vec<_> = tree.iter().filter(|entry| !expected.contains(entry)).collect();
        let missing: Vec<_> = expected.iter().filter(|entry| !tree.contains(entry)).collect();
        return Err(format!("not the tree: {other:?} in place of {missing:?}"));
    }
    let again = kit.recover(mode);
    match again.paths.is_empty() && kit.tree() == tree {
        true => Ok(()),
        false => Err(format!("a second recovery did something: {again:?}")),
    }
}

/// A cut at a moment of `log`, then a recovery of what came up; and that recovery cut in its turn.
fn cut_and_recover(run: &Run, dice: &mut Dice) -> Result<(), String> {
    let (order, mode) = (order(dice), mode(dice));
    let at = dice.below(run.log.len() + 1);
    let disk = run.start.after_cut(&run.log[..at], order, dice);
    let first = come_up(&disk, run.exchange);
    let (second, at_second) = known_as(first.numbers.clone(), || {
        let start = Disk::of(&first.kit.base);
        let (checked, log) = logged(|| recover_and_check(&first.kit, mode, run));
        let at = dice.below(log.len() + 1);
        let disk = start.after_cut(&log[..at], order, dice);
        checked.map(|()| (come_up(&disk, run.exchange), at))
    })
    .map_err(|wrong| format!("{mode:?}, names {order:?}, cut behind {at}: {wrong}"))?;
    let checked = known_as(second.numbers.clone(), || match mode {
        // The first recovery may have been through, and its journal gone.
        Mode::Complete if !second.kit.journal().exists() && second.kit.tree() == run.new => Ok(()),
        _ => recover_and_check(&second.kit, mode, run),
    });
    checked.map_err(|wrong| {
        format!("{mode:?}, names {order:?}, cut behind {at}, recovery cut behind {at_second}: {wrong}")
    })
}

#[test]
fn a_power_cut_at_any_moment_of_an_operation_ends_in_the_old_or_the_new_tree() {
    let (steps, mut dice) = steps(200, 40);
    let runs = [true, false].map(|exchange| run(exchange, Durability::Fast));
    for step in 0..steps {
        let cut = cut_and_recover(&runs[step % 2], &mut dice);
        assert_eq!(cut, Ok(()), "step {step}");
    }
}

#[test]
fn an_operation_that_was_answered_in_full_durability_is_there_after_a_power_cut() {
    let (steps, mut dice) = steps(20, 5);
    for exchange in [true, false] {
        let run = run(exchange, Durability::Full);
        for step in 0..steps {
            let order = order(&mut dice);
            let disk = run.start.after_cut(&run.log, order, &mut dice);
            let up = come_up(&disk, exchange);
            let tree = known_as(up.numbers.clone(), || up.kit.tree());
            assert_eq!(tree, run.new, "step {step}, names {order:?}, exchange {exchange}");
        }
    }
}

/// Ends of cuts over an operation whose log lacks some of its syncs.
fn wrong_ends(mut run: Run, kept: impl Fn(&Effect) -> bool) -> usize {
    run.log.retain(kept);
    let mut dice = Dice(1);
    (0..100)
        .filter(|_| cut_and_recover(&run, &mut dice).is_err())
        .count()
}

#[test]
fn a_barrier_that_does_nothing_is_found() {
    let nothing = |effect: &Effect| !matches!(effect, Effect::SyncAll | Effect::Synced { .. });
    assert!(wrong_ends(run(true, Durability::Fast), nothing) > 0);
    // The same run with all of its syncs, so that it is they that make the difference.
    assert_eq!(wrong_ends(run(true, Durability::Fast), |_| true), 0);
}

#[test]
fn a_sync_of_the_file_system_before_the_swaps_that_does_nothing_is_found() {
    let all_but_the_barrier = |effect: &Effect| !matches!(effect, Effect::SyncAll);
    assert!(wrong_ends(run(true, Durability::Fast), all_but_the_barrier) > 0);
}
