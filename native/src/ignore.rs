//! Ignore verdicts, folder by folder.
