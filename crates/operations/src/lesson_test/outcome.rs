//! What came of trying a lesson: looks at the cluster in order, and where it failed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use klab_lab::board::Board;
use klab_lab::spec::{Check, Lab};
use klab_lab::verify::{CheckResult, Report, check_name};

/// When in a lesson something was looked at or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// The set-up.
    SetUp,
    /// Before the actions of the step of this name.
    Before(String),
    /// After the actions of the step of this name.
    Step(String),
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetUp => write!(formatter, "set-up"),
            Self::Before(step) => write!(formatter, "before step `{step}`"),
            Self::Step(step) => write!(formatter, "step `{step}`"),
        }
    }
}

/// One look at the cluster that had checks to it.
#[derive(Debug, Clone)]
pub struct Phase {
    /// When it was.
    pub moment: Moment,
    /// The verdicts; time is the cluster's own.
    pub report: Report,
    /// Whether every check of a step with actions held already before them: such checks prove nothing.
    pub held_before: bool,
}

/// The cluster around a moment, as it is drawn.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The moment: the set-up or a step.
    pub moment: Moment,
    /// The cluster before the actions of the step.
    pub before: Option<Arc<Board>>,
    /// The cluster after them, when the checks were decided.
    pub after: Arc<Board>,
}

/// What ended a trial early.
#[derive(Debug)]
pub enum Failure {
    /// Checks of the last phase do not hold.
    Checks,
    /// Something could not be done.
    Error {
        /// When.
        moment: Moment,
        /// What, and why.
        error: Error,
    },
}

/// One lesson tried with one seed.
#[derive(Debug)]
pub struct Trial {
    /// Decides between equal nodes.
    pub seed: u64,
    /// Looks in order, as far as the lesson came.
    pub phases: Vec<Phase>,
    /// The cluster at every moment, where pictures were asked for.
    pub pictures: Vec<Picture>,
    /// Why it came no further.
    pub failure: Option<Failure>,
    /// Why something of it is left, if it is.
    pub left: Option<Error>,
    /// How long it took here.
    pub elapsed: Duration,
    /// How much time passed in the cluster.
    pub cluster_time: Duration,
}

impl Trial {
    /// Whether the lesson came to its end and nothing is left of it.
    pub fn ok(&self) -> bool {
        self.failure.is_none() && self.left.is_none()
    }

    /// The checks that do not hold.
    pub fn failed_checks(&self) -> impl Iterator<Item = (&Moment, &CheckResult)> {
        let phases = self.phases.iter();
        phases.flat_map(|phase| {
            let failed = phase.report.checks.iter().filter(|check| !check.verdict.is_held());
            failed.map(|check| (&phase.moment, check))
        })
    }

    /// How many checks held.
    pub fn held(&self) -> usize {
        self.phases.iter().map(|phase| phase.report.held()).sum()
    }

    /// Names of the steps whose checks held before their actions.
    pub fn proves_nothing(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().filter(|phase| phase.held_before).filter_map(|phase| match &phase.moment {
            Moment::Step(step) => Some(step.as_str()),
            _ => None,
        })
    }
}

/// One lesson tried with every seed that was asked for.
#[derive(Debug)]
pub struct LabTrial {
    /// The lab file.
    pub path: PathBuf,
    /// What was tried: the name of the lab, and how it was tried where that is not by itself.
    pub lab: String,
    /// The flags of `klab test` besides the file, to try it so.
    pub options: &'static str,
    /// How many steps it has.
    pub steps: usize,
    /// How many checks it has, in set-up and steps.
    pub checks: usize,
    /// The names of its checks, in order, each with when it is looked at.
    pub planned: Vec<(Moment, String)>,
    /// Where each step begins in the lab file: its line, from 1.
    pub step_lines: BTreeMap<String, usize>,
    /// A trial a seed, in the order of the seeds.
    pub trials: Vec<Trial>,
}

impl LabTrial {
    /// A lesson that was not tried yet.
    pub fn new(path: PathBuf, lab: &Lab) -> Self {
        let named = |moment: Moment, checks: &[Check]| -> Vec<(Moment, String)> {
            checks.iter().map(|check| (moment.clone(), check_name(check))).collect()
        };
        let mut planned = named(Moment::SetUp, &lab.checks);
        for step in &lab.steps {
            planned.extend(named(Moment::Before(step.name.value.clone()), &step.before));
            planned.extend(named(Moment::Step(step.name.value.clone()), &step.checks));
        }
        Self {
            path,
            lab: lab.name.value.clone(),
            options: "",
            steps: lab.steps.len(),
            checks: planned.len(),
            planned,
            step_lines: lab.steps.iter().map(|step| (step.name.value.clone(), step.name.at.line())).collect(),
            trials: Vec::new(),
        }
    }

    /// The checks that a trial did not come to, each with when it would have been looked at.
    pub fn not_reached(&self, trial: &Trial) -> impl Iterator<Item = &(Moment, String)> {
        let looked: Vec<&Moment> = trial.phases.iter().map(|phase| &phase.moment).collect();
        self.planned.iter().filter(move |(moment, _)| !looked.contains(&moment))
    }

    /// Whether it passed with every seed.
    pub fn ok(&self) -> bool {
        self.trials.iter().all(Trial::ok)
    }

    /// The trials that failed, in the order of their seeds.
    pub fn failed(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !trial.ok())
    }

    /// How long all trials took together.
    pub fn elapsed(&self) -> Duration {
        self.trials.iter().map(|trial| trial.elapsed).sum()
    }
}
