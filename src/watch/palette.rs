//! Colours of a terminal: as many as it has. Every colour has a letter, a sign or a word beside it, so that nothing is lost without.

use ratatui::style::{Color, Modifier, Style};

use klab_lab::board;
use klab_operations::environment;

/// How many colours a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// None are wanted.
    Plain,
    /// The sixteen that every terminal has.
    Sixteen,
    /// 256.
    Many,
    /// All.
    True,
}

/// What the sixteen colours have that is most like the palette of the board, in its order.
const LIKE: [(Color, Color); 8] = [
    (Color::Yellow, Color::Black),
    (Color::LightCyan, Color::Black),
    (Color::Green, Color::Black),
    (Color::LightYellow, Color::Black),
    (Color::Blue, Color::White),
    (Color::Red, Color::White),
    (Color::LightMagenta, Color::Black),
    (Color::Black, Color::White),
];

impl Palette {
    /// That of the terminal klab runs in.
    pub fn from_environment() -> Self {
        Self::of(
            environment::NO_COLOR.value().is_some(),
            environment::COLORTERM.text().as_deref(),
            environment::TERM.text().as_deref(),
        )
    }

    fn of(unwanted: bool, colorterm: Option<&str>, term: Option<&str>) -> Self {
        match (colorterm, term) {
            _ if unwanted => Self::Plain,
            (_, Some("dumb")) => Self::Plain,
            (Some("truecolor" | "24bit"), _) => Self::True,
            (_, Some(term)) if term.contains("direct") => Self::True,
            (_, Some(term)) if term.contains("256color") => Self::Many,
            _ => Self::Sixteen,
        }
    }

    /// A cell of the workload whose colour has this place in the palette of the board.
    pub(super) fn cell(self, index: Option<u8>) -> Style {
        let (ground, ink) = (board::colour(index), board::ink(index));
        let (ground, ink) = match self {
            Self::Plain => return Style::new(),
            Self::True => (rgb(ground), rgb(ink)),
            Self::Many => (nearest(ground), nearest(ink)),
            Self::Sixteen => {
                let like = index.and_then(|index| LIKE.get(usize::from(index)).copied());
                like.unwrap_or((Color::Gray, Color::Black))
            }
        };
        Style::new().bg(ground).fg(ink)
    }

    fn coloured(self, colour: Color) -> Style {
        if self == Self::Plain { Style::new() } else { Style::new().fg(colour) }
    }

    /// What is as it should be.
    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// What is not.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What wants a look.
    pub(super) fn care(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// What leads on: keys, commands.
    pub(super) fn lead(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// A colour of klab's own text.
    pub(super) fn of_text(self, number: u8) -> Style {
        let colour = match number {
            1 => Color::Red,
            2 => Color::Green,
            3 => Color::Yellow,
            4 => Color::Blue,
            5 => Color::Magenta,
            _ => Color::Cyan,
        };
        self.coloured(colour)
    }
}

/// What stands out.
pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
/// What does not.
pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// The parts of `#RRGGBB`.
fn parts(colour: &str) -> [u8; 3] {
    let part =
        |at: usize| colour.get(at..at + 2).and_then(|part| u8::from_str_radix(part, 16).ok()).unwrap_or_default();
    [part(1), part(3), part(5)]
}

fn rgb(colour: &str) -> Color {
    let [red, green, blue] = parts(colour);
    Color::Rgb(red, green, blue)
}

/// The most alike of the 216 colours that are the same in every terminal with 256.
fn nearest(colour: &str) -> Color {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |part: u8| (0u8..6).zip(LEVELS).min_by_key(|(_, level)| level.abs_diff(part)).map_or(0, |(at, _)| at);
    let [red, green, blue] = parts(colour).map(level);
    Color::Indexed(16 + 36 * red + 6 * green + blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_colours_it_has() {
        for (unwanted, colorterm, term, palette) in [
            (false, Some("truecolor"), Some("xterm-256color"), Palette::True),
            (false, Some("24bit"), None, Palette::True),
            (false, None, Some("xterm-direct"), Palette::True),
            (false, None, Some("screen-256color"), Palette::Many),
            (false, None, Some("linux"), Palette::Sixteen),
            (false, None, None, Palette::Sixteen),
            (false, Some("truecolor"), Some("dumb"), Palette::Plain),
            (true, Some("truecolor"), Some("xterm-256color"), Palette::Plain),
        ] {
            assert_eq!(Palette::of(unwanted, colorterm, term), palette, "{colorterm:?} {term:?}");
        }
    }

    #[test]
    fn colours_come_as_near_as_the_terminal_allows() {
        let orange = |palette: Palette| palette.cell(Some(0)).bg;
        assert_eq!(orange(Palette::True), Some(Color::Rgb(0xE6, 0x9F, 0x00)));
        assert_eq!(orange(Palette::Many), Some(Color::Indexed(178)));
        assert_eq!(orange(Palette::Sixteen), Some(Color::Yellow));
        assert_eq!(orange(Palette::Plain), None);
        for palette in [Palette::True, Palette::Many, Palette::Sixteen] {
            let grounds = (0..8).map(|index| palette.cell(Some(index)).bg).collect::<std::collections::HashSet<_>>();
            assert_eq!(grounds.len(), 8, "{palette:?}");
            let inks = [None, Some(0), Some(4), Some(7)].map(|index| palette.cell(index));
            assert!(inks.iter().all(|style| style.fg.is_some() && style.fg != style.bg), "{palette:?}");
        }
    }
}
