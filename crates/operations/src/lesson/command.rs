//! Pure: what a learner types for an action, with kubectl, az, docker or klab.

use super::actions::{lines_of, undo};
pub use super::line::{Edit, Line};
use super::tools::Tools;
use super::undo::Undo;
use crate::stage::stage_within;
use klab_lab::spec::Lab;

/// The lines that a learner types for a step (from 0) on the lab's provider.
pub fn of_step(lab: &Lab, step: usize, tools: &Tools) -> Vec<Line> {
    let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
    (0..actions).flat_map(|action| lines(lab, step, action, tools)).collect()
}

/// The lines that take back a step (from 0), the last action first.
pub fn of_undoing(lab: &Lab, step: usize, tools: &Tools) -> Vec<Line> {
    let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
    let undone = (0..actions).rev().flat_map(|action| {
        let (done, before) = (stage_within(lab, step, action + 1), stage_within(lab, step, action));
        match undo(lab, step, action) {
            Undo::Actions(all) => all.iter().flat_map(|one| lines_of(&done, &before, one, tools)).collect(),
            Undo::Impossible(words) => vec![Line::Note(words)],
            // klab takes its own objects back on any cluster.
            Undo::Objects(_) | Undo::Nothing => Vec::new(),
        }
    });
    undone.collect()
}

/// The lines for one action (from 0) of a step (from 0) on the lab's provider.
pub fn lines(lab: &Lab, step: usize, action: usize, tools: &Tools) -> Vec<Line> {
    let Some(located) = lab.steps.get(step).and_then(|step| step.actions.get(action)) else { return Vec::new() };
    let before = stage_within(lab, step, action);
    let after = stage_within(lab, step, action + 1);
    lines_of(&before, &after, &located.value, tools)
}
