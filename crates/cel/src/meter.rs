//! What counts the work of expressions for the one who asks for it.

/// Counts steps of work, each as long as a few units of cost. Returns whether the work may go on.
pub type Meter = fn(u64) -> bool;
