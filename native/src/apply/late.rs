//! A writer between the two looks at what came out: with the second look left out its bytes leave their path in silence, with it
//! never. Whoever looked the name up before the swap opens what came out, not what stands at the path.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};

use super::kit::Kit;
use super::out::Places;
use super::stress::{Tally, Task, Writer, clear, count, filled, item_of, rounds};
use super::{guard, keep, temps};
use crate::task::Work;
use crate::trash::Trash;

/// Somebody who looked the name up before the swap, and opens it only behind the first look. A lease holds them up.
fn open_late(held: &OwnedFd, token: &str) -> JoinHandle<bool> {
    let name = format!("/proc/self/fd/{}", held.as_raw_fd());
    let write = |file: std::fs::File, token: &str| file.write_all_at(token.as_bytes(), 0).is_ok();
    let mut options = std::fs::OpenOptions::new();
    let token = token.to_string();
    match options.write(true).custom_flags(libc::O_NONBLOCK).open(&name) {
        Ok(file) => {
            let wrote = write(file, &token);
            std::thread::spawn(move || wrote)
        }
        Err(_) => {
            // The process may have closed the number when this thread comes to it: a number of its own.
            let again = held.try_clone().unwrap();
            std::thread::spawn(move || {
                let name = format!("/proc/self/fd/{}", again.as_raw_fd());
                let opened = std::fs::OpenOptions::new().write(true).open(name);
                opened.is_ok_and(|file| write(file, &token))
            })
        }
    }
}

fn token_of(round: usize) -> String {
    filled(&format!("{round:08}"))
}

/// Nothing here is left to chance: a few are as good as many.
fn late_rounds() -> usize {
    rounds().min(200)
}

/// One act, with a late writer between its two looks; the second is left out where `second` is false.
fn act_with_late_writer(
    kit: &Kit,
    (task, second): (Task, bool),
    (trash, round): (&Trash<'_>, usize),
) -> (bool, bool) {
    let work = Work::default();
    let context = kit.hands.context(trash, &work);
    let held = rustix::fs::open(kit.path("f"), OFlags::PATH, Mode::empty()).unwrap();
    let parent = kit.hands.root.parent(b"f").unwrap();
    let mut item = item_of(kit, task, round);
    let first = match task {
        Task::Delete => {
            keep::remove(&context, &parent, &mut item).and_then(|()| keep::check_removed(&context, &mut item))
        }
        _ => temps::prepare(&context, &parent, &mut item, false)
            .and_then(|()| guard::swap_in(&context, &parent, &mut item)),
    };
    first.unwrap();
    let writer = open_late(&held, &token_of(round));
    guard::pause_since(Instant::now());
    let result = match (task, second) {
        (Task::Delete, true) => keep::check_removed(&context, &mut item)
            .map_err(|stop| keep::put_back_removed(&context, &parent, &mut item, stop)),
        (_, true) => guard::second_look(&context, (&parent, &mut Places::default()), &mut item),
        (Task::Delete, false) => Ok(()),
        (_, false) => {
            trash.keep(parent.dir.as_fd(), &item.temp, &item.trash).unwrap();
            Ok(())
        }
    };
    // With it goes the lease that holds the writer up.
    drop(item);
    (result.is_ok(), writer.join().unwrap())
}

/// Rounds in which bytes of a late writer left their path in silence; none may be lost.
fn silent_with_late_writer(task: Task, second: bool) -> usize {
    let kit = Kit::new();
    kit.hands.abilities().unwrap();
    let trash = Trash::open(&kit.hands.root, &kit.base.join("trash")).unwrap();
    let mut tally = Tally::default();
    for round in 0..late_rounds() {
        clear(&kit);
        kit.write("f", &filled("A"));
        let ended = act_with_late_writer(&kit, (task, second), (&trash, round));
        count(&kit, &mut tally, (&[token_of(round)], Writer::InPlace), ended);
    }
    assert_eq!(tally.lost, 0, "{task:?}, second look {second}: {tally:?}");
    tally.silent
}

#[test]
fn without_the_second_look_a_late_writer_is_displaced_in_silence_and_with_it_never() {
    for task in [Task::Replace, Task::Delete] {
        let (without, with) = (
            silent_with_late_writer(task, false),
            silent_with_late_writer(task, true),
        );
        let rounds = late_rounds();
        println!("{task:?} second look left out: {rounds} rounds, displaced {without}; with it {with}");
        assert!(without > 0, "the harness must bite: {task:?}");
        assert_eq!(with, 0, "{task:?}");
    }
}
