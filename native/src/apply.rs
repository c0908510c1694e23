//! Guarded apply of a plan to the tree.
