//! One lesson from set-up to removal, in whatever world it is given.

use std::time::{Duration, Instant};

use super::outcome::{Failure, Moment, Phase, Trial};
use crate::error::Result;
use crate::lesson::stage;
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

/// Tries a lesson. What was made is removed however it ends.
pub fn run(world: &dyn World, lab: &Lab, seed: u64, patience: Patience) -> Trial {
    let started = Instant::now();
    let mut trial = Trial {
        seed,
        phases: Vec::new(),
        failure: None,
        left: None,
        elapsed: Duration::ZERO,
        cluster_time: Duration::ZERO,
    };
    trial.failure = lesson(world, lab, patience, &mut trial.phases).err();
    trial.cluster_time = world.cluster_time();
    trial.left = world.down(lab).err();
    trial.elapsed = started.elapsed();
    trial
}

fn lesson(world: &dyn World, lab: &Lab, patience: Patience, phases: &mut Vec<Phase>) -> Result<(), Failure> {
    let error = |moment: &Moment| {
        let moment = moment.clone();
        move |error| Failure::Error { moment, error }
    };
    let set_up = stage(lab, 0);
    world.up(&set_up).map_err(error(&Moment::SetUp))?;
    wait(world, &set_up, Moment::SetUp, patience.set_up, false, phases)?;
    for (number, step) in lab.steps.iter().enumerate() {
        let moment = Moment::Step(step.name.value.clone());
        let before = with_checks(&stage(lab, number), &step.before);
        wait(world, &before, Moment::Before(step.name.value.clone()), patience.step, false, phases)?;
        let after = stage(lab, number + 1);
        let mut checks = step.checks.clone();
        if Before::is_asked_for(&checks) {
            let snapshot = world.snapshot(&before).map_err(error(&moment))?;
            Before::of(&step.checks, &snapshot, &verify::Context::of(&before)).tell(&mut checks);
        }
        let mut held_before = false;
        if !step.actions.is_empty() {
            let seen = world.look(&with_checks(&before, &checks)).map_err(error(&moment))?;
            // What is over by itself leaves all as it was, and that is what such a step shows.
            let lasts = |action: &Action| !matches!(action, Action::FailApi { .. } | Action::Wait { .. });
            let leaves_something = step.actions.iter().any(|action| lasts(&action.value));
            held_before = leaves_something && !step.checks.is_empty() && seen.ok();
            world.perform(lab, number).map_err(error(&moment))?;
        }
        wait(world, &with_checks(&after, &checks), moment, patience.step, held_before, phases)?;
    }
    Ok(())
}

/// Waits for the checks of a moment, if it has any.
fn wait(
    world: &dyn World,
    lab: &Lab,
    moment: Moment,
    timeout: Duration,
    held_before: bool,
    phases: &mut Vec<Phase>,
) -> Result<(), Failure> {
    if lab.checks.is_empty() {
        return Ok(());
    }
    let within = lab.checks.iter().filter_map(|check| Duration::try_from(check.within?).ok()).max();
    let timeout = within.map_or(timeout, |within| within.max(timeout));
    match world.wait(lab, timeout) {
        Ok(report) => {
            let ok = report.ok();
            phases.push(Phase { moment, report, held_before });
            if ok { Ok(()) } else { Err(Failure::Checks) }
        }
        Err(error) => Err(Failure::Error { moment, error }),
    }
}

fn with_checks(lab: &Lab, checks: &[Check]) -> Lab {
    Lab { checks: checks.to_vec(), ..lab.clone() }
}
