//! The journal of a running operation.
