//! A class on the screen: seats and steps, who is stuck and since when.

use jiff::Timestamp;
use ratatui::Frame as Screen;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::draw::{keys_line, put, scrolled, too_narrow};
use super::palette::{FAINT, Palette, STRONG};
use super::text::cut;
use super::view::Outcome;
use klab_lab::words::plural;

/// What a look at a seat showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its number.
    pub number: u32,
    /// What the learner is called, where that is known.
    pub name: Option<String>,
    /// Number (from 1) of the step whose checks were judged; 0 at the set-up.
    pub step: usize,
    /// How many steps are done.
    pub done: usize,
    /// How many steps there are.
    pub steps: usize,
    /// How many checks hold, and how many there are.
    pub held: (usize, usize),
    /// The first check that does not hold, and what is true instead.
    pub failing: String,
    /// When the lesson last went on.
    pub since: Option<Timestamp>,
}

/// A seat, or why it could not be looked at.
pub type SeatResult = Result<Seat, (u32, String)>;

/// A class on the screen.
pub struct Grid {
    palette: Palette,
    zone: jiff::tz::TimeZone,
    lab: String,
    /// Whether a seat is looked into here: those of a hosted class are by its page.
    is_hosted: bool,
    seats: Vec<SeatResult>,
    looked: bool,
    selected: usize,
    top: usize,
    room: usize,
}

/// Lines above the seats, and below.
const HEAD: usize = 3;
const FOOT: usize = 1;
/// Columns of the steps at most; longer lessons show the number.
const STEPS: usize = 30;
/// Columns of a name.
const NAME: usize = 12;

impl Grid {
    /// A class of which nothing is known yet.
    pub fn new(lab: &str, palette: Palette, zone: jiff::tz::TimeZone) -> Self {
        let (seats, lab, is_hosted) = (Vec::new(), lab.to_owned(), false);
        Self { palette, zone, lab, is_hosted, seats, looked: false, selected: 0, top: 0, room: 0 }
    }

    /// A hosted class of which nothing is known yet.
    pub fn hosted(name: &str, palette: Palette, zone: jiff::tz::TimeZone) -> Self {
        Self { is_hosted: true, ..Self::new(name, palette, zone) }
    }

    /// Takes what all seats showed; says whether that is news.
    pub fn take(&mut self, mut seats: Vec<SeatResult>) -> bool {
        seats.sort_by_key(number);
        let is_news = !self.looked || self.seats != seats;
        self.selected = self.selected.min(seats.len().saturating_sub(1));
        self.seats = seats;
        self.looked = true;
        is_news
    }

    /// What an event of the terminal asks for.
    pub fn input(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => self.select(self.selected.saturating_add(1)),
                MouseEventKind::ScrollUp => self.select(self.selected.saturating_sub(1)),
                MouseEventKind::Down(MouseButton::Left) => self.click(usize::from(mouse.row)),
                _ => Outcome::Nothing,
            },
            Event::Resize(..) => Outcome::Redraw,
            _ => Outcome::Nothing,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Outcome {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Outcome::Interrupted } else { Outcome::Nothing };
        }
        let page = self.room.max(1);
        match key.code {
            KeyCode::Char('q') => Outcome::Quit,
            KeyCode::Char('j') | KeyCode::Down => self.select(self.selected.saturating_add(1)),
            KeyCode::Char('k') | KeyCode::Up => self.select(self.selected.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(self.selected.saturating_add(page)),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(page)),
            KeyCode::Char('g') | KeyCode::Home => self.select(0),
            KeyCode::Char('G') | KeyCode::End => self.select(usize::MAX),
            KeyCode::Enter => self.seats.get(self.selected).map_or(Outcome::Nothing, |look| self.chosen(look)),
            _ => Outcome::Nothing,
        }
    }

    fn chosen(&self, look: &SeatResult) -> Outcome {
        if self.is_hosted { Outcome::Nothing } else { Outcome::Seat(number(look)) }
    }

    fn select(&mut self, at: usize) -> Outcome {
        self.selected = at.min(self.seats.len().saturating_sub(1));
        Outcome::Redraw
    }

    fn click(&mut self, row: usize) -> Outcome {
        let line = row.checked_sub(HEAD).filter(|line| *line < self.room);
        match line.map(|line| line + self.top).filter(|at| *at < self.seats.len()) {
            Some(at) if at == self.selected => self.chosen(&self.seats[at]),
            Some(at) => self.select(at),
            None => Outcome::Nothing,
        }
    }

    /// Draws it all.
    pub fn draw(&mut self, screen: &mut Screen<'_>) {
        let area = screen.area();
        let buffer = screen.buffer_mut();
        if area.width < 80 {
            too_narrow(buffer, area);
            return;
        }
        let width = usize::from(area.width);
        self.room = usize::from(area.height).saturating_sub(HEAD + FOOT);
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(self.room));
        let done = self.seats.iter().flatten().filter(|seat| seat.steps > 0 && seat.done >= seat.steps).count();
        let stuck = self.seats.iter().flatten().filter(|seat| seat.is_stuck()).count();
        let words = format!("  {}, {done} done, {stuck} stuck", plural(self.seats.len(), "seat"));
        let words = if self.looked { words } else { "  looking at the seats …".to_owned() };
        let title = Span::styled(format!(" class {}", cut(&self.lab, 40)), STRONG);
        put(buffer, area, 0, &Line::from(vec![title, Span::styled(words, FAINT)]));
        let steps = self.steps();
        let blanks = " ".repeat(steps.saturating_sub(5) + 2);
        let name = if self.is_hosted { format!("{:<NAME$}  ", "NAME") } else { String::new() };
        let head = format!(" SEAT  {name}STEPS{blanks}AT     CHECKS  SINCE  DOES NOT HOLD");
        put(buffer, area, 2, &Line::styled(head, STRONG));
        for (row, look) in self.seats.iter().skip(self.top).take(self.room).enumerate() {
            let at = row + self.top;
            let mut line = self.line(look, width, steps);
            if at == self.selected {
                line.spans[0] = Span::raw("▸");
                line = line.patch_style(Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD));
            }
            put(buffer, area, HEAD + row, &line);
        }
        let keys = [("j/k", "move"), ("Enter", "look into the seat"), ("q", "quit")];
        let here = keys.into_iter().filter(|(key, _)| !(self.is_hosted && *key == "Enter"));
        let mut foot = keys_line(self.palette, &here.collect::<Vec<_>>());
        let below = self.top + self.room < self.seats.len();
        foot.extend(scrolled(self.top > 0, below).map(|words| Span::styled(words, FAINT)));
        put(buffer, area, usize::from(area.height).saturating_sub(1), &Line::from(foot));
    }

    /// Columns of the widest row of steps.
    fn steps(&self) -> usize {
        self.seats.iter().flatten().map(|seat| seat.steps).max().unwrap_or_default().clamp(5, STEPS)
    }

    fn line(&self, look: &SeatResult, width: usize, steps: usize) -> Line<'static> {
        let seat = match look {
            Ok(seat) => seat,
            Err((number, words)) => {
                let words = cut(words, width.saturating_sub(8));
                let words = Span::styled(words, self.palette.bad());
                return Line::from(vec![Span::raw(" "), Span::raw(format!("{number:>4}  ")), words]);
            }
        };
        let clock = |at: Timestamp| at.to_zoned(self.zone.clone()).strftime("%H:%M").to_string();
        let mut line = vec![Span::raw(" "), Span::raw(format!("{:>4}  ", seat.number))];
        if self.is_hosted {
            line.push(Span::raw(format!("{:<NAME$}  ", cut(seat.name.as_deref().unwrap_or_default(), NAME))));
        }
        if seat.steps <= STEPS {
            let ahead = seat.steps.saturating_sub(seat.done + usize::from(seat.is_open()));
            line.push(Span::styled("█".repeat(seat.done.min(seat.steps)), self.palette.good()));
            line.push(Span::styled(if seat.is_open() { "▶" } else { "" }, self.palette.care()));
            line.push(Span::styled("·".repeat(ahead), FAINT));
            line.push(Span::raw(" ".repeat(steps.saturating_sub(seat.steps) + 2)));
        } else {
            line.push(Span::raw(format!("{:<steps$}  ", format!("{} done", seat.done))));
        }
        let at = if seat.step == 0 { "set-up".to_owned() } else { format!("{}/{}", seat.step, seat.steps) };
        let (held, total) = seat.held;
        let style = if held == total { self.palette.good() } else { self.palette.care() };
        line.push(Span::raw(format!("{at:<6} ")));
        let checks = if total == 0 { "-".to_owned() } else { format!("{held}/{total}") };
        line.push(Span::styled(format!("{checks:<7} "), style));
        line.push(Span::styled(format!("{:5}  ", seat.since.map(clock).unwrap_or_default()), FAINT));
        let used: usize = line.iter().map(Span::width).sum();
        line.push(Span::raw(cut(&seat.failing, width.saturating_sub(used))));
        Line::from(line)
    }
}

impl Seat {
    /// Whether the learner has opened the step that is next.
    fn is_open(&self) -> bool {
        self.step > self.done && self.done < self.steps
    }

    /// Whether something does not hold.
    fn is_stuck(&self) -> bool {
        self.held.0 < self.held.1
    }
}

fn number(look: &SeatResult) -> u32 {
    match look {
        Ok(seat) => seat.number,
        Err((number, _)) => *number,
    }
}
