//! What a learner changed that no step asks for, and what the step at hand asks for that is not done.

use super::baseline::Baseline;
use super::change::{Change, Objects};
use super::twin::Twin;
use crate::error::{Error, Result};
use klab_lab::spec::Lab;

/// Differences from the lab, by what they mean to a learner at a step.
#[derive(Debug, Default)]
pub struct Slips {
    /// Neither as it was before the step nor as the step makes it.
    pub unasked: Vec<Change>,
    /// As it was before the step, which changes it.
    pub open: Vec<Change>,
}

/// Compares a cluster with the lab before and after the step (from 0) that is graded, or with its set-up where none is. A
/// learner who may have begun the step after it (`next`) gets no hints about that step.
///
/// # Errors
/// When the twin cannot be made.
pub fn slips(
    lab: &Lab,
    step: Option<usize>,
    next: bool,
    found: &Objects,
    baseline: &Baseline,
    twin: &Twin,
) -> Result<Slips> {
    let differences = |steps: usize| Ok::<_, Error>(baseline.differences(&*twin.after(steps)?, found, lab));
    let after = step.map_or(0, |step| step + 1);
    // The last one first, which makes the twin go through the others.
    let next = (next && after < lab.steps.len()).then(|| differences(after + 1)).transpose()?;
    let reached = differences(after)?;
    let before = step.map(differences).transpose()?;
    Ok(apart(reached, before.as_deref(), next.as_deref()))
}

/// Differences from the lab after a step, apart by whether they were there before it and are there after the next one.
fn apart(reached: Vec<Change>, before: Option<&[Change]>, next: Option<&[Change]>) -> Slips {
    let within = |changes: &[Change], change: &Change| changes.iter().any(|other| other.finds_the_same(change));
    // Of an object that the step makes, nothing can be as it was before.
    let made = |before: &[Change], change: &Change| {
        !change.is_new() && before.iter().any(|other| other.is_new() && other.object() == change.object())
    };
    let mut slips = Slips::default();
    for change in reached {
        if before.is_some_and(|before| !within(before, &change) && !made(before, &change)) {
            slips.open.push(change);
        } else if next.is_none_or(|next| within(next, &change)) {
            slips.unasked.push(change);
        }
    }
    slips
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Named;
    use serde_json::json;

    fn scaled(found: u32, wanted: u32) -> Change {
        let object = Named::of(&json!({
            "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": "web", "namespace": "default" },
        }));
        let (found, wanted) = (Some(json!(found)), Some(json!(wanted)));
        Change::Field { object, path: "spec.replicas".to_owned(), found, wanted }
    }

    fn label(found: Option<&str>, wanted: Option<&str>) -> Change {
        let text = |value: Option<&str>| value.map(str::to_owned);
        Change::Label { node: "a".to_owned(), key: "disk".to_owned(), found: text(found), wanted: text(wanted) }
    }

    #[test]
    fn what_the_next_step_asks_for_is_no_slip() {
        let slips = apart(vec![scaled(3, 2), label(Some("sdd"), None)], None, Some(&[label(Some("sdd"), None)]));
        assert_eq!(slips.unasked, [label(Some("sdd"), None)]);
    }

    #[test]
    fn what_the_step_changes_is_open_and_what_it_does_not_is_unasked() {
        for (before, after, unasked, open) in [
            // The step scales from 2 to 3, and nothing was done yet.
            (vec![], vec![scaled(2, 3)], 0, 1),
            // Somebody scaled to 5.
            (vec![scaled(5, 2)], vec![scaled(5, 3)], 1, 0),
            // A label that no step knows, and one with another value than the step gives it.
            (vec![label(Some("sdd"), None)], vec![label(Some("sdd"), None)], 1, 0),
            (vec![label(Some("sdd"), None)], vec![label(Some("sdd"), Some("ssd"))], 1, 0),
            // The step makes the object, and the learner has made it otherwise.
            (vec![Change::New(scaled(3, 2).object())], vec![scaled(3, 2)], 1, 0),
            // What the step did is a difference from before only.
            (vec![scaled(3, 2)], vec![], 0, 0),
        ] {
            let slips = apart(after, Some(&before), None);
            assert_eq!((slips.unasked.len(), slips.open.len()), (unasked, open), "{before:?}");
        }
    }
}
