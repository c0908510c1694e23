//! The tree handle: index, rules and change sets.
