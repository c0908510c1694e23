//! Folders shared between threads: as many as there are cores, blocking, taking a few folders at a time from one stack.
//!
//! Last in, first out, so that few folders are open at once: a task keeps its parent's descriptor.

use std::sync::{Condvar, Mutex, PoisonError};

use super::place::Task;
use super::{Local, Scan};
use crate::error::{EngineError, Result};

/// Folders that a thread takes at once, at most.
const CHUNK: usize = 8;

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    /// Threads that are at work and may add tasks.
    busy: usize,
    /// Threads that wait; to wake nobody is a system call all the same.
    idle: usize,
    failed: Option<EngineError>,
    stop: bool,
}

/// Visits these folders, and those below them that are to be entered: from the root, the whole tree.
pub(super) fn run(scan: &Scan<'_>, tasks: Vec<Task>) -> Result<Vec<Local>> {
    let threads = scan.limits.threads;
    let state = State {
        tasks,
        ..State::default()
    };
    let shared = Shared {
        state: Mutex::new(state),
        wake: Condvar::new(),
    };
    let locals = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|_| scope.spawn(|| shared.work(scan, threads)))
            .collect();
        let mut locals = vec![shared.work(scan, threads)];
        for other in others {
            match other.join() {
                Ok(local) => locals.push(local),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        locals
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.failed {
        Some(error) => Err(error),
        None => Ok(locals),
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, scan: &Scan<'_>, threads: usize) -> Local {
        let _stop = StopOnPanic(self);
        let mut local = Local::default();
        let mut taken: Vec<Task> = Vec::with_capacity(CHUNK);
        let mut made: Vec<Task> = Vec::new();
        while self.take(&mut taken, threads) {
            let mut failed = None;
            for task in taken.drain(..) {
                if let Err(error) = scan
                    .work
                    .cancel
                    .check()
                    .and_then(|()| scan.visit(&mut local, task, &mut made))
                {
                    failed = Some(error);
                    break;
                }
            }
            let mut state = self.lock();
            state.tasks.append(&mut made);
            state.busy -= 1;
            if let Some(error) = failed {
                state.failed.get_or_insert(error);
                state.stop = true;
            }
            if state.idle > 0 && (state.stop || state.busy == 0 || state.tasks.len() > 1) {
                self.wake.notify_all();
            }
        }
        // Here, where each thread sorts its own, and not where all come together. Stable: of two of one path the later counts.
        local.found.sort_by(|a, b| a.0.cmp(&b.0));
        local
    }

    /// Takes a few folders; false once there is nothing left.
    fn take(&self, taken: &mut Vec<Task>, threads: usize) -> bool {
        let mut state = self.lock();
        loop {
            if state.stop || (state.tasks.is_empty() && state.busy == 0) {
                return false;
            }
            if !state.tasks.is_empty() {
                let count = (state.tasks.len() / threads).clamp(1, CHUNK);
                let from = state.tasks.len() - count;
                taken.extend(state.tasks.drain(from..));
                state.busy += 1;
                return true;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// A thread that panics never says that it is done; the others must not wait for it.
struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().stop = true;
            self.0.wake.notify_all();
        }
    }
}
