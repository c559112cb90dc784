//! What a learner changed that no step asks for, written into the report of the step that is graded.

use super::baseline::Baseline;
use super::change::{Change, Objects};
use super::slips::slips;
use super::told::Told;
use super::twin::Twin;
use crate::error::Result;
use crate::lesson::Tools;
use klab_lab::spec::Lab;
use klab_lab::verify::{Aside, CheckResult, Report};

/// What a learner has at hand.
#[derive(Debug)]
pub struct AtHand<'a> {
    /// What of the cluster is the provider's.
    pub baseline: &'a Baseline,
    /// What the lab should be.
    pub twin: &'a Twin,
    /// What commands are typed with.
    pub tools: &'a Tools,
}

/// Adds to the report of a step (from 0), or of the set-up, what was changed and not asked for, and what the step asks for and is not
/// done: then that is the way, and no other fix is offered. Where there is nothing to do, returns what leads back. `first` is what
/// anything that is typed to mend something depends on.
///
/// # Errors
/// When the lab cannot be made in this process, to compare with it.
pub fn mention(
    report: &mut Report,
    lab: &Lab,
    step: Option<usize>,
    done: usize,
    found: &Objects,
    at_hand: &AtHand<'_>,
    first: Option<Aside>,
) -> Result<Option<String>> {
    let steps = step.map_or(0, |step| step.saturating_add(1));
    let slips = slips(lab, step, steps == done, found, at_hand.baseline, at_hand.twin)?;
    let asides = |changes: &[Change]| Told::all(changes, lab, steps).into_iter().map(Told::aside).collect();
    // What is typed to mend anything would look there, so it comes first.
    report.unasked = first.into_iter().chain::<Vec<Aside>>(asides(&slips.unasked)).collect();
    if report.ok() {
        return Ok(None);
    }
    let open = Told::to_do(&slips.open, lab, step.unwrap_or_default(), at_hand.tools);
    let open = open.into_iter().map(Told::aside).collect();
    goes_first(report, open);
    let helpless = |check: &CheckResult| !check.verdict.is_held() && check.suggestions.is_empty();
    let nothing = report.unasked.is_empty() && report.open.is_empty() && report.checks.iter().any(helpless);
    let name = &lab.name;
    let before = step.and_then(|step| step.checked_sub(1)).and_then(|before| lab.steps.get(before));
    Ok(nothing.then(|| match before.map(|step| &step.name) {
        Some(before) => {
            format!("everything the step asks for is in place, but came about in a different order; `klab reset {name} --to {before}` goes back to where the step begins")
        }
        None => format!("`klab reset {name}` goes back to where the lesson begins"),
    }))
}

/// Adds what drains of the step would still move, as not done yet. With it, nothing needs to lead back.
pub fn mention_drains(report: &mut Report, drains: Vec<Aside>, way_back: Option<String>) -> Option<String> {
    if drains.is_empty() || report.ok() {
        return way_back;
    }
    goes_first(report, drains);
    None
}

/// Puts what the step still asks for first, and drops the fixes that reach the same end another way.
fn goes_first(report: &mut Report, open: Vec<Aside>) {
    if !open.is_empty() {
        report.checks.iter_mut().for_each(|check| check.suggestions.clear());
    }
    report.open.splice(0..0, open);
}
