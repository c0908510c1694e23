//! N-API glue of what a hook process begins with (docs/addon.md): handles that are there at once, and whether its event is.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{BigInt, Object};
use napi_derive::napi;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::segments::{NativeSegments, path_of, seed_of};
use super::tree::NativeTree;
use crate::error::EngineError;
use crate::segment::SegmentStore;
use crate::task::{Answer, Queue};

/// Both handles without a wait, and a first look that begins before they are asked for one. Segments are read by the first use
/// of a blob.
#[napi(catch_unwind, ts_return_type = "unknown")]
pub fn open_ahead<'env>(
    env: &'env Env,
    dir: &[u8],
    seed: BigInt,
    options: &[u8],
) -> napi::Result<Object<'env>> {
    let thrown = |error: EngineError| napi::Error::from_reason(error.message);
    let store = Arc::new(SegmentStore::unread(
        &path_of(dir),
        seed_of(&seed).map_err(thrown)?,
    ));
    // Before the answers: without a thread nobody would give them.
    let queue = Queue::new("tree").map_err(thrown)?;
    let (loaded, loading) = Answer::promised(env)?;
    let (scan, scanning) = Answer::promised(env)?;
    let tree = NativeTree::begun(queue, (options, store.clone()), (loaded, scan)).map_err(thrown)?;
    let mut opened = Object::new(env)?;
    opened.set("tree", tree)?;
    opened.set("loaded", loading)?;
    opened.set("scan", scanning)?;
    opened.set("segments", NativeSegments::of(store).map_err(thrown)?)?;
    Ok(opened)
}

/// Whether a read of standard input would answer at once.
#[napi(catch_unwind)]
pub fn input_waits() -> bool {
    let input = std::io::stdin();
    let mut waiting = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut waiting, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
