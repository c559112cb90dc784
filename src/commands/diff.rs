//! `klab diff`: what differs between the cluster and the lab at the step that the learner is at.

use serde_json::json;

use super::Context;
use super::lesson::{Lesson, WhichLesson, find, label};
use crate::changes::{Baseline, Told, Twin, live_objects};
use crate::error::Result;
use crate::provider::refuse_foreign;
use crate::ui::Format;

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
    let changes = baseline.differences(&Twin::of(lab)?.after(steps)?, &found, lab);
    let stage = match steps.checked_sub(1) {
        Some(last) => format!("after {}", label(lab, last)),
        None => "at its set-up".to_owned(),
    };
    if context.ui.format() == Format::Json {
        let documents: Vec<_> = changes.iter().map(|change| change.document(lab, steps)).collect();
        let document = json!({ "schema": "klab.diff/1", "lab": lab.name.value, "steps": steps, "changes": documents });
        context.ui.result(&document.to_string());
        return Ok(());
    }
    if changes.is_empty() {
        context.ui.say(&format!("nothing differs from lab `{}` {stage}", lab.name));
        return Ok(());
    }
    context.ui.say(&format!("differs from lab `{}` {stage}:", lab.name));
    let mut last = None;
    let mut text = String::new();
    for told in Told::all(&changes, lab, steps) {
        if last.as_ref() != Some(&told.object) {
            text.push_str(&format!("{}\n", told.object));
        }
        told.words.iter().for_each(|words| text.push_str(&format!("  {words}\n")));
        if let Some(undo) = &told.undo {
            text.push_str(&format!("    to undo:\n        {undo}\n"));
        }
        last = Some(told.object);
    }
    context.ui.result(text.trim_end());
    let name = &lab.name;
    context.ui.advise(&format!("`klab reset {name}` brings all of it back to the set-up, or to a step with `--to`"));
    Ok(())
}
