//! A thread that looks at what is on the screen and tells what it sees, until it is dropped.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};

use super::super::Context;
use super::super::lesson::Lesson;
use super::super::seats::{self, Workshop, hosted};
use super::news::News;
use klab_lab::spec::Lab;
use klab_operations::board::Feed;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::state::class::Class;
use klab_operations::until_decided::LOOK;

/// The pause before a cluster that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause between two looks at a class.
const CLASS: Duration = Duration::from_secs(2);
/// Deep trees of JSON in unoptimized builds take more than a thread gets by default.
const STACK: usize = 8 << 20;

/// A thread that looks; it ends soon after this is dropped.
pub(super) struct Feeder {
    /// What it tells bears this number.
    pub(super) number: u64,
    _stop: oneshot::Sender<()>,
}

impl Feeder {
    /// Tells how a lab is whenever that changes.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn of_lab(context: &Context, lesson: &Lesson, tell: Sender<News>) -> Result<Self> {
        let own = Workshop::new(context).context();
        let (lab, folder) = (lesson.lab.clone(), lesson.folder.clone());
        Self::begin(move |number, stop| {
            while let Err(error) = follow(&own, &lab, &folder, &tell, (number, stop)) {
                let news = if folder.is_dir() {
                    News::Trouble(number, format!("asking again: {error}"))
                } else {
                    News::Gone(number, taken_down(&lab.name))
                };
                let is_over = matches!(news, News::Gone(..));
                if tell.send(news).is_err() || is_over || rested(&own, PAUSE, stop) {
                    return;
                }
            }
        })
    }

    /// Tells how the seats of a class are, again and again.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn of_class(context: &Context, name: &str, tell: Sender<News>) -> Result<Self> {
        let (workshop, own, name) = (Workshop::new(context), Workshop::new(context).context(), name.to_owned());
        Self::begin(move |number, stop| {
            loop {
                let looks = Class::of(&own.home, &name).and_then(|class| seats::looks(&workshop, &class));
                let news = match looks {
                    Ok(looks) => News::Seats(number, looks),
                    Err(_) => News::Gone(number, taken_down(&name)),
                };
                let is_over = matches!(news, News::Gone(..));
                if tell.send(news).is_err() || is_over || rested(&own, CLASS, stop) {
                    return;
                }
            }
        })
    }

    /// Tells how the seats of a class are that this machine hosts, again and again.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn of_hosted(context: &Context, name: &str, tell: Sender<News>) -> Result<Self> {
        let (own, name) = (Workshop::new(context).context(), name.to_owned());
        Self::begin(move |number, stop| {
            loop {
                let (news, is_over) = match hosted::seats(&own, &name) {
                    Ok(seats) => (News::Seats(number, seats), false),
                    Err(error) => (News::Gone(number, error), true),
                };
                if tell.send(news).is_err() || is_over || rested(&own, CLASS, stop) {
                    return;
                }
            }
        })
    }

    fn begin(work: impl FnOnce(u64, &mut Receiver<()>) + Send + 'static) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (stop, mut stopped) = oneshot::channel();
        let builder = std::thread::Builder::new().name("feeder".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || work(number, &mut stopped));
        thread.code(Code::MachineRefused, || "could not start a thread".to_owned())?;
        Ok(Self { number, _stop: stop })
    }
}

fn taken_down(lab: &str) -> Error {
    Error::message(Code::ClusterGone, format!("lab `{lab}` was taken down"))
        .hint("`klab up` with its lab file makes it again; `klab list` shows what is up")
}

/// Sends every change of a lab until the receiver is gone.
fn follow(
    context: &Context,
    lab: &Lab,
    folder: &Path,
    tell: &Sender<News>,
    (number, stop): (u64, &mut Receiver<()>),
) -> Result<()> {
    let name = &lab.name.value;
    let kubeconfig = context.kubeconfig(name)?;
    let client = context.client_within(name, &kubeconfig, LOOK)?;
    context.block_on(async {
        let mut feed = Feed::new(&client, lab.clone(), folder.to_owned())?;
        // It goes on where it was: a look that is broken off would be lost.
        let looking = async {
            loop {
                let frame = feed.next().await?;
                if tell.send(News::Frame(number, Box::new(frame))).is_err() {
                    return Ok(());
                }
            }
        };
        tokio::pin!(looking);
        let written = written_at(folder);
        loop {
            tokio::select! {
                over = &mut looking => return over,
                _ = &mut *stop => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {
                    // While it is taken down there is none.
                    if written_at(folder).is_some_and(|now| Some(now) != written) {
                        let _ = tell.send(News::Again(number));
                        return Ok(());
                    }
                }
            }
        }
    })
}

/// When the lab was last brought up.
fn written_at(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder.join("lab.toml")).and_then(|file| file.modified()).ok()
}

/// Waits; says whether to stop.
fn rested(context: &Context, pause: Duration, stop: &mut Receiver<()>) -> bool {
    if stop.try_recv() != Err(TryRecvError::Empty) {
        return true;
    }
    let rest = async { Ok(tokio::time::timeout(pause, stop).await.is_ok()) };
    context.block_on(rest).unwrap_or(true)
}
