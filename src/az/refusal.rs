//! What az says where it does not do what was typed: its words on stderr, and its exit code.

use crate::error::{Error, Kind};

/// Why a command of az is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
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
        Self { message: message.into(), advice: Vec::new(), exit_code: 1 }
    }

    /// A command line that az cannot read.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit_code: 2, ..Self::new(message) }
    }

    /// A refusal of Azure, as az shows it.
    pub fn azure(code: &str, message: &str) -> Self {
        let is_absence = matches!(code, "ResourceNotFound" | "ResourceGroupNotFound" | "NotFound");
        let text = format!("({code}) {message}\nCode: {code}\nMessage: {message}");
        Self { exit_code: if is_absence { 3 } else { 1 }, ..Self::new(text) }
    }

    /// Adds a line about what would do.
    pub fn advise(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }
}

impl From<Error> for Refusal {
    /// An error of klab. What breaks a rule of pools is what Azure would call a bad request.
    fn from(error: Error) -> Self {
        let words = format!("{error:#}");
        let refusal = if error.kind == Kind::Usage { Self::azure("BadRequest", &words) } else { Self::new(words) };
        let left = error.left_behind.into_iter().map(|left| format!("Left behind: {left}"));
        let refusal = left.fold(refusal, Self::advise);
        // What is to be written into a lab file is nothing that helps here.
        let hints = error.hints.into_iter().filter(|hint| !hint.contains(" = "));
        hints.fold(refusal, Self::advise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_az() {
        assert_eq!(Refusal::new("x").exit_code, 1);
        assert_eq!(Refusal::usage("x").exit_code, 2);
        assert_eq!(Refusal::azure("ResourceNotFound", "x").exit_code, 3);
        let refusal = Refusal::azure("BadRequest", "There is none.");
        assert_eq!(refusal.exit_code, 1);
        assert_eq!(refusal.message, "(BadRequest) There is none.\nCode: BadRequest\nMessage: There is none.");
    }
}
