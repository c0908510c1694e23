//! The engine on a kernel that fails, loses power, and has somebody else at work between any two calls.
//!
//! `cargo test` runs a bounded part. `TAKEBACK_SIM_STEPS=1000000` runs so many steps (a step: one cut and what comes up
//! after it) from `TAKEBACK_SIM_SEED`, which is printed, and lets every call fail with every errno.

use crate::sys::sim::image::Dice;

mod errors;
mod power;
mod resolved;
mod stores;
mod writers;

/// How many steps a test runs, of the share (in 100) that it has of the long form; and its dice.
fn steps(short: usize, share: usize) -> (usize, Dice) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("TAKEBACK_SIM_STEPS").map_or(short, |all| (all as usize * share).div_ceil(100));
    let seed = number("TAKEBACK_SIM_SEED").unwrap_or(1);
    println!("TAKEBACK_SIM_SEED={seed}: {steps} rounds");
    (steps, Dice(seed))
}

fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}
