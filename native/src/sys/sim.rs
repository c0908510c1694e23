//! What stands before and behind each call of the seam in tests, for the thread that runs a test's body.
//!
//! Before: at the N-th call something happens. It fails with an errno, somebody else does something, or the process dies
//! (a panic that no code of ours catches or cleans up after, so that the disk is left as a SIGKILL leaves it). Behind:
//! what the call did is written to a log (`effect`), from which `image` builds what a power cut may leave.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rustix::fs::Stat;

use super::Sys;
pub use effect::{Effect, Ino, was};

mod effect;
pub mod image;

type Hook = Box<dyn FnOnce() -> Sys<()>>;

struct Died;

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
    static CALL: Cell<&'static str> = const { Cell::new("") };
    static LOG: RefCell<Option<Vec<Effect>>> = const { RefCell::new(None) };
    static KNOWN_AS: RefCell<HashMap<Ino, Ino>> = RefCell::default();
}

/// Calls after which the disk is as before.
const READS: [&str; 11] = [
    "openat",
    "openat2",
    "fstat",
    "statat",
    "statx",
    "readlinkat",
    "pread",
    "lease",
    "flistxattr",
    "llistxattr",
    "fgetxattr",
];

struct Plan {
    left: usize,
    /// Only calls that change something count.
    changes: bool,
    hook: Hook,
}

pub fn before(call: &'static str) -> Sys<()> {
    let due = PLAN.with_borrow_mut(|plan| {
        let due = plan.as_mut()?;
        due.left -= usize::from(!(due.changes && READS.contains(&call)));
        if due.left == 0 { plan.take() } else { None }
    });
    match due {
        Some(plan) => {
            CALL.set(call);
            (plan.hook)()
        }
        None => Ok(()),
    }
}

/// Runs `body` with `hook` before its `nth` call. None: it died there. The flag: the call was reached.
pub fn at_call<T>(
    nth: usize,
    hook: impl FnOnce() -> Sys<()> + 'static,
    body: impl FnOnce() -> T,
) -> (Option<T>, bool) {
    run(nth, (false, Box::new(hook)), body)
}

/// The same before the `nth` call that changes something. Dying at a call that doesn't is dying at the next that does.
pub fn at_change<T>(
    nth: usize,
    hook: impl FnOnce() -> Sys<()> + 'static,
    body: impl FnOnce() -> T,
) -> (Option<T>, bool) {
    run(nth, (true, Box::new(hook)), body)
}

fn run<T>(left: usize, (changes, hook): (bool, Hook), body: impl FnOnce() -> T) -> (Option<T>, bool) {
    PLAN.set(Some(Plan { left, changes, hook }));
    let ended = catch_unwind(AssertUnwindSafe(body));
    let came = PLAN.take().is_none();
    match ended {
        Ok(value) => (Some(value), came),
        Err(panic) if panic.is::<Died>() => (None, true),
        Err(panic) => resume_unwind(panic),
    }
}

/// Which call the last hook ran before.
pub fn call() -> &'static str {
    CALL.get()
}

pub fn die() -> Sys<()> {
    resume_unwind(Box::new(Died))
}

/// Runs `body` and answers what its calls did, in their order.
pub fn logged<T>(body: impl FnOnce() -> T) -> (T, Vec<Effect>) {
    LOG.set(Some(Vec::new()));
    let value = body();
    (value, LOG.take().unwrap_or_default())
}

pub fn did(effect: impl FnOnce() -> Effect) {
    if LOG.with_borrow(|log| log.is_some()) {
        let effect = effect();
        LOG.with_borrow_mut(|log| log.as_mut().map(|log| log.push(effect)));
    }
}

/// How many effects were logged so far.
pub fn log_length() -> usize {
    LOG.with_borrow(|log| log.as_ref().map_or(0, Vec::len))
}

/// Runs `body` with inodes known under other numbers: those that they had before a power cut.
pub fn known_as<T>(numbers: HashMap<Ino, Ino>, body: impl FnOnce() -> T) -> T {
    let outer = KNOWN_AS.replace(numbers);
    let value = body();
    KNOWN_AS.set(outer);
    value
}

/// The number that an inode had before.
pub fn known(ino: Ino) -> Ino {
    KNOWN_AS.with_borrow(|numbers| numbers.get(&ino).copied().unwrap_or(ino))
}

pub fn seen(mut stat: Stat) -> Stat {
    stat.st_ino = known(stat.st_ino);
    stat
}
