//! What is said about a lab file that is not TOML: the first mistakes, and not what follows from them.

use std::ops::Range;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::source::Source;
use crate::code::Code;

/// Most that people see: those after them are mostly consequences.
const SHOWN: usize = 3;

/// The diagnostics of a text that is not TOML.
pub(super) fn report(errors: &[toml::de::Error], source: &Arc<Source>) -> Diagnostics {
    let mut errors: Vec<_> = errors.iter().collect();
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let first = errors.iter().find_map(|error| error.span());
    if let Some(open) = first.and_then(|first| left_open(source.text(), first.start)) {
        return unclosed(&open, source).into();
    }
    let mut diagnostics = Diagnostics::default();
    for error in errors.iter().take(SHOWN) {
        let mut diagnostic = diagnostic(error.message(), error.span(), source);
        if diagnostics.errors() + 1 == SHOWN && errors.len() > SHOWN {
            let more = errors.len() - SHOWN;
            diagnostic = diagnostic.note(format!("{more} more places are not TOML; they may follow from these"));
        }
        diagnostics.push(diagnostic);
    }
    diagnostics
}

/// One mistake in the parser's words.
pub(super) fn diagnostic(message: &str, span: Option<Range<usize>>, source: &Arc<Source>) -> Diagnostic {
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let mut diagnostic = Diagnostic::error(Code::NotToml, "this is not TOML".to_owned());
    if let Some(span) = span {
        diagnostic = diagnostic.at(&source.at(span), first);
    } else {
        diagnostic = diagnostic.note(first);
    }
    for line in rest.lines().filter(|line| !line.trim().is_empty()) {
        diagnostic = diagnostic.note(line);
    }
    diagnostic
}

fn unclosed(open: &Range<usize>, source: &Arc<Source>) -> Diagnostic {
    let quotes = &source.text()[open.start..open.start + 3];
    let diagnostic = Diagnostic::error(Code::NotToml, "this string is not closed")
        .at(&source.at(open.start..open.start + 3), "it begins here")
        .help(format!("end the text with a line {quotes}"));
    if open.end < source.text().len() {
        diagnostic.and_at(&source.at(open.end - 3..open.end), "and would end only here, where the next one begins")
    } else {
        diagnostic.note("it extends to the end of the file")
    }
}

/// The string over several lines whose missing end is why the text is wrong at `wrong`: it goes on to the end of the
/// text, or to what looks like the beginning of the next one.
fn left_open(text: &str, wrong: usize) -> Option<Range<usize>> {
    let mut strings = Strings { text, at: 0 }.take_while(|(string, _)| string.start <= wrong);
    strings.find_map(|(string, closed)| {
        if !closed {
            return Some(string);
        }
        let line = text[..string.end - 3].rsplit('\n').next().unwrap_or_default();
        let key = line.trim_end().strip_suffix('=')?.trim();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
        (is_key && text[string.clone()].contains('\n')).then_some(string)
    })
}

/// The strings over several lines of a text, with their quotes, and whether each is closed.
struct Strings<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Strings<'_> {
    type Item = (Range<usize>, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let start = self.at;
            let rest = &self.text[start..];
            match bytes[start] {
                b'#' => self.at += rest.find('\n').unwrap_or(rest.len()),
                quote @ (b'"' | b'\'') if rest.as_bytes().starts_with(&[quote; 3]) => {
                    self.at = start + 3;
                    while self.at < bytes.len() {
                        if bytes[self.at..].starts_with(&[quote; 3]) {
                            // Up to two more quotes belong to the text.
                            let more = bytes[self.at + 3..].iter().take(2).take_while(|byte| **byte == quote).count();
                            self.at += 3 + more;
                            return Some((start..self.at, true));
                        }
                        self.at += 1 + usize::from(quote == b'"' && bytes[self.at] == b'\\');
                    }
                    self.at = bytes.len();
                    return Some((start..self.at, false));
                }
                quote @ (b'"' | b'\'') => {
                    self.at += 1;
                    while self.at < bytes.len() && bytes[self.at] != quote && bytes[self.at] != b'\n' {
                        self.at += 1 + usize::from(quote == b'"' && bytes[self.at] == b'\\');
                    }
                    self.at = (self.at + 1).min(bytes.len());
                }
                _ => self.at += 1,
            }
            // Escapes may skip into a character.
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadOptions, parse};

    #[test]
    fn one_missing_end_of_a_string_is_one_error_where_it_begins() {
        for quotes in ["\"\"\"", "'''"] {
            let step = |name: usize, end: &str| {
                format!(
                    "[[step]]\nname = \"s{name}\"\ntext = {quotes}\nIt's a \"text\".\n\n    kubectl get pods\n{end}\n"
                )
            };
            for missing in [0, 3, 9] {
                let steps: String = (0..10).map(|name| step(name, if name == missing { "" } else { quotes })).collect();
                let text = format!("lab = \"a\"\n[pool.system]\n{steps}");
                let problems = parse("a.toml", &text, &LoadOptions::default()).unwrap_err();
                assert_eq!(problems.iter().count(), 1, "{problems}");
                let at = problems.iter().next().unwrap().location().unwrap();
                assert_eq!(at.line(), 5 + 7 * missing, "{problems}");
                assert!(problems.to_string().contains("this string is not closed"), "{problems}");
            }
        }
    }

    #[test]
    fn of_many_mistakes_the_first_are_shown() {
        let text = "lab = \"a\"\n".to_owned() + &"= = =\n".repeat(500);
        let problems = parse("a.toml", &text, &LoadOptions::default()).unwrap_err();
        assert_eq!(problems.iter().count(), SHOWN, "{problems}");
        assert!(problems.to_string().contains("more places are not TOML"), "{problems}");
    }

    #[test]
    fn strings_are_found_as_toml_reads_them() {
        let text = "a = \"\\\"\"\"\" # \"\"\"\nb = '''x''''\nc = \"\"\"\\\"\"\"\"\nd = \"ä\nü = '''";
        let found: Vec<_> = Strings { text, at: 0 }.map(|(range, closed)| (&text[range], closed)).collect();
        assert_eq!(found.last(), Some(&("'''", false)));
        assert!(found.contains(&("'''x''''", true)), "{found:?}");
    }
}
