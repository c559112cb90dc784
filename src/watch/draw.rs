//! A view on the screen: head, page or panel, keys.

use ratatui::Frame as Screen;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::block::{Block, Item, Spot};
use super::palette::{FAINT, Palette, STRONG};
use super::text::{broken, columns, cut, lines};
use super::view::View;
use klab_lab::board::StepState;
use klab_lab::report::summary;
use klab_lab::words::{all, plural};

/// The keys that the line names.
const KEYS: &[(&str, &str)] = &[
    ("j/k", "move"),
    ("Tab", "area"),
    ("Enter", "details"),
    ("/", "filter"),
    ("l", "lesson"),
    ("?", "help"),
    ("q", "quit"),
];
/// Columns that a board takes at least.
const NARROWEST: u16 = 80;

impl View {
    /// Draws it all.
    pub fn draw(&mut self, screen: &mut Screen<'_>) {
        let area = screen.area();
        let buffer = screen.buffer_mut();
        if area.width < NARROWEST {
            too_narrow(buffer, area);
            return;
        }
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let head = self.head();
        self.fit(width, height.saturating_sub(head + 1));
        for (row, line) in self.heading(width).into_iter().enumerate() {
            put(buffer, area, row, &line);
        }
        if self.panel.is_some() {
            self.draw_panel(buffer, area, head);
        } else {
            self.draw_page(buffer, area, head);
        }
        if height > head {
            put(buffer, area, height - 1, &self.foot(width));
        }
    }

    fn draw_page(&self, buffer: &mut Buffer, area: Rect, head: usize) {
        let room = usize::from(area.height).saturating_sub(head + 1);
        if self.frame.is_none() && self.trouble.is_none() {
            put(buffer, area, head, &Line::styled(" Looking at the cluster …", FAINT));
        }
        for (row, line) in self.page.lines.iter().skip(self.top).take(room).enumerate() {
            put(buffer, area, head + row, line);
        }
        if let Some(spot) = self.spot() {
            mark(buffer, area, spot, self.top, head, room);
        }
    }

    fn draw_panel(&mut self, buffer: &mut Buffer, area: Rect, head: usize) {
        let (Some(panel), Some(frame)) = (&self.panel, &self.frame) else { return };
        let room = usize::from(area.height).saturating_sub(head + 3);
        let width = usize::from(area.width).saturating_sub(4);
        let (title, text) = (panel.title(frame), panel.lines(frame, &self.setting, width));
        // A command is not broken between its words; on the screen it must be somewhere.
        let text: Vec<Line<'static>> = text.into_iter().flat_map(|line| broken(line, width)).collect();
        self.fit_panel(text.len(), room);
        let more = text.len() > self.panel_top + room;
        let mut inside = Block::new(width + 2);
        for line in text.into_iter().skip(self.panel_top).take(room) {
            let mut spans = vec![Span::raw(" ")];
            spans.extend(line.spans.into_iter().map(|span| span.patch_style(line.style)));
            inside.line(spans);
        }
        let mut title = vec![Span::styled(cut(&title, width.saturating_sub(12)), STRONG)];
        title.extend(scrolled(self.panel_top > 0, more).map(|words| Span::styled(format!(" {words}"), FAINT)));
        for (row, line) in inside.framed(title, room).drawn().0.into_iter().enumerate() {
            put(buffer, area, head + row, &line);
        }
    }

    /// The lab and when it last changed; where the lesson is; what is wrong.
    fn heading(&self, width: usize) -> Vec<Line<'static>> {
        let palette = self.setting.palette;
        let board = self.frame.as_ref().map(|frame| &frame.board);
        let title = board.and_then(|board| board.title.as_ref().or(board.lab.as_ref()));
        let clock = self.changed_at.map_or_else(String::new, |at| {
            format!("changed {} ", at.to_zoned(self.setting.zone.clone()).strftime("%H:%M:%S"))
        });
        let lab = board.and_then(|board| board.lab.as_ref().filter(|_| board.title.is_some()));
        let lab = lab.map(|lab| format!("  {}", cut(lab, 24))).unwrap_or_default();
        let rest = width.saturating_sub(columns(&clock) + columns(&lab) + 2);
        let title = cut(title.map_or("klab", String::as_str), rest);
        let blanks = " ".repeat(rest.saturating_sub(columns(&title)) + 1);
        let mut all = vec![Line::from(vec![
            Span::raw(" "),
            Span::styled(title, STRONG),
            Span::styled(lab, FAINT),
            Span::raw(blanks),
            Span::styled(clock, FAINT),
        ])];
        all.push(self.lesson(width));
        all.extend(self.trouble.as_ref().map(|trouble| {
            let words = format!(" ! {trouble}");
            Line::styled(cut(&words, width), palette.bad())
        }));
        all
    }

    /// Where the lesson is, and how its checks stand.
    fn lesson(&self, width: usize) -> Line<'static> {
        let Some(frame) = &self.frame else { return Line::default() };
        let (board, progress) = (&frame.board, &frame.progress);
        let total = board.steps.len();
        let held = summary(&frame.report);
        let is_held = frame.report.ok();
        let open = board.open_step().is_some();
        let is_graded = open || (progress.done == 0 && !progress.started);
        let next = match total {
            0 => "",
            _ if progress.done >= total || !is_held || !is_graded => "",
            _ if frame.report.checks.is_empty() => "`klab verify` goes on",
            _ => ": `klab verify` goes on",
        };
        let held = if next.starts_with('`') { String::new() } else { held };
        let tail = format!("{held}{}", self.setting.invocation.spelled(next));
        let rest = width.saturating_sub(columns(&tail) + 5);
        let number = progress.done + 1;
        let name = |number: usize| {
            board.steps.get(number).map_or("", |step| step.title.as_deref().unwrap_or(&step.name)).to_owned()
        };
        let place = match total {
            0 => plural(board.nodes.len(), "node") + ", " + &plural(board.pods.len(), "pod"),
            _ if progress.done >= total => {
                format!("{} {} done", all(total, "step"), if total == 1 { "is" } else { "are" })
            }
            _ if open => format!("step {number} of {total}: {}", name(progress.done)),
            _ if !progress.started => format!("at the set-up, {} ahead (l)", plural(total, "step")),
            _ => {
                let done = board.steps.iter().filter(|step| step.state == StepState::Done).count();
                format!("{done} of {total} done; l opens step {number}: {}", name(progress.done))
            }
        };
        let palette = self.setting.palette;
        let style = if is_held { palette.good() } else { palette.care() };
        Line::from(vec![
            Span::raw(format!(" {}", cut(&place, rest))),
            Span::styled(" · ", FAINT),
            Span::styled(tail, style),
        ])
    }

    /// The keys, or the filter.
    fn foot(&self, width: usize) -> Line<'static> {
        let palette = self.setting.palette;
        if self.types {
            let typed = cut(&self.filter, width.saturating_sub(40));
            return Line::from(vec![
                Span::styled(format!(" /{typed}▏"), STRONG),
                Span::styled("  Enter keeps it, Esc shows all", FAINT),
            ]);
        }
        let keys = match (&self.panel, self.filter.as_str()) {
            (Some(_), _) => vec![("j/k", "scroll"), ("Esc", "close"), ("?", "help"), ("q", "quit")],
            (None, "") if self.setting.is_seat => {
                // The filter is in the help, too.
                let mut keys: Vec<_> = KEYS.iter().copied().filter(|(key, _)| *key != "/").collect();
                keys.insert(keys.len() - 1, ("Esc", "class"));
                keys
            }
            (None, "") => KEYS.to_vec(),
            (None, _) => {
                vec![("j/k", "move"), ("Enter", "details"), ("/", "other text"), ("Esc", "show all"), ("q", "quit")]
            }
        };
        let mut spans = keys_line(palette, &keys);
        if self.panel.is_none() && !self.filter.is_empty() {
            spans.insert(0, Span::styled(format!(" /{}", cut(&self.filter, 20)), STRONG));
        }
        let used: usize = spans.iter().map(Span::width).sum();
        let shown = scrolled(self.top > 0, self.top < self.last_top()).filter(|_| self.panel.is_none());
        if let Some(words) = shown.filter(|words| used + columns(words) < width) {
            spans.push(Span::raw(" ".repeat(width - used - columns(words) - 1)));
            spans.push(Span::styled(words, FAINT));
        }
        Line::from(spans)
    }
}

/// Keys with what they do.
pub(super) fn keys_line(palette: Palette, keys: &[(&'static str, &'static str)]) -> Vec<Span<'static>> {
    let mut spans = vec![Span::raw(" ")];
    for (key, words) in keys {
        spans.push(Span::styled(*key, palette.lead().add_modifier(Modifier::BOLD)));
        spans.push(Span::raw(format!(" {words}  ")));
    }
    spans
}

/// Whether there is more above or below.
pub(super) fn scrolled(above: bool, below: bool) -> Option<&'static str> {
    match (above, below) {
        (false, false) => None,
        (true, false) => Some("▲ more"),
        (false, true) => Some("▼ more"),
        (true, true) => Some("▲▼ more"),
    }
}

/// A line in a row of the screen.
pub(super) fn put(buffer: &mut Buffer, area: Rect, row: usize, line: &Line<'_>) {
    if let Some(y) = u16::try_from(row).ok().filter(|row| *row < area.height) {
        buffer.set_line(area.x, area.y + y, line, area.width);
    }
}

/// Says that the terminal is too narrow.
pub(super) fn too_narrow(buffer: &mut Buffer, area: Rect) {
    let text = format!("klab watch takes {NARROWEST} columns; this terminal has {}. q ends it.", area.width);
    for (row, line) in lines(&text, usize::from(area.width)).into_iter().enumerate() {
        put(buffer, area, row, &Line::from(line));
    }
}

/// Marks what is selected: inverse, with an arrow for eyes that do not see that.
fn mark(buffer: &mut Buffer, area: Rect, spot: &Spot, top: usize, head: usize, room: usize) {
    let style = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD).remove_modifier(Modifier::DIM);
    let height = if matches!(spot.item, Item::Node(_)) { 1 } else { spot.height };
    for line in (spot.top..spot.top + height).filter(|line| (top..top + room).contains(line)) {
        let (Ok(x), Ok(y)) = (u16::try_from(spot.left), u16::try_from(line - top + head)) else { continue };
        let width = u16::try_from(spot.width).unwrap_or(u16::MAX).min(area.width.saturating_sub(x));
        let row = Rect::new(area.x + x, area.y + y, width, 1).intersection(area);
        buffer.set_style(row, style);
        if line == spot.top && row.width > 0 {
            buffer[(row.x, row.y)].set_symbol("▸");
            if matches!(spot.item, Item::Pod(_)) {
                buffer[(row.right() - 1, row.y)].set_symbol("◂");
            }
        }
    }
}
