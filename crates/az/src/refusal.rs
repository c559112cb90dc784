//! What az says where it does not do what was typed: its words on stderr, and its exit code.

use std::fmt;

/// The codes with which Azure refuses, as it writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A version that pools cannot have.
    AgentPoolK8sVersionNotSupported,
    /// A zone that the region does not have.
    AvailabilityZoneNotSupported,
    /// What breaks a rule.
    BadRequest,
    /// A value that a property cannot have.
    InvalidParameter,
    /// A name that a group cannot have.
    InvalidResourceGroup,
    /// A group that is somewhere else already.
    InvalidResourceGroupLocation,
    /// A version that clusters cannot have.
    K8sVersionNotSupported,
    /// A pool that would be newer than its cluster.
    NodePoolMcVersionIncompatible,
    /// A pool that is not there.
    NotFound,
    /// What cannot be done to what is there.
    OperationNotAllowed,
    /// A group that is not there.
    ResourceGroupNotFound,
    /// A cluster that is not there.
    ResourceNotFound,
    /// A budget that can never allow an upgrade.
    UnsatisfiablePDB,
    /// An upgrade that ended before all nodes were upgraded.
    UpgradeFailed,
}

impl Code {
    /// Whether something is not there, which has an exit code of its own.
    fn is_absence(self) -> bool {
        matches!(self, Self::NotFound | Self::ResourceGroupNotFound | Self::ResourceNotFound)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

/// Why a command of az is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Azure's code; none where az itself refuses.
    pub code: Option<Code>,
    /// What stands after `ERROR: `.
    pub message: String,
    /// Lines below it: what would do.
    pub advice: Vec<String>,
    /// az's exit code: 1, 2 for usage, 3 for what is not there.
    pub exit_code: u8,
}

impl Refusal {
    /// A refusal of az itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), advice: Vec::new(), exit_code: 1 }
    }

    /// A command line that az cannot read.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit_code: 2, ..Self::new(message) }
    }

    /// A refusal of Azure, as az shows it.
    pub fn azure(code: Code, message: &str) -> Self {
        let text = format!("({code}) {message}\nCode: {code}\nMessage: {message}");
        Self { code: Some(code), exit_code: if code.is_absence() { 3 } else { 1 }, ..Self::new(text) }
    }

    /// Adds a line about what would do.
    pub fn advise(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_az() {
        assert_eq!(Refusal::new("x").exit_code, 1);
        assert_eq!(Refusal::usage("x").exit_code, 2);
        assert_eq!(Refusal::azure(Code::ResourceNotFound, "x").exit_code, 3);
        let refusal = Refusal::azure(Code::BadRequest, "There is none.");
        assert_eq!(refusal.exit_code, 1);
        assert_eq!(refusal.message, "(BadRequest) There is none.\nCode: BadRequest\nMessage: There is none.");
    }
}
