//! N-API glue: converts arguments, hands the work to a thread, converts the answer. No logic.
//!
//! docs/addon.md is the contract, exact to each argument. Buffers are copied at the border, because JavaScript may
//! write to its own while our threads read.

use napi_derive::napi;

use crate::task;

pub mod ahead;
pub mod apply;
pub mod segments;
pub mod sql;
pub mod tree;

/// Number of the contract in docs/addon.md. It moves with every change that an older `native.ts` would not understand.
pub const CONTRACT: u32 = 5;

#[napi(catch_unwind)]
pub fn contract() -> u32 {
    CONTRACT
}

#[napi(catch_unwind)]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_string()
}

/// Ends the process where it stands. The caller has awaited all that was to be kept.
#[napi(catch_unwind)]
pub fn end_process(code: i32) {
    task::end_process(code)
}
