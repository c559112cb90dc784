//! A piece of the picture: its lines, and where in it is what can be selected; and how pieces are put together.

use ratatui::text::{Line, Span};

use super::palette::FAINT;
use super::text::columns;

/// What can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A node, by its name.
    Node(String),
    /// A pod, by its id.
    Pod(String),
    /// Pods that wait for the same reason, by the reason.
    Group(String),
    /// A check, by its place.
    Check(usize),
}

/// Parts of the board that Tab goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Nodes,
    Pending,
    Checks,
}

/// Where something is that can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) item: Item,
    pub(super) area: Area,
    /// The line that is marked when it is selected, its first column and how many.
    pub(super) top: usize,
    pub(super) left: usize,
    pub(super) width: usize,
    /// How many lines belong to it.
    pub(super) height: usize,
    /// The first column and the number of columns of what it is in: up and down go there first.
    pub(super) lane: (usize, usize),
}

/// Some lines of one width.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    pub(super) width: usize,
    pub(super) lines: Vec<Vec<Span<'static>>>,
    pub(super) spots: Vec<Spot>,
}

/// A word or cell of a line, and what it stands for.
pub(super) struct Cell {
    pub(super) spans: Vec<Span<'static>>,
    pub(super) item: Option<Item>,
}

impl Cell {
    pub(super) fn plain(span: Span<'static>) -> Self {
        Self { spans: vec![span], item: None }
    }

    fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }
}

impl Block {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    pub(super) fn height(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn line(&mut self, spans: Vec<Span<'static>>) {
        self.lines.push(spans);
    }

    /// Notes that the lines from `top` on are something that can be selected.
    pub(super) fn spot(&mut self, item: Item, area: Area, top: usize) {
        let (width, height) = (self.width, self.height().saturating_sub(top));
        self.spots.push(Spot { item, area, top, left: 0, width, height, lane: (0, width) });
    }

    /// Cells beside each other, in as many lines as they take, moved in by `indent`.
    pub(super) fn flow(&mut self, cells: Vec<Cell>, indent: usize, area: Area) {
        let mut used = usize::MAX;
        for cell in cells {
            let width = cell.width();
            if used.saturating_add(1).saturating_add(width) > self.width {
                self.lines.push(vec![Span::raw(" ".repeat(indent))]);
                used = indent;
            } else if let Some(line) = self.lines.last_mut() {
                line.push(Span::raw(" "));
                used += 1;
            }
            let top = self.height().saturating_sub(1);
            if let Some(item) = cell.item {
                self.spots.push(Spot { item, area, top, left: used, width, height: 1, lane: (0, self.width) });
            }
            if let Some(line) = self.lines.last_mut() {
                line.extend(cell.spans);
            }
            used += width;
        }
    }

    /// Puts another block below.
    pub(super) fn below(&mut self, other: Self) {
        let down = self.height();
        self.spots.extend(other.spots.into_iter().map(|spot| Spot { top: spot.top + down, ..spot }));
        self.lines.extend(other.lines);
    }

    /// Blocks beside each other, with a line or a gap between them.
    pub(super) fn beside(blocks: Vec<Self>, between: &'static str) -> Self {
        let height = blocks.iter().map(Self::height).max().unwrap_or_default();
        let mut all = Self { lines: vec![Vec::new(); height], ..Self::default() };
        for (number, block) in blocks.into_iter().enumerate() {
            let between = if number > 0 { between } else { "" };
            let right = all.width + columns(between);
            let moved = |spot: Spot| Spot { left: spot.left + right, lane: (spot.lane.0 + right, spot.lane.1), ..spot };
            all.spots.extend(block.spots.into_iter().map(moved));
            let mut lines = block.lines.into_iter();
            for line in &mut all.lines {
                if !between.is_empty() {
                    line.push(Span::styled(between, FAINT));
                }
                line.extend(padded(lines.next().unwrap_or_default(), block.width));
            }
            all.width = right + block.width;
        }
        all
    }

    /// The block, made higher, in a frame with a title.
    pub(super) fn framed(self, title: Vec<Span<'static>>, height: usize) -> Self {
        let Self { width, mut lines, spots } = self;
        lines.resize(lines.len().max(height), Vec::new());
        let rest = width.saturating_sub(title.iter().map(Span::width).sum::<usize>() + 3);
        let mut top = vec![Span::styled("┌─ ", FAINT)];
        top.extend(title);
        top.push(Span::styled(format!(" {}┐", "─".repeat(rest)), FAINT));
        let mut framed = vec![top];
        framed.extend(lines.into_iter().map(|line| {
            let mut whole = vec![Span::styled("│", FAINT)];
            whole.extend(padded(line, width));
            whole.push(Span::styled("│", FAINT));
            whole
        }));
        framed.push(vec![Span::styled(format!("└{}┘", "─".repeat(width)), FAINT)]);
        let moved =
            |spot: Spot| Spot { top: spot.top + 1, left: spot.left + 1, lane: (spot.lane.0 + 1, spot.lane.1), ..spot };
        Self { width: width + 2, lines: framed, spots: spots.into_iter().map(moved).collect() }
    }

    /// Its lines as they are drawn.
    pub(super) fn drawn(self) -> (Vec<Line<'static>>, Vec<Spot>) {
        (self.lines.into_iter().map(Line::from).collect(), self.spots)
    }
}

/// A line with blanks up to a width.
fn padded(mut line: Vec<Span<'static>>, width: usize) -> Vec<Span<'static>> {
    let used: usize = line.iter().map(Span::width).sum();
    if used < width {
        line.push(Span::raw(" ".repeat(width - used)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(width: usize, texts: &[&str]) -> Block {
        let mut block = Block::new(width);
        for text in texts {
            block.line(vec![Span::raw((*text).to_owned())]);
        }
        block.spot(Item::Node(texts[0].to_owned()), Area::Nodes, 0);
        block
    }

    fn text(block: Block) -> String {
        block.drawn().0.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn blocks_stand_beside_and_below_each_other_in_frames() {
        let cells =
            ["A", "B", "CC"].map(|text| Cell { spans: vec![Span::raw(text)], item: Some(Item::Pod(text.to_owned())) });
        let mut one = block(5, &["one"]);
        one.flow(cells.into(), 1, Area::Nodes);
        let mut all = Block::beside(vec![one, block(4, &["two"])], "│").framed(vec![Span::raw("pool")], 0);
        all.below(block(3, &["end"]));
        let at: Vec<_> = all.spots.iter().map(|spot| (spot.top, spot.left, spot.lane.0)).collect();
        assert_eq!(at, [(1, 1, 1), (2, 2, 1), (2, 4, 1), (3, 2, 1), (1, 7, 7), (5, 0, 0)]);
        insta::assert_snapshot!(text(all), @r"
        ┌─ pool ───┐
        │one  │two │
        │ A B │    │
        │ CC  │    │
        └──────────┘
        end
        ");
    }
}
