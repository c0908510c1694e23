//! N-API glue of the blob store.
