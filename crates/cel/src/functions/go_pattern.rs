//! Patterns as Go writes them, in the syntax of the crate that matches them.

// upstream: Go's regexp/syntax/parse.go

/// Most repetitions of a part of a pattern, those around it included.
const MAX_REPEAT: u32 = 1000;
/// Groups within each other.
const MAX_DEPTH: usize = 1000;

/// The same pattern for the crate `regex`. In Go the classes of a letter are of ASCII, a brace that begins no repetition
/// stands for itself, and so do brackets and operators of sets inside of a class.
///
/// # Errors
/// When a part would be repeated too often.
pub(super) fn translated(pattern: &str) -> Result<String, String> {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // How often the parts of each open group are repeated at most; the last is that of the part just read.
    let mut repeats: Vec<u32> = vec![1];
    let mut last = 1_u32;
    // Where the operator begins that repeats the part just read.
    let mut operator: Option<&str> = None;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '*' | '+' | '?' => 1,
            '{' => repetition(rest).map_or(0, |(length, _)| length),
            _ => 0,
        };
        match operator {
            Some(begun) if length > 0 => {
                let nested = &begun[..begun.len() - rest.len() + length];
                return Err(format!("invalid nested repetition operator: `{nested}`"));
            }
            _ => operator = (length > 0).then_some(rest),
        }
        let lazy = usize::from(length > 0 && rest[length..].starts_with('?'));
        let (taken, added) = match first {
            '\\' => escape(rest, false),
            '[' => class(rest),
            '{' => match repetition(rest) {
                Some((length, most)) => {
                    last = last.saturating_mul(most.max(1));
                    if most > MAX_REPEAT || last > MAX_REPEAT {
                        return Err(format!("invalid repeat count: `{}`", &rest[..length]));
                    }
                    (length, rest[..length].to_owned())
                }
                None => (1, "\\{".to_owned()),
            },
            _ => (first.len_utf8(), first.to_string()),
        };
        match first {
            '(' => {
                repeats.push(1);
                if repeats.len() > MAX_DEPTH {
                    return Err("expression nests too deeply".to_owned());
                }
            }
            ')' => last = if repeats.len() > 1 { repeats.pop().unwrap_or(1) } else { 1 },
            _ if length > 0 => {}
            _ => last = 1,
        }
        if let Some(most) = repeats.last_mut() {
            *most = (*most).max(last);
        }
        written.push_str(&added);
        written.push_str(&"?"[..lazy]);
        rest = &rest[taken + lazy..];
    }
    Ok(written)
}

/// The escape after a backslash: its length, and how it is written.
fn escape(text: &str, in_class: bool) -> (usize, String) {
    let Some(escaped) = text[1..].chars().next() else { return (1, "\\".to_owned()) };
    let length = 1 + escaped.len_utf8();
    let class = |members: &str| if in_class { members.to_owned() } else { format!("[{members}]") };
    let written = match escaped {
        'd' => class("0-9"),
        'w' => class("0-9A-Za-z_"),
        's' => class("\\t\\n\\f\\r "),
        'D' => "[^0-9]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        'S' => "[^\\t\\n\\f\\r ]".to_owned(),
        'b' if !in_class => "(?-u:\\b)".to_owned(),
        'B' if !in_class => "(?-u:\\B)".to_owned(),
        '<' | '>' => escaped.to_string(),
        'Q' if !in_class => {
            let quoted = &text[2..];
            let end = quoted.find("\\E").unwrap_or(quoted.len());
            let length = 2 + (end + 2).min(quoted.len());
            return (length, regex::escape(&quoted[..end]));
        }
        _ => text[..length].to_owned(),
    };
    (length, written)
}

/// A class in brackets. One that does not end is left to the reader of the pattern.
fn class(text: &str) -> (usize, String) {
    let mut written = String::from("[");
    let mut at = 1;
    if text[at..].starts_with('^') {
        written.push('^');
        at += 1;
    }
    let start = at;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (taken, added) = match first {
            ']' if at > start => {
                written.push(']');
                return (at + 1, written);
            }
            ']' => (1, "\\]".to_owned()),
            '\\' => escape(rest, true),
            '[' => match rest.find(":]").filter(|_| rest.starts_with("[:")) {
                Some(end) => (end + 2, rest[..end + 2].to_owned()),
                None => (1, "\\[".to_owned()),
            },
            '&' | '~' => (1, format!("\\{first}")),
            '-' if rest[1..].starts_with('-') => (2, "-\\-".to_owned()),
            _ => (first.len_utf8(), first.to_string()),
        };
        written.push_str(&added);
        at += taken;
    }
    (text.len(), text.to_owned())
}

/// `{2}`, `{2,}` or `{2,3}`: how long it is, and how often at most it repeats.
fn repetition(text: &str) -> Option<(usize, u32)> {
    let end = text.find('}')?;
    let (least, most) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let least = number(least)?;
    let most = if most.is_empty() { least } else { number(most)? };
    Some((end + 1, most.max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_go_matches() {
        for (pattern, matching, other) in [
            (r"^\d$", "1", "\u{0661}"),
            (r"^[\w-]+$", "a-b_", "ä"),
            (r"^{[a-z]}$", "{a}", "a"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^[[]$", "[", "]"),
            (r"^[]a]$", "]", "b"),
            (r"^[a&&b]+$", "&ab", "c"),
            (r"^[+--]$", ",", "a"),
            (r"^[[:alpha:]]$", "a", ":"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^a{2,3}$", "aaa", "a"),
        ] {
            let translated = translated(pattern).unwrap();
            let compiled = regex::Regex::new(&translated).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(compiled.is_match(matching) && !compiled.is_match(other), "{pattern} as {translated}");
        }
    }

    #[test]
    fn parts_are_repeated_a_thousand_times_at_most() {
        for (pattern, good) in [
            ("a{1000}", true),
            ("a{1001}", false),
            ("(a{10}){100}", true),
            ("(a{10}b|c){101}", false),
            ("a{9}b{900}", true),
        ] {
            assert_eq!(translated(pattern).is_ok(), good, "{pattern}");
        }
    }
}
