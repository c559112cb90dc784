//! Texts of a drawing: escaped, cut, and broken into lines.

use crate::printable::printable;

/// A text as XML and HTML have it: what has a meaning there, and what must not be there at all, is written otherwise.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\r' | '\t' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

/// A text of at most `columns` characters: a longer one ends in `…`.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A text in lines of at most `columns` characters: whole, broken at blanks where possible.
pub(super) fn lines(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if let Some(line) = lines.last_mut()
            && line.chars().count() + 1 + word.len() <= columns
        {
            line.push(' ');
            line.extend(&word);
            continue;
        }
        while word.len() > columns {
            // Where parts of a name meet, if that is not too early.
            let meets = word.iter().take(columns).rposition(|part| matches!(part, ':' | '=' | '/'));
            let meets = meets.filter(|at| *at >= columns / 2);
            let rest = word.split_off(meets.map_or(columns, |at| at + 1));
            lines.push(word.into_iter().collect());
            word = rest;
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_only_text() {
        for (text, wanted) in [
            ("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"),
            ("]]><!--", "]]&gt;&lt;!--"),
            ("a\0\u{1b}\n\tb\u{202e}\u{ffff}", "a␀␛  b&lt;U+202E&gt;\u{fffd}"),
        ] {
            assert_eq!(escaped(text), wanted);
        }
    }

    #[test]
    fn long_texts_are_cut_or_broken() {
        assert_eq!([cut("abc", 3), cut("abcd", 3)], ["abc", "ab…"]);
        assert_eq!(lines("one two  three", 7), ["one two", "three"]);
        assert_eq!(lines("a=bcdefgh:No", 5), ["a=bcd", "efgh:", "No"]);
        assert_eq!(lines("", 5), [""; 0]);
    }
}
