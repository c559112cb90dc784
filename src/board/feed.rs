//! The boards of a lab as they change: its cluster is watched, and how far its lesson has come.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;

use crate::client::answered_within;
use crate::error::{Error, Kind, Result};
use crate::grade::hinted;
use crate::lesson::staged;
use crate::observe::{self, Observer};
use crate::state::Progress;
use crate::until_decided::LOOK;
use klab_lab::board::{self, Board};
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Report, Snapshot, Stability, Windows};

/// How often the learner's progress is read: other klabs move it on, and tell nobody.
const LESSON: Duration = Duration::from_millis(250);
/// How often objects are read again that no watch tells about.
const AGAIN: Duration = Duration::from_secs(2);

/// A lab at one moment.
#[derive(Clone)]
pub struct Frame {
    /// What is drawn of it.
    pub board: Arc<Board>,
    /// What its checks say, explained.
    pub report: Arc<Report>,
    /// The cluster, with all that explanations read.
    pub snapshot: Arc<Snapshot>,
    /// The lab as it is to be at this stage.
    pub stage: Arc<Lab>,
    /// How far the lesson has come.
    pub progress: Progress,
}

impl Frame {
    /// A lab looked at once, without its history: the stage is the lab as it is to be then, the report is of its checks.
    pub fn of(stage: Lab, snapshot: Snapshot, report: Report, progress: Progress) -> Self {
        let at = board::Lesson { done: progress.done, opened: progress.is_opened() };
        let board = Board::of(&snapshot, &verify::Context::of(&stage), &report, at);
        Self {
            board: Arc::new(board),
            report: Arc::new(report),
            snapshot: Arc::new(snapshot),
            stage: Arc::new(stage),
            progress,
        }
    }
}

/// A lab under observation.
pub struct Feed {
    client: Client,
    lab: Lab,
    folder: PathBuf,
    observer: Observer,
    snapshot: Option<Snapshot>,
    stage: Arc<Lab>,
    progress: Progress,
    stability: Stability,
    started: Instant,
    /// When something is to be looked at again though nothing changed.
    look_again_at: Option<Duration>,
    last: Option<Arc<Board>>,
}

impl Feed {
    /// Begins to watch a lab that is up, whose state is in `folder`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(client: &Client, lab: Lab, folder: PathBuf) -> Result<Self> {
        let progress = progress(&folder, &lab)?;
        Ok(Self {
            client: client.clone(),
            observer: Observer::new(client),
            stage: Arc::new(stage(&lab, &progress)),
            stability: Stability::new(Windows::of(lab.provider)),
            lab,
            folder,
            snapshot: None,
            progress,
            started: Instant::now(),
            look_again_at: None,
            last: None,
        })
    }

    /// The lab as it is written.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Whether the lab is there no longer.
    pub fn is_over(&self) -> bool {
        !self.folder.is_dir()
    }

    /// Begins to watch anew, after an error.
    pub fn begin_again(&mut self) {
        self.observer = Observer::new(&self.client);
        self.snapshot = None;
    }

    /// Waits until something that is shown may have changed, and shows it. At first that is at once.
    ///
    /// # Errors
    /// When the cluster does not answer, or the lab is gone.
    pub async fn next(&mut self) -> Result<Frame> {
        self.wait().await?;
        let Some(snapshot) = &mut self.snapshot else {
            return Err(Error::message(Kind::Outside, "the cluster showed nothing"));
        };
        let (client, stage) = (&self.client, &self.stage);
        let read = async {
            observe::fetch(client, &stage.checks, snapshot).await?;
            observe::complete(client, snapshot).await
        };
        answered_within(LOOK, read).await?;
        let judge = verify::Context::of(stage);
        let now = self.started.elapsed();
        let observation = self.stability.observe(&stage.checks, snapshot, &judge, now);
        let is_fetched = stage.checks.iter().any(observe::is_fetched);
        let again = is_fetched.then(|| now.saturating_add(AGAIN));
        self.look_again_at = observation.look_again_at.into_iter().chain(again).min();
        let mut report = observation.report;
        if !report.ok() {
            verify::diagnose(&mut report, &stage.checks, snapshot, &judge);
            let step = self.progress.graded(self.lab.steps.len()).and_then(|step| self.lab.steps.get(step));
            hinted(&mut report, step.and_then(|step| step.hint.as_deref()));
        }
        let at = board::Lesson { done: self.progress.done, opened: self.progress.is_opened() };
        let board = Board::of(snapshot, &judge, &report, at);
        let board = Arc::new(match &self.last {
            Some(last) => board.after(last),
            None => board,
        });
        self.last = Some(Arc::clone(&board));
        Ok(Frame {
            board,
            report: Arc::new(report),
            snapshot: Arc::new(snapshot.clone()),
            stage: Arc::clone(&self.stage),
            progress: self.progress.clone(),
        })
    }

    /// Waits for a change of the cluster or of the lesson, or for the time at which one of the verdicts changes by itself.
    async fn wait(&mut self) -> Result<()> {
        if self.snapshot.is_none() {
            self.snapshot = Some(answered_within(LOOK, self.observer.next()).await?);
            return Ok(());
        }
        loop {
            let left = self.look_again_at.map(|at| at.saturating_sub(self.started.elapsed()));
            let pause = left.map_or(LESSON, |left| left.min(LESSON));
            match tokio::time::timeout(pause, self.observer.next()).await {
                Ok(news) => {
                    self.snapshot = Some(news?);
                    // What other klabs did to the lesson often comes with a change.
                    self.follow_lesson()?;
                    return Ok(());
                }
                Err(_) if self.follow_lesson()? => return Ok(()),
                Err(_) if self.observer.is_cut_off() => {
                    return Err(Error::message(Kind::Outside, "the cluster does not answer"));
                }
                Err(_) if self.look_again_at.is_some_and(|at| at <= self.started.elapsed()) => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// Takes in how far the lesson has come; says whether that is news.
    fn follow_lesson(&mut self) -> Result<bool> {
        if self.is_over() {
            let message = format!("lab `{}` was taken down", self.lab.name);
            return Err(Error::message(Kind::Outside, message));
        }
        let progress = progress(&self.folder, &self.lab)?;
        if progress == self.progress {
            return Ok(false);
        }
        self.stage = Arc::new(stage(&self.lab, &progress));
        self.progress = progress;
        // Other checks have another history.
        self.stability = Stability::new(Windows::of(self.lab.provider));
        Ok(true)
    }
}

fn progress(folder: &std::path::Path, lab: &Lab) -> Result<Progress> {
    let mut progress = Progress::read(folder)?;
    // The file may have lost steps since.
    progress.done = progress.done.min(lab.steps.len());
    Ok(progress)
}

/// The lab at the stage that is graded. Nobody is late who looks on.
fn stage(lab: &Lab, progress: &Progress) -> Lab {
    let mut stage = staged(lab, progress, progress.graded(lab.steps.len()));
    for check in &mut stage.checks {
        check.within = None;
    }
    stage
}
