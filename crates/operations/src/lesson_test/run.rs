//! One lesson from set-up to removal, in whatever world it is given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcome::{Failure, Moment, Phase, Picture, Trial};
use crate::error::{Code, Error, Result};
use crate::event::Events;
use crate::lesson::session::{Act, Engine, Goal, Point, Session};
use crate::lesson::{note_before, stage, staged};
use crate::state::Progress;
use klab_lab::board::{self, Board};
use klab_lab::spec::{Action, Check, Lab, Located};
use klab_lab::verify::{self, Report, Snapshot};

/// A cluster that a lesson is tried on. Every call comes back when what it asks for is done.
pub trait TestCluster {
    /// The lab under the name that it has here.
    fn named(&self, lab: &Lab) -> Lab {
        lab.clone()
    }

    /// Makes the cluster and everything on it that is there before the first step.
    ///
    /// # Errors
    /// Whatever keeps it from being made.
    fn up(&self, lab: &Lab) -> Result<()>;

    /// Waits until the lab's checks hold, or can no longer hold, or the time is up. What does not hold is explained.
    ///
    /// # Errors
    /// When the cluster does not answer.
    fn wait(&self, lab: &Lab, timeout: Duration) -> Result<Report>;

    /// The cluster at this moment, with what the lab's checks read.
    ///
    /// # Errors
    /// When the cluster does not answer.
    fn snapshot(&self, lab: &Lab) -> Result<Snapshot>;

    /// The lab's checks at this moment.
    ///
    /// # Errors
    /// When the cluster does not answer.
    fn look(&self, lab: &Lab) -> Result<Report> {
        Ok(verify::evaluate(&lab.checks, &self.snapshot(lab)?, &verify::Context::of(lab)))
    }

    /// Performs actions.
    ///
    /// # Errors
    /// When one fails.
    fn act(&self, act: &mut Act<'_>) -> Result<()>;

    /// Performs the actions of a step, counted from 0.
    ///
    /// # Errors
    /// When one fails.
    fn perform(&self, lab: &Lab, step: usize) -> Result<()> {
        self.act(&mut |performer, work| performer.perform(lab, step, work))
    }

    /// Removes everything, and looks whether anything is left.
    ///
    /// # Errors
    /// When something could not be removed.
    fn down(&self, lab: &Lab) -> Result<()>;

    /// How much time has passed in the cluster.
    fn cluster_time(&self) -> Duration;
}

/// How long a trial waits, in the cluster's time.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the checks of the set-up.
    pub set_up: Duration,
    /// For the checks of a step; one that says `within` is given that long.
    pub step: Duration,
}

/// Whether a step (from 0) that is next has checks, and some of them do not hold before its actions: then they show that it was done.
///
/// # Errors
/// When the cluster does not answer.
pub fn shows(world: &dyn TestCluster, lab: &Lab, step: usize) -> Result<bool> {
    let (before, mut progress) = (stage(lab, step), Progress::reached(step));
    if lab.steps.get(step).is_some_and(|step| verify::Before::is_asked_for(&step.checks)) {
        note_before(lab, &mut progress, &world.snapshot(&before)?);
    }
    let checks = staged(lab, &progress, Some(step)).checks;
    Ok(!world.look(&with_checks(&before, &checks))?.ok())
}

/// Tries a lesson. What was made is removed however it ends. Where it `draws`, pictures of every moment are kept.
pub fn run(world: &dyn TestCluster, lab: &Lab, seed: u64, patience: Patience, draws: bool) -> Trial {
    let started = Instant::now();
    let named = world.named(lab);
    let engine = Course {
        world,
        lab: &named,
        name: &lab.name,
        patience,
        draws,
        moment: Moment::SetUp,
        before: Before::default(),
        has_failed: false,
        phases: Vec::new(),
        pictures: Vec::new(),
    };
    let mut session = Session { lab: &named, progress: Progress::default(), engine };
    let outcome = session.engine.set_up().and_then(|()| session.go(&Goal::All));
    let Course { moment, has_failed, phases, pictures, .. } = session.engine;
    let failure =
        outcome.err().map(|error| if has_failed { Failure::Checks } else { Failure::Error { moment, error } });
    let cluster_time = world.cluster_time();
    let left = world.down(&named).err();
    Trial { seed, phases, pictures, failure, left, elapsed: started.elapsed(), cluster_time }
}

/// The cluster before the actions of a step.
#[derive(Default)]
struct Before {
    /// Whether every check of the step held already.
    held: bool,
    board: Option<Arc<Board>>,
}

/// A lesson under way, and what was seen of it.
struct Course<'w> {
    world: &'w dyn TestCluster,
    lab: &'w Lab,
    /// The lab's name in its file.
    name: &'w Located<String>,
    patience: Patience,
    draws: bool,
    moment: Moment,
    before: Before,
    /// Whether checks did not hold.
    has_failed: bool,
    phases: Vec<Phase>,
    pictures: Vec<Picture>,
}

impl Engine for Course<'_> {
    const REPEATS: bool = false;

    fn events(&self) -> Events {
        Events::nowhere()
    }

    fn snapshot(&mut self, stage: &Lab) -> Result<Snapshot> {
        self.world.snapshot(stage)
    }

    fn admit(&mut self, progress: &Progress, number: usize, _: bool) -> Result<()> {
        let (world, lab) = (self.world, self.lab);
        let step = &lab.steps[number];
        self.moment = Moment::Step(step.name.value.clone());
        if step.actions.is_empty() {
            return Ok(());
        }
        let before = stage(lab, number);
        let seen = world.look(&with_checks(&before, &staged(lab, progress, Some(number)).checks))?;
        // What is over by itself leaves all as it was, and that is what such a step shows.
        let lasts = |action: &Action| !matches!(action, Action::FailApi { .. } | Action::Wait { .. });
        let leaves_something = step.actions.iter().any(|action| lasts(&action.value));
        let held = leaves_something && !step.checks.is_empty() && seen.ok();
        self.before = Before { held, board: self.board(&with_checks(&before, &[]), number, false) };
        Ok(())
    }

    fn perform(&mut self, act: &mut Act<'_>) -> Result<()> {
        self.world.act(act)
    }

    fn grade(&mut self, stage: &Lab, point: Point) -> Result<()> {
        if let Point::Before(number) = point {
            self.moment = Moment::Before(self.lab.steps[number].name.value.clone());
            return self.wait(stage, self.patience.step, false);
        }
        let is_set_up = self.moment == Moment::SetUp;
        let timeout = if is_set_up { self.patience.set_up } else { self.patience.step };
        let Before { held, board } = std::mem::take(&mut self.before);
        let waited = self.wait(stage, timeout, held);
        let number = point.step().unwrap_or_default();
        if let Some(after) = self.board(stage, number, !is_set_up) {
            self.pictures.push(Picture { moment: self.moment.clone(), before: board, after });
        }
        waited
    }
}

impl Course<'_> {
    fn set_up(&mut self) -> Result<()> {
        let set_up = stage(self.lab, 0);
        self.world.up(&set_up)?;
        self.grade(&set_up, Point::Back(None))
    }

    /// Waits for the checks of this moment, if it has any.
    fn wait(&mut self, lab: &Lab, timeout: Duration, held_before: bool) -> Result<()> {
        if lab.checks.is_empty() {
            return Ok(());
        }
        let within = lab.checks.iter().filter_map(|check| Duration::try_from(check.within?).ok()).max();
        let timeout = within.map_or(timeout, |within| within.max(timeout));
        let report = self.world.wait(lab, timeout)?;
        self.has_failed = !report.ok();
        self.phases.push(Phase { moment: self.moment.clone(), report, held_before });
        if self.has_failed { Err(Error::message(Code::LessonFailed, "the checks do not hold")) } else { Ok(()) }
    }

    /// The cluster as it is drawn; a step of this number is done before it, or open. A cluster that cannot be read has no
    /// picture: the report says why.
    fn board(&self, lab: &Lab, done: usize, opened: bool) -> Option<Arc<Board>> {
        let snapshot = self.draws.then(|| self.world.snapshot(lab).ok())??;
        let lab = &Lab { name: self.name.clone(), ..lab.clone() };
        let around = verify::Context::of(lab);
        let report = verify::evaluate(&lab.checks, &snapshot, &around);
        Some(Arc::new(Board::of(&snapshot, &around, &report, board::Lesson { done, opened })))
    }
}

fn with_checks(lab: &Lab, checks: &[Check]) -> Lab {
    Lab { checks: checks.to_vec(), ..lab.clone() }
}
