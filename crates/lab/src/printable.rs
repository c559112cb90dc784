//! Text of others on a terminal: what would move the cursor, write the clipboard, hide or reorder text is shown instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text of a lab file or a cluster, with everything that is not text made visible: `␛[2J`.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, false)
}

/// The same, but for the styles klab itself uses: colours, bold and dim.
pub fn printable_with_styles(text: &str) -> Cow<'_, str> {
    shown(text, true)
}

fn shown(text: &str, styles: bool) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut styled = false;
    while let Some(character) = rest.chars().next() {
        if let Some(length) = style(rest).filter(|_| styles) {
            out.push_str(&rest[..length]);
            styled = !matches!(&rest[..length], "\u{1b}[0m" | "\u{1b}[m");
            rest = &rest[length..];
            continue;
        }
        rest = &rest[character.len_utf8()..];
        match character {
            // Before a line end it does nothing.
            '\r' if rest.starts_with('\n') => out.push('\r'),
            '\0'..='\u{1f}' if is_control(character) => out.push(picture(character)),
            '\u{7f}' => out.push('␡'),
            character if is_control(character) => {
                let _ = write!(out, "<U+{:04X}>", u32::from(character));
            }
            character => out.push(character),
        }
    }
    if styled {
        out.push_str("\u{1b}[0m");
    }
    Cow::Owned(out)
}

/// The sign of a control character below the blank.
fn picture(character: char) -> char {
    char::from_u32(0x2400 + u32::from(character)).unwrap_or('�')
}

fn is_control(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // What changes the direction of text can make it read as something else.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        character => character.is_control(),
    }
}

/// The length of a style at the beginning of a text, if it is one of those klab uses.
fn style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let known = |one: &str| {
        matches!(one, "" | "0" | "1" | "2" | "22" | "39")
        // Colours of text, but none that may be that of the ground.
        || matches!(one.as_bytes(), [b'3' | b'9', b'1'..=b'6'])
    };
    let fine = parameters[end..].starts_with('m') && parameters[..end].split(';').all(known);
    fine.then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_and_klabs_styles_reach_a_terminal() {
        for (text, plain, styled) in [
            ("ä\tb\r\nc", "ä\tb\r\nc", "ä\tb\r\nc"),
            ("a\rb", "a␍b", "a␍b"),
            ("\u{1b}]52;c;eA==\u{7}", "␛]52;c;eA==␇", "␛]52;c;eA==␇"),
            ("\u{1b}[2J\u{8}\u{7f}", "␛[2J␈␡", "␛[2J␈␡"),
            ("\u{9b}31m\u{202e}x", "<U+009B>31m<U+202E>x", "<U+009B>31m<U+202E>x"),
            ("\u{1b}[1;31mx\u{1b}[0m", "␛[1;31mx␛[0m", "\u{1b}[1;31mx\u{1b}[0m"),
            ("\u{1b}[92mx", "␛[92mx", "\u{1b}[92mx\u{1b}[0m"),
            (
                "\u{1b}[8mhidden\u{1b}[30;40m\u{1b}[38;5;0m",
                "␛[8mhidden␛[30;40m␛[38;5;0m",
                "␛[8mhidden␛[30;40m␛[38;5;0m",
            ),
            ("\u{1b}", "␛", "␛"),
            ("\u{1b}[", "␛[", "␛["),
        ] {
            assert_eq!(printable(text), plain);
            assert_eq!(printable_with_styles(text), styled);
        }
    }
}
