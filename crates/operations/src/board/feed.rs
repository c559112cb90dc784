//! The boards of a lab as they change: its cluster is watched, and how far its lesson has come.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use kube::Client;

use crate::client::answered_within;
use crate::error::{Code, Error, Result};
use crate::grade::hinted;
use crate::lesson::staged;
use crate::observe::{self, Observer};
use crate::pool::ChangedPools;
use crate::pool::staged::with_kept;
use crate::state::Progress;
use crate::until_decided::LOOK;
use klab_lab::board::{self, Board};
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Asides, KnownAsides, Report, Snapshot, Stability, Windows};

/// How often the learner's progress is read: other klabs move it on without a message.
const LESSON: Duration = Duration::from_millis(250);
/// Most moments of the past.
const MOMENTS: usize = 500;
/// How often objects are read again that no watch tells about, and how long a cluster that never rests is not compared with its
/// lab.
const AGAIN: Duration = Duration::from_secs(2);

/// Compares a cluster with its lab: at the step that is graded (from 0), with this many done, and whether all checks hold. None where
/// the cluster does not answer.
pub type Compare = Box<dyn Fn(Client, (Option<usize>, usize), bool) -> BoxFuture<'static, Option<Asides>> + Send>;

/// A lab at one moment.
#[derive(Clone)]
pub struct Frame {
    /// What is drawn of it.
    pub board: Arc<Board>,
    /// What its checks say, explained.
    pub report: Arc<Report>,
    /// The cluster, with all that explanations read.
    pub snapshot: Arc<Snapshot>,
    /// The lab at this stage; none of a cluster that no lab describes.
    pub stage: Option<Arc<Lab>>,
    /// How far the lesson has come.
    pub progress: Progress,
}

impl Frame {
    /// A lab looked at once, without its history: the lab at its stage, and a report of its checks.
    pub fn of(stage: Lab, snapshot: Snapshot, report: Report, progress: Progress) -> Self {
        let at = board::Lesson { done: progress.done, opened: progress.is_opened() };
        let board = Board::of(&snapshot, &verify::Context::of(&stage), &report, at);
        Self {
            board: Arc::new(board),
            report: Arc::new(report),
            snapshot: Arc::new(snapshot),
            stage: Some(Arc::new(stage)),
            progress,
        }
    }

    /// What explanations know of the cluster besides what is in it.
    pub fn around(&self) -> verify::Context<'_> {
        self.stage.as_deref().map(verify::Context::of).unwrap_or_default()
    }
}

/// A lab, or a cluster that no lab describes, under observation.
pub struct Feed {
    client: Client,
    observer: Observer,
    snapshot: Option<Snapshot>,
    lesson: Option<Followed>,
    /// What a cluster without a lab is called.
    title: Option<String>,
    started: Instant,
    /// When something is to be looked at again though nothing changed.
    look_again_at: Option<Duration>,
    last: Option<Arc<Board>>,
}

/// A lab, and how far its lesson has come.
struct Followed {
    lab: Lab,
    folder: PathBuf,
    stage: Arc<Lab>,
    progress: Progress,
    /// Pools that were changed by hand.
    kept: ChangedPools,
    stability: Stability,
    /// What compares it, if that is wished.
    compare: Option<Compare>,
    /// Since when it has not been compared.
    uncompared: Option<Instant>,
    /// What differs from the lab at a step, as it was last compared.
    asides: KnownAsides,
    /// Whether all checks held at the last look.
    is_well: bool,
}

impl Feed {
    /// Begins to watch a lab that is up, whose state is in `folder`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(client: &Client, lab: Lab, folder: PathBuf) -> Result<Self> {
        let progress = Progress::of(&folder, lab.steps.len())?;
        let kept = ChangedPools::read(&folder)?;
        let stage = Arc::new(stage(&lab, &progress, &kept));
        let stability = Stability::new(Windows::of(lab.provider));
        Ok(Self {
            lesson: Some(Followed {
                lab,
                folder,
                stage,
                progress,
                kept,
                stability,
                compare: None,
                uncompared: None,
                asides: KnownAsides::default(),
                is_well: true,
            }),
            ..Self::of_cluster(client, None)
        })
    }

    /// Compares the lab with its file, too: whenever its cluster rests, so that what is shown does not wait for it.
    pub fn comparing(mut self, compare: Option<Compare>) -> Self {
        if let Some(lesson) = &mut self.lesson {
            lesson.compare = compare;
        }
        self
    }

    /// Begins to watch a cluster that no lab describes, under a title.
    pub fn of_cluster(client: &Client, title: Option<String>) -> Self {
        Self {
            client: client.clone(),
            observer: Observer::new(client),
            snapshot: None,
            lesson: None,
            title,
            started: Instant::now(),
            look_again_at: None,
            last: None,
        }
    }

    /// The lab as it is written.
    pub fn lab(&self) -> Option<&Lab> {
        self.lesson.as_ref().map(|lesson| &lesson.lab)
    }

    /// The cluster as it was before anybody looked, the oldest moment first, where it remembers that: an embedded one does. The
    /// checks of today say nothing of it.
    pub async fn past(&self) -> Vec<Frame> {
        let Some(lesson) = self.lesson.as_ref().filter(|lesson| lesson.lab.provider.profile().is_embedded) else {
            return Vec::new();
        };
        let snapshots = observe::history(&self.client, MOMENTS).await;
        // Of a large cluster few moments are as much as many of a small one.
        let nodes = snapshots.last().map_or(1, |last| last.nodes.len().max(1));
        let first = snapshots.len().saturating_sub(MOMENTS.saturating_mul(20) / nodes);
        let stage = Lab { checks: Vec::new(), ..Lab::clone(&lesson.stage) };
        let report = verify::evaluate(&[], &Snapshot::default(), &verify::Context::of(&stage));
        let mut frames: Vec<Frame> = Vec::new();
        for snapshot in snapshots.into_iter().skip(first) {
            let mut frame = Frame::of(stage.clone(), snapshot, report.clone(), lesson.progress.clone());
            if let Some(last) = frames.last() {
                frame.board = Arc::new(Board::clone(&frame.board).after(&last.board));
            }
            frames.push(frame);
        }
        frames
    }

    /// Whether the lab is there no longer.
    pub fn is_over(&self) -> bool {
        self.lesson.as_ref().is_some_and(|lesson| !lesson.folder.is_dir())
    }

    /// Restarts the watch after an error.
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
            return Err(Error::message(Code::NoAnswer, "the cluster showed nothing"));
        };
        let (client, lesson) = (&self.client, &mut self.lesson);
        let checks = lesson.as_ref().map_or(&[][..], |lesson| &lesson.stage.checks);
        let read = async {
            observe::fetch(client, checks, snapshot).await?;
            observe::complete(client, snapshot).await
        };
        answered_within(LOOK, read).await?;
        let (report, again) = match lesson {
            Some(lesson) => {
                let (mut report, again) = lesson.judge(snapshot, self.started.elapsed());
                lesson.uncompared.get_or_insert_with(Instant::now);
                lesson.is_well = report.ok();
                report.mention(lesson.asides.at(lesson.graded()));
                (report, again)
            }
            None => (verify::evaluate(&[], snapshot, &verify::Context::default()), None),
        };
        self.look_again_at = again;
        let progress = lesson.as_ref().map(|lesson| lesson.progress.clone()).unwrap_or_default();
        let at = board::Lesson { done: progress.done, opened: progress.is_opened() };
        let stage = lesson.as_ref().map(|lesson| Arc::clone(&lesson.stage));
        let around = stage.as_deref().map(verify::Context::of).unwrap_or_default();
        let mut board = Board::of(snapshot, &around, &report, at);
        if lesson.is_none() {
            board.title.clone_from(&self.title);
        }
        let board = Arc::new(match &self.last {
            Some(last) => board.after(last),
            None => board,
        });
        self.last = Some(Arc::clone(&board));
        Ok(Frame { board, report: Arc::new(report), snapshot: Arc::new(snapshot.clone()), stage, progress })
    }

    /// Waits for a change of the cluster or of the lesson, or for the time at which one of the verdicts changes by itself.
    async fn wait(&mut self) -> Result<()> {
        if self.snapshot.is_none() {
            self.snapshot = Some(answered_within(LOOK, self.observer.next()).await?);
            return Ok(());
        }
        loop {
            let never_rests = |lesson: &Followed| lesson.uncompared.is_some_and(|since| since.elapsed() > AGAIN);
            if self.lesson.as_ref().is_some_and(never_rests) && self.compare().await {
                return Ok(());
            }
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
                    return Err(Error::message(Code::NoAnswer, "the cluster does not answer"));
                }
                Err(_) if self.compare().await => return Ok(()),
                Err(_) if self.look_again_at.is_some_and(|at| at <= self.started.elapsed()) => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// Compares the cluster with its lab, if it has changed since it last was; says whether there is news.
    async fn compare(&mut self) -> bool {
        match &mut self.lesson {
            Some(lesson) => lesson.compare(&self.client).await,
            None => false,
        }
    }

    /// Takes in how far the lesson has come; says whether that is news.
    fn follow_lesson(&mut self) -> Result<bool> {
        self.lesson.as_mut().map_or(Ok(false), Followed::follow)
    }
}

impl Followed {
    /// What the checks say of a snapshot at a time since the watching began, and when to look again though nothing changes.
    fn judge(&mut self, snapshot: &Snapshot, now: Duration) -> (Report, Option<Duration>) {
        let checks = &self.stage.checks;
        let judge = verify::Context::of(&self.stage);
        let observation = self.stability.observe(checks, snapshot, &judge, now);
        let again = observe::is_to_be_fetched(checks, snapshot).then(|| now.saturating_add(AGAIN));
        let again = observation.look_again_at.into_iter().chain(again).min();
        let mut report = observation.report;
        if !report.ok() {
            verify::diagnose(&mut report, checks, snapshot, &judge);
            let step = self.progress.graded(self.lab.steps.len()).and_then(|step| self.lab.steps.get(step));
            hinted(&mut report, step.and_then(|step| step.hint.as_deref()));
        }
        (report, again)
    }

    /// The step that is graded.
    fn graded(&self) -> Option<usize> {
        self.progress.graded(self.lab.steps.len())
    }

    /// As [`Feed::compare`].
    async fn compare(&mut self, client: &Client) -> bool {
        if self.uncompared.take().is_none() {
            return false;
        }
        let Some(compare) = &self.compare else { return false };
        let (step, done) = (self.graded(), self.progress.done);
        // Where the cluster is watched, klab says that it does not answer.
        let found = tokio::time::timeout(LOOK, compare(client.clone(), (step, done), self.is_well)).await;
        let Ok(Some(found)) = found else { return false };
        self.asides.take(step, found)
    }

    /// As [`Feed::follow_lesson`].
    fn follow(&mut self) -> Result<bool> {
        if !self.folder.is_dir() {
            let message = format!("lab `{}` was taken down", self.lab.name);
            return Err(Error::message(Code::ClusterGone, message));
        }
        let progress = Progress::of(&self.folder, self.lab.steps.len())?;
        let kept = ChangedPools::read(&self.folder)?;
        if progress == self.progress && kept == self.kept {
            return Ok(false);
        }
        self.stage = Arc::new(stage(&self.lab, &progress, &kept));
        if progress != self.progress {
            // Other checks have another history.
            self.stability = Stability::new(Windows::of(self.lab.provider));
        }
        (self.progress, self.kept) = (progress, kept);
        Ok(true)
    }
}

/// The lab at the stage that is graded, with its pools as they are. A viewer sees it without delay.
fn stage(lab: &Lab, progress: &Progress, kept: &ChangedPools) -> Lab {
    let mut stage = with_kept(staged(lab, progress, progress.graded(lab.steps.len())), kept);
    for check in &mut stage.checks {
        check.within = None;
    }
    stage
}
