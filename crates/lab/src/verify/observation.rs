//! What is true of the subject of a condition.

use super::verdict::Standing;
use crate::code::Code;

/// What a condition finds; its code and place are added by the caller.
pub(crate) struct Fact {
    pub(crate) standing: Standing,
    pub(crate) now: String,
    pub(crate) offenders: Vec<String>,
    /// The code of a finding that is not the condition's own.
    pub(crate) code: Option<Code>,
}

impl Fact {
    pub(crate) fn new(standing: Standing, now: impl Into<String>) -> Self {
        Self { standing, now: now.into(), offenders: Vec::new(), code: None }
    }

    pub(crate) fn coded(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn offenders(mut self, offenders: impl IntoIterator<Item = String>) -> Self {
        self.offenders = offenders.into_iter().collect();
        self.offenders.sort();
        self
    }
}
