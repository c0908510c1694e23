//! What is on disk at a path now.
