//! What of a lab is shown, what is selected, what is opened; and what keys and the mouse make of that.

use jiff::Timestamp;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};

use super::block::{Area, Item, Spot};
use super::details::Panel;
use super::page::Page;
use super::setting::Setting;
use klab_lab::board::Delta;
use klab_operations::board::Frame;

/// What an input asks for beyond the view itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, and nothing to draw.
    Nothing,
    /// To draw again.
    Redraw,
    /// To note that the learner reads the open step, and to draw again.
    Reads,
    /// To look into a seat of the class.
    Seat(u32),
    /// To go back to the class.
    Back,
    /// To end.
    Quit,
    /// To end as an interruption does.
    Interrupted,
}

/// How many lines the wheel scrolls.
const WHEEL: usize = 3;

/// A lab on the screen.
pub struct View {
    pub(super) setting: Setting,
    pub(super) frame: Option<Frame>,
    /// When something was last seen to change.
    pub(super) changed_at: Option<Timestamp>,
    /// What is wrong with the lab or its cluster, in a line.
    pub(super) trouble: Option<String>,
    pub(super) page: Page,
    /// Columns that the page was made for.
    width: usize,
    /// Lines that there is room for.
    room: usize,
    /// The first line that is shown.
    pub(super) top: usize,
    selected: Option<usize>,
    pub(super) panel: Option<Panel>,
    /// The first line of the panel that is shown, and how many lines it has.
    pub(super) panel_top: usize,
    panel_lines: usize,
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) types: bool,
}

impl View {
    /// A lab of which nothing is known yet.
    pub fn new(setting: Setting) -> Self {
        Self {
            setting,
            frame: None,
            changed_at: None,
            trouble: None,
            page: Page::default(),
            width: 0,
            room: 0,
            top: 0,
            selected: None,
            panel: None,
            panel_top: 0,
            panel_lines: 0,
            filter: String::new(),
            types: false,
        }
    }

    /// Goes on with another setting: the lab is another than it was.
    pub fn set(&mut self, setting: Setting) {
        self.setting = setting;
    }

    /// The last frame.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Takes the lab as it is now; says whether there is something new to draw.
    pub fn take(&mut self, frame: Frame) -> bool {
        let moved_on = self.frame.as_ref().is_some_and(|last| last.progress != frame.progress);
        let is_same = self.frame.as_ref().is_some_and(|last| Delta::between(&last.board, &frame.board).is_empty());
        let is_news = !is_same || moved_on || self.trouble.is_some() || self.panel.is_some();
        if !is_same || moved_on {
            self.changed_at = Some((self.setting.now)());
        }
        if moved_on {
            match self.panel {
                // The next step begins at its beginning.
                Some(Panel::Lesson) => self.panel_top = 0,
                // Its checks are others.
                Some(Panel::Check(_)) => self.panel = None,
                _ => {}
            }
        }
        self.trouble = None;
        self.frame = Some(frame);
        if is_news {
            self.make();
        }
        is_news
    }

    /// Says what is wrong; says whether that is news.
    pub fn complain(&mut self, trouble: &str) -> bool {
        let is_news = self.trouble.as_deref() != Some(trouble);
        self.trouble = Some(trouble.to_owned());
        is_news
    }

    /// Whether the panel shows the lesson: the learner reads the step that is next.
    pub fn is_read(&self) -> bool {
        self.panel == Some(Panel::Lesson)
    }

    /// Makes the page for a number of columns, and notes the room there is for it.
    pub(super) fn fit(&mut self, width: usize, room: usize) {
        if self.width != width {
            self.width = width;
            self.make();
        }
        if self.room != room {
            self.room = room;
            self.show_selected();
        }
        self.top = self.top.min(self.last_top());
    }

    /// Notes how many lines the panel has, and keeps what is shown of it within.
    pub(super) fn fit_panel(&mut self, lines: usize, room: usize) {
        self.panel_lines = lines;
        self.panel_top = self.panel_top.min(lines.saturating_sub(room));
    }

    fn make(&mut self) {
        let Some(frame) = self.frame.as_ref().filter(|_| self.width > 0) else { return };
        let item = self.spot().map(|spot| (spot.item.clone(), self.selected.unwrap_or_default()));
        self.page = Page::of(&frame.board, self.setting.palette, self.width, &self.filter);
        self.selected = match item {
            // What is gone leaves its place to what is there now.
            Some((item, at)) => self.page.spots.iter().position(|spot| spot.item == item).or(Some(at)),
            None => Some(0),
        };
        let last = self.page.spots.len().checked_sub(1);
        self.selected = self.selected.and_then(|at| last.map(|last| at.min(last)));
        self.show_selected();
    }

    /// What is selected.
    pub(super) fn spot(&self) -> Option<&Spot> {
        self.page.spots.get(self.selected?)
    }

    pub(super) fn last_top(&self) -> usize {
        self.page.lines.len().saturating_sub(self.room)
    }

    fn show_selected(&mut self) {
        let Some(spot) = self.spot() else { return };
        let (top, end) = (spot.top, spot.top + spot.height.min(self.room).max(1));
        if self.selected == Some(0) {
            // The letters stand above the first.
            self.top = 0;
        }
        if end > self.top + self.room {
            self.top = end.saturating_sub(self.room);
        }
        self.top = self.top.min(top);
        if self.selected == self.page.spots.len().checked_sub(1) {
            // A frame ends below the last.
            self.top = self.top.max(self.last_top().min(top));
        }
    }

    fn select(&mut self, at: Option<usize>) -> Outcome {
        if let Some(at) = at.filter(|at| *at < self.page.spots.len()) {
            self.selected = Some(at);
            self.show_selected();
        }
        Outcome::Redraw
    }

    /// What an event of the terminal asks for.
    pub fn input(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Mouse(mouse) => self.mouse(mouse.kind, usize::from(mouse.column), usize::from(mouse.row)),
            Event::Resize(..) => Outcome::Redraw,
            _ => Outcome::Nothing,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Outcome {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Outcome::Interrupted,
                KeyCode::Char('f' | 'd') if !self.types => self.scroll(KeyCode::PageDown),
                KeyCode::Char('b' | 'u') if !self.types => self.scroll(KeyCode::PageUp),
                _ => Outcome::Nothing,
            };
        }
        if self.types {
            return self.typed(key.code);
        }
        match key.code {
            KeyCode::Char('q') => Outcome::Quit,
            KeyCode::Char('?') => self.toggle(Panel::Help),
            KeyCode::Char('l') => self.toggle(Panel::Lesson),
            KeyCode::Esc => self.escape(),
            code if self.panel.is_some() => self.scroll(code),
            KeyCode::Char('/') => {
                self.types = true;
                Outcome::Redraw
            }
            KeyCode::Enter => self.open(),
            code => self.go(code),
        }
    }

    /// A key while the filter is typed.
    fn typed(&mut self, code: KeyCode) -> Outcome {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace if !self.filter.is_empty() => {
                self.filter.pop();
            }
            KeyCode::Esc | KeyCode::Backspace => {
                self.filter.clear();
                self.types = false;
            }
            KeyCode::Enter | KeyCode::Down | KeyCode::Up | KeyCode::Tab => self.types = false,
            _ => return Outcome::Nothing,
        }
        self.make();
        Outcome::Redraw
    }

    fn toggle(&mut self, panel: Panel) -> Outcome {
        self.panel_top = 0;
        self.panel = if self.panel.as_ref() == Some(&panel) { None } else { Some(panel) };
        if self.is_read() { Outcome::Reads } else { Outcome::Redraw }
    }

    fn escape(&mut self) -> Outcome {
        if self.panel.take().is_some() {
            return Outcome::Redraw;
        }
        if !self.filter.is_empty() {
            self.filter.clear();
            self.make();
            return Outcome::Redraw;
        }
        if self.setting.is_seat { Outcome::Back } else { Outcome::Nothing }
    }

    fn open(&mut self) -> Outcome {
        let Some(spot) = self.spot() else { return Outcome::Nothing };
        self.panel = Some(match spot.item.clone() {
            Item::Node(name) => Panel::Node(name),
            Item::Pod(id) => Panel::Pod(id),
            Item::Group(reason) => Panel::Group(reason),
            Item::Check(number) => Panel::Check(number),
        });
        self.panel_top = 0;
        Outcome::Redraw
    }

    /// Scrolls the panel, or the page where there is none.
    fn scroll(&mut self, code: KeyCode) -> Outcome {
        if self.panel.is_none() {
            return self.go(code);
        }
        let page = self.room.saturating_sub(2).max(1);
        self.panel_top = match code {
            KeyCode::Char('j') | KeyCode::Down => self.panel_top.saturating_add(1),
            KeyCode::Char('k') | KeyCode::Up => self.panel_top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.panel_top.saturating_add(page),
            KeyCode::PageUp => self.panel_top.saturating_sub(page),
            KeyCode::Char('g') | KeyCode::Home => 0,
            KeyCode::Char('G') | KeyCode::End => self.panel_lines,
            _ => return Outcome::Nothing,
        };
        Outcome::Redraw
    }

    /// Moves the selection.
    fn go(&mut self, code: KeyCode) -> Outcome {
        let last = self.page.spots.len().checked_sub(1);
        let Some((at, spot)) = self.selected.zip(self.spot()) else { return Outcome::Nothing };
        let spots = &self.page.spots;
        let to = match code {
            KeyCode::Char('j') | KeyCode::Down => nearest(spots, spot, 1, true),
            KeyCode::Char('k') | KeyCode::Up => nearest(spots, spot, 1, false),
            KeyCode::PageDown | KeyCode::Char(' ') => nearest(spots, spot, self.room.max(1), true).or(last),
            KeyCode::PageUp => nearest(spots, spot, self.room.max(1), false).or(Some(0)),
            KeyCode::Right => beside(spots, spot, true).or(at.checked_add(1)),
            KeyCode::Left => beside(spots, spot, false).or(at.checked_sub(1)),
            KeyCode::Char('g') | KeyCode::Home => Some(0),
            KeyCode::Char('G') | KeyCode::End => last,
            KeyCode::Tab => next_area(spots, spot.area, true),
            KeyCode::BackTab => next_area(spots, spot.area, false),
            _ => return Outcome::Nothing,
        };
        self.select(to)
    }

    fn mouse(&mut self, kind: MouseEventKind, column: usize, row: usize) -> Outcome {
        let down = match kind {
            MouseEventKind::ScrollDown => true,
            MouseEventKind::ScrollUp => false,
            MouseEventKind::Down(MouseButton::Left) if self.panel.is_none() => return self.click(column, row),
            _ => return Outcome::Nothing,
        };
        let last = self.last_top();
        let (top, last) = if self.panel.is_some() { (&mut self.panel_top, usize::MAX) } else { (&mut self.top, last) };
        *top = if down { top.saturating_add(WHEEL).min(last) } else { top.saturating_sub(WHEEL) };
        Outcome::Redraw
    }

    /// A click selects; one on what is selected opens it.
    fn click(&mut self, column: usize, row: usize) -> Outcome {
        let Some(line) = row.checked_sub(self.head()).filter(|line| *line < self.room) else { return Outcome::Nothing };
        let line = line + self.top;
        let is_hit = |spot: &Spot| {
            (spot.top..spot.top + spot.height).contains(&line) && (spot.left..spot.left + spot.width).contains(&column)
        };
        // A pod lies on its node, and is smaller.
        let hit = self.page.spots.iter().enumerate().filter(|(_, spot)| is_hit(spot));
        let Some((at, _)) = hit.min_by_key(|(_, spot)| spot.height * spot.width) else { return Outcome::Nothing };
        if self.selected == Some(at) {
            return self.open();
        }
        // What is seen stays where it is under the pointer.
        self.selected = Some(at);
        Outcome::Redraw
    }

    /// How many lines stand above the page.
    pub(super) fn head(&self) -> usize {
        2 + usize::from(self.trouble.is_some())
    }
}

/// The nearest spot in the same columns, at least `least` lines above or below.
fn nearest(spots: &[Spot], from: &Spot, least: usize, down: bool) -> Option<usize> {
    let (left, right) = (from.left, from.left + from.width);
    let far = |spot: &Spot| if down { spot.top.checked_sub(from.top) } else { from.top.checked_sub(spot.top) };
    let shares = |spot: &Spot| {
        let (lane, width) = spot.lane;
        lane < from.lane.0 + from.lane.1 && from.lane.0 < lane + width
    };
    let gap = |spot: &Spot| left.saturating_sub(spot.left + spot.width).max(spot.left.saturating_sub(right));
    spots
        .iter()
        .enumerate()
        .filter(|(_, spot)| shares(spot) && far(spot).is_some_and(|far| far >= least))
        .min_by_key(|(_, spot)| (far(spot), gap(spot), spot.left.abs_diff(left)))
        .map(|(at, _)| at)
}

/// What is next to it in the same line.
fn beside(spots: &[Spot], from: &Spot, right: bool) -> Option<usize> {
    let far = |spot: &Spot| if right { spot.left.checked_sub(from.left) } else { from.left.checked_sub(spot.left) };
    spots
        .iter()
        .enumerate()
        .filter(|(_, spot)| spot.top == from.top && far(spot).is_some_and(|far| far > 0))
        .min_by_key(|(_, spot)| far(spot))
        .map(|(at, _)| at)
}

/// The first of the next area that has something.
fn next_area(spots: &[Spot], from: Area, forward: bool) -> Option<usize> {
    let mut areas: Vec<Area> = spots.iter().map(|spot| spot.area).collect();
    areas.dedup();
    let at = areas.iter().position(|area| *area == from)?;
    let step = if forward { 1 } else { areas.len() - 1 };
    let to = areas.get((at + step) % areas.len())?;
    spots.iter().position(|spot| spot.area == *to)
}
