//! N-API glue of SQLite.
