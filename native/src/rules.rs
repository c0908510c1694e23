//! Sources of ignore rules, and their snapshot.
