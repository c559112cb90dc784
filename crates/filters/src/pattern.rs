//! what `grep` looks for, as a regular expression of Rust: a fixed text, or a basic or an extended expression of POSIX.

use regex::{Regex, RegexBuilder};

use super::refusal::Refusal;

/// Memory that one expression may take.
const MAX_PROGRAM: usize = 1 << 20;

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it stands (`-F`).
    Fixed,
    /// Operators but `.`, `*`, `^`, `$` and `[…]` have a backslash.
    Basic,
    /// Operators have none (`-E`).
    Extended,
}

/// How a pattern is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) form: Form,
    pub(super) any_case: bool,
    pub(super) whole_words: bool,
    pub(super) whole_lines: bool,
}

/// What finds any of these patterns.
pub(super) fn finder(patterns: &[String], how: How) -> Result<Regex, Refusal> {
    // As grep has it, a pattern of several lines is several patterns.
    let lines = patterns.iter().flat_map(|pattern| pattern.split('\n'));
    let each: Vec<String> = lines.map(|pattern| translated(pattern, how.form)).collect::<Result<_, _>>()?;
    let any = each.iter().map(|one| format!("(?:{one})")).collect::<Vec<_>>().join("|");
    let text = match how {
        How { whole_lines: true, .. } => format!("^(?:{any})$"),
        How { whole_words: true, .. } => format!(r"(?:^|[^\w])(?:{any})(?:$|[^\w])"),
        _ => any,
    };
    let built = RegexBuilder::new(&text).case_insensitive(how.any_case).size_limit(MAX_PROGRAM).build();
    built.map_err(|_| {
        Refusal::new(format!("`grep` does not understand `{}`: put `-F` before a plain text", patterns.join(" ")))
    })
}

/// A pattern as Rust writes it.
fn translated(pattern: &str, form: Form) -> Result<String, Refusal> {
    if form == Form::Fixed {
        return Ok(regex::escape(pattern));
    }
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    // Whether an operator of repetition would have nothing to repeat: it stands for itself there.
    let mut begins = true;
    while let Some(letter) = letters.next() {
        let (operator, escaped) = match letter {
            '\\' => match letters.next() {
                None => return Err(Refusal::new("nothing follows the backslash at the end of grep's pattern")),
                Some(next) => (next, true),
            },
            letter => (letter, false),
        };
        let is_operator = match operator {
            '(' | ')' | '{' | '}' | '|' | '+' | '?' => escaped == (form == Form::Basic),
            '.' | '*' | '[' => !escaped,
            '^' => !escaped && (begins || form == Form::Extended),
            '$' => {
                let rest: String = letters.clone().collect();
                let ends = rest.is_empty() || rest.starts_with("\\)") || rest.starts_with("\\|");
                !escaped && (form == Form::Extended || ends)
            }
            _ => false,
        };
        let repeats = matches!(operator, '*' | '+' | '?' | '{');
        match operator {
            '[' if is_operator => bracket(&mut letters, &mut out)?,
            '<' | '>' if escaped => out.push_str(r"\b"),
            'w' | 'W' | 's' | 'S' | 'b' | 'B' if escaped => out.extend(['\\', operator]),
            operator if escaped && operator.is_ascii_alphanumeric() => {
                return Err(Refusal::new(format!(
                    "`grep` has no `\\{operator}` here: `[0-9]` is a digit, `[a-z]` a letter"
                )));
            }
            operator if is_operator && repeats && begins => out.push_str(&regex::escape(&operator.to_string())),
            operator if is_operator => out.push(operator),
            operator => out.push_str(&regex::escape(&operator.to_string())),
        }
        begins = is_operator && matches!(operator, '(' | '|' | '^');
    }
    Ok(out)
}

/// What stands between brackets: as POSIX has it, a backslash is itself there, and `]` first is one, too.
fn bracket(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Result<(), Refusal> {
    out.push('[');
    if letters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        match letters.next() {
            None => {
                return Err(Refusal::new(
                    "a `[` of grep's pattern is not closed; `grep -F '…'` takes a text as it stands",
                ));
            }
            Some(']') if !first => break,
            Some('[') if letters.peek() == Some(&':') => {
                out.push('[');
                for letter in letters.by_ref() {
                    out.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            Some('-') => out.push('-'),
            Some(letter) if letter.is_alphanumeric() => out.push(letter),
            Some(letter) => out.extend(['\\', letter]),
        }
        first = false;
    }
    out.push(']');
    Ok(())
}
