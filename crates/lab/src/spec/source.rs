//! Texts that klab reads, and places in them: file, line, column, byte span.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A text with the name under which it is shown: the lab file, a template, a manifest.
#[derive(PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    line_starts: Vec<usize>,
}

impl Source {
    /// Takes the name for messages (usually the path as the user gave it) and the whole text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        let text = text.into();
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Arc::new(Self { name: name.into(), text, line_starts })
    }

    /// The name under which the text is shown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line (from 1) of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Column (from 1, in characters) of a byte offset.
    pub fn column(&self, offset: usize) -> usize {
        let start = self.line_starts[self.line(offset) - 1];
        self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1)
    }

    /// The byte span of a line (from 1) without its line end; the end of the text for a line that is not there.
    pub fn line_span(&self, line: usize) -> Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|index| self.line_starts.get(index)) else {
            return self.text.len()..self.text.len();
        };
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| next - 1);
        *start..(*start + self.text[*start..end].trim_end_matches('\r').len())
    }

    /// The text of a line (from 1) without its line end.
    pub fn line_text(&self, line: usize) -> &str {
        &self.text[self.line_span(line)]
    }

    /// The place of a byte span in this text.
    pub fn at(self: &Arc<Self>, span: Range<usize>) -> Location {
        Location { source: Arc::clone(self), span }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.name, self.text.len())
    }
}

/// A place in a text. Displayed as `labs/x.toml:34`.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    source: Arc<Source>,
    span: Range<usize>,
}

impl Location {
    /// The text the place is in.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Name of the text.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Line of the first byte, from 1.
    pub fn line(&self) -> usize {
        self.source.line(self.span.start)
    }

    /// Column of the first byte, from 1, in characters.
    pub fn column(&self) -> usize {
        self.source.column(self.span.start)
    }

    /// Byte span in the text.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file(), self.line())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file(), self.line(), self.column())
    }
}

/// A value and where it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub at: Location,
}

impl<T> Located<T> {
    /// A value at a place.
    pub fn new(value: T, at: Location) -> Self {
        Self { value, at }
    }

    /// The same place with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: change(self.value), at: self.at }
    }
}

impl<T> Deref for Located<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Display> fmt::Display for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let source = Source::new("x.toml", "a\nçé = 1\r\n\nlast");
        for (needle, line, column) in [("a", 1, 1), ("çé", 2, 1), ("= 1", 2, 4), ("last", 4, 1)] {
            let start = source.text().find(needle).unwrap();
            let at = source.at(start..start + needle.len());
            assert_eq!((at.line(), at.column()), (line, column), "{needle}");
        }
        assert_eq!(source.line_text(2), "çé = 1");
        assert_eq!(source.line_text(9), "");
        assert_eq!(source.at(2..3).to_string(), "x.toml:2");
    }
}
