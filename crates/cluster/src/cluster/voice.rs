//! Whether an API server answers.

/// What clients of an API server find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// It answers.
    Answers,
    /// It takes requests and gives no answers.
    Silent,
    /// It does not run: connections end at once.
    Stopped,
}
