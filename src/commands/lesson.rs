//! What the commands of a lesson share: where the learner is, and the words for it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use kube::Client;

use super::{Context, LabOptions, running_lab};
use klab_lab::spec::Lab;
use klab_lab::verify::Before;
use klab_lab::words::{all, plural};
use klab_operations::changes::{AtHand, Baseline, Twin};
use klab_operations::error::{Code, Error, Result};
use klab_operations::lesson::{self, Tools, command::Line};
use klab_operations::observe;
use klab_operations::provider::Provider;
use klab_operations::state::{Lock, Progress};

pub(super) use klab_operations::lesson::command::of_step as lines;
pub(super) use klab_operations::lesson::words::{find, label, only_typed, step_document, the_end, title};

/// The lesson that a command is about.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct WhichLesson {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    pub(super) lab: Option<String>,
    #[command(flatten)]
    pub(super) options: LabOptions,
}

impl WhichLesson {
    /// That of a lab by its name.
    pub(super) fn of(lab: &str) -> Self {
        Self { lab: Some(lab.to_owned()), ..Self::default() }
    }
}

/// A lab that is up, and how far its lesson has come.
pub(super) struct Lesson {
    pub(super) lab: Lab,
    pub(super) progress: Progress,
    /// The lab's folder in klab's state.
    pub(super) folder: PathBuf,
}

impl Lesson {
    /// The lesson of the lab that is meant.
    ///
    /// # Errors
    /// When the lab is not up, or its file is invalid.
    pub(super) fn open(context: &Context, which: &WhichLesson) -> Result<Self> {
        let lab = running_lab::lab(context, which.lab.as_deref(), &which.options)?;
        let folder = context.home.lab(&lab.name.value);
        let progress = Progress::of(&folder, lab.steps.len())?;
        Ok(Self { lab, progress, folder })
    }

    /// As [`Lesson::open`], of a lab with steps.
    ///
    /// # Errors
    /// When there are no steps, too.
    pub(super) fn open_with_steps(context: &Context, which: &WhichLesson) -> Result<Self> {
        let lesson = Self::open(context, which)?;
        if lesson.lab.steps.is_empty() {
            let message = format!("lab `{}` has no steps", lesson.lab.name);
            return Err(Error::message(Code::NoSteps, message).hint("steps are `[[step]]` tables of the lab file"));
        }
        Ok(lesson)
    }

    /// The number (from 0) of the step that is next, or the one klab was interrupted at; none after the last.
    pub(super) fn next(&self) -> Option<usize> {
        self.progress.next(self.lab.steps.len())
    }

    /// Whether the learner has been shown the next step, or klab was interrupted at it.
    pub(super) fn is_opened(&self) -> bool {
        self.progress.is_opened()
    }

    /// The number (from 0) of the step whose checks say where the learner is: the one that is opened, else the last one
    /// that was reached; none at the set-up.
    pub(super) fn graded(&self) -> Option<usize> {
        self.progress.graded(self.lab.steps.len())
    }

    /// Where the learner is, in a few words.
    pub(super) fn position(&self) -> String {
        let total = self.lab.steps.len();
        match self.next() {
            Some(0) if !self.progress.started => format!("at the set-up, {} ahead", plural(total, "step")),
            Some(next) => format!("at {}, {} done", label(&self.lab, next), self.progress.done),
            None => format!("{} done", all(total, "step")),
        }
    }

    /// Where the learner is, for machines.
    pub(super) fn document(&self) -> Value {
        let next = self.next().and_then(|next| self.lab.steps.get(next));
        json!({
            "steps": self.lab.steps.len(), "done": self.progress.done, "opened": self.is_opened(),
            "step": next.map(|step| &step.name.value),
            "interrupted": self.progress.doing.as_ref().map(|doing| &doing.step),
        })
    }

    /// As [`Lesson::keep`], unless another klab is at work on the lab: it knows better how far the lesson has come.
    ///
    /// # Errors
    /// When the state folder refuses.
    pub(super) fn keep_if_free(&self, command: &str) -> Result<()> {
        match Lock::take_existing(&self.folder, &self.lab.name.value, command) {
            Ok(Some(_lock)) => self.keep(),
            _ => Ok(()),
        }
    }

    /// Writes down how far the lesson has come.
    ///
    /// # Errors
    /// When the state folder refuses.
    pub(super) fn keep(&self) -> Result<()> {
        self.progress.write(&self.folder)
    }
}

/// Notes the pods as they are now, where checks of the next step will compare with them. Says whether they do.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn note_before(context: &Context, lab: &Lab, progress: &mut Progress, client: &Client) -> Result<bool> {
    if !lab.steps.get(progress.done).is_some_and(|step| Before::is_asked_for(&step.checks)) {
        return Ok(false);
    }
    lesson::note_before(lab, progress, &context.block_on(observe::look(client))?);
    Ok(true)
}

/// What is typed on this machine.
pub(super) fn tools(context: &Context, lab: &Lab) -> Tools {
    tools_of(context.provider(lab.provider).ok().as_deref(), lab)
}

/// As [`tools`], by a provider that is at hand.
pub(super) fn tools_of(provider: Option<&dyn Provider>, lab: &Lab) -> Tools {
    Tools::Here(provider.and_then(|provider| provider.azure_names(&lab.name.value)).unwrap_or_default())
}

/// What a lab that is up is compared with, to see what was changed; none where it has no lesson, or the original state of its
/// cluster is unknown.
pub(super) fn at_hand(context: &Context, lab: &Lab) -> Result<Option<AtHand>> {
    if lab.steps.is_empty() || !lab.provider.profile().makes_nodes {
        return Ok(None);
    }
    let baseline = Baseline::read(&context.home.lab(&lab.name.value))?;
    Ok(Some(AtHand { baseline, twin: Arc::new(Twin::of(lab)), tools: tools(context, lab) }))
}

/// Lines for people: a sentence is a comment to a shell, so that all of it can be pasted.
pub(super) fn shown(lines: &[Line]) -> Vec<String> {
    lines.iter().flat_map(Line::pasted).collect()
}
