//! Inodes that a restore took out of the tree.
