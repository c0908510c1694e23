//! What this file system can do, found by trying.
