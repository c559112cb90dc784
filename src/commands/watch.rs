//! `klab watch`: the lab on the screen as it changes, or a class and its seats.

mod feeder;
mod news;

use std::sync::mpsc::{Receiver, Sender, channel};

use self::feeder::Feeder;
use self::news::News;
use super::lesson::{Lesson, WhichLesson, tools};
use super::seats::hosted;
use super::{Context, guide};
use crate::watch::grid::Grid;
use crate::watch::palette::Palette;
use crate::watch::terminal::{self, Picture};
use crate::watch::{Outcome, Setting, View};
use klab_operations::error::{Code, Error, Result};
use klab_operations::interruption;
use klab_operations::lesson::open_next;
use klab_operations::state::class::Class;
use klab_operations::state::{Lock, Progress};

/// What can be typed after `klab watch`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
}

/// Shows the lab, or class, until the user ends it.
///
/// # Errors
/// When there is no terminal, the lab is not up, or it is taken down.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if !terminal::is_there() {
        let error = Error::message(Code::Flags, "`klab watch` draws on a terminal, and this is none");
        return Err(error
            .hint("`klab verify --watch` prints a line for every change of the checks")
            .hint("`klab board --format json` is the board for programs"));
    }
    let name = context.lab_or_class_name(arguments.which.lab.as_deref())?;
    let is_class = Class::read(&context.home, &name)?.is_some();
    let is_hosted = !is_class && hosted::is_hosted(context, &name);
    let lesson = if is_class || is_hosted { None } else { Some(Lesson::open(context, &arguments.which)?) };
    let (tell, news) = channel();
    let keys = tell.clone();
    context.ui.covered();
    let ui = context.ui.clone();
    context.interruption_cleans_up(Some(Box::new(move || {
        terminal::give_back();
        ui.uncovered();
    })));
    let shown = Picture::take().and_then(|picture| {
        terminal::listen(move |event| keys.send(News::Input(event)).is_ok())?;
        terminal::end_when_told()?;
        let mut show = Show { context, picture, tell, news };
        match lesson {
            Some(lesson) => show.lab(lesson, &arguments.which, false),
            None if is_hosted => show.hosted(&name),
            None => show.class(&name),
        }
    });
    terminal::give_back();
    context.ui.uncovered();
    context.interruption_cleans_up(None);
    match shown? {
        End::Interrupted => interruption::end(&context.ui, None),
        End::Back | End::Quit => Ok(()),
    }
}

/// How the showing of something ended.
enum End {
    Back,
    Quit,
    Interrupted,
}

/// The terminal, and what happens.
struct Show<'a> {
    context: &'a Context,
    picture: Picture,
    tell: Sender<News>,
    news: Receiver<News>,
}

impl Show<'_> {
    /// What has happened since, at least one thing: what came together is drawn once.
    fn happened(&self) -> Vec<News> {
        let first = self.news.recv().into_iter();
        first.chain(self.news.try_iter()).collect()
    }

    /// Shows a lab.
    fn lab(&mut self, mut lesson: Lesson, which: &WhichLesson, is_seat: bool) -> Result<End> {
        let mut view = View::new(self.setting(&lesson, is_seat));
        let mut feeder = Feeder::of_lab(self.context, &lesson, self.tell.clone())?;
        self.picture.draw(|screen| view.draw(screen))?;
        loop {
            let mut is_new = false;
            for news in self.happened() {
                let outcome = match news {
                    News::Input(None) => return Ok(End::Quit),
                    News::Input(Some(event)) => view.input(&event),
                    News::Frame(of, frame) if of == feeder.number => {
                        is_new |= view.take(*frame);
                        // The next step is read where the one before was.
                        if view.is_read() {
                            opened(&lesson, &view);
                        }
                        Outcome::Nothing
                    }
                    News::Trouble(of, words) if of == feeder.number => {
                        is_new |= view.complain(&words);
                        Outcome::Nothing
                    }
                    News::Again(of) if of == feeder.number => {
                        match Lesson::open(self.context, which) {
                            Ok(again) => lesson = again,
                            Err(error) => is_new |= view.complain(&error.to_string()),
                        }
                        view.set(self.setting(&lesson, is_seat));
                        feeder = Feeder::of_lab(self.context, &lesson, self.tell.clone())?;
                        Outcome::Nothing
                    }
                    News::Gone(of, _) if of == feeder.number && is_seat => return Ok(End::Back),
                    News::Gone(of, error) if of == feeder.number => return Err(error),
                    // Of what was shown before.
                    _ => Outcome::Nothing,
                };
                match outcome {
                    Outcome::Quit => return Ok(End::Quit),
                    Outcome::Interrupted => return Ok(End::Interrupted),
                    Outcome::Back => return Ok(End::Back),
                    Outcome::Reads => {
                        opened(&lesson, &view);
                        is_new = true;
                    }
                    Outcome::Redraw => is_new = true,
                    Outcome::Nothing | Outcome::Seat(_) => {}
                }
            }
            if is_new {
                self.picture.draw(|screen| view.draw(screen))?;
            }
        }
    }

    fn setting(&self, lesson: &Lesson, is_seat: bool) -> Setting {
        let palette = Palette::from_environment();
        let (lab, tools) = (lesson.lab.clone(), tools(self.context, &lesson.lab));
        let colours = palette != Palette::Plain;
        Setting {
            palette,
            now: Box::new(jiff::Timestamp::now),
            zone: jiff::tz::TimeZone::system(),
            invocation: self.context.ui.invocation().clone(),
            script: Box::new(move |progress, width| {
                guide::text(&lab, progress, &tools, guide::Page { width, colours })
            }),
            is_seat,
        }
    }

    /// Shows a class, and the seats that are looked into.
    fn class(&mut self, name: &str) -> Result<End> {
        let mut grid = Grid::new(name, Palette::from_environment(), jiff::tz::TimeZone::system());
        loop {
            let feeder = Feeder::of_class(self.context, name, self.tell.clone())?;
            let seat = match self.grid(&feeder, &mut grid)? {
                Ok(seat) => seat,
                Err(end) => return Ok(end),
            };
            let which = Class::of(&self.context.home, name)?.seat(seat).map(|seat| WhichLesson::of(&seat));
            let opened = which.and_then(|which| Ok((Lesson::open(self.context, &which)?, which)));
            // What keeps a seat from being looked into stands in its line.
            let Ok((lesson, which)) = opened else { continue };
            match self.lab(lesson, &which, true)? {
                End::Back => {}
                end => return Ok(end),
            }
        }
    }

    /// Shows a class that this machine hosts.
    fn hosted(&mut self, name: &str) -> Result<End> {
        let mut grid = Grid::hosted(name, Palette::from_environment(), jiff::tz::TimeZone::system());
        let feeder = Feeder::of_hosted(self.context, name, self.tell.clone())?;
        Ok(self.grid(&feeder, &mut grid)?.err().unwrap_or(End::Quit))
    }

    /// Shows the seats of a class until one is to be looked into.
    fn grid(&mut self, feeder: &Feeder, grid: &mut Grid) -> Result<Result<u32, End>> {
        self.picture.draw(|screen| grid.draw(screen))?;
        loop {
            let mut is_new = false;
            for news in self.happened() {
                match news {
                    News::Input(None) => return Ok(Err(End::Quit)),
                    News::Input(Some(event)) => match grid.input(&event) {
                        Outcome::Seat(seat) => return Ok(Ok(seat)),
                        Outcome::Quit => return Ok(Err(End::Quit)),
                        Outcome::Interrupted => return Ok(Err(End::Interrupted)),
                        outcome => is_new |= outcome == Outcome::Redraw,
                    },
                    News::Seats(of, seats) if of == feeder.number => is_new |= grid.take(seats),
                    News::Gone(of, error) if of == feeder.number => return Err(error),
                    _ => {}
                }
            }
            if is_new {
                self.picture.draw(|screen| grid.draw(screen))?;
            }
        }
    }
}

/// Notes that the learner reads the step that is next, as `klab guide` does: from now on it is what is graded. Where that
/// cannot be noted, it can still be read.
fn opened(lesson: &Lesson, view: &View) {
    let Some(frame) = view.frame() else { return };
    let lab = &lesson.lab;
    if guide::shown(lab, &frame.progress).is_none() || frame.progress.is_opened() {
        return;
    }
    let Ok(Some(_lock)) = Lock::take_existing(&lesson.folder, &lab.name.value, "watch") else { return };
    let mut progress = frame.progress.clone();
    // Another klab may have moved it on since.
    if !Progress::of(&lesson.folder, lab.steps.len()).is_ok_and(|now| now == progress) {
        return;
    }
    open_next(lab, &mut progress, &frame.snapshot);
    let _ = progress.write(&lesson.folder);
}
