//! Faults for tests: the N-th act of this thread fails with an errno, or is where the process dies.
//!
//! Dying is a panic that no code of ours catches or cleans up after, so that the disk is left as a SIGKILL leaves it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rustix::io::Errno;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Die,
    Fail(Errno),
}

#[derive(Clone, Copy)]
struct Plan {
    left: usize,
    fault: Fault,
}

struct Died;

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
}

pub fn step(_act: &'static str) -> Result<(), Errno> {
    let Some(plan) = PLAN.get() else { return Ok(()) };
    if plan.left > 1 {
        PLAN.set(Some(Plan {
            left: plan.left - 1,
            ..plan
        }));
        return Ok(());
    }
    PLAN.set(None);
    match plan.fault {
        Fault::Die => resume_unwind(Box::new(Died)),
        Fault::Fail(errno) => Err(errno),
    }
}

/// Runs `body` with a fault at its `nth` act. None: it died there. The flag: the fault came.
pub fn with_fault<T>(nth: usize, fault: Fault, body: impl FnOnce() -> T) -> (Option<T>, bool) {
    PLAN.set(Some(Plan { left: nth, fault }));
    let ended = catch_unwind(AssertUnwindSafe(body));
    let came = PLAN.replace(None).is_none();
    match ended {
        Ok(value) => (Some(value), came),
        Err(panic) if panic.is::<Died>() => (None, true),
        Err(panic) => resume_unwind(panic),
    }
}
