//! Diagnostics: what is wrong with a lab file, where, and how to mend it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use serde_json::{Value, json};

use super::source::{Location, Source};
use crate::code::Code;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look; does not stop.
    Warning,
    /// Stops before anything is made.
    Error,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A place in the diagnostic's text and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Byte span.
    pub span: Range<usize>,
    /// What to say there; may be empty.
    pub text: String,
}

/// What to do about a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// The advice.
    pub text: String,
    /// The edit, where it is known: replace this span by this text.
    pub patch: Option<(Range<usize>, String)>,
}

/// One problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Its case in the table of codes.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One line, lower case, names in backticks.
    pub message: String,
    /// The text the spans are in; none where there is no text, such as for a file that cannot be read.
    pub source: Option<Arc<Source>>,
    /// The place that is wrong.
    pub primary: Option<Label>,
    /// Other places of the same text that matter.
    pub secondary: Vec<Label>,
    /// Facts that explain.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Vec<Help>,
}

impl Diagnostic {
    /// An error of a rule.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            source: None,
            primary: None,
            secondary: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning of a rule.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Points at the place that is wrong, and says what is wrong with it there.
    pub fn at(mut self, location: &Location, text: impl Into<String>) -> Self {
        self.source = Some(Arc::clone(location.source()));
        self.primary = Some(Label { span: location.span(), text: text.into() });
        self
    }

    /// Points at another place; ignored if it is in another text than the first one.
    pub fn and_at(mut self, location: &Location, text: impl Into<String>) -> Self {
        if self.source.as_ref() == Some(location.source()) {
            self.secondary.push(Label { span: location.span(), text: text.into() });
        }
        self
    }

    /// Adds a fact that explains.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Adds advice.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(Help { text: text.into(), patch: None });
        self
    }

    /// Adds advice with the edit that follows it.
    pub fn patch(mut self, text: impl Into<String>, location: &Location, replacement: impl Into<String>) -> Self {
        self.help.push(Help { text: text.into(), patch: Some((location.span(), replacement.into())) });
        self
    }

    /// Where the problem is, if it is somewhere in a text.
    pub fn location(&self) -> Option<Location> {
        let source = self.source.as_ref()?;
        Some(source.at(self.primary.as_ref()?.span.clone()))
    }

    /// The diagnostic with its piece of source, as cargo shows it, without a line end.
    pub fn render(&self, color: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let code = self.code.to_string();
        let mut main = Group::with_title(level.primary_title(self.message.as_str()).id(&code));
        if let Some(source) = &self.source {
            let labels = self.primary.iter().map(|label| (AnnotationKind::Primary, label));
            let labels = labels.chain(self.secondary.iter().map(|label| (AnnotationKind::Context, label)));
            main = main.element(Snippet::source(source.text()).path(source.name()).annotations(labels.map(
                |(kind, label)| {
                    let text = (!label.text.is_empty()).then_some(label.text.as_str());
                    kind.span(printable_span(source.text(), &label.span)).label(text)
                },
            )));
        }
        for note in &self.notes {
            main = main.element(Level::NOTE.message(note.as_str()));
        }
        let mut groups = Vec::new();
        for help in &self.help {
            match (&help.patch, &self.source) {
                (Some((span, replacement)), Some(source)) => groups.push(
                    Group::with_title(Level::HELP.secondary_title(help.text.as_str())).element(
                        Snippet::source(source.text())
                            .path(source.name())
                            .patch(Patch::new(span.clone(), replacement.as_str())),
                    ),
                ),
                _ => main = main.element(Level::HELP.message(help.text.as_str())),
            }
        }
        groups.insert(0, main);
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.term_width(120).render(&groups)
    }

    /// The diagnostic for programs.
    pub fn to_json(&self) -> Value {
        let place = |span: &Range<usize>| {
            self.source.as_ref().map(|source| {
                json!({
                    "file": source.name(),
                    "line": source.line(span.start),
                    "column": source.column(span.start),
                    "end_line": source.line(span.end),
                    "end_column": source.column(span.end),
                })
            })
        };
        let label = |label: &Label| json!({ "at": place(&label.span), "text": label.text });
        json!({
            "code": self.code,
            "case": self.code.name(),
            "severity": self.severity.as_str(),
            "message": self.message,
            "at": self.primary.as_ref().and_then(|label| place(&label.span)),
            "label": self.primary.as_ref().map(|label| label.text.as_str()),
            "related": self.secondary.iter().map(label).collect::<Vec<_>>(),
            "notes": self.notes,
            "help": self.help.iter().map(|help| json!({
                "text": help.text,
                "replace": help.patch.as_ref().and_then(|(span, _)| place(span)),
                "with": help.patch.as_ref().map(|(_, replacement)| replacement.as_str()),
            })).collect::<Vec<_>>(),
        })
    }
}

/// A span that the snippet renderer can draw: inside the text and on character boundaries, whatever a parser handed out.
fn printable_span(text: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    start..floor(span.end).max(start)
}

/// Most problems that people see: each is drawn with its piece of the file.
const MAX_SHOWN: usize = 100;

/// All problems of a lab.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds a problem.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }

    /// Adds the problems of another list.
    pub fn extend(&mut self, other: Self) {
        self.items.extend(other.items);
    }

    /// The problems.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of errors.
    pub fn errors(&self) -> usize {
        self.items.iter().filter(|item| item.severity == Severity::Error).count()
    }

    /// Puts the problems in the order of the files, and those of one place in the order in which they were found.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| {
            let name = item.source.as_ref().map(|source| source.name().to_owned());
            (name, item.primary.as_ref().map(|label| label.span.start))
        });
        self.items.dedup();
    }

    /// The problems as text, with a blank line between them and a line end after the last; of very many the first.
    pub fn render(&self, color: bool) -> String {
        let mut text = String::new();
        for (index, item) in self.items.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(&item.render(color));
            text.push('\n');
        }
        if self.items.len() > MAX_SHOWN {
            let more = self.items.len() - MAX_SHOWN;
            text.push_str(&format!("\n{more} more problems are not shown; `--format json` has all of them\n"));
        }
        text
    }

    /// All problems for programs.
    pub fn to_json(&self) -> Value {
        Value::Array(self.items.iter().map(Diagnostic::to_json).collect())
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(item: Diagnostic) -> Self {
        Self { items: vec![item] }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate that a misspelt word most likely means: the same but for case, `-` and `_`, or nearly the same.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_lowercase();
    let wanted = plain(word);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| {
            let given = plain(candidate);
            let likeness = if given == wanted { 1.0 } else { strsim::jaro_winkler(&given, &wanted) };
            (strsim::osa_distance(&given, &wanted), likeness, candidate)
        })
        .filter(|(distance, likeness, _)| *distance <= 1 && wanted.len() > 2 || *likeness >= 0.85)
        .min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)))
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_candidate() {
        let keys = ["replicas", "node_selector", "tolerations", "image", "requests"];
        for (word, expected) in [
            ("replica", Some("replicas")),
            ("nodeSelector", Some("node_selector")),
            ("toleration", Some("tolerations")),
            ("imgae", Some("image")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(word, keys), expected, "{word}");
        }
    }

    #[test]
    fn spans_beyond_the_text_are_drawn_at_its_end() {
        let source = Source::new("x.toml", "ä");
        let diagnostic = Diagnostic::error(Code::UnknownKey, "x").at(&source.at(1..9), "here");
        assert!(diagnostic.render(false).contains("here"));
    }
}
