//! Many lessons with many seeds, side by side: each trial in a world of its own, in a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::outcome::{Failure, LabTrial, Moment, Trial};
use super::run::{Patience, World, run};
use crate::error::{Context, Kind, Result};
use crate::spec::Lab;

/// Deep trees of JSON in unoptimized builds take more than a thread gets by default.
const STACK: usize = 8 << 20;

/// What is to be tried.
pub struct Plan<'a> {
    /// The lessons, with what is to be filled in.
    pub labs: Vec<(&'a Lab, LabTrial)>,
    /// The first seed; none: each lab file's own, or 0.
    pub first_seed: Option<u64>,
    /// How many seeds in a row.
    pub seeds: usize,
    /// How long each waits.
    pub patience: Patience,
    /// Most trials at a time.
    pub workers: usize,
    /// Set from outside when nothing new is to be begun.
    pub stop: &'a AtomicBool,
}

/// Makes the world of a trial: of this lab, with this seed.
pub type MakeWorld<'a> = dyn Fn(&Lab, u64) -> Result<Box<dyn World>> + Sync + 'a;

/// Tries every lesson with every seed; `world` makes the world of a trial, `progress` is told how many are done. Results
/// come in the order of the lessons and seeds, however the threads were scheduled.
///
/// # Errors
/// When the system refuses a thread.
pub fn sweep(
    plan: Plan<'_>,
    world: &MakeWorld<'_>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<LabTrial>> {
    let Plan { labs, first_seed, seeds, patience, workers, stop } = plan;
    let jobs = labs.len() * seeds;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let trials: Mutex<Vec<Option<Trial>>> = Mutex::new((0..jobs).map(|_| None).collect());
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs || stop.load(Ordering::Relaxed) {
                return;
            }
            let Some((lab, _)) = labs.get(job / seeds) else { return };
            let first = first_seed.or(lab.sim.seed).unwrap_or_default();
            let seed = first.wrapping_add((job % seeds) as u64);
            let trial = match world(lab, seed) {
                Ok(world) => run(world.as_ref(), lab, seed, patience),
                Err(error) => Trial {
                    seed,
                    phases: Vec::new(),
                    failure: Some(Failure::Error { moment: Moment::SetUp, error }),
                    elapsed: Duration::ZERO,
                    cluster_time: Duration::ZERO,
                },
            };
            if let Some(place) = trials.lock().unwrap_or_else(PoisonError::into_inner).get_mut(job) {
                *place = Some(trial);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..workers.min(jobs) {
            let builder = std::thread::Builder::new().name(format!("trial-{number}")).stack_size(STACK);
            builder.spawn_scoped(scope, work).kind(Kind::Outside, || "could not start a thread".to_owned())?;
        }
        Ok::<_, crate::error::Error>(())
    })?;
    let mut trials = trials.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
    let filled = labs.into_iter().map(|(_, mut lab)| {
        lab.trials = trials.by_ref().take(seeds).flatten().collect();
        lab
    });
    Ok(filled.collect())
}
