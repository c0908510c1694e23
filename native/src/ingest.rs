//! Reads, hashes and stores the suspects of a scan.
