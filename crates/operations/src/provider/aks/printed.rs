//! What az printed: its answer, its error and its warnings, found among what other programs print beside them.
//!
//! az is a Python program that others wrap, and Python, its libraries and the wrappers write to the same two streams: notices
//! of updates, warnings about libraries, what a shell's profile says.

use serde::de::DeserializeOwned;

/// What az begins its own lines on stderr with.
const ERROR: &str = "ERROR: ";
const WARNING: &str = "WARNING: ";
/// What Python begins its last words with.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// Most lines shown of az's error, or of its other output if it prints no error; the rest is in the transcript.
const LINES: usize = 30;
const OTHERS_LINES: usize = 8;
/// Most characters of an answer that is none.
const EXCERPT: usize = 400;
/// Some editors' and Windows' mark before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The answer on stdout: the longest document that stands on lines of its own and is what was asked for.
///
/// # Errors
/// With what was printed in its place, shortened.
pub(super) fn answer<T: DeserializeOwned>(stdout: &str) -> Result<T, String> {
    let mut documents = documents(stdout);
    // az writes its own over several lines.
    documents.sort_by_key(|text| std::cmp::Reverse((text.contains('\n'), text.len())));
    let mut problem = None;
    for text in documents {
        match serde_json::from_str(text) {
            Ok(answer) => return Ok(answer),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let said = stdout.trim_matches(|letter: char| letter.is_whitespace() || letter == BYTE_ORDER_MARK);
    let mut excerpt: String = said.chars().take(EXCERPT).collect();
    if excerpt.len() < said.len() {
        excerpt.push('…');
    }
    Err(match problem {
        _ if said.is_empty() => "az ended well and printed nothing".to_owned(),
        Some(problem) => format!("az printed another answer than was asked for ({problem}):\n{excerpt}"),
        None => format!("az printed no answer:\n{excerpt}"),
    })
}

/// The JSON documents that begin at the beginning of a line and end at the end of one. What is within another, az indents.
fn documents(stdout: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = stdout;
    while !rest.is_empty() {
        let line = rest.trim_start_matches(BYTE_ORDER_MARK);
        let document = line.starts_with(['{', '[']).then(|| document(line)).flatten();
        found.extend(document);
        let after = document.map_or(line, |text| &line[text.len()..]);
        rest = after.split_once('\n').map_or("", |(_, next)| next);
    }
    found
}

fn document(text: &str) -> Option<&str> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    stream.next()?.ok()?;
    let (document, rest) = text.split_at(stream.byte_offset());
    rest.lines().next().unwrap_or_default().trim().is_empty().then_some(document)
}

/// az's error on stderr: the last line that begins as one, wherever it stands, and what az says after it. Without such a line
/// the last ones that were written.
pub(super) fn error(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(|line| line.trim_start_matches(BYTE_ORDER_MARK)).collect();
    // A Python that does not get as far as az ends with a traceback.
    let begins = |words: &str| lines.iter().rposition(|line| line.starts_with(words));
    let own = begins(ERROR).or_else(|| begins(TRACEBACK));
    let said = without_warnings(&lines[own.unwrap_or_default()..]);
    let shown = match own {
        Some(_) => &said[..said.len().min(LINES)],
        None => &said[said.len().saturating_sub(OTHERS_LINES)..],
    };
    // A traceback says in its last lines what happened.
    let cut = own.is_some() && shown.len() < said.len();
    let shown = if cut { [shown, &said[(said.len() - OTHERS_LINES).max(LINES)..]].concat() } else { shown.to_vec() };
    shown.join("\n").trim().to_owned()
}

/// The first warning of az that contains these words.
pub(super) fn warning<'t>(stderr: &'t str, words: &str) -> Option<&'t str> {
    stderr.lines().filter_map(|line| line.strip_prefix(WARNING)).find(|line| line.contains(words))
}

/// Lines without az's warnings and those of Python: `FILE:87: SomeWarning: words`, and the source line below, indented.
fn without_warnings<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let mut kept = Vec::new();
    let mut in_warning = false;
    for line in lines {
        let is_source = in_warning && line.starts_with("  ");
        in_warning = is_of_python(line);
        if !is_source && !in_warning && !line.starts_with(WARNING) {
            kept.push(*line);
        }
    }
    kept
}

fn is_of_python(line: &str) -> bool {
    let mut parts = line.splitn(4, ':');
    let (file, number, category) = (parts.next(), parts.next(), parts.next());
    file.is_some_and(|file| !file.is_empty() && !file.contains(' '))
        && number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
        && category.is_some_and(|category| category.ends_with("Warning") && !category.trim().contains(' '))
}

#[cfg(test)]
pub(super) mod tests;
