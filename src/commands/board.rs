//! `klab board`: a lab, or any cluster, as a page that lives, as a file, or as a picture for slides and a document for programs.

mod serve;

use std::path::{Path, PathBuf};

use futures::FutureExt;
use kube::Client;

use super::elsewhere::Elsewhere;
use super::lesson::{Lesson, WhichLesson, at_hand, tools};
use super::{Context, joined};
use klab_lab::board::{self, Board};
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Report, Snapshot};
use klab_operations::board::{Compare, Feed, Frame, Written, saved};
use klab_operations::changes::find_asides;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::grade::hinted;
use klab_operations::lesson::staged;
use klab_operations::observe;
use klab_operations::ui::Format;

/// What can be typed after `klab board`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Write the page as it is now into this file, in place of serving it.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["port", "no_open"])]
    save: Option<PathBuf>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// Print where the page is, and open no browser.
    #[arg(long)]
    no_open: bool,
    /// Port on 127.0.0.1; a free one by default.
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    port: u16,
}

/// Serves the page until the lab is taken down or the user ends it; or looks once at the cluster and draws it.
///
/// # Errors
/// When the lab is not up, its cluster does not answer, or nothing can be served or written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let draw: Option<fn(&Board) -> Result<String>> = match context.ui.format() {
        Format::Svg => Some(|board| Ok(board::svg(board))),
        Format::Mermaid => Some(|board| Ok(board::mermaid(board))),
        Format::Json => Some(|board| Ok(serde_json::to_string(board).map_err(anyhow::Error::from)?)),
        _ => None,
    };
    if draw.is_some() && arguments.save.is_some() {
        let error = Error::message(Code::Flags, "a saved page is HTML");
        return Err(error.hint("leave out `--format`, or write standard output into the file"));
    }
    if arguments.elsewhere.is_meant() {
        if let Some(lab) = &arguments.which.lab {
            let message = format!("`{lab}` is a lab, and `--context` means a cluster that klab did not make");
            return Err(Error::message(Code::Flags, message).hint("leave out one of them"));
        }
        return somebodys(context, arguments, draw);
    }
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        let text = joined::board(context, &joined, arguments.save.is_some())?;
        return match (&arguments.save, text) {
            (Some(file), Some(text)) => write(context, file, &text),
            (_, text) => {
                if let Some(text) = text {
                    context.ui.result(&text);
                }
                Ok(())
            }
        };
    }
    let lesson = Lesson::open(context, &arguments.which)?;
    let name = lesson.lab.name.value.clone();
    let outcome = match (draw, &arguments.save) {
        (Some(draw), _) => draw_once(context, &lesson, draw),
        (None, Some(file)) => save(context, &lesson, file),
        (None, None) => serve_lesson(context, lesson, arguments),
    };
    outcome.map_err(|error| context.why_unreachable(&name, error))
}

fn way(arguments: &Arguments) -> serve::Way {
    serve::Way { port: arguments.port, opens: !arguments.no_open }
}

fn serve_lesson(context: &Context, lesson: Lesson, arguments: &Arguments) -> Result<()> {
    let Lesson { lab, folder, .. } = lesson;
    let name = &lab.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    let (tools, compare) = (tools(context, &lab), compare(context, &lab)?);
    let seen = context.block_on(async {
        let mut feed = Feed::new(&client, lab.clone(), folder.clone())?.comparing(compare);
        let frame = feed.next().await?;
        Ok((feed, frame))
    })?;
    serve::serve(context, way(arguments), seen, Some((Written { lab, tools }, folder)))
}

/// What compares a lab with its file while its page is served.
fn compare(context: &Context, lab: &Lab) -> Result<Option<Compare>> {
    let Some(at_hand) = at_hand(context, lab)? else { return Ok(None) };
    let lab = lab.clone();
    Ok(Some(Box::new(move |client, at, holds| {
        let (lab, at_hand) = (lab.clone(), at_hand.clone());
        async move { find_asides(&client, &lab, at, holds, at_hand).await.ok() }.boxed()
    })))
}

/// A cluster that klab did not make: what is in it, without a lesson and without checks.
fn somebodys(context: &Context, arguments: &Arguments, draw: Option<fn(&Board) -> Result<String>>) -> Result<()> {
    let connection = arguments.elsewhere.connect()?;
    let name = connection.name.clone();
    let (feed, frame) = context.block_on(async {
        let (client, _) = connection.client().await?;
        let mut feed = Feed::of_cluster(&client, Some(name.clone()));
        let frame = feed.next().await.map_err(|error| {
            error.hint(format!(
                "the board reads nodes, pods and what makes them in all namespaces; `klab explain POD{}` needs less",
                arguments.elsewhere.options()
            ))
        })?;
        Ok((feed, frame))
    })?;
    match (draw, &arguments.save) {
        (Some(draw), _) => {
            context.ui.result(&draw(&frame.board)?);
            Ok(())
        }
        (None, Some(file)) => write(context, file, &saved(&frame, None)?),
        (None, None) => serve::serve(context, way(arguments), (feed, frame), None),
    }
}

fn draw_once(context: &Context, lesson: &Lesson, draw: fn(&Board) -> Result<String>) -> Result<()> {
    let lab = staged(&lesson.lab, &lesson.progress, lesson.graded());
    let name = &lab.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    let snapshot = context.block_on(async {
        let mut snapshot = observe::look(&client).await?;
        observe::fetch(&client, &lab.checks, &mut snapshot).await?;
        Ok(snapshot)
    })?;
    let around = verify::Context::of(&lab);
    let report = verify::evaluate(&lab.checks, &snapshot, &around);
    let at = board::Lesson { done: lesson.progress.done, opened: lesson.progress.is_opened() };
    context.ui.result(&draw(&Board::of(&snapshot, &around, &report, at))?);
    Ok(())
}

fn save(context: &Context, lesson: &Lesson, file: &Path) -> Result<()> {
    let lab = staged(&lesson.lab, &lesson.progress, lesson.graded());
    let hint = lesson.graded().and_then(|step| lesson.lab.steps.get(step)?.hint.as_deref());
    let name = &lab.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    let snapshot = context.block_on(look(&client, &lab))?;
    let around = verify::Context::of(&lab);
    let mut report = verify::evaluate(&lab.checks, &snapshot, &around);
    if !report.ok() {
        verify::diagnose(&mut report, &lab.checks, &snapshot, &around);
        hinted(&mut report, hint);
    }
    if let Some(at_hand) = at_hand(context, &lesson.lab)? {
        let at = (lesson.graded(), lesson.progress.done);
        let asides = context.block_on(find_asides(&client, &lesson.lab, at, report.ok(), at_hand))?;
        report.mention(asides);
    }
    write_page(context, file, &lesson.lab, Frame::of(lab.clone(), snapshot, report, lesson.progress.clone()))
}

/// Writes the page of a lab that was graded: its report, and the cluster as it is now.
///
/// # Errors
/// When the cluster does not answer, or the file cannot be written.
pub(super) fn write_report(context: &Context, file: &Path, lesson: &Lesson, stage: Lab, report: Report) -> Result<()> {
    let name = &stage.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    let snapshot = context.block_on(look(&client, &stage))?;
    write_page(context, file, &lesson.lab, Frame::of(stage, snapshot, report, lesson.progress.clone()))
}

/// Writes the page of a lab as it is now, however it got there.
///
/// # Errors
/// As [`write_report`].
pub(super) fn write_as_it_is(context: &Context, file: &Path, which: &WhichLesson) -> Result<()> {
    save(context, &Lesson::open(context, which)?, file)
}

async fn look(client: &Client, lab: &Lab) -> Result<Snapshot> {
    let mut snapshot = observe::look_at_all(client).await?;
    observe::fetch(client, &lab.checks, &mut snapshot).await?;
    Ok(snapshot)
}

fn write_page(context: &Context, file: &Path, written: &Lab, frame: Frame) -> Result<()> {
    let written = Written { lab: written.clone(), tools: tools(context, written) };
    let page = saved(&frame, Some(&written))?;
    write(context, file, &page)
}

/// Writes a page into a file that the user named.
///
/// # Errors
/// When the file system refuses.
pub(super) fn write(context: &Context, file: &Path, page: &str) -> Result<()> {
    std::fs::write(file, page).code(Code::FileUnwritten, || format!("could not write `{}`", file.display()))?;
    context.ui.events().note(Verb::WriteFiles, file.display().to_string());
    Ok(())
}
