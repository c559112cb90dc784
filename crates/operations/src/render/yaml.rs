//! YAML documents: where each begins, and what is in it.

use serde_json::Value;

/// One document of a YAML text.
pub struct Document<'a> {
    text: &'a str,
    /// Line (from 1) of the whole text on which the text of this document begins.
    start: usize,
    /// Line (from 1) of the whole text on which its content begins.
    pub line: usize,
}

/// Why a document is not YAML.
pub struct Problem {
    /// The parser's own words.
    pub message: String,
    /// Line (from 1) of the whole text.
    pub line: usize,
    /// Column (from 1, in characters).
    pub column: Option<usize>,
}

/// Splits at document markers, which no other YAML construct can contain at the beginning of a line.
pub fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut start_line) = (0, 1);
    let mut offset = 0;
    let mut push = |from: usize, to: usize, line: usize| {
        let part = &text[from..to];
        let content = part
            .lines()
            .position(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#') && line.trim() != "---");
        if let Some(before) = content {
            documents.push(Document { text: part, start: line, line: line + before });
        }
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        let begins = bare == "---" || bare.starts_with("--- ");
        if begins && offset > start {
            push(start, offset, start_line);
            (start, start_line) = (offset, index + 1);
        }
        offset += line.len();
        if bare == "..." {
            push(start, offset, start_line);
            (start, start_line) = (offset, index + 2);
        }
    }
    push(start, text.len(), start_line);
    documents
}

impl Document<'_> {
    /// The document as JSON.
    ///
    /// # Errors
    /// Where it is not YAML, and why.
    pub fn parse(&self) -> Result<Value, Problem> {
        serde_saphyr::from_str::<Value>(self.text).map_err(|error| {
            let error = error.without_snippet();
            let location = error.location();
            let message = error.to_string();
            // The place is shown by the caret; the library's own mention of it would count from the document's start.
            let message = message.split(" at line ").next().unwrap_or(&message).lines().next().unwrap_or_default();
            // Advice to programmers who use the library.
            let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
            Problem {
                message: message.to_owned(),
                line: location.map_or(self.line, |at| self.start + usize::try_from(at.line()).unwrap_or(1).max(1) - 1),
                column: location.and_then(|at| usize::try_from(at.column()).ok()).filter(|column| *column > 0),
            }
        })
    }
}
