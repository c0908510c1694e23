//! Ends an operation whose owner died.
