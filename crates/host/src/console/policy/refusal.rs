//! Why a line is not run.

/// Why a line is not run, and what does the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    pub(in crate::console) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Names with commas between them, as they are typed.
pub(super) fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
