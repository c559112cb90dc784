//! What no client that speaks SPDY would send, after which its connection ends.

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);
