//! Blobs in append-only segment files.
