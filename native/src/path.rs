//! Contained path resolution below an open root.
