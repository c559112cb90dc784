//! Many lessons with many seeds, side by side: each trial in a world of its own, in a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::outcome::{Failure, LabTrial, Moment, Trial};
use super::run::{Patience, TestCluster, run};
use crate::error::Result;
use crate::parallel::parallel;
use klab_lab::spec::Lab;

/// What is to be tried.
pub struct Plan<'a> {
    /// The lessons, with what is to be filled in.
    pub labs: Vec<(&'a Lab, LabTrial)>,
    /// The first seed; none: each lab file's own, or 0.
    pub first_seed: Option<u64>,
    /// How many seeds in a row.
    pub seeds: u32,
    /// How long each waits.
    pub patience: Patience,
    /// Maximum number of trials at a time.
    pub workers: usize,
    /// Whether pictures are kept: of the first trial of a lesson, and of those that fail.
    pub draws: bool,
    /// Set from outside when nothing new is to be begun.
    pub stop: &'a AtomicBool,
}

/// Makes the world of a trial: of this lab, with this seed.
pub type MakeTestCluster<'a> = dyn Fn(&Lab, u64) -> Result<Box<dyn TestCluster>> + Sync + 'a;

/// Tries every lesson with every seed; `world` makes the cluster of a trial, `progress` gets the number that are done. Results
/// come in the order of the lessons and seeds, however the threads were scheduled.
///
/// # Errors
/// When the system refuses a thread.
pub fn sweep(plan: Plan<'_>, world: &MakeTestCluster<'_>, progress: &(dyn Fn(usize) + Sync)) -> Result<Vec<LabTrial>> {
    let Plan { labs, first_seed, seeds, patience, workers, draws, stop } = plan;
    let done = AtomicUsize::new(0);
    let jobs: Vec<(&Lab, u64)> = labs
        .iter()
        .flat_map(|(lab, _)| {
            let first = first_seed.or(lab.sim.seed).unwrap_or_default();
            (0..seeds).map(move |number| (*lab, first.wrapping_add(u64::from(number))))
        })
        .collect();
    let trials = parallel(&jobs, workers, |(lab, seed)| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut trial = match world(lab, *seed) {
            Ok(world) => run(world.as_ref(), lab, *seed, patience, draws),
            Err(error) => Trial {
                seed: *seed,
                phases: Vec::new(),
                pictures: Vec::new(),
                failure: Some(Failure::Error { moment: Moment::SetUp, error }),
                left: None,
                elapsed: Duration::ZERO,
                cluster_time: Duration::ZERO,
            },
        };
        if trial.ok() && *seed != first_seed.or(lab.sim.seed).unwrap_or_default() {
            trial.pictures.clear();
        }
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        Some(trial)
    })?;
    let mut trials = trials.into_iter();
    let filled = labs.into_iter().map(|(_, mut lab)| {
        lab.trials = trials.by_ref().take(seeds as usize).flatten().collect();
        lab
    });
    Ok(filled.collect())
}
