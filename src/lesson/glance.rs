//! One look at a lesson: which step its learner is at, and what its checks say now. Nothing is waited for.

use kube::Client;

use super::pass::ahead;
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
}

/// A lab by the checks of one step of its lesson.
struct Seen {
    step: Option<usize>,
    stage: Lab,
    snapshot: Snapshot,
    report: Report,
}

impl Seen {
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
}

/// Looks once, judged by the checks of the step that the learner is at.
///
/// # Errors
/// When the cluster does not answer.
pub async fn glance(client: &Client, lab: &Lab, progress: &Progress) -> Result<Glance> {
    let ahead = ahead(lab, progress);
    let snapshot = observe::look(client).await?;
    let mut seen = Seen::by(client, lab, progress, progress.graded(lab.steps.len()), snapshot).await?;
    if ahead.is_some() && !seen.report.ok() {
        // Who has typed the next step's commands already has left behind what was reached.
        let later = Seen::by(client, lab, progress, ahead, seen.snapshot.clone()).await?;
        if later.report.ok() && !later.report.checks.is_empty() {
            seen = later;
        }
    }
    if !seen.report.ok() {
        observe::complete(client, &mut seen.snapshot).await?;
        verify::diagnose(&mut seen.report, &seen.stage.checks, &seen.snapshot, &verify::Context::of(&seen.stage));
    }
    Ok(Glance { step: seen.step, report: seen.report })
}
