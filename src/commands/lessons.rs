//! `klab lessons`: the lessons that come with klab, as a list or as files.

use std::path::PathBuf;

use serde_json::json;

use super::Context;
use klab_lab::words::{plural, table};
use klab_operations::bundled_lessons;
use klab_operations::error::Result;
use klab_operations::event::Verb;
use klab_operations::ui::Format;

/// What can be typed after `klab lessons`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the lessons into this folder, with the files they need, to read or to change them.
    #[arg(long, value_name = "DIR")]
    copy: Option<PathBuf>,
}

/// Prints a line for each lesson, or writes them out.
///
/// # Errors
/// When they cannot be written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if let Some(folder) = &arguments.copy {
        let written = bundled_lessons::copy(folder)?;
        if context.ui.format() == Format::Json {
            context.ui.result(&json!({ "schema": "klab.lessons/1", "written": written }).to_string());
        }
        let what = format!("{} to `{}`", plural(written.len(), "file"), folder.display());
        context.ui.events().counting(written.len()).note(Verb::WriteFiles, what);
        return Ok(());
    }
    let lessons = bundled_lessons::all();
    if context.ui.format() == Format::Json {
        let lessons: Vec<_> = lessons
            .iter()
            .map(|lesson| json!({ "name": lesson.name, "title": lesson.title, "steps": lesson.steps }))
            .collect();
        context.ui.result(&json!({ "schema": "klab.lessons/1", "lessons": lessons }).to_string());
        return Ok(());
    }
    let mut rows = vec![["LESSON", "STEPS", "TITLE"].map(str::to_owned).to_vec()];
    for lesson in lessons {
        rows.push(vec![lesson.name.to_owned(), lesson.steps.to_string(), lesson.title]);
    }
    context.ui.result(&table(&rows));
    context.ui.advise("`klab up scheduling` makes one; then `klab guide` shows what to do");
    Ok(())
}
