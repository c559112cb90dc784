//! `klab guide`: the lesson in the terminal: what the step is about, what to type, how to have it checked.

use serde_json::json;

use super::lesson::{Lesson, WhichLesson, find, note_before, step_document, tools};
use super::{Context, joined};
use klab_lab::spec::SkippedStep;
use klab_lab::verify::Before;
use klab_operations::error::{Code, Result};
pub(super) use klab_operations::lesson::text::{Page, shown, text};
use klab_operations::lesson::text::{intro, step_text};
use klab_operations::ui::Format;

/// What can be typed after `klab guide`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Show this step, by name or number; the next one by default.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

/// Prints the text of a step, or of the whole lesson where it has not begun.
///
/// # Errors
/// When the lab is not up, or has no such step.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        return joined::guide(context, &joined, arguments.step.as_deref());
    }
    let mut lesson = Lesson::open(context, &arguments.which)?;
    let step = match &arguments.step {
        Some(name) => Some(find(&lesson.lab, name)?),
        None => shown(&lesson.lab, &lesson.progress),
    };
    if context.ui.format() == Format::Json {
        context.ui.result(&document(context, &lesson, step).to_string());
        return Ok(());
    }
    let page = Page { width: context.ui.width(), colours: context.ui.colours() };
    let text = match step {
        Some(step) => step_text(&lesson.lab, step, &tools(context, &lesson.lab), page),
        None => intro(&lesson.lab, &lesson.progress, page),
    };
    // Noted first: a pager that is left early, or `head`, ends klab while it writes.
    if arguments.step.is_none() && step.is_some() && !lesson.progress.opened {
        lesson.progress.opened = true;
        note_if_unknown(context, &mut lesson);
        lesson.keep_if_free("guide")?;
    }
    context.ui.result(&text);
    Ok(())
}

/// Notes the pods before the step that is shown, unless they are noted already. A guide is read also where no cluster answers.
fn note_if_unknown(context: &Context, lesson: &mut Lesson) {
    let Lesson { lab, progress, .. } = lesson;
    let step = lab.steps.get(progress.done).filter(|step| Before::is_asked_for(&step.checks));
    let Some(_) = step.filter(|step| !progress.before.contains_key(&step.name.value)) else { return };
    let name = &lab.name.value;
    let client = context.kubeconfig(name).and_then(|kubeconfig| context.client(name, &kubeconfig));
    let noted = client.and_then(|client| note_before(context, lab, progress, &client));
    if let Err(error) = noted {
        context
            .ui
            .events()
            .warn(Code::BeforeUnknown, format!("the pods of before the step could not be noted: {error}"));
    }
}

fn document(context: &Context, lesson: &Lesson, step: Option<usize>) -> serde_json::Value {
    let lab = &lesson.lab;
    let tools = tools(context, lab);
    let left_out = |skipped: &SkippedStep| json!({ "name": skipped.step.name.value, "reason": skipped.reason.value, "before": skipped.position + 1 });
    let steps: Vec<_> = (0..lab.steps.len()).map(|step| step_document(lab, step, &tools)).collect();
    json!({
        "schema": "klab.guide/1", "lab": lab.name.value, "title": lab.title, "description": lab.description,
        "lesson": lesson.document(), "shown": step.and_then(|step| lab.steps.get(step)).map(|step| &step.name.value),
        "steps": steps, "skipped": lab.skipped_steps.iter().map(left_out).collect::<Vec<_>>(),
    })
}
