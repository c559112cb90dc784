//! The page that lives: served while the cluster is watched, and opened in the user's browser.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Context;
use klab_lab::board::escaped;
use klab_operations::board::{Feed, Frame, Server, Shown, Written};
use klab_operations::error::Result;
use klab_operations::exec::Command;
use klab_server::files::write_private;

/// How the page is served.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// `0` for a port that is free.
    pub(super) port: u16,
    /// Whether the browser is opened.
    pub(super) opens: bool,
}

/// Serves the page, from its first frame on, until the lab is taken down or the user ends it.
///
/// # Errors
/// When nothing can be served.
pub(super) fn serve(
    context: &Context,
    way: Way,
    (mut feed, frame): (Feed, Frame),
    lesson: Option<(Written, PathBuf)>,
) -> Result<()> {
    let opens = way.opens && context.ui.is_interactive();
    context.block_on(async {
        let folder = lesson.as_ref().map_or_else(|| context.home.root().to_owned(), |(_, folder)| folder.clone());
        let server = Server::new(way.port, lesson, feed.past().await, frame).await?;
        let opened = opens && open(&folder, &server.link);
        context.ui.result(&server.link);
        let words = if opened {
            "your browser opens it; where none does, open the address: it is good once"
        } else {
            "open the address in a browser on this machine: it is good once"
        };
        context.ui.say(&format!("{words}. Ctrl-C ends the page."));
        let shown = std::sync::Arc::clone(&server.shown);
        tokio::select! {
            served = server.serve() => served?,
            followed = follow(&mut feed, &shown) => followed?,
        }
        // Nothing is wrong where somebody took the lab down.
        if let Some(lab) = feed.lab() {
            context.ui.say(&format!("lab `{}` was taken down", lab.name));
        }
        Ok(())
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
            Err(_) if feed.is_over() => return Ok(()),
            Err(error) => {
                shown.silent(&format!("The cluster does not answer: {error}. What you see is what it was."));
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

/// Opens the user's browser; says whether there is one. The link is a secret until its first use: the browser gets a file that
/// only the user can read, because any process can read command lines.
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
