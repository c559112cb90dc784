//! `klab guide`: the lesson in the terminal: what the step is about, what to type, how to have it checked.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::Context;
use super::lesson::{Lesson, WhichLesson, azure, find, lines, note_before, only_typed, step_document, title};
use crate::error::Result;
use crate::lesson::command::Line;
use crate::provider::AzureNames;
use crate::state::Progress;
use crate::ui::Format;
use klab_lab::report::markdown;
use klab_lab::spec::{Lab, SkippedStep};
use klab_lab::verify::Before;
use klab_lab::words::table;

/// What can be typed after `klab guide`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Show this step; the one that is next by default.
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
}

/// Prints the text of a step, or of the whole lesson where it has not begun.
///
/// # Errors
/// When the lab is not up, or has no such step.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
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
        Some(step) => step_text(&lesson.lab, step, &azure(context, &lesson.lab), page),
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

/// What a guide is written on.
#[derive(Clone, Copy)]
pub(super) struct Page {
    /// Columns.
    pub(super) width: usize,
    pub(super) colours: bool,
}

/// The number (from 0) of the step that a guide shows a learner who has come so far; none: what the lesson is about.
pub(super) fn shown(lab: &Lab, progress: &Progress) -> Option<usize> {
    progress.next(lab.steps.len()).filter(|next| *next > 0 || progress.started)
}

/// What a guide says to a learner who has come so far.
pub(super) fn text(lab: &Lab, progress: &Progress, azure: &AzureNames, page: Page) -> String {
    match shown(lab, progress) {
        Some(step) => step_text(lab, step, azure, page),
        None => intro(lab, progress, page),
    }
}

/// Notes what there is before the step that is shown, where nobody has yet. A guide is read also where no cluster answers.
fn note_if_unknown(context: &Context, lesson: &mut Lesson) {
    let Lesson { lab, progress, .. } = lesson;
    let step = lab.steps.get(progress.done).filter(|step| Before::is_asked_for(&step.checks));
    let Some(_) = step.filter(|step| !progress.before.contains_key(&step.name.value)) else { return };
    let name = &lab.name.value;
    let client = context.kubeconfig(name).and_then(|kubeconfig| context.client(name, &kubeconfig));
    let noted = client.and_then(|client| note_before(context, lab, progress, &client));
    if let Err(error) = noted {
        context.ui.events().warn(format!("the pods of before the step could not be noted: {error}"));
    }
}

fn document(context: &Context, lesson: &Lesson, step: Option<usize>) -> serde_json::Value {
    let lab = &lesson.lab;
    let azure = azure(context, lab);
    let left_out = |skipped: &SkippedStep| json!({ "name": skipped.step.name.value, "reason": skipped.reason.value, "before": skipped.position + 1 });
    let steps: Vec<_> = (0..lab.steps.len()).map(|step| step_document(lab, step, &azure)).collect();
    json!({
        "schema": "klab.guide/1", "lab": lab.name.value, "title": lab.title, "description": lab.description,
        "lesson": lesson.document(), "shown": step.and_then(|step| lab.steps.get(step)).map(|step| &step.name.value),
        "steps": steps, "skipped": lab.skipped_steps.iter().map(left_out).collect::<Vec<_>>(),
    })
}

/// A heading that stands out in a terminal and reads well in a file.
fn heading(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}\n")
}

fn body(page: Page, text: Option<&str>) -> String {
    text.map_or(String::new(), |text| format!("\n{}", markdown(text, page.width, page.colours)))
}

/// What the lab is about, and its steps.
fn intro(lab: &Lab, progress: &Progress, page: Page) -> String {
    let mut text = heading(lab.title.as_deref().unwrap_or(&lab.name.value));
    text.push_str(&body(page, lab.description.as_deref()));
    if lab.steps.is_empty() {
        text.push_str("\nThis lab has no steps.\n");
        return text;
    }
    text.push_str("\nThe steps:\n\n");
    let mut rows = Vec::new();
    for (number, step) in lab.steps.iter().enumerate() {
        rows.extend(skipped(lab, number).map(|skipped| {
            vec!["  -  ".to_owned(), skipped.step.name.value.clone(), format!("left out: {}", skipped.reason)]
        }));
        let mark = if number < progress.done { "✓" } else { " " };
        rows.push(vec![format!("  {mark} {}", number + 1), step.name.value.clone(), title(step).to_owned()]);
    }
    text.push_str(&table(&rows));
    text.push('\n');
    if progress.next(lab.steps.len()).is_none() {
        text.push_str("All steps are done. `klab up` with the lab's file brings it back to its set-up.\n");
    } else {
        text.push_str("`klab verify` checks the set-up and opens the first step; `klab step` performs it for you.\n");
    }
    text
}

/// Steps that this provider leaves out right before a step (from 0), or after the last one.
fn skipped(lab: &Lab, before: usize) -> impl Iterator<Item = &SkippedStep> {
    lab.skipped_steps.iter().filter(move |skipped| skipped.position == before)
}

/// A line, as it is typed at the prompt and in an editor.
fn to_type(line: &Line, code: Style) -> String {
    let mut text = String::new();
    let Line::Edit(edit) = line else {
        for line in line.pasted() {
            let _ = writeln!(text, "    {code}{line}{code:#}");
        }
        return text;
    };
    let _ = writeln!(text, "    {code}{}{code:#}", edit.open);
    for (words, below) in edit.told() {
        let _ = writeln!(text, "\n{words}\n");
        for line in below {
            let _ = writeln!(text, "    {code}{line}{code:#}");
        }
    }
    text
}

fn step_text(lab: &Lab, number: usize, azure: &AzureNames, page: Page) -> String {
    let Some(step) = lab.steps.get(number) else { return String::new() };
    let code = AnsiColor::Cyan.on_default();
    let left_out: String = skipped(lab, number)
        .map(|skipped| format!("Left out on {}: {}. {}.\n\n", lab.provider, title(&skipped.step), skipped.reason))
        .collect();
    let mut text = left_out + &heading(&format!("Step {} of {}: {}", number + 1, lab.steps.len(), title(step)));
    text.push_str(&body(page, step.text.as_deref()));
    let lines = lines(lab, number, azure);
    if !lines.is_empty() {
        text.push_str("\nType:\n\n");
        for (number, line) in lines.iter().enumerate() {
            // What is written in an editor ends before the next command.
            if number > 0 && matches!(lines[number - 1], Line::Edit(_)) {
                text.push('\n');
            }
            text.push_str(&to_type(line, code));
        }
    }
    let rest = match (lines.is_empty(), step.checks.is_empty()) {
        (_, true) => "Nothing is checked after it: `klab verify` opens the next step.",
        (true, false) => "`klab verify` checks it.",
        (false, false) if only_typed(lab, number).is_some() => {
            "Then `klab verify` checks it. klab itself changes no nodes here."
        }
        (false, false) => "Then `klab verify` checks it. `klab step` does all of it for you.",
    };
    let _ = writeln!(text, "\n{rest}");
    text
}
