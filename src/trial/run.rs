//! One lesson from set-up to removal, in whatever world it is given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcome::{Failure, Moment, Phase, Picture, Trial};
use crate::error::{Error, Result};
use crate::lesson::stage;
use klab_lab::board::{self, Board};
use klab_lab::spec::{Action, Check, Lab};
use klab_lab::verify::{self, Before, Report, Snapshot};

/// A cluster that a lesson is tried on. Every call comes back when what it asks for is done.
pub trait World {
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

    /// Does the actions of a step, counted from 0.
    ///
    /// # Errors
    /// When one could not be done.
    fn perform(&self, lab: &Lab, step: usize) -> Result<()>;

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

/// The checks of the next step (from 0). Those that compare pods get the pods as they are now.
fn checks_of(world: &dyn World, lab: &Lab, step: usize) -> Result<Vec<Check>> {
    let before = stage(lab, step);
    let mut checks = lab.steps.get(step).map(|step| step.checks.clone()).unwrap_or_default();
    if Before::is_asked_for(&checks) {
        Before::of(&checks, &world.snapshot(&before)?, &verify::Context::of(&before)).tell(&mut checks);
    }
    Ok(checks)
}

/// Whether a step (from 0) that is next has checks, and some of them do not hold before its actions: then they show that it was done.
///
/// # Errors
/// When the cluster does not answer.
pub fn shows(world: &dyn World, lab: &Lab, step: usize) -> Result<bool> {
    let checks = checks_of(world, lab, step)?;
    Ok(!world.look(&with_checks(&stage(lab, step), &checks))?.ok())
}

/// Tries a lesson. What was made is removed however it ends. Where it `draws`, pictures of every moment are kept.
pub fn run(world: &dyn World, lab: &Lab, seed: u64, patience: Patience, draws: bool) -> Trial {
    let started = Instant::now();
    let mut course = Course { world, lab, draws, phases: Vec::new(), pictures: Vec::new() };
    let failure = course.lesson(patience).err();
    let Course { phases, pictures, .. } = course;
    let cluster_time = world.cluster_time();
    let left = world.down(lab).err();
    Trial { seed, phases, pictures, failure, left, elapsed: started.elapsed(), cluster_time }
}

/// A lesson under way, and what was seen of it.
struct Course<'w> {
    world: &'w dyn World,
    lab: &'w Lab,
    draws: bool,
    phases: Vec<Phase>,
    pictures: Vec<Picture>,
}

impl Course<'_> {
    fn lesson(&mut self, patience: Patience) -> Result<(), Failure> {
        let (world, lab) = (self.world, self.lab);
        let set_up = stage(lab, 0);
        world.up(&set_up).map_err(error(&Moment::SetUp))?;
        let waited = self.wait(&set_up, Moment::SetUp, patience.set_up, false);
        self.draw(&set_up, Moment::SetUp, None, 0);
        waited?;
        for number in 0..lab.steps.len() {
            self.step(number, patience.step)?;
        }
        Ok(())
    }

    /// One step, counted from 0.
    fn step(&mut self, number: usize, patience: Duration) -> Result<(), Failure> {
        let (world, lab) = (self.world, self.lab);
        let step = &lab.steps[number];
        let moment = Moment::Step(step.name.value.clone());
        let before = with_checks(&stage(lab, number), &step.before);
        self.wait(&before, Moment::Before(step.name.value.clone()), patience, false)?;
        let checks = checks_of(world, lab, number).map_err(error(&moment))?;
        let after = with_checks(&stage(lab, number + 1), &checks);
        let mut held_before = false;
        let mut drawn_before = None;
        if !step.actions.is_empty() {
            let seen = world.look(&with_checks(&before, &checks)).map_err(error(&moment))?;
            // What is over by itself leaves all as it was, and that is what such a step shows.
            let lasts = |action: &Action| !matches!(action, Action::FailApi { .. } | Action::Wait { .. });
            let leaves_something = step.actions.iter().any(|action| lasts(&action.value));
            held_before = leaves_something && !step.checks.is_empty() && seen.ok();
            drawn_before = self.board(&with_checks(&before, &[]), number, false);
            world.perform(lab, number).map_err(error(&moment))?;
        }
        let waited = self.wait(&after, moment.clone(), patience, held_before);
        self.draw(&after, moment, drawn_before, number);
        waited
    }

    /// Waits for the checks of a moment, if it has any.
    fn wait(&mut self, lab: &Lab, moment: Moment, timeout: Duration, held_before: bool) -> Result<(), Failure> {
        if lab.checks.is_empty() {
            return Ok(());
        }
        let within = lab.checks.iter().filter_map(|check| Duration::try_from(check.within?).ok()).max();
        let timeout = within.map_or(timeout, |within| within.max(timeout));
        match self.world.wait(lab, timeout) {
            Ok(report) => {
                let ok = report.ok();
                self.phases.push(Phase { moment, report, held_before });
                if ok { Ok(()) } else { Err(Failure::Checks) }
            }
            Err(error) => Err(Failure::Error { moment, error }),
        }
    }

    fn draw(&mut self, lab: &Lab, moment: Moment, before: Option<Arc<Board>>, number: usize) {
        if let Some(after) = self.board(lab, number, moment != Moment::SetUp) {
            self.pictures.push(Picture { moment, before, after });
        }
    }

    /// The cluster as it is drawn; a step of this number is done before it, or open. A cluster that cannot be read has no
    /// picture: the report says why.
    fn board(&self, lab: &Lab, done: usize, opened: bool) -> Option<Arc<Board>> {
        let snapshot = self.draws.then(|| self.world.snapshot(lab).ok())??;
        let around = verify::Context::of(lab);
        let report = verify::evaluate(&lab.checks, &snapshot, &around);
        Some(Arc::new(Board::of(&snapshot, &around, &report, board::Lesson { done, opened })))
    }
}

fn error(moment: &Moment) -> impl FnOnce(Error) -> Failure + use<> {
    let moment = moment.clone();
    move |error| Failure::Error { moment, error }
}

fn with_checks(lab: &Lab, checks: &[Check]) -> Lab {
    Lab { checks: checks.to_vec(), ..lab.clone() }
}
