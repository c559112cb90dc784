//! Puts klab's measures into a template before Tera reads it: the value of each loop, condition and assignment goes through a
//! filter that counts. Tera itself counts nothing and has no limits.

use std::ops::Range;

use super::Problem;

/// Filter that measures a value.
pub(super) const VALUE: &str = "klab_value";
/// Filter that measures what a loop goes over.
pub(super) const TURNS: &str = "klab_turns";

/// Deepest nesting of tags; Tera's parser recurses.
const MAX_DEPTH: usize = 32;
/// What an `include` counts for in the body of a loop, in bytes.
const INCLUDE: usize = 16 << 10;

/// A template with measures, and how places in it are found in the original.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub text: String,
    /// Offset in the original and length of each insertion, in order.
    inserted: Vec<(usize, usize)>,
}

impl Measured {
    /// The place in the original of an offset in the measured text.
    fn original(&self, offset: usize) -> usize {
        let mut before = 0;
        for (at, length) in &self.inserted {
            if offset < at + before {
                break;
            }
            before += (offset - at - before).min(*length);
        }
        offset - before
    }

    /// The span in the original of a span in the measured text; what is wrong with a measured value is where it is made.
    pub(super) fn span(&self, span: Range<usize>) -> Range<usize> {
        let start = self.original(span.start);
        let end = self.original(span.end).max(start);
        let opening = self.inserted.iter().rev().find(|(at, length)| *length == 1 && *at <= start);
        match opening {
            Some((opening, _)) if start == end => *opening..end,
            _ => start..end,
        }
    }
}

/// A `{{ … }}` or `{% … %}`.
struct Tag<'a> {
    /// First word of a `{% … %}`.
    word: Option<&'a str>,
    /// From the opening to the closing brace.
    whole: Range<usize>,
    /// What follows the first word.
    rest: Range<usize>,
}

/// Puts measures in.
///
/// # Errors
/// Where the template has what cannot be measured. What is no template at all is left for Tera to tell.
pub(super) fn measure(text: &str) -> Result<Measured, Box<Problem>> {
    let tags = tags(text);
    let mut inserted: Vec<(usize, String)> = Vec::new();
    let mut open: Vec<&Tag<'_>> = Vec::new();
    // By the tag's place: bytes that each turn of a loop may write.
    let mut bodies: Vec<(Range<usize>, usize)> = Vec::new();
    for tag in &tags {
        if let Some(word) = comprehension(&text[tag.rest.clone()]) {
            let at = tag.rest.start + word;
            return Err(Box::new(refused(
                at..at + 3,
                "klab's templates take no list comprehensions; use `{% for … %}`",
            )));
        }
        let captured = open.iter().any(|tag| matches!(tag.word, Some("set" | "set_global" | "filter")));
        let mut wrap = |expression: Range<usize>| wrap(text, expression, VALUE, &mut inserted);
        let assigned = || after_assign(text, tag.rest.clone());
        match tag.word {
            None if captured => wrap(tag.rest.clone()),
            Some("if" | "elif") => wrap(tag.rest.clone()),
            Some("set" | "set_global") if let Some(value) = assigned() => wrap(value),
            Some("component" | "endcomponent") => {
                return Err(Box::new(refused(tag.whole.clone(), "klab's templates take no components")));
            }
            _ => {}
        }
        match tag.word {
            Some("if" | "filter" | "for" | "block") => open.push(tag),
            Some("set" | "set_global") if assigned().is_none() => open.push(tag),
            Some(end) if end.starts_with("end") => {
                if let Some(start) = open.pop().filter(|start| start.word == Some("for")) {
                    let within = start.whole.end..tag.whole.start;
                    let includes = tags.iter().filter(|tag| tag.word == Some("include"));
                    let includes = includes.filter(|tag| within.contains(&tag.whole.start)).count();
                    bodies.push((start.rest.clone(), within.len() + includes * INCLUDE));
                }
            }
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            return Err(Box::new(refused(tag.whole.clone(), "the tags are nested deeper than 32 levels")));
        }
    }
    for (rest, body) in bodies {
        if let Some(container) = after_in(text, rest) {
            wrap(text, container, &format!("{TURNS}(body={body})"), &mut inserted);
        }
    }
    inserted.sort_by_key(|(at, _)| *at);
    let mut measured = Measured { text: String::with_capacity(text.len()), inserted: Vec::new() };
    let mut done = 0;
    for (at, piece) in inserted {
        measured.text.push_str(&text[done..at]);
        measured.text.push_str(&piece);
        measured.inserted.push((at, piece.len()));
        done = at;
    }
    measured.text.push_str(&text[done..]);
    Ok(measured)
}

/// Puts an expression through a filter.
fn wrap(text: &str, expression: Range<usize>, filter: &str, inserted: &mut Vec<(usize, String)>) {
    let inner = &text[expression.clone()];
    let start = expression.start + (inner.len() - inner.trim_start().len());
    let end = expression.end - (inner.len() - inner.trim_end().len());
    if start < end {
        inserted.push((start, "(".to_owned()));
        inserted.push((end, format!(")|{filter}")));
    }
}

fn refused(span: Range<usize>, why: &str) -> Problem {
    Problem { span: Some(span), ..Problem::rendering(why) }
}

/// The tags of a text, read as Tera's lexer reads them; the rest of a text with a tag that does not end is left out.
fn tags(text: &str) -> Vec<Tag<'_>> {
    let bytes = text.as_bytes();
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some(start) = (at..bytes.len()).find(|at| matches!(bytes.get(*at..*at + 2), Some(b"{{" | b"{%" | b"{#")))
    {
        let inner = start + 2 + usize::from(bytes.get(start + 2) == Some(&b'-'));
        let close: &[u8] = match bytes[start + 1] {
            b'#' => {
                let Some(length) = text[start + 2..].find("#}") else { return tags };
                at = start + 2 + length + 2;
                continue;
            }
            b'{' => b"}}",
            _ => b"%}",
        };
        let Some(end) = tag_end(bytes, inner, close) else { return tags };
        let trimmed = end - usize::from(end > inner && bytes[end - 1] == b'-');
        at = end + 2;
        let (word, rest) = if close == b"%}" { first_word(text, inner..trimmed) } else { (None, inner..trimmed) };
        if word == Some("raw") {
            let Some(end) = raw_end(text, at) else { return tags };
            at = end;
            continue;
        }
        tags.push(Tag { word, whole: start..end + 2, rest });
    }
    tags
}

/// Where a tag's closing braces begin.
fn tag_end(bytes: &[u8], from: usize, close: &[u8]) -> Option<usize> {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => at = string_end(bytes, at, quote)?,
            _ if bytes[at..].starts_with(close) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The closing quote of a string that begins at `at`.
fn string_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut at = at + 1;
    while *bytes.get(at)? != quote {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    Some(at)
}

fn first_word(text: &str, range: Range<usize>) -> (Option<&str>, Range<usize>) {
    let inner = &text[range.clone()];
    let start = range.start + (inner.len() - inner.trim_start().len());
    let length = text[start..range.end].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let end = length.map_or(range.end, |length| start + length);
    (Some(&text[start..end]), end..range.end)
}

/// Behind the `{% endraw %}` that ends a raw block.
fn raw_end(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += text[at..].find("{%")? + 2;
        let rest = text[at..].trim_start_matches('-').trim_start();
        if let Some(rest) = rest.strip_prefix("endraw") {
            let rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix("-%}").or_else(|| rest.strip_prefix("%}")) {
                return Some(text.len() - rest.len());
            }
        }
    }
}

/// The words of an expression with their places, strings left out, and what stands before each.
fn words(text: &str) -> impl Iterator<Item = (usize, &str, Option<u8>)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut before = None;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let byte = bytes[at];
            match byte {
                b'"' | b'\'' | b'`' => at = string_end(bytes, at, byte)? + 1,
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    let end = (at..bytes.len()).find(|at| !bytes[*at].is_ascii_alphanumeric() && bytes[*at] != b'_');
                    let start = std::mem::replace(&mut at, end.unwrap_or(bytes.len()));
                    return Some((start, &text[start..at], before.replace(b'a')));
                }
                _ => at += 1,
            }
            if !byte.is_ascii_whitespace() {
                before = Some(byte);
            }
        }
        None
    })
}

/// The place of the `for` of a list comprehension. `for` may be a field's name, or that of an argument.
fn comprehension(expression: &str) -> Option<usize> {
    let mut words = words(expression);
    words.find_map(|(at, word, before)| {
        let argument = expression[at + word.len()..].trim_start().starts_with('=');
        (word == "for" && before != Some(b'.') && !argument).then_some(at)
    })
}

/// What is behind the `in` of a loop.
fn after_in(text: &str, rest: Range<usize>) -> Option<Range<usize>> {
    let (at, ..) = words(&text[rest.clone()]).find(|(_, word, _)| *word == "in")?;
    Some(rest.start + at + 2..rest.end)
}

/// What is behind the `=` of an assignment; none for a block that is assigned.
fn after_assign(text: &str, rest: Range<usize>) -> Option<Range<usize>> {
    let (at, word, _) = words(&text[rest.clone()]).next()?;
    let name = rest.start + at + word.len();
    let value = text[name..rest.end].trim_start().strip_prefix('=')?;
    Some(rest.end - value.len()..rest.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_conditions_and_assignments_are_measured() {
        for (text, measured) in [
            ("plain {{ vars.x | json }} {# {% if #}", None),
            (
                "{% if a in b %}x{% elif \"%}\" == c -%}{% endif %}",
                Some("{% if (a in b)|klab_value %}x{% elif (\"%}\" == c)|klab_value -%}{% endif %}"),
            ),
            (
                "{%- for k, v in m -%} {{ k }} {% endfor %}",
                Some("{%- for k, v in (m)|klab_turns(body=9) -%} {{ k }} {% endfor %}"),
            ),
            ("{% set x = a ~ a %}", Some("{% set x = (a ~ a)|klab_value %}")),
            (
                "{% set x | trim %}{{ y }}{% endset %}{{ x }}",
                Some("{% set x | trim %}{{ (y)|klab_value }}{% endset %}{{ x }}"),
            ),
            ("{% raw %}{% if x %}{% endraw %}", None),
            ("{{ a.for }}{{ a | f(for=1) }}{{ \"for\" }}", None),
            ("{% if", None),
            ("{{ \"", None),
        ] {
            let found = measure(text).unwrap();
            assert_eq!(found.text, measured.unwrap_or(text));
            // Every place of the original is found again.
            for (at, c) in text.char_indices() {
                let places = (0..found.text.len()).filter(|place| found.text[*place..].starts_with(c));
                assert!(places.map(|place| found.original(place)).any(|place| place == at), "{text}: {at}");
            }
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let deep = "{% if a %}".repeat(33);
        for (text, at) in [
            ("{{ [x for x in y] }}", 6..9),
            ("{% set x = [[1 for x in y] for z in y] %}", 15..18),
            ("a{% component b() %}", 1..20),
            (&deep, 320..330),
        ] {
            assert_eq!(measure(text).unwrap_err().span, Some(at), "{text}");
        }
    }
}
