//! Words of others in lines of a terminal: made harmless, measured in columns, broken where they are too long.

use ratatui::text::{Line, Span};

use klab_lab::printable::printable;

/// A text of one line, as it may be shown.
pub(super) fn shown(text: &str) -> String {
    printable(text).replace(['\n', '\r', '\t'], " ")
}

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text of one line, cut off with a `…` at a number of columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    let text = shown(text);
    if columns(&text) <= width {
        return text;
    }
    let (head, _) = split(&text, width.saturating_sub(1));
    format!("{head}…")
}

/// The longest beginning of a text that fits into a number of columns, but one letter at least; and the rest.
fn split(text: &str, width: usize) -> (&str, &str) {
    let (mut used, mut end) = (0, 0);
    for (at, letter) in text.char_indices() {
        let next = at + letter.len_utf8();
        used += columns(&text[at..next]);
        if used > width && end > 0 {
            break;
        }
        end = next;
    }
    text.split_at(end)
}

/// As [`split`], behind a sign that names and taints are made of, if one stands in the second half.
fn split_name(text: &str, width: usize) -> (&str, &str) {
    let (head, _) = split(text, width);
    match head.rfind([':', '=', '/', ',', '-', '.']) {
        Some(at) if columns(&head[..at]) >= width / 2 => text.split_at(at + 1),
        _ => split(text, width),
    }
}

/// A text in lines of a number of columns at most: broken between words, longer words within.
pub(super) fn lines(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let text = shown(text);
    let mut lines: Vec<String> = Vec::new();
    for mut word in text.split_whitespace() {
        if let Some(last) = lines.last_mut()
            && columns(last) + 1 + columns(word) <= width
        {
            last.push(' ');
            last.push_str(word);
            continue;
        }
        while columns(word) > width {
            let (head, rest) = split_name(word, width);
            lines.push(head.to_owned());
            word = rest;
        }
        if !word.is_empty() {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A line in as many as it takes where it is wider than the columns; broken anywhere, for its words are broken already.
pub(super) fn broken(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    let width = width.max(2);
    if line.width() <= width {
        return vec![line];
    }
    let (mut all, mut used) = (vec![Line::default().style(line.style)], 0);
    for span in line.spans {
        let mut rest: &str = &span.content;
        while !rest.is_empty() {
            if used >= width {
                all.push(Line::default().style(line.style));
                used = 0;
            }
            let (head, tail) = split(rest, width - used);
            if let Some(last) = all.last_mut() {
                last.push_span(Span::styled(head.to_owned(), span.style));
            }
            used += columns(head);
            rest = tail;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn texts_are_broken_between_words_and_long_words_within() {
        for (text, width, broken) in [
            ("", 5, vec![]),
            ("a b c", 3, vec!["a b", "c"]),
            ("dedicated=special:NoSchedule", 10, vec!["dedicated=", "special:", "NoSchedule"]),
            ("ein\tWort\u{1b}[2J", 20, vec!["ein Wort␛[2J"]),
            ("漢字漢字", 4, vec!["漢字", "漢字"]),
            ("漢", 1, vec!["漢"]),
        ] {
            assert_eq!(lines(text, width), broken, "{text:?} in {width}");
        }
    }

    #[test]
    fn lines_that_are_too_wide_go_on_in_the_next() {
        let line = Line::from(vec![Span::raw("abc"), Span::styled("defgh", Style::new().bold()), Span::raw("i")]);
        let found: Vec<String> = broken(line.clone(), 4).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["abcd", "efgh", "i"]);
        assert_eq!(broken(line.clone(), 9), [line]);
        assert_eq!(broken(Line::from("漢字漢"), 4).len(), 2);
    }

    #[test]
    fn what_is_cut_off_is_said() {
        assert_eq!(cut("main-0", 6), "main-0");
        assert_eq!(cut("main-10", 6), "main-…");
        assert_eq!(cut("漢字漢", 4), "漢…");
    }
}
