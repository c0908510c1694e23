//! A tree from the outside: real folders, real stores.

mod coverage;
mod glances;
mod kit;
mod looks;
mod racy;
mod turns;
