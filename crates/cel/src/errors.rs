//! Errors of an expression, shown with the line they are in.
//!
//! // upstream: cel-go common/error.go ToDisplayString

/// One thing that is wrong with a source, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Characters of the source before it.
    pub offset: usize,
    /// What is wrong, in upstream's words.
    pub message: String,
}

/// The errors, each with its line and a mark below it.
pub(crate) fn display(source: &str, issues: &[Issue]) -> String {
    let shown: Vec<String> = issues.iter().take(100).map(|issue| one(source, issue)).collect();
    shown.join("\n")
}

fn one(source: &str, issue: &Issue) -> String {
    let (mut line, mut column) = (1_usize, 0_usize);
    for character in source.chars().take(issue.offset) {
        if character == '\n' {
            (line, column) = (line.saturating_add(1), 0);
        } else {
            column = column.saturating_add(1);
        }
    }
    let text = source.split('\n').nth(line.saturating_sub(1)).unwrap_or_default().replace('\t', " ");
    let mut marks = String::new();
    let mut characters = text.chars();
    for _ in 0..column {
        match characters.next() {
            Some(character) => marks.push(if character.is_ascii() { '.' } else { '\u{ff0e}' }),
            None => break,
        }
    }
    marks.push(if characters.next().is_none_or(|character| character.is_ascii()) { '^' } else { '\u{ff3e}' });
    format!("ERROR: <input>:{line}:{}: {}\n | {text}\n | {marks}", column.saturating_add(1), issue.message)
}
