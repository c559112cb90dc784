//! Text with klab's own styles, as reports and guides are written, in lines of a terminal.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::palette::Palette;
use klab_lab::printable::printable_with_styles;

/// The lines of a text. Its styles are those of klab; whatever else would move a terminal is shown instead.
pub(super) fn lines(text: &str, palette: Palette) -> Vec<Line<'static>> {
    let text = printable_with_styles(text);
    let mut style = Style::new();
    text.lines().map(|line| one(&line.replace('\t', "    "), palette, &mut style)).collect()
}

fn one(line: &str, palette: Palette, style: &mut Style) -> Line<'static> {
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        let (text, from) = rest.split_at(at);
        if !text.is_empty() {
            spans.push(Span::styled(text.to_owned(), *style));
        }
        let from = &from["\u{1b}[".len()..];
        let end = from.find('m').unwrap_or(from.len());
        *style = from[..end].split(';').fold(*style, |style, code| changed(style, code, palette));
        rest = from.get(end + 1..).unwrap_or_default();
    }
    if !rest.is_empty() {
        spans.push(Span::styled(rest.to_owned(), *style));
    }
    Line::from(spans)
}

fn changed(style: Style, code: &str, palette: Palette) -> Style {
    match code.as_bytes() {
        b"" | b"0" => Style::new(),
        b"1" => style.add_modifier(Modifier::BOLD),
        b"2" => style.add_modifier(Modifier::DIM),
        [b'3' | b'9', number @ b'1'..=b'6'] => style.patch(palette.of_text(number - b'0')),
        _ => style,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Color;

    #[test]
    fn klabs_styles_become_the_terminals_and_others_are_shown() {
        let text = "\u{1b}[1m\u{1b}[31mbad\u{1b}[0m plain\n\ta\u{1b}[2Jb";
        let found = lines(text, Palette::Sixteen);
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["bad plain", "    a␛[2Jb"]);
        let first = &found[0].spans[0];
        assert_eq!((first.style.fg, first.style.add_modifier), (Some(Color::Red), Modifier::BOLD));
        assert_eq!(found[0].spans[1].style, Style::new());
        assert_eq!(lines(text, Palette::Plain)[0].spans[0].style, Style::new().add_modifier(Modifier::BOLD));
    }
}
