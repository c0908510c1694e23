//! One look at the tree.
