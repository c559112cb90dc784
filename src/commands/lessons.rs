//! `klab lessons`: the lessons that come with klab, as a list or as files.

use std::path::PathBuf;

use serde_json::json;

use super::Context;
use klab_lab::spec::{Catalogue, Track};
use klab_lab::words::{plural, table};
use klab_operations::bundled_lessons::{self, ShippedLesson};
use klab_operations::error::Result;
use klab_operations::event::Verb;
use klab_operations::ui::Format;

/// What can be typed after `klab lessons`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the lessons into this folder, with the files they need, to read or to change them.
    #[arg(long, value_name = "DIR")]
    copy: Option<PathBuf>,
    /// List only lessons of this track: scheduling, cka, aks or operators.
    #[arg(long, conflicts_with = "copy")]
    track: Option<Track>,
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
    let is_meant =
        |lesson: &ShippedLesson| arguments.track.is_none_or(|track| lesson.catalogue.tracks.contains(&track));
    let (mut lessons, mut tasks) = (bundled_lessons::all(), bundled_lessons::tasks());
    lessons.retain(is_meant);
    tasks.retain(is_meant);
    if context.ui.format() == Format::Json {
        let document = |lesson: &ShippedLesson| {
            let Catalogue { tracks, topics, minutes } = &lesson.catalogue;
            json!({ "name": lesson.name, "title": lesson.title, "steps": lesson.steps, "tracks": tracks, "topics": topics, "minutes": minutes })
        };
        let [lessons, tasks] = [lessons, tasks].map(|all| all.iter().map(document).collect::<Vec<_>>());
        context.ui.result(&json!({ "schema": "klab.lessons/1", "lessons": lessons, "tasks": tasks }).to_string());
        return Ok(());
    }
    let mut rows = vec![["LESSON", "STEPS", "MINUTES", "TRACKS", "TITLE"].map(str::to_owned).to_vec()];
    for lesson in lessons {
        let Catalogue { tracks, minutes, .. } = &lesson.catalogue;
        let tracks: Vec<String> = tracks.iter().map(ToString::to_string).collect();
        let minutes = minutes.map(|minutes| minutes.to_string()).unwrap_or_default();
        rows.push(vec![lesson.name.to_owned(), lesson.steps.to_string(), minutes, tracks.join(", "), lesson.title]);
    }
    context.ui.result(&table(&rows));
    let (flag, tasks) =
        (arguments.track.map_or(String::new(), |track| format!(" --track {track}")), plural(tasks.len(), "task"));
    context.ui.advise(&format!("`klab practice{flag}` draws from {tasks}, against the clock"));
    context.ui.advise("`klab up scheduling` makes one; then `klab guide` shows what to do");
    Ok(())
}
