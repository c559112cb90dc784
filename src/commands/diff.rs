//! `klab diff`: what differs between the cluster and the lab at the step that the learner is at.

use super::lesson::{Lesson, WhichLesson, find};
use super::{Context, joined};
use klab_operations::changes::{Baseline, Summary, Twin, live_objects};
use klab_operations::error::Result;
use klab_operations::provider::refuse_foreign;
use klab_operations::ui::Format;

/// What can be typed after `klab diff`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Compare with the lab after this step, by name or number; after the last step that is done by default.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

/// Prints what differs, each with the command that takes it back.
///
/// # Errors
/// When the lab is not up, or its cluster does not answer.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        return joined::diff(context, &joined, arguments.step.as_deref());
    }
    let lesson = Lesson::open(context, &arguments.which)?;
    let lab = &lesson.lab;
    refuse_foreign(
        lab,
        "`klab diff` compares a whole cluster with its lab",
        &format!("`klab verify {0}` says what does not hold, `klab plan FILE` which of its objects differ", lab.name),
    )?;
    let steps = match &arguments.step {
        Some(name) => find(lab, name)? + 1,
        None => lesson.progress.done,
    };
    let kubeconfig = context.kubeconfig(&lab.name.value)?;
    let client = context.client(&lab.name.value, &kubeconfig)?;
    let found = context.block_on(live_objects(&client))?;
    let baseline = Baseline::read(&context.home.lab(&lab.name.value))?;
    let changes = baseline.differences(&*Twin::of(lab).after(steps)?, &found, lab);
    if context.ui.format() == Format::Json {
        context.ui.result(&Summary::document(&changes, lab, steps).to_string());
        return Ok(());
    }
    context.ui.say(&Summary::heading(&changes, lab, steps));
    if changes.is_empty() {
        return Ok(());
    }
    context.ui.result(Summary::text(&changes, lab, steps).trim_end());
    let name = &lab.name;
    context.ui.advise(&format!("`klab reset {name}` brings all of it back to the set-up, or to a step with `--to`"));
    Ok(())
}
