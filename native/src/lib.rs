//! The hot path of takeback. N-API conversion only; see each module's header.
