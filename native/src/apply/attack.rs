//! Somebody moves folders while a file is put in place: the folder of the path swapped with a link or with a folder
//! outside, moved out, the root itself moved away. What lies outside never changes but where it is told.
//!
//! Works in TMPDIR; TAKEBACK_STRESS_ATTACKS sets the rounds of each attack and resolver.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::guard::{self, Context};
use super::item::{Item, Stop};
use super::kit::{Kit, entry};
use super::out::Places;
use super::{keep, temps};
use crate::path::{Resolver, leaf};
use crate::task::Work;
use crate::trash::Trash;

const BOTH: [Resolver; 2] = [Resolver::Auto, Resolver::Component];

fn attacks() -> usize {
    let set = std::env::var("TAKEBACK_STRESS_ATTACKS");
    set.ok().and_then(|n| n.parse().ok()).unwrap_or(1_000)
}

/// `d/f` of the root holds A; what is outside, by the same names, holds `outside`.
fn scene(resolver: Resolver) -> Kit {
    let kit = Kit::with(resolver);
    kit.hands.abilities().unwrap();
    kit.mkdir("d");
    kit.write("d/f", "A");
    let out = kit.base.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("f"), "outside").unwrap();
    kit.symlink("../out", "l");
    kit
}

/// Puts `B` over `A`, or `A` over `B`, as apply does but without journal and barrier.
fn put(kit: &Kit, trash: &Trash<'_>, round: usize) -> Result<(), Stop> {
    let work = Work::default();
    let context: Context<'_> = kit.hands.context(trash, &work);
    let text = |n: usize| kit.text(if n.is_multiple_of(2) { "A" } else { "B" });
    let mut id = [0; 16];
    id[..8].copy_from_slice(&round.to_le_bytes());
    let mut item = Item::new(&id, round, entry("d/f", text(round), text(round + 1)));
    let parent = kit
        .hands
        .root
        .parent(b"d/f")
        .map_err(|error| Stop::failed("walk-failed", error.to_string()))?;
    temps::prepare(&context, &parent, &mut item, false)?;
    temps::recheck(&context, &parent, &item).inspect_err(|_| {
        keep::discard_temp(parent.dir.as_fd(), &item);
    })?;
    guard::swap_in(&context, &parent, &mut item)?;
    guard::second_look(&context, (&parent, &mut Places::default()), &mut item)
}

fn outside(kit: &Kit) -> Vec<(PathBuf, String)> {
    let names = std::fs::read_dir(kit.base.join("out")).unwrap();
    names
        .map(|e| e.unwrap().path())
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// Runs the act under an attacker that never stops. Answers how often it was done and refused.
fn under_attack(kit: &Kit, attack: impl Fn() + Sync) -> [usize; 2] {
    let trash = Trash::open(&kit.hands.root, &kit.trash).unwrap();
    let stop = AtomicBool::new(false);
    let mut tally = [0, 0];
    let mut at = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                attack();
            }
        });
        for _ in 0..attacks() {
            match put(kit, &trash, at) {
                Ok(()) => {
                    tally[0] += 1;
                    at += 1;
                }
                Err(_) => tally[1] += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    tally
}

#[test]
fn a_folder_swapped_with_a_link_never_lets_a_write_out() {
    for resolver in BOTH {
        let kit = scene(resolver);
        let before = outside(&kit);
        let tally = under_attack(&kit, || leaf::exchange(kit.hands.root.fd(), b"d", b"l").unwrap());
        println!(
            "link, {resolver:?}: {} rounds, {tally:?} done and refused",
            attacks()
        );
        assert_eq!(outside(&kit), before, "{resolver:?}");
        assert!(tally[1] > 0, "the attack was on: {tally:?}");
    }
}

#[test]
fn a_folder_swapped_with_one_outside_never_lets_a_write_out() {
    for resolver in BOTH {
        let kit = scene(resolver);
        let before = outside(&kit);
        let (inside, out) = (kit.path("d"), kit.base.join("out"));
        let swap = || {
            let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
            rustix::fs::renameat_with(cwd, &inside, cwd, &out, flags).unwrap();
        };
        let swaps = AtomicUsize::new(0);
        let tally = under_attack(&kit, || {
            swap();
            swaps.fetch_add(1, Ordering::Relaxed);
        });
        if !swaps.load(Ordering::Relaxed).is_multiple_of(2) {
            swap();
        }
        println!(
            "folder, {resolver:?}: {} rounds, {tally:?} done and refused",
            attacks()
        );
        // The folder that was outside at the beginning: its file is nobody's to replace, wherever it stands.
        assert_eq!(outside(&kit), before, "{resolver:?}");
        assert!(tally[1] > 0, "the attack was on: {tally:?}");
    }
}

/// Each round the folder, or the root, leaves at a random moment and stays away. Once it is away no act that begins is
/// done; one that was under way is done before it left, or says that it is not.
fn moved_away(what: &str, of: impl Fn(&Kit) -> (PathBuf, PathBuf)) {
    for resolver in BOTH {
        let kit = scene(resolver);
        let trash = Trash::open(&kit.hands.root, &kit.trash).unwrap();
        let (home, away) = of(&kit);
        let mut tally = [0, 0];
        let mut at = 0;
        for round in 0..attacks() {
            let gone = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (0..round % 50 * 20).for_each(|_| std::hint::spin_loop());
                    std::fs::rename(&home, &away).unwrap();
                    gone.store(true, Ordering::SeqCst);
                });
                loop {
                    let after = gone.load(Ordering::SeqCst);
                    let result = put(&kit, &trash, at);
                    tally[usize::from(result.is_err())] += 1;
                    at += usize::from(result.is_ok());
                    if after {
                        assert!(
                            result.is_err() || what == "root",
                            "{resolver:?} round {round}: done outside, not told"
                        );
                        break;
                    }
                }
            });
            assert!(
                !home.exists(),
                "{resolver:?} round {round}: nothing comes to its old place"
            );
            std::fs::rename(&away, &home).unwrap();
            let now = std::fs::read_to_string(kit.path("d/f")).unwrap();
            let wanted = if at.is_multiple_of(2) { "A" } else { "B" };
            assert_eq!(
                now, wanted,
                "{resolver:?} round {round}: what was told is what is there"
            );
        }
        println!(
            "{what} moved away, {resolver:?}: {} rounds, {tally:?} done and refused",
            attacks()
        );
    }
}

#[test]
fn a_folder_that_was_moved_out_gets_no_write_that_is_not_told() {
    moved_away("folder", |kit| (kit.path("d"), kit.base.join("moved")));
}

#[test]
fn a_root_that_was_moved_away_takes_its_writes_with_it_and_nothing_comes_to_its_old_place() {
    moved_away("root", |kit| (kit.base.join("root"), kit.base.join("elsewhere")));
}
