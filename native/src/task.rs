//! How work runs off the JS thread: on threads of ours, never on libuv's pool.
//!
//! A handle owns a [`Queue`]: one thread that does its work in order. [`start`] puts a body on it and answers a
//! promise, which always resolves: to `{ok: true, value}`, or to `{ok: false, code, message, path?}` that TypeScript
//! makes an error of. A panic becomes such an outcome (`ERR_INTERNAL`), too. Parallel parts of a body use scoped
//! threads of their own.
//!
//! Cancellation is a flag that bodies look at ([`Cancel::check`]); nothing is stopped from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use napi::bindgen_prelude::{Buffer, FnArgs, Function, Object, ToNapiValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, JsDeferred, JsValue, Status, sys};
use napi_derive::napi;

use crate::error::{Code, EngineError, Result};

/// Least time between two reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// A flag that ends a piece of work early. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `ERR_CANCELLED` once the flag is up.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(EngineError::cancelled())
        } else {
            Ok(())
        }
    }
}

/// JavaScript's end of a [`Cancel`].
#[napi]
#[derive(Default)]
pub struct CancelToken {
    flag: Cancel,
}

#[napi]
impl CancelToken {
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        Self::default()
    }

    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.flag.cancel();
    }
}

/// Arguments of the progress callback: phase, done, total (-1: not known).
type Report = FnArgs<(String, f64, f64)>;
/// Weak: it never keeps the process alive. Bounded by the throttle, so the queue needs no limit.
type ReportFn = ThreadsafeFunction<Report, (), Report, Status, false, true>;
/// What JavaScript passes.
pub type ProgressFn<'a> = Function<'a, Report, ()>;

/// What a body needs beside its input: whether to go on, and whom to tell how far it is.
#[derive(Clone, Default)]
pub struct Work {
    pub cancel: Cancel,
    progress: Option<Arc<Progress>>,
}

struct Progress {
    report: ReportFn,
    began: Instant,
    /// Milliseconds since `began` of the newest report, plus one.
    last: AtomicU64,
    /// Phase and count of the newest report: a thread that was held up must not tell of less than another did.
    told: Mutex<(&'static str, u64)>,
}

impl Work {
    pub fn new(token: Option<&CancelToken>, progress: Option<ProgressFn<'_>>) -> napi::Result<Self> {
        let cancel = token.map(|t| t.flag.clone()).unwrap_or_default();
        let progress = match progress {
            None => None,
            Some(function) => Some(Arc::new(Progress {
                report: function
                    .build_threadsafe_function::<Report>()
                    .weak::<true>()
                    .build()?,
                began: Instant::now(),
                last: AtomicU64::new(0),
                told: Mutex::new(("", 0)),
            })),
        };
        Ok(Work { cancel, progress })
    }

    /// Tells how far the work is, at most twenty times a second; the other reports are dropped.
    pub fn report(&self, phase: &'static str, done: u64, total: Option<u64>) {
        let Some(progress) = &self.progress else { return };
        let now = progress.began.elapsed().as_millis() as u64 + 1;
        let last = progress.last.load(Ordering::Relaxed);
        if last != 0 && now < last + PROGRESS_EVERY.as_millis() as u64 {
            return;
        }
        if progress
            .last
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            let mut told = progress.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.0 == phase && told.1 > done {
                return;
            }
            *told = (phase, done);
            let total = total.map_or(-1.0, |t| t as f64);
            let args = FnArgs::from((phase.to_string(), done as f64, total));
            progress
                .report
                .call(args, ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

type Body = Box<dyn FnOnce() + Send>;

/// The work thread of a handle. Dropped or closed, it ends its thread after the work that is queued.
pub struct Queue {
    what: &'static str,
    sender: Mutex<Option<mpsc::Sender<Body>>>,
}

impl Queue {
    /// `what` names the handle in errors and the thread in a debugger.
    pub fn new(what: &'static str) -> Result<Self> {
        Self::started(what).map(|(queue, _)| queue)
    }

    /// The queue, and a way into it beside it.
    fn started(what: &'static str) -> Result<(Self, mpsc::Sender<Body>)> {
        let (sender, receiver) = mpsc::channel::<Body>();
        std::thread::Builder::new()
            .name(format!("takeback-{what}"))
            .spawn(move || receiver.into_iter().for_each(|body| body()))
            .map_err(|cause| EngineError::io("start a work thread", cause))?;
        let queue = Queue {
            what,
            sender: Mutex::new(Some(sender.clone())),
        };
        Ok((queue, sender))
    }

    /// Takes no more work. What is queued is still done.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Work whose outcomes go by an [`Answer`].
    pub fn run(&self, body: impl FnOnce() + Send + 'static) -> Result<()> {
        self.submit(Box::new(body))
            .map_err(|_| EngineError::closed(self.what))
    }

    fn submit(&self, body: Body) -> std::result::Result<(), Body> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        match sender.as_ref() {
            Some(sender) => sender.send(body).map_err(|refused| refused.0),
            None => Err(body),
        }
    }
}

/// Bytes that become a Buffer on the JS thread, without a copy.
pub struct Bytes(pub Vec<u8>);

impl ToNapiValue for Bytes {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        unsafe { Buffer::to_napi_value(env, Buffer::from(value.0)) }
    }
}

/// A tagged outcome: what a promise of ours resolves to.
pub struct Outcome<T>(pub Result<T>);

impl<T: ToNapiValue> ToNapiValue for Outcome<T> {
    unsafe fn to_napi_value(env: sys::napi_env, outcome: Self) -> napi::Result<sys::napi_value> {
        let mut object = Object::new(&Env::from_raw(env))?;
        match outcome.0 {
            Ok(value) => {
                object.set("ok", true)?;
                object.set("value", value)?;
            }
            Err(error) => {
                object.set("ok", false)?;
                object.set("code", error.code())?;
                object.set("message", error.message)?;
                if let Some(path) = error.path {
                    object.set("path", Buffer::from(path))?;
                }
            }
        }
        Ok(object.raw())
    }
}

/// Runs a body; a panic is an `ERR_INTERNAL`.
pub fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown panic".to_string());
        Err(EngineError::new(
            Code::Internal,
            format!("the engine panicked: {text}. Please report this."),
        ))
    })
}

/// Queues `body` and answers a promise of its [`Outcome`].
pub fn start<'env, T, F>(env: &'env Env, queue: &Queue, body: F) -> napi::Result<Object<'env>>
where
    T: ToNapiValue + Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    promised(env, queue.what, |run| queue.submit(run), body)
}

/// Opens a handle on the thread that is to be its own: `body` gets the queue of that thread, for the handle to keep.
/// `what` as in [`Queue::new`].
pub fn start_handle<'env, T, F>(env: &'env Env, what: &'static str, body: F) -> napi::Result<Object<'env>>
where
    T: ToNapiValue + Send + 'static,
    F: FnOnce(Queue) -> Result<T> + Send + 'static,
{
    let (queue, sender) = Queue::started(what).map_err(|error| napi::Error::from_reason(error.message))?;
    let submit = |run| sender.send(run).map_err(|refused| refused.0);
    promised(env, what, submit, move || body(queue))
}

fn promised<'env, T, F>(
    env: &'env Env,
    what: &'static str,
    submit: impl FnOnce(Body) -> std::result::Result<(), Body>,
    body: F,
) -> napi::Result<Object<'env>>
where
    T: ToNapiValue + Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let (answer, promise) = Answer::promised(env)?;
    let kept = answer.clone();
    let run: Body = Box::new(move || answer.give(guarded(body)));
    if submit(run).is_err() {
        kept.give(Err(EngineError::closed(what)));
    }
    Ok(promise)
}

type Resolver<T> = Box<dyn FnOnce(Env) -> napi::Result<Outcome<T>> + Send>;

/// Settles a promise of ours, from any thread. Whoever holds it owes it one outcome.
pub struct Answer<T: ToNapiValue + Send + 'static>(JsDeferred<Outcome<T>, Resolver<T>>);

impl<T: ToNapiValue + Send + 'static> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Answer(self.0.clone())
    }
}

impl<T: ToNapiValue + Send + 'static> Answer<T> {
    pub fn promised(env: &Env) -> napi::Result<(Self, Object<'_>)> {
        let (deferred, promise) = env.create_deferred::<Outcome<T>, Resolver<T>>()?;
        Ok((Answer(deferred), promise))
    }

    pub fn give(self, outcome: Result<T>) {
        self.0.resolve(Box::new(move |_| Ok(Outcome(outcome))));
    }
}

/// Ends the process at once: no exit handlers, no destructors, other threads stop where they are. For a process that has
/// put down all that it was to keep: tearing Node down costs a short one a tenth of its life.
pub fn end_process(code: i32) -> ! {
    // SAFETY: _exit may be called at any time on any thread; nothing runs in this process afterwards.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_text() {
        let error = guarded::<()>(|| panic!("boom {}", 7)).unwrap_err();
        assert_eq!(error.code(), "ERR_INTERNAL");
        assert!(error.message.contains("boom 7"), "{}", error.message);
    }

    #[test]
    fn a_queue_does_its_work_in_order_and_refuses_more_once_closed() {
        let queue = Queue::new("test").unwrap();
        let (sender, receiver) = mpsc::channel();
        for i in 0..10 {
            let sender = sender.clone();
            assert!(queue.submit(Box::new(move || sender.send(i).unwrap())).is_ok());
        }
        queue.close();
        assert!(queue.submit(Box::new(|| ())).is_err(), "closed");
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn cancel_is_seen_by_every_clone() {
        let cancel = Cancel::default();
        let clone = cancel.clone();
        assert!(clone.check().is_ok());
        cancel.cancel();
        assert_eq!(clone.check().unwrap_err().code(), "ERR_CANCELLED");
    }
}
