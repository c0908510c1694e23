//! The hot path of takeback: scan, ignore rules, hashing, blobs, guarded apply, SQL.
//!
//! Core modules know nothing of N-API; `binding/` converts and delegates (docs/addon.md is its contract); `task` is
//! how work runs off the JS thread. See each module's header.

// The seam (clippy.toml) is the engine's, not its tests'.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod apply;
pub mod binding;
pub mod borrow;
pub mod error;
pub mod ignore;
pub mod index;
pub mod ingest;
pub mod journal;
pub mod pack;
pub mod path;
pub mod peek;
pub mod probe;
pub mod recover;
pub mod rules;
pub mod scan;
pub mod segment;
#[cfg(test)]
mod simulation;
pub mod sql;
pub mod sys;
pub mod task;
pub mod trash;
pub mod tree;
pub mod watch;
pub mod wire;
