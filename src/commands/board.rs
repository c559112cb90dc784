//! `klab board`: the lab as a page that lives, as a file, or as a picture for slides and a document for programs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::Client;

use super::Context;
use super::lesson::{Lesson, WhichLesson, azure};
use crate::board::{Feed, Frame, Server, Shown, saved};
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::Verb;
use crate::exec::Command;
use crate::grade::hinted;
use crate::lesson::staged;
use crate::observe;
use crate::ui::Format;
use klab_cluster::server::files::write_private;
use klab_lab::board::{self, Board, escaped};
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Report, Snapshot};

/// What can be typed after `klab board`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Write the page as it is now into this file, in place of serving it.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["port", "no_open"])]
    save: Option<PathBuf>,
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
    let lesson = Lesson::open(context, &arguments.which)?;
    let draw: Option<fn(&Board) -> Result<String>> = match context.ui.format() {
        Format::Svg => Some(|board| Ok(board::svg(board))),
        Format::Mermaid => Some(|board| Ok(board::mermaid(board))),
        Format::Json => Some(|board| Ok(serde_json::to_string(board).map_err(anyhow::Error::from)?)),
        _ => None,
    };
    let name = lesson.lab.name.value.clone();
    let outcome = match (draw, &arguments.save) {
        (Some(_), Some(_)) => Err(Error::message(Kind::Usage, "a saved page is HTML")
            .hint("leave out `--format`, or write standard output into the file")),
        (Some(draw), None) => draw_once(context, &lesson, draw),
        (None, Some(file)) => save(context, lesson, file),
        (None, None) => serve(context, lesson, arguments),
    };
    outcome.map_err(|error| context.why_unreachable(&name, error))
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

/// The boards of a lesson's lab.
fn feed(context: &Context, lesson: Lesson) -> Result<Feed> {
    let name = &lesson.lab.name.value;
    let client = context.client(name, &context.kubeconfig(name)?)?;
    // Watches run where they were begun.
    let _entered = context.runtime()?.enter();
    Feed::new(&client, lesson.lab, lesson.folder)
}

fn save(context: &Context, lesson: Lesson, file: &Path) -> Result<()> {
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
    save(context, Lesson::open(context, which)?, file)
}

async fn look(client: &Client, lab: &Lab) -> Result<Snapshot> {
    let mut snapshot = observe::look_at_all(client).await?;
    observe::fetch(client, &lab.checks, &mut snapshot).await?;
    Ok(snapshot)
}

fn write_page(context: &Context, file: &Path, written: &Lab, frame: Frame) -> Result<()> {
    let page = saved(&frame, written, &azure(context, written))?;
    write(context, file, &page)
}

/// Writes a page into a file that the user named.
///
/// # Errors
/// When the file system refuses.
pub(super) fn write(context: &Context, file: &Path, page: &str) -> Result<()> {
    std::fs::write(file, page).kind(Kind::Failed, || format!("could not write `{}`", file.display()))?;
    context.ui.events().note(Verb::WriteFiles, file.display().to_string());
    Ok(())
}

fn serve(context: &Context, lesson: Lesson, arguments: &Arguments) -> Result<()> {
    let (name, folder) = (lesson.lab.name.value.clone(), lesson.folder.clone());
    let azure = azure(context, &lesson.lab);
    let mut feed = feed(context, lesson)?;
    let opens = !arguments.no_open && context.ui.is_interactive();
    context.block_on(async {
        let frame = feed.next().await?;
        let server = Server::new(arguments.port, feed.lab().clone(), folder.clone(), azure, frame).await?;
        let opened = opens && open(&folder, &server.link);
        context.ui.result(&server.link);
        let words =
            if opened { "the page opens in your browser" } else { "open the page in a browser on this machine" };
        context.ui.say(&format!("{words}; the address is good once, Ctrl-C ends it"));
        let shown = std::sync::Arc::clone(&server.shown);
        tokio::select! {
            served = server.serve() => served,
            followed = follow(&mut feed, &shown) => match followed {
                // Nothing is wrong where somebody took the lab down.
                Err(_) if !folder.is_dir() => {
                    context.ui.say(&format!("lab `{name}` was taken down"));
                    Ok(())
                }
                followed => followed,
            },
        }
    })
}

/// Frames come no closer than this: what happens within it is one change.
const TOGETHER: Duration = Duration::from_millis(20);
/// How long a cluster that is silent is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Shows frames as they come, until the lab is gone.
async fn follow(feed: &mut Feed, shown: &Shown) -> Result<()> {
    loop {
        let began = Instant::now();
        match feed.next().await {
            Ok(frame) => {
                show(shown, frame).await?;
                // Who looks at a large cluster that changes all the time has a machine left for other things.
                tokio::time::sleep(TOGETHER.max(began.elapsed().min(AGAIN) / 2)).await;
            }
            Err(error) if feed.is_over() => return Err(error),
            Err(error) => {
                shown.silent(&format!("The cluster does not answer: {error}. What you see is what it was."))?;
                tokio::time::sleep(AGAIN).await;
                feed.begin_again();
            }
        }
    }
}

async fn show(shown: &Shown, frame: Frame) -> Result<()> {
    let made = shown.show(frame);
    // Who is looking gets it before the next look at the cluster.
    tokio::task::yield_now().await;
    made
}

/// Opens the user's browser; says whether there is one. The link is a secret for as long as nobody used it: the browser is told
/// a file that only the user can read, for command lines are read by everybody.
fn open(folder: &Path, link: &str) -> bool {
    let file = folder.join("board.html");
    let link = escaped(link);
    let text = format!(
        "<!doctype html><html lang=\"en\"><title>klab</title><meta http-equiv=\"refresh\" content=\"0;url={link}\">\
         <p><a href=\"{link}\">The board</a></p></html>\n"
    );
    if write_private(&file, text.as_bytes()).is_err() {
        return false;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    Command::new(program).arg(file).hand_over().is_ok()
}
