//! One look at a lesson: which step its learner is at, and what its checks say now. Nothing is waited for.

use kube::Client;

use super::pass::{acting, is_within_reach};
use crate::error::Result;
use crate::observe;
use crate::stage::staged;
use crate::state::Progress;
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Report, Snapshot};

/// What a glance showed.
#[derive(Debug)]
pub struct Glance {
    /// The step (from 0) whose checks were looked at; none: the set-up.
    pub step: Option<usize>,
    /// What they say, explained where they do not hold.
    pub report: Report,
    /// A step ahead (from 0), not opened yet, whose checks hold.
    pub ahead: Option<usize>,
}

/// A lab by the checks of one step of its lesson.
struct Observation {
    step: Option<usize>,
    stage: Lab,
    snapshot: Snapshot,
    report: Report,
}

impl Observation {
    async fn by(
        client: &Client,
        lab: &Lab,
        progress: &Progress,
        step: Option<usize>,
        mut snapshot: Snapshot,
    ) -> Result<Self> {
        let stage = staged(lab, progress, step);
        observe::fetch(client, &stage.checks, &mut snapshot).await?;
        let report = verify::evaluate(&stage.checks, &snapshot, &verify::Context::of(&stage));
        Ok(Self { step, stage, snapshot, report })
    }

    fn holds(&self) -> bool {
        self.report.ok() && !self.report.checks.is_empty()
    }
}

/// Whether a step (from 0) has checks, and all of them hold now.
///
/// # Errors
/// When the cluster does not answer.
pub async fn holds(client: &Client, lab: &Lab, progress: &Progress, step: usize) -> Result<bool> {
    let snapshot = observe::look(client).await?;
    Ok(Observation::by(client, lab, progress, Some(step), snapshot).await?.holds())
}

/// Looks once, judged by the checks of the step that the learner is at.
///
/// # Errors
/// When the cluster does not answer.
pub async fn glance(client: &Client, lab: &Lab, progress: &Progress) -> Result<Glance> {
    let snapshot = observe::look(client).await?;
    let mut seen = Observation::by(client, lab, progress, progress.graded(lab.steps.len()), snapshot).await?;
    let mut ahead = None;
    if let Some(step) = acting(lab, progress) {
        let later = Observation::by(client, lab, progress, Some(step), seen.snapshot.clone()).await?;
        ahead = Some(step).filter(|_| later.holds());
        // Who has typed the next step's commands already has left behind what was reached.
        let is_meant = ahead.is_some() || ((progress.started || progress.done > 0) && is_within_reach(&later.report));
        if !seen.report.ok() && is_meant {
            seen = later;
        }
    }
    if !seen.report.ok() {
        observe::complete(client, &mut seen.snapshot).await?;
        verify::diagnose(&mut seen.report, &seen.stage.checks, &seen.snapshot, &verify::Context::of(&seen.stage));
    }
    Ok(Glance { step: seen.step, report: seen.report, ahead })
}
