//! What klab tells the person who must act: what failed, why, what is left behind, how to go on.

mod az_refusal;

use std::fmt;

pub use klab_lab::code::Code;

/// Result of klab's own operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an error means for the caller; each kind has one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The lab does not hold (1).
    NotHeld,
    /// Wrong usage, or an invalid lab file (2).
    Usage,
    /// Something outside klab is missing: a tool, a login, quota, a cluster (3).
    Outside,
    /// A step of the work failed, or something is left behind (4).
    Failed,
    /// A deadline passed (5).
    Deadline,
    /// Interrupted by the user (130).
    Interrupted,
}

impl Kind {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::NotHeld => 1,
            Self::Usage => 2,
            Self::Outside => 3,
            Self::Failed => 4,
            Self::Deadline => 5,
            Self::Interrupted => 130,
        }
    }

    /// The kind of an exit code.
    fn of_exit_code(code: u8) -> Self {
        let all = [Self::NotHeld, Self::Usage, Self::Outside, Self::Failed, Self::Deadline, Self::Interrupted];
        all.into_iter().find(|kind| kind.exit_code() == code).unwrap_or(Self::Failed)
    }
}

/// An error on its way to the person at the terminal.
#[derive(Debug)]
pub struct Error {
    /// Which problem it is: the user looks it up by this code.
    pub code: Code,
    /// What could not be done, and the chain of causes.
    pub source: anyhow::Error,
    /// What exists although the command failed.
    pub left_behind: Vec<String>,
    /// Commands or edits that mend it.
    pub hints: Vec<String>,
    /// Complete rendered diagnostics shown before the summary, already with file, line and caret.
    pub diagnostics: String,
}

impl Error {
    /// An error with a code from anything that describes itself.
    pub fn new(code: Code, source: impl Into<anyhow::Error>) -> Self {
        Self { code, source: source.into(), left_behind: Vec::new(), hints: Vec::new(), diagnostics: String::new() }
    }

    /// An error with a code from a sentence.
    pub fn message(code: Code, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self::new(code, anyhow::Error::msg(message))
    }

    /// What it means for the caller.
    pub fn kind(&self) -> Kind {
        Kind::of_exit_code(self.code.exit())
    }

    /// Adds a hint: a command or an edit that can be pasted.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds something that exists although the command failed.
    pub fn left_behind(mut self, what: impl Into<String>) -> Self {
        self.left_behind.push(what.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.source)
    }
}

impl From<anyhow::Error> for Error {
    fn from(source: anyhow::Error) -> Self {
        match source.downcast::<Error>() {
            Ok(error) => error,
            Err(source) => Self::new(Code::KlabFault, source),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// Gives an error a code and the sentence of what could not be done.
pub trait Context<T> {
    /// `could not …`, with the code by which the user looks it up.
    fn code(self, code: Code, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> Context<T> for std::result::Result<T, E> {
    fn code(self, code: Code, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(code, error.into().context(message())))
    }
}
