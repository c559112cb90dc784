//! Pure: the guide of a lesson as text: what it is about, what a step is about, what to type for it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::command::{Line, of_step as lines};
use super::look;
use super::tools::Tools;
use super::words::{only_typed, title};
use crate::state::Progress;
use klab_lab::report::markdown;
use klab_lab::spec::{Lab, SkippedStep};
use klab_lab::words::table;

/// What a guide is written on.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Columns.
    pub width: usize,
    /// Whether it shows colours.
    pub colours: bool,
}

/// The number (from 0) of the step that a guide shows a learner who has come so far; none: what the lesson is about.
pub fn shown(lab: &Lab, progress: &Progress) -> Option<usize> {
    progress.next(lab.steps.len()).filter(|next| *next > 0 || progress.started)
}

/// What a guide says to a learner who has come so far.
pub fn text(lab: &Lab, progress: &Progress, tools: &Tools, page: Page) -> String {
    match shown(lab, progress) {
        Some(step) => step_text(lab, step, tools, page),
        None => intro(lab, progress, page),
    }
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
pub fn intro(lab: &Lab, progress: &Progress, page: Page) -> String {
    let mut text = heading(lab.shown_title());
    text.push_str(&body(page, lab.description.as_deref()));
    if lab.steps.is_empty() {
        text.push_str("\nThis lab has no steps.\n");
        return text;
    }
    text.push_str("\nThe steps:\n\n");
    let mut rows = Vec::new();
    for (number, step) in lab.steps.iter().enumerate() {
        rows.extend(skipped(lab, number).map(|skipped| {
            vec!["  -  ".to_owned(), format!("{} (left out: {})", title(&skipped.step), skipped.reason)]
        }));
        let mark = if number < progress.done { "✓" } else { " " };
        rows.push(vec![format!("  {mark} {}", number.saturating_add(1)), title(step).to_owned()]);
    }
    text.push_str(&table(&rows));
    text.push('\n');
    if progress.next(lab.steps.len()).is_none() {
        text.push_str("All steps are done. `klab lessons` lists more lessons; `klab up` with the lab's file begins this one again.\n");
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
    for (words, below) in edit.instructions() {
        let _ = writeln!(text, "\n{words}\n");
        for line in below {
            let _ = writeln!(text, "    {code}{line}{code:#}");
        }
    }
    text
}

/// What a step (from 0) is about, and what to type for it.
pub fn step_text(lab: &Lab, number: usize, tools: &Tools, page: Page) -> String {
    let Some(step) = lab.steps.get(number) else { return String::new() };
    let code = AnsiColor::Cyan.on_default();
    let left_out: String = skipped(lab, number)
        .map(|skipped| format!("Left out on {}: {}. {}.\n\n", lab.provider, title(&skipped.step), skipped.reason))
        .collect();
    let mut text =
        left_out + &heading(&format!("Step {} of {}: {}", number.saturating_add(1), lab.steps.len(), title(step)));
    let lines = lines(lab, number, tools);
    let (before, looks) = match &step.text {
        Some(whole) if !lines.is_empty() => look::apart(whole),
        whole => (whole.as_deref().unwrap_or_default(), None),
    };
    text.push_str(&body(page, Some(before).filter(|before| !before.is_empty())));
    if !lines.is_empty() {
        text.push_str("\nType:\n\n");
        for (number, line) in lines.iter().enumerate() {
            // What is written in an editor ends before the next command.
            if number > 0 && matches!(lines[number.saturating_sub(1)], Line::Edit(_)) {
                text.push('\n');
            }
            text.push_str(&to_type(line, code));
        }
    }
    if let Some(looks) = looks {
        text.push_str("\nThen look:\n");
        text.push_str(&body(page, Some(looks)));
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
