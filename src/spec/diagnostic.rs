//! Diagnostics: what is wrong with a lab file, where, and how to mend it.

use std::ops::Range;
use std::sync::Arc;

use super::source::Source;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look; does not stop.
    Warning,
    /// Stops before anything is made.
    Error,
}

/// A place in the diagnostic's text and what to say about it.
#[derive(Clone, Debug)]
pub struct Label {
    /// Byte span.
    pub span: Range<usize>,
    /// What to say there; may be empty.
    pub text: String,
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Stable code of the rule, such as `unknown-key`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One line, lower case, names in backticks.
    pub message: String,
    /// The text the spans are in; none where the file could not be read.
    pub source: Option<Arc<Source>>,
    /// The place that is wrong.
    pub primary: Option<Label>,
    /// Other places that matter.
    pub secondary: Vec<Label>,
    /// Facts that explain.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Vec<String>,
}

/// All problems of a lab, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The problems.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
