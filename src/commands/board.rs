//! `klab board`: the lab as a picture, for slides and pages, or as a document for programs.

use super::Context;
use super::lesson::{Lesson, WhichLesson};
use crate::error::{Error, Kind, Result};
use crate::lesson::staged;
use crate::observe;
use crate::ui::Format;
use klab_lab::board::{self, Board};
use klab_lab::verify;

/// What can be typed after `klab board`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
}

/// Looks once at the cluster and prints its board.
///
/// # Errors
/// When no format is named, the lab is not up, or its cluster does not answer.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let draw: fn(&Board) -> Result<String> = match context.ui.format() {
        Format::Svg => |board| Ok(board::svg(board)),
        Format::Mermaid => |board| Ok(board::mermaid(board)),
        Format::Json => |board| Ok(serde_json::to_string(board).map_err(anyhow::Error::from)?),
        _ => {
            let error = Error::message(Kind::Usage, "`klab board` writes a picture or a document, and must know which");
            return Err(error
                .hint("`klab board --format svg > board.svg` is for slides")
                .hint("`--format mermaid` is for Markdown, `--format json` for programs"));
        }
    };
    let lesson = Lesson::open(context, &arguments.which)?;
    let lab = staged(&lesson.lab, &lesson.progress, lesson.graded());
    let name = &lab.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    let snapshot = context.block_on(async {
        let mut snapshot = observe::look(&client).await?;
        observe::fetch(&client, &lab.checks, &mut snapshot).await?;
        Ok(snapshot)
    });
    let snapshot = snapshot.map_err(|error| context.why_unreachable(name, error))?;
    let around = verify::Context::of(&lab);
    let report = verify::evaluate(&lab.checks, &snapshot, &around);
    let at = board::Lesson { done: lesson.progress.done, opened: lesson.is_opened() };
    context.ui.result(&draw(&Board::of(&snapshot, &around, &report, at))?);
    Ok(())
}
