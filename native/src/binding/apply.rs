//! N-API glue of what writes to the tree.
