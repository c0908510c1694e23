//! The index file and its form in memory.
