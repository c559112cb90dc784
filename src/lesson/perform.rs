//! Performs a step on a cluster, action by action, and undoes it: through the Kubernetes API, or through the provider.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use super::performer::Performer;
use super::undo::{Undo, undo};
use super::{control_plane, drain, nodes, pools, workloads};
use crate::error::{Error, Kind, Result};
use crate::event::Verb;
use crate::exec;
use crate::observe;
use crate::provider::Work;
use crate::stage::stage_within;
use klab_lab::spec::{Action, Lab, Located, Step};

/// How long a program that a step runs may take.
const RUN: Duration = Duration::from_mins(10);

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

    /// Undoes all actions of a step, the last one first. Gives what could not be undone, in words.
    ///
    /// # Errors
    /// When something that can be undone could not be.
    pub fn undo(&self, lab: &Lab, step: usize, work: &mut Work<'_>) -> Result<Vec<String>> {
        let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
        let mut kept = Vec::new();
        for action in (0..actions).rev() {
            kept.extend(self.undo_action(lab, step, action, work)?);
        }
        Ok(kept)
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

    /// Does one action; `stage` is the lab as it is to be afterwards.
    fn act(&self, stage: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
        match action {
            Action::Taint { .. }
            | Action::Untaint { .. }
            | Action::Label { .. }
            | Action::Unlabel { .. }
            | Action::Cordon { .. }
            | Action::Uncordon { .. } => nodes::change(self, action, work),
            Action::Drain { nodes, within, force } => drain::drain(self, nodes, *within, *force, work),
            Action::FailNode { .. } | Action::RestoreNode { .. } => nodes::power(self, stage, action, work),
            Action::Scale { workload, replicas } => workloads::scale(self, stage, workload, *replicas, work),
            Action::Set { workload, .. } => super::set::set(self, stage, workload, work),
            Action::Deploy { workload } => workloads::deploy(self, stage, workload, work),
            Action::Apply { content } => workloads::apply_content(self, stage, content, work),
            Action::Refused { action, text } => self.refused(stage, action, text, work),
            Action::Delete { object } => workloads::delete(self, stage, object, work),
            Action::DeletePods { selector, namespace } => workloads::delete_pods(self, selector, namespace, work),
            Action::AddPool { .. }
            | Action::RemovePool { .. }
            | Action::ScalePool { .. }
            | Action::UpgradePool { .. } => pools::change(self, stage, action, work),
            Action::UpgradeControlPlane { kubernetes } => control_plane::upgrade(self, stage, *kubernetes, work),
            Action::FailApi { duration } => control_plane::fail(self, stage, *duration, work),
            Action::Wait { duration } => {
                let duration = Duration::try_from(*duration).unwrap_or_default();
                let words = klab_lab::words::duration(duration);
                let events = work.events.counting(usize::try_from(duration.as_secs()).unwrap_or(usize::MAX));
                let activity = events.start(Verb::Wait, words.clone());
                self.time.pass(duration);
                activity.end();
                events.note(Verb::Wait, words);
                Ok(())
            }
            Action::Run { argv } => self.run_program(argv, work),
        }
    }

    /// Tries what the cluster is to refuse, with this text in its words.
    fn refused(&self, stage: &Lab, action: &Action, text: &str, work: &mut Work<'_>) -> Result<()> {
        match self.act(stage, action, work) {
            Ok(()) => Err(Error::message(Kind::Failed, format!("the cluster did what it was to refuse with `{text}`"))),
            Err(error) if error.to_string().contains(text) => {
                work.events.note(Verb::ExpectRefusal, format!("as the lesson says: {text}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The lab with the names of the nodes that workloads ask for by pool.
    fn with_nodes<'l>(&self, lab: &'l Lab) -> Result<Cow<'l, Lab>> {
        self.runtime.block_on(observe::nodes_named(self.client, lab))
    }

    fn run_program(&self, argv: &[String], work: &mut Work<'_>) -> Result<()> {
        let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
        let Some(run) = self.run else {
            let message = format!("the step runs `{}`, which was not allowed", argv.join(" "));
            return Err(Error::message(Kind::Usage, message).hint(
                "read what it does in the lab file; `--allow-run` allows it, or type it yourself and `klab verify`",
            ));
        };
        work.intend("run", program)?;
        // A path is meant from the lab file, a bare name from PATH.
        let program = if program.contains('/') { run.folder.join(program) } else { PathBuf::from(program) };
        let command = exec::Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", run.kubeconfig.as_os_str())
            .directory(run.folder);
        let activity = work.events.start(Verb::RunProgram, command.to_string());
        command.output(RUN).map_err(|error| Error::new(Kind::Failed, error))?;
        activity.finish(command.to_string());
        Ok(())
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
