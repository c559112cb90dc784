//! Which step of a lesson is meant when somebody has it checked, and whether it is passed: the same at a terminal and on a
//! host. How the cluster is looked at is the caller's.

use std::time::Duration;

use crate::error::Result;
use crate::state::Progress;
use klab_lab::spec::Lab;
use klab_lab::verify::{CheckResult, Report, Verdict};

/// Long enough to see that what holds of a step holds for a while.
const WINDOW: Duration = Duration::from_secs(2);

/// Who looks at the cluster of a lesson.
pub trait Grader {
    /// Waits for the checks of a step (from 0), or of the set-up; `once` is for one that is only tried, for so long.
    ///
    /// # Errors
    /// When the cluster does not answer.
    fn wait(&mut self, step: Option<usize>, once: Option<Duration>) -> impl Future<Output = Result<Report>>;

    /// What the checks of a step say now, unexplained.
    ///
    /// # Errors
    /// When the cluster does not answer.
    fn glance(&mut self, step: usize) -> impl Future<Output = Result<Report>>;
}

/// What was graded.
#[derive(Debug)]
pub struct Graded {
    /// The step (from 0) whose checks were graded; none: the set-up.
    pub step: Option<usize>,
    /// What they said.
    pub report: Report,
}

/// The number (from 0) of the next step, where the learner may have typed its commands without opening it. A step without
/// actions leaves nothing to see.
pub fn ahead(lab: &Lab, progress: &Progress) -> Option<usize> {
    acting(lab, progress).filter(|step| *step == progress.done)
}

/// The number (from 0) of the first step ahead that acts, where the learner types without opening steps: those without actions
/// before it leave nothing to see.
pub fn acting(lab: &Lab, progress: &Progress) -> Option<usize> {
    let acts = |step: &usize| lab.steps.get(*step).is_some_and(|step| !step.actions.is_empty());
    (progress.done..lab.steps.len()).find(acts).filter(|_| !progress.is_opened())
}

/// Grades where the learner is: the step that the guide has opened, else what was reached last, so that what holds goes on
/// holding however often it is asked; or the next step, where its commands were typed already.
///
/// # Errors
/// When the cluster does not answer.
pub async fn graded(looks: &mut impl Grader, lab: &Lab, progress: &Progress, timeout: Duration) -> Result<Graded> {
    let reached = progress.graded(lab.steps.len());
    let ahead = ahead(lab, progress);
    // What was typed for the next step has taken effect, or still does: then that step is meant, not the one before.
    let meant = match ahead.filter(|_| progress.started) {
        Some(next) if is_within_reach(&looks.glance(next).await?) => Some(next),
        _ => reached,
    };
    let graded = Graded { step: meant, report: looks.wait(meant, None).await? };
    if graded.report.ok() {
        return Ok(graded);
    }
    if meant != reached {
        // What is under way may have another reason.
        let report = looks.wait(reached, None).await?;
        return Ok(if report.ok() { Graded { step: reached, report } } else { graded });
    }
    if let Some(next) = ahead {
        // Who has typed the next step's commands already has left behind what was reached.
        let report = looks.wait(Some(next), Some(timeout.min(WINDOW))).await?;
        if report.ok() && !report.checks.is_empty() {
            return Ok(Graded { step: Some(next), report });
        }
    }
    Ok(graded)
}

/// Whether the cluster is as a step wants it, or on its way there: nothing of it is out of reach.
pub(super) fn is_within_reach(report: &Report) -> bool {
    let out_of_reach = |check: &CheckResult| matches!(check.verdict, Verdict::Impossible { .. });
    !report.checks.is_empty() && !report.checks.iter().any(out_of_reach)
}

/// What a step that holds means for a learner who has come so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Passed {
    /// All steps are done already.
    All,
    /// It was passed before, and this many steps are done. A learner who meant the next step must see that this was not it.
    Before(usize),
    /// This many steps are done now.
    Now(usize),
}

/// See [`Passed`].
pub fn passed(lab: &Lab, progress: &Progress, step: Option<usize>) -> Passed {
    let done = step.map_or(0, |step| step.saturating_add(1));
    match progress.next(lab.steps.len()) {
        None => Passed::All,
        Some(_) if done > 0 && done <= progress.done && !progress.is_opened() => Passed::Before(done),
        Some(_) => Passed::Now(done),
    }
}

/// Whether a step that holds moves the learner on.
pub fn moves_on(progress: &Progress, done: usize) -> bool {
    done > progress.done || !progress.started
}
