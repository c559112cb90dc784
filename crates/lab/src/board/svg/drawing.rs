//! A piece of a drawing with its size, and how pieces are put together.

use std::fmt::Write as _;

use super::text::escaped;

/// What is drawn in the rectangle from (0, 0) to (`width`, `height`).
#[derive(Clone, Debug, Default)]
pub(super) struct Drawing {
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) body: String,
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(super) enum Face {
    Title,
    Heading,
    Prose,
    Name,
    Mono,
    Strong,
    Inverse,
    Faint,
}

/// Text that stands out, text that does not, and what is wrong.
pub(super) const INK: &str = "#1A1A1A";
pub(super) const FAINT: &str = "#595959";
pub(super) const WRONG: &str = "#A03B00";
/// Edges of what is as it should be, and how full it is while there is room.
pub(super) const EDGE: &str = "#8A94A6";
pub(super) const CALM: &str = "#0A58CA";

const MONO: &str = r#"font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace""#;

impl Face {
    fn attributes(self) -> String {
        let (size, weight, fill, family) = match self {
            Self::Title => (20, 700, INK, ""),
            Self::Heading => (14, 700, INK, ""),
            Self::Prose => (13, 400, INK, ""),
            Self::Name => (12, 700, INK, MONO),
            Self::Mono => (11, 400, INK, MONO),
            Self::Strong => (11, 700, INK, MONO),
            Self::Inverse => (11, 700, "#FFFFFF", MONO),
            Self::Faint => (11, 400, FAINT, ""),
        };
        let weight = if weight == 400 { String::new() } else { format!(" font-weight=\"{weight}\"") };
        let blank = if family.is_empty() { "" } else { " " };
        format!("font-size=\"{size}\"{weight} fill=\"{fill}\"{blank}{family}")
    }
}

impl Drawing {
    /// Nothing, of a size.
    pub(super) fn new(width: i64, height: i64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A line of text, its foot at `y`.
    pub(super) fn text(&mut self, x: i64, y: i64, face: Face, text: &str) {
        let (attributes, text) = (face.attributes(), escaped(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" {attributes}>{text}</text>");
    }

    /// A line of text that ends at `x`.
    pub(super) fn text_before(&mut self, x: i64, y: i64, face: Face, text: &str) {
        let (attributes, text) = (face.attributes(), escaped(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" {attributes} text-anchor=\"end\">{text}</text>");
    }

    /// A rectangle; `attributes` are the caller's own.
    pub(super) fn rect(&mut self, (x, y, width, height): (i64, i64, i64, i64), attributes: &str) {
        let _ = writeln!(self.body, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}/>");
    }

    /// A path; `path` and `attributes` are the caller's own.
    pub(super) fn path(&mut self, path: &str, attributes: &str) {
        let _ = writeln!(self.body, "<path d=\"{path}\" {attributes}/>");
    }

    /// Puts another drawing into this one.
    pub(super) fn place(&mut self, x: i64, y: i64, other: &Self) {
        let _ = writeln!(self.body, "<g transform=\"translate({x} {y})\">\n{}</g>", other.body);
    }

    /// The text for a pointer or a screen reader.
    pub(super) fn titled(mut self, title: &str) -> Self {
        self.body = format!("<g>\n<title>{}</title>\n{}</g>\n", escaped(title), self.body);
        self
    }

    /// As [`Drawing::titled`], of something that a page can be asked about: what it is, and its name.
    pub(super) fn named(mut self, kind: &str, name: &str, title: &str) -> Self {
        let (name, title) = (escaped(name), escaped(title));
        self.body = format!("<g class=\"{kind}\" data-name=\"{name}\">\n<title>{title}</title>\n{}</g>\n", self.body);
        self
    }

    /// The letters of cells, which look alike: said once for many.
    pub(super) fn lettered(mut self) -> Self {
        self.body = format!("<g font-size=\"13\" font-weight=\"700\" text-anchor=\"middle\">\n{}</g>\n", self.body);
        self
    }

    /// A picture of its own, for a page.
    pub(super) fn picture(&self, class: &str) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg class=\"{class}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">{}</svg>",
            self.body
        )
    }
}

/// Pieces beside each other, in lines no wider than `width` where that can be.
pub(super) fn flow(pieces: &[Drawing], width: i64, gap: i64) -> Drawing {
    let mut all = Drawing::default();
    let (mut x, mut y, mut line) = (0, 0, 0);
    for piece in pieces {
        if x > 0 && x + piece.width > width {
            (x, y, line) = (0, y + line + gap, 0);
        }
        all.place(x, y, piece);
        all.width = all.width.max(x + piece.width);
        line = line.max(piece.height);
        all.height = all.height.max(y + line);
        x += piece.width + gap;
    }
    all
}

/// Pieces below each other.
pub(super) fn stack(pieces: &[Drawing], gap: i64) -> Drawing {
    let mut all = Drawing::default();
    for piece in pieces {
        let y = if all.height > 0 { all.height + gap } else { 0 };
        all.place(0, y, piece);
        all.width = all.width.max(piece.width);
        all.height = y + piece.height;
    }
    all
}

/// A frame with a heading around a drawing.
pub(super) fn frame(heading: &str, faint: &str, inside: &Drawing, attributes: &str) -> Drawing {
    const PAD: i64 = 10;
    const HEAD: i64 = 32;
    let headed = (heading.chars().count() as i64) * 9 + (faint.chars().count() as i64) * 6 + 34;
    let mut all = Drawing::new((inside.width + 2 * PAD).max(headed.min(300)), inside.height + HEAD + PAD);
    all.rect((0, 0, all.width, all.height), attributes);
    all.text(PAD, 21, Face::Heading, heading);
    let width = (heading.chars().count() as i64) * 9;
    all.text(PAD + width + 8, 21, Face::Faint, faint);
    all.place(PAD, HEAD, inside);
    all
}
