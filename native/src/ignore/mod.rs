//! What coverage thinks of names: git's ignore semantics, what git tracks, secrets and names of our own.
//!
//! `patterns` matches one source, `frame` stacks the sources of a folder, `tracked` reads git's index, `names` holds
//! what needs no rule. Where the sources come from, and which are frozen, is `rules`'.

pub mod frame;
pub mod names;
pub mod patterns;
pub mod tracked;

pub use frame::{Frame, Match};
pub use patterns::Patterns;
pub use tracked::{GitDirs, GitKey, Repo, object_format, repository_at};
