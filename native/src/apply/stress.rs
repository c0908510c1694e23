//! Six kinds of writers against replace, delete and recreate, at random moments: no byte of theirs is lost, and none
//! leaves its path without being reported. The same harness on "check, then rename" loses bytes, so it bites.
//!
//! Works in TMPDIR, which `test/stress/guard.stress.ts` puts on one file system after another.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::guard::{self, Context};
use super::item::{Item, Stop};
use super::kit::{Kit, entry};
use super::out::Places;
use super::{keep, removals, temps};
use crate::task::Work;
use crate::trash::Trash;
use crate::wire::Version;

const SIZE: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Writer {
    RenameOver,
    Truncate,
    InPlace,
    OpenBefore,
    Mapped,
    TwoAtOnce,
}

const WRITERS: [Writer; 6] = [
    Writer::RenameOver,
    Writer::Truncate,
    Writer::InPlace,
    Writer::OpenBefore,
    Writer::Mapped,
    Writer::TwoAtOnce,
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Task {
    Replace,
    Delete,
    Recreate,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) lost: usize,
    pub(super) silent: usize,
    refused: usize,
}

/// Rounds a cell. The nightly run sets more.
pub(super) fn rounds() -> usize {
    std::env::var("TAKEBACK_STRESS_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(200)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

pub(super) fn filled(token: &str) -> String {
    format!("{token:F<SIZE$}")
}

/// A writer that is ready: what it needs open is open. Answers whether it wrote.
fn arm(writer: Writer, path: PathBuf, token: String, task: Task) -> Box<dyn FnOnce() -> bool + Send> {
    match (writer, task) {
        (Writer::OpenBefore, Task::Replace | Task::Delete) => {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            Box::new(move || file.write_all_at(token.as_bytes(), 0).is_ok())
        }
        (Writer::Mapped, Task::Replace | Task::Delete) => {
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            // SAFETY: nobody truncates this file, so its page stays; the other side only reads whole files.
            let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
            map[0] = b'A';
            Box::new(move || {
                map[..SIZE].copy_from_slice(token.as_bytes());
                true
            })
        }
        (Writer::RenameOver | Writer::TwoAtOnce, _) => Box::new(move || rename_over(&path, &token, "w")),
        (Writer::Truncate, _) | (Writer::Mapped, _) => Box::new(move || {
            let made = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path);
            made.and_then(|file| file.write_all_at(token.as_bytes(), 0))
                .is_ok()
        }),
        (Writer::OpenBefore, Task::Recreate) => Box::new(move || {
            let made = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path);
            made.and_then(|file| file.write_all_at(token.as_bytes(), 0))
                .is_ok()
        }),
        (Writer::InPlace, _) => Box::new(move || {
            let made = std::fs::OpenOptions::new().write(true).open(&path);
            made.and_then(|file| file.write_all_at(token.as_bytes(), 0))
                .is_ok()
        }),
    }
}

fn rename_over(path: &Path, token: &str, stem: &str) -> bool {
    let from = path.with_file_name(format!("{stem}.w"));
    std::fs::write(&from, token).unwrap();
    std::fs::rename(&from, path).is_ok()
}

pub(super) fn item_of(kit: &Kit, task: Task, round: usize) -> Item {
    let (old, new) = (kit.text(&filled("A")), kit.text(&filled("B")));
    let change = match task {
        Task::Replace => entry("f", old, new),
        Task::Delete => entry("f", old, Version::Absent),
        Task::Recreate => entry("f", Version::Absent, new),
    };
    Item::new(&[round as u8; 16], round, change)
}

/// The guarded act, as apply runs it but without a journal (whose sync would make the rounds slow and the race rare).
fn guarded(kit: &Kit, task: Task, trash: &Trash<'_>, round: usize) -> Result<(), Stop> {
    let work = Work::default();
    let context: Context<'_> = kit.hands.context(trash, &work);
    let mut item = item_of(kit, task, round);
    if task == Task::Delete {
        removals::run(&context, std::slice::from_mut(&mut item));
        return item.result.expect("a removal ends");
    }
    let parent = kit.hands.root.parent(b"f").unwrap();
    temps::prepare(&context, &parent, &mut item, false)?;
    temps::recheck(&context, &parent, &item).inspect_err(|_| {
        keep::discard_temp(parent.dir.as_fd(), &item);
    })?;
    guard::swap_in(&context, &parent, &mut item)?;
    guard::pause_since(Instant::now());
    guard::second_look(&context, (&parent, &mut Places::default()), &mut item)
}

/// What most tools do: look, then act.
fn check_then_act(kit: &Kit, task: Task) -> Result<(), Stop> {
    let temp = kit.path("t.tmp");
    std::fs::write(&temp, filled("B")).unwrap();
    let found = std::fs::read_to_string(kit.path("f")).ok();
    let expected = (task != Task::Recreate).then(|| filled("A"));
    if found != expected {
        return Err(Stop::refused("changed-outside-session", None));
    }
    match task {
        Task::Delete => std::fs::remove_file(kit.path("f")).unwrap(),
        _ => std::fs::rename(&temp, kit.path("f")).unwrap(),
    }
    Ok(())
}

fn trash_holds(kit: &Kit, token: &str) -> bool {
    let names = std::fs::read_dir(kit.base.join("trash")).unwrap();
    names
        .flatten()
        .any(|e| std::fs::read_to_string(e.path()).is_ok_and(|bytes| bytes == token))
}

pub(super) fn clear(kit: &Kit) {
    for folder in ["root", "trash"] {
        for found in std::fs::read_dir(kit.base.join(folder)).unwrap().flatten() {
            std::fs::remove_file(found.path()).unwrap();
        }
    }
}

/// One cell: `rounds` races of one writer against one act.
fn cell(kit: &Kit, writer: Writer, task: Task, guard: bool) -> Tally {
    let mut tally = Tally::default();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (writer as u64) << 8 ^ task as u64);
    let trash = Trash::open(&kit.hands.root, &kit.base.join("trash")).unwrap();
    for round in 0..rounds() {
        clear(kit);
        if task != Task::Recreate {
            kit.write("f", &filled("A"));
        }
        let tokens = [filled(&format!("{round:08}")), filled(&format!("{round:07}x"))];
        let writes: Vec<_> = match writer {
            Writer::TwoAtOnce => (0..2).map(|i| burst(kit, &tokens[i], ["u", "v"][i])).collect(),
            _ => vec![arm(writer, kit.path("f"), tokens[0].clone(), task)],
        };
        let delay = Duration::from_nanos(random.below(if guard { 700_000 } else { 120_000 }));
        let go = AtomicBool::new(false);
        let (result, wrote) = std::thread::scope(|scope| {
            let running: Vec<_> = writes
                .into_iter()
                .map(|write| {
                    let go = &go;
                    scope.spawn(move || {
                        while !go.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                        spin(delay);
                        write()
                    })
                })
                .collect();
            go.store(true, Ordering::Release);
            let result = match guard {
                true => guarded(kit, task, &trash, round),
                false => check_then_act(kit, task),
            };
            let wrote = running.into_iter().all(|thread| thread.join().unwrap());
            (result, wrote)
        });
        count(kit, &mut tally, (&tokens, writer), (result.is_ok(), wrote));
    }
    tally
}

/// Twelve renames over the path, the last with the token.
fn burst(kit: &Kit, token: &str, stem: &'static str) -> Box<dyn FnOnce() -> bool + Send> {
    let (path, token) = (kit.path("f"), token.to_string());
    Box::new(move || {
        (0..11).for_each(|i| assert!(rename_over(&path, &filled(&format!("{stem}{i}")), stem)));
        rename_over(&path, &token, stem)
    })
}

pub(super) fn count(
    kit: &Kit,
    tally: &mut Tally,
    (tokens, writer): (&[String], Writer),
    (done, wrote): (bool, bool),
) {
    let found = std::fs::read_to_string(kit.path("f")).unwrap_or_default();
    let tokens = if writer == Writer::TwoAtOnce {
        tokens
    } else {
        &tokens[..1]
    };
    tally.refused += usize::from(!done);
    if !wrote || tokens.contains(&found) {
        return;
    }
    // Where two race, the one that ended at the path in the end is enough: the other lost it to its rival.
    match tokens.iter().any(|token| trash_holds(kit, token)) {
        true if done => tally.silent += 1,
        true => {}
        false => tally.lost += 1,
    }
}

/// An overlay's lease does not see who has the file mapped: then the bytes are kept, and found when the trash is emptied.
fn sees_maps(kit: &Kit) -> bool {
    const OVERLAYFS: i64 = 0x794c_7630;
    rustix::fs::statfs(&kit.base).unwrap().f_type != OVERLAYFS
}

fn no_loss(task: Task, exchange: bool) {
    let kit = Kit::new();
    // Probed, so that leases are held as an apply holds them.
    kit.hands.abilities().unwrap();
    kit.hands.ladder.probed(exchange);
    for writer in WRITERS {
        let tally = cell(&kit, writer, task, true);
        println!("{task:?} {writer:?} {} rounds {tally:?}", rounds());
        assert_eq!(tally.lost, 0, "{task:?} against {writer:?}: {tally:?}");
        if writer != Writer::Mapped || sees_maps(&kit) {
            assert_eq!(tally.silent, 0, "{task:?} against {writer:?}: {tally:?}");
        }
    }
}

#[test]
fn a_replacement_loses_no_byte_of_another_writer() {
    no_loss(Task::Replace, true);
}

#[test]
fn a_deletion_loses_no_byte_of_another_writer() {
    no_loss(Task::Delete, true);
}

#[test]
fn a_recreation_loses_no_byte_of_another_writer() {
    no_loss(Task::Recreate, true);
}

#[test]
fn without_an_exchange_no_byte_is_lost_either() {
    no_loss(Task::Replace, false);
}

#[test]
fn check_then_rename_loses_bytes_in_the_same_harness() {
    let kit = Kit::new();
    let lost: Vec<usize> = [Task::Replace, Task::Delete]
        .into_iter()
        .flat_map(|task| WRITERS.map(|writer| cell(&kit, writer, task, false).lost))
        .collect();
    println!("check, then act: {} rounds, lost {lost:?}", rounds());
    assert!(lost.iter().sum::<usize>() > 0, "the harness must bite: {lost:?}");
}
