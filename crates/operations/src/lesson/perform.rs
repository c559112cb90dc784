//! Performs a step on a cluster, action by action, and undoes it: through the Kubernetes API, or through the provider.

use std::borrow::Cow;

use super::actions::undo;
use super::performer::Performer;
use super::undo::Undo;
use super::{nodes, workloads};
use crate::error::{Error, Result};
use crate::observe;
use crate::provider::Work;
use crate::stage::stage_within;
use klab_lab::spec::{Action, Lab, Located, Step};

impl Performer<'_> {
    /// Does all actions of a step (from 0), one after the other. Safe to repeat from the beginning.
    ///
    /// # Errors
    /// With the first action that could not be done, and its place in the lab file.
    pub fn perform(&self, lab: &Lab, step: usize, work: &mut Work<'_>) -> Result<()> {
        let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
        (0..actions).try_for_each(|action| self.perform_action(lab, step, action, work))
    }

    /// Does one action (from 0) of a step.
    ///
    /// # Errors
    /// When it could not be done, with its place in the lab file.
    pub fn perform_action(&self, lab: &Lab, step: usize, action: usize, work: &mut Work<'_>) -> Result<()> {
        let lab = &*self.with_nodes(lab)?;
        let Some((step_spec, located)) = find(lab, step, action) else { return Ok(()) };
        let after = stage_within(lab, step, action + 1);
        self.act(&after, &located.value, work).map_err(|error| placed(error, step_spec, located, "could not perform"))
    }

    /// Undoes one action (from 0) of a step; gives what cannot be undone, in words.
    ///
    /// # Errors
    /// When it can be undone and could not be, with its place in the lab file.
    pub fn undo_action(&self, lab: &Lab, step: usize, action: usize, work: &mut Work<'_>) -> Result<Option<String>> {
        let lab = &*self.with_nodes(lab)?;
        let Some((step_spec, located)) = find(lab, step, action) else { return Ok(None) };
        let before = stage_within(lab, step, action);
        let named = |error| placed(error, step_spec, located, "could not undo");
        match undo(lab, step, action) {
            Undo::Nothing => Ok(None),
            Undo::Impossible(why) => Ok(Some(why)),
            Undo::Actions(actions) => {
                for action in &actions {
                    if let Some(set) = action.nodes()
                        && self.runtime.block_on(nodes::select(self.client, set)).map_err(named)?.is_empty()
                    {
                        // Nodes that are gone need nothing undone.
                        continue;
                    }
                    self.act(&before, action, work).map_err(named)?;
                }
                Ok(None)
            }
            Undo::Objects(objects) => {
                workloads::restore(self, &before, &objects, work).map_err(named)?;
                Ok(None)
            }
        }
    }

    /// The lab with the names of the nodes that workloads ask for by pool.
    fn with_nodes<'l>(&self, lab: &'l Lab) -> Result<Cow<'l, Lab>> {
        self.runtime.block_on(observe::nodes_named(self.client, lab))
    }
}

fn find(lab: &Lab, step: usize, action: usize) -> Option<(&Step, &Located<Action>)> {
    let step = lab.steps.get(step)?;
    Some((step, step.actions.get(action)?))
}

/// An error with the step and the place of the action it comes from.
fn placed(mut error: Error, step: &Step, action: &Located<Action>, what: &str) -> Error {
    error.source = error.source.context(format!("{what} step `{}` ({})", step.name, action.at));
    error
}
