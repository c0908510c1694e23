//! SQLite on a thread of its own.
