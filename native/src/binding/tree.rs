//! N-API glue of the tree handle.
