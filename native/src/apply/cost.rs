//! What the guard costs: files put in place as apply does it, without journal and barrier, against a temp file that is
//! renamed over, on one thread, 4 KiB each. A measurement, not a test of right and wrong: it prints the ratio.
//!
//! Works in TMPDIR, which `test/stress/cost.stress.ts` puts on one file system after another.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::guard::{self, Context};
use super::item::Item;
use super::kit::{Kit, entry};
use super::out::Places;
use super::{HELD, temps};
use crate::task::Work;
use crate::trash::Trash;

const FILES: usize = 1_000;
const ROUNDS: usize = 7;
const SIZE: usize = 4096;

fn content(letter: &str, file: usize) -> String {
    format!("{file:08}{}", letter.repeat(SIZE - 8))
}

fn guarded(kit: &Kit, trash: &Trash<'_>, (round, from, to): (usize, &str, &str)) -> Duration {
    let work = Work::default();
    let context: Context<'_> = kit.hands.context(trash, &work);
    let version = |letter, file| kit.text(&content(letter, file));
    let mut items: Vec<Item> = (0..FILES)
        .map(|i| entry(&format!("f{i}"), version(from, i), version(to, i)))
        .enumerate()
        .map(|(i, change)| Item::new(&[round as u8; 16], i, change))
        .collect();
    let began = Instant::now();
    let parent = kit.hands.root.parent(b"f0").unwrap();
    for chunk in items.chunks_mut(HELD) {
        for item in chunk.iter_mut() {
            temps::prepare(&context, &parent, item, false).unwrap();
            temps::recheck(&context, &parent, item).unwrap();
            guard::swap_in(&context, &parent, item).unwrap();
        }
        guard::pause_since(Instant::now());
        let mut places = Places::default();
        for item in chunk.iter_mut() {
            guard::second_look(&context, (&parent, &mut places), item).unwrap();
        }
    }
    began.elapsed()
}

fn renamed_over(kit: &Kit, letter: &str) -> Duration {
    let contents: Vec<String> = (0..FILES).map(|i| content(letter, i)).collect();
    let began = Instant::now();
    let folder = kit.hands.root.fd();
    let root = folder.as_fd();
    for (i, text) in contents.iter().enumerate() {
        std::fs::write(kit.path("temp"), text).unwrap();
        rustix::fs::renameat(root, "temp", root, format!("f{i}")).unwrap();
    }
    began.elapsed()
}

#[test]
#[ignore = "a measurement: npm run bench:guard runs it"]
fn cost_of_the_guard() {
    let kit = Kit::new();
    kit.hands.abilities().unwrap();
    let trash = Trash::open(&kit.hands.root, &kit.trash).unwrap();
    (0..FILES).for_each(|i| kit.write(&format!("f{i}"), &content("A", i)));
    let mut ratios = Vec::new();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let ours = guarded(&kit, &trash, (round, "A", "B"));
        let theirs = renamed_over(&kit, "A");
        ratios.push(ours.as_secs_f64() / theirs.as_secs_f64());
        times[0].push(ours);
        times[1].push(theirs);
    }
    ratios.sort_by(f64::total_cmp);
    times.iter_mut().for_each(|list| list.sort());
    let micros = |list: &[Duration]| list[ROUNDS / 2].as_secs_f64() * 1e6 / FILES as f64;
    println!(
        "guard {:.1} us, temp + rename {:.1} us a file, ratio {:.2} (median of {ROUNDS} rounds of {FILES} files)",
        micros(&times[0]),
        micros(&times[1]),
        ratios[ROUNDS / 2]
    );
}
