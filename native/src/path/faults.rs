//! Faults for tests: what happens at the N-th act of this thread. It fails with an errno, somebody else does something,
//! or the process dies.
//!
//! Dying is a panic that no code of ours catches or cleans up after, so that the disk is left as a SIGKILL leaves it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rustix::io::Errno;

type Hook = Box<dyn FnOnce() -> Result<(), Errno>>;

struct Died;

thread_local! {
    static PLAN: RefCell<Option<(usize, Hook)>> = const { RefCell::new(None) };
}

pub fn step(_act: &'static str) -> Result<(), Errno> {
    let due = PLAN.with_borrow_mut(|plan| {
        let (left, _) = plan.as_mut()?;
        *left -= 1;
        if *left == 0 { plan.take() } else { None }
    });
    match due {
        Some((_, hook)) => hook(),
        None => Ok(()),
    }
}

/// Runs `body` with `hook` before its `nth` act. None: it died there. The flag: the act was reached.
pub fn at_act<T>(
    nth: usize,
    hook: impl FnOnce() -> Result<(), Errno> + 'static,
    body: impl FnOnce() -> T,
) -> (Option<T>, bool) {
    PLAN.set(Some((nth, Box::new(hook))));
    let ended = catch_unwind(AssertUnwindSafe(body));
    let came = PLAN.take().is_none();
    match ended {
        Ok(value) => (Some(value), came),
        Err(panic) if panic.is::<Died>() => (None, true),
        Err(panic) => resume_unwind(panic),
    }
}

pub fn die() -> Result<(), Errno> {
    resume_unwind(Box::new(Died))
}
