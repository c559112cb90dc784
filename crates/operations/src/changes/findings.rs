//! What a learner changed that no step asks for, written into the report of the step that is graded.

use std::sync::Arc;

use kube::Client;

use super::baseline::Baseline;
use super::change::Objects;
use super::drift::slips;
use super::live::objects as live_objects;
use super::summary::Summary;
use super::twin::Twin;
use crate::error::{Code, Context, Result};
use crate::lesson::{Tools, undone_drains};
use klab_lab::spec::Lab;
use klab_lab::verify::{Asides, CheckResult, Report};

/// What a learner has at hand.
#[derive(Debug, Clone)]
pub struct AtHand {
    /// What of the cluster is the provider's.
    pub baseline: Baseline,
    /// What the lab should be.
    pub twin: Arc<Twin>,
    /// What commands are typed with.
    pub tools: Tools,
}

/// The asides of a step (from 0), or of the set-up, where the cluster has these objects.
fn asides_of(lab: &Lab, step: Option<usize>, done: usize, found: &Objects, at_hand: &AtHand) -> Result<Asides> {
    let steps = step.map_or(0, |step| step.saturating_add(1));
    let slips = slips(lab, step, steps == done, found, &at_hand.baseline, &at_hand.twin)?;
    let all = |summaries: Vec<Summary>| summaries.into_iter().map(Summary::aside).collect();
    let open = Summary::to_do(&slips.open, lab, step.unwrap_or_default(), &at_hand.tools);
    Ok(Asides { unasked: all(Summary::all(&slips.unasked, lab, steps)), open: all(open) })
}

/// Compares a cluster as it is now with its lab at a step (from 0), or at the set-up, with this many steps done. What drains of a step
/// that does not hold would still move is among what is open.
///
/// # Errors
/// When the cluster does not answer, or the lab cannot be made in this process to compare with it.
pub async fn find_asides(
    client: &Client,
    lab: &Lab,
    (step, done): (Option<usize>, usize),
    holds: bool,
    at_hand: AtHand,
) -> Result<Asides> {
    let found = live_objects(client).await?;
    let drains = match step.filter(|_| !holds) {
        Some(step) => undone_drains(client, lab, step).await?,
        None => Vec::new(),
    };
    let lab = lab.clone();
    // The twin of the lab is made by a runtime of its own.
    let compared = tokio::task::spawn_blocking(move || asides_of(&lab, step, done, &found, &at_hand)).await;
    let mut asides = compared.code(Code::KlabFault, || "could not compare the cluster".to_owned())??;
    asides.open.splice(0..0, drains);
    Ok(asides)
}

/// What leads back where a report offers nothing to do.
pub fn way_back(report: &Report, lab: &Lab, step: Option<usize>) -> Option<String> {
    let helpless = |check: &CheckResult| !check.verdict.is_held() && check.suggestions.is_empty();
    let nothing = report.unasked.is_empty() && report.open.is_empty() && report.checks.iter().any(helpless);
    let name = &lab.name;
    let before = step.and_then(|step| step.checked_sub(1)).and_then(|before| lab.steps.get(before));
    nothing.then(|| match before.map(|step| &step.name) {
        Some(before) => {
            format!("everything the step asks for is in place, but came about in a different order; `klab reset {name} --to {before}` goes back to where the step begins")
        }
        None => format!("`klab reset {name}` goes back to where the lesson begins"),
    })
}
