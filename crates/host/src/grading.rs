//! The lesson of a seat, graded on the host alone: learners cannot grade themselves.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::Client;

use super::event_stream::EventStream;
use super::metrics::count;
use super::refusal::Refusal;
use super::register::Phase;
use super::seat::SeatId;
use super::state::{Host, Learner};
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Before, Report};
use klab_lab::words::all;
use klab_operations::changes::{AtHand, Baseline, Twin, find_asides, way_back};
use klab_operations::error::{Code, Context, Error, Result};
use klab_operations::event::{Events, Verb};
use klab_operations::grade::{hinted, verdict};
use klab_operations::lesson::pass::{self, Grader, Passed};
use klab_operations::lesson::peek::holds;
use klab_operations::lesson::words::{find, label};
use klab_operations::lesson::{Tools, note_before, open_next, staged, until_answering};
use klab_operations::observe;
use klab_operations::state::Progress;
use klab_operations::until_decided::{ApiPoller, Until, look_until};

/// Longest that somebody may wait for checks.
pub const MAX_WAIT: Duration = Duration::from_mins(10);

/// The refusal of a learner whose seat was ended.
pub(super) fn barred() -> Error {
    Error::message(Code::Barred, Refusal::barred().message)
}

/// A seat under its lock, whose lesson one command works on.
pub struct LockedSeat<'h> {
    /// The class.
    pub host: &'h Host,
    /// The seat.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: &'h Lab,
    twin: &'h Arc<Twin>,
    /// Whether the learner finds the way alone.
    is_task: bool,
    _turn: super::seat_locks::SeatLock<'h>,
}

impl<'h> LockedSeat<'h> {
    /// The seat, if no other command works on it and the learner may still work there: the instructor may have ended the seat since
    /// the request came.
    ///
    /// # Errors
    /// When another command does, the seat has ended, or there is no such lab.
    pub fn of(host: &'h Host, learner: &Learner) -> Result<Self> {
        let course = host
            .course(&learner.lab)
            .ok_or_else(|| Error::message(Code::NotInClass, "the lab is not in this class"))?;
        let busy = || {
            Error::message(Code::LabLocked, "something else is under way on this seat: `step`, `reset` or `verify`")
                .hint("wait until it ends, and try again")
        };
        let turn = host.turns.take(learner.seat).ok_or_else(busy)?;
        let locked = Self {
            host,
            seat: learner.seat,
            lab: course.lab(),
            twin: &course.twin,
            is_task: course.is_task(),
            _turn: turn,
        };
        locked.admits(learner)?;
        Ok(locked)
    }

    /// Refuses a learner whose seat was ended.
    ///
    /// # Errors
    /// See [`Host::admits`].
    pub fn admits(&self, learner: &Learner) -> Result<()> {
        if self.host.admits(learner) { Ok(()) } else { Err(barred()) }
    }

    /// How far the lesson has come.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn progress(&self) -> Result<Progress> {
        self.host.progress(self.seat, &self.lab.name.value)
    }

    /// A client of the seat's cluster, for the runtime that it is made in.
    ///
    /// # Errors
    /// When there is no such cluster.
    pub fn client(&self) -> Result<Client> {
        self.host.client_of(self.seat)
    }
}

/// The cluster of a seat, as its host looks at it.
struct HostGrader<'a> {
    client: &'a Client,
    lab: &'a Lab,
    progress: &'a Progress,
    timeout: Duration,
}

impl Grader for HostGrader<'_> {
    async fn wait(&mut self, step: Option<usize>, once: Option<Duration>) -> Result<Report> {
        let stage = staged(self.lab, self.progress, step);
        let timeout = once.unwrap_or(self.timeout);
        let mut live = ApiPoller::new(self.client, &stage.checks, timeout, false);
        let (mut report, _) = look_until(&mut live, &stage, Until::Decided(timeout), |_| {}).await?;
        hinted(&mut report, step.and_then(|step| self.lab.steps.get(step)?.hint.as_deref()));
        Ok(report)
    }

    async fn glance(&mut self, step: usize) -> Result<Report> {
        let stage = staged(self.lab, self.progress, Some(step));
        let mut snapshot = observe::look(self.client).await?;
        observe::fetch(self.client, &stage.checks, &mut snapshot).await?;
        Ok(verify::evaluate(&stage.checks, &snapshot, &verify::Context::of(&stage)))
    }
}

/// Waits for the checks of where a learner is, or of a step by its name, and moves the learner on where they hold and the class
/// is open.
///
/// # Errors
/// When a check does not hold, as `klab verify` says it.
pub async fn grade(
    host: &Host,
    learner: &Learner,
    step: Option<&str>,
    timeout: Duration,
    stream: &EventStream,
) -> Result<()> {
    let seat = learner.seat;
    let locked = LockedSeat::of(host, learner)?;
    let (lab, mut progress, client) = (locked.lab, locked.progress()?, locked.client()?);
    let timeout = timeout.min(MAX_WAIT);
    count(&host.metrics.verified);
    if tokio::time::timeout(timeout, until_answering(&client)).await.is_err() {
        let hint = "wait until `kubectl get nodes` answers again";
        return Err(Error::message(Code::NoAnswer, format!("the API server of seat {seat} does not answer")).hint(hint));
    }
    let mut looks = HostGrader { client: &client, lab, progress: &progress, timeout };
    let mut graded = match step {
        Some(name) => {
            let step = find(lab, name)?;
            pass::Graded { step: Some(step), report: looks.wait(Some(step), None).await? }
        }
        None => pass::graded(&mut looks, lab, &progress, timeout).await?,
    };
    let events = Events::new(Arc::new(stream.clone()));
    let way_back = add_slips(&locked, &mut graded, progress.done, &client).await.unwrap_or_else(|error| {
        let words = format!("what differs from the lab could not be found: {error}");
        events.warn(Code::DifferencesUnknown, words);
        None
    });
    let what = graded.step.map_or_else(|| "the lab".to_owned(), |step| label(lab, step));
    let named = graded
        .step
        .and_then(|step| Some((step.saturating_add(1), lab.steps.len(), lab.steps.get(step)?.name.value.as_str())));
    stream.report(&graded.report, named);
    let next = progress.next(lab.steps.len());
    let words = verdict(&graded.report, timeout, &what).map_err(|error| {
        let error = way_back.into_iter().fold(error, Error::hint);
        match next.filter(|_| !progress.is_opened()).and_then(|next| lab.steps.get(next)) {
            Some(next) if step.is_none() => error
                .hint(format!("`klab guide` opens the next step; `klab verify --step {}` checks that one", next.name)),
            _ => error,
        }
    })?;
    events.note(Verb::VerifyLab, words);
    if step.is_some() {
        return Ok(());
    }
    match pass::passed(lab, &progress, graded.step) {
        Passed::All if lab.steps.is_empty() => {}
        Passed::All => events.note(Verb::FinishSteps, all(lab.steps.len(), "step")),
        Passed::Before(done) => {
            let words = next.map_or(String::new(), |next| format!("; `klab guide` opens {}", label(lab, next)));
            events.note(Verb::HoldStep, format!("{}{words}", label(lab, done.saturating_sub(1))));
        }
        Passed::Now(_) if host.refuse_late(learner.person).is_err() => {
            let words = format!("{what}; it is too late, so the lesson stays where it is");
            events.note(Verb::HoldStep, words);
        }
        Passed::Now(done) => {
            let words = match (graded.step, lab.steps.len() > done) {
                (None, true) => format!("the set-up; `klab guide` shows {}", label(lab, 0)),
                (None, false) => "the set-up".to_owned(),
                (Some(step), true) => format!("{}; `klab guide` shows the next", label(lab, step)),
                (Some(step), false) => format!("{}: the lesson is done", label(lab, step)),
            };
            if pass::moves_on(&progress, done) {
                progress.reach(done);
                note(lab, &mut progress, &client).await?;
                locked.admits(learner)?;
                host.moved(seat, progress)?;
                count(&host.metrics.passed);
            }
            events.note(Verb::PassStep, words);
        }
    }
    Ok(())
}

/// Moves on a learner who types without klab and without the page: the checks of a step ahead hold, and show that it was done.
/// Does nothing while another command works on the seat, or where klab has opened a step for the learner.
///
/// # Errors
/// When the cluster does not answer, or the lesson cannot be made to compare with.
pub async fn keep_up(host: &Host, seat: SeatId) -> Result<()> {
    let resets = || host.metrics.resets.load(Ordering::Relaxed);
    let (lab, before) = (host.register().seat(seat).map(|seat| seat.lab.clone()), resets());
    let Some(course) = lab.and_then(|lab| host.course(&lab)) else { return Ok(()) };
    let (lab, progress) = (course.lab(), host.progress(seat, &course.lab().name.value)?);
    let is_alone = !progress.started || progress == course.begins;
    if host.phase() != Phase::Open || progress.is_opened() || !is_alone {
        return Ok(());
    }
    let client = host.client_of(seat)?;
    for step in progress.done..lab.steps.len() {
        if lab.steps.get(step).is_none_or(|step| step.actions.is_empty()) {
            continue;
        }
        if !holds(&client, lab, &progress, step).await? {
            return Ok(());
        }
        // The twin of the lab is made by a runtime of its own.
        let twin = Arc::clone(&course.twin);
        let shows = tokio::task::spawn_blocking(move || twin.shows(step)).await;
        if !shows.code(Code::ClassFault, || "could not make the lesson".to_owned())?? {
            continue;
        }
        let mut reached = Progress { started: false, done: step.saturating_add(1), ..progress.clone() };
        note(lab, &mut reached, &client).await?;
        let moved = host.turns.while_free(seat, || {
            let is_same = host.progress(seat, &lab.name.value)? == progress && resets() == before;
            if is_same {
                host.moved(seat, reached)?;
                count(&host.metrics.passed);
            }
            Ok(())
        });
        return moved.unwrap_or(Ok(()));
    }
    Ok(())
}

/// Notes the pods as they are now, where checks of the next step will compare with them.
///
/// # Errors
/// When the cluster does not answer.
pub async fn note(lab: &Lab, progress: &mut Progress, client: &Client) -> Result<()> {
    if lab.steps.get(progress.done).is_some_and(|step| Before::is_asked_for(&step.checks)) {
        note_before(lab, progress, &observe::look(client).await?);
    }
    Ok(())
}

async fn add_slips(
    locked: &LockedSeat<'_>,
    graded: &mut pass::Graded,
    done: usize,
    client: &Client,
) -> Result<Option<String>> {
    let (lab, twin) = (locked.lab, locked.twin);
    let is_well = graded.report.ok();
    if locked.is_task {
        graded.report.drop_suggestions();
    }
    if locked.is_task || lab.steps.is_empty() || (graded.step.is_none() && is_well) {
        return Ok(None);
    }
    let asides = find_asides(client, lab, (graded.step, done), is_well, at_hand(twin)).await?;
    graded.report.mention(asides);
    Ok(way_back(&graded.report, lab, graded.step))
}

/// What the learners of a class have at hand, whose lab has this twin.
pub(super) fn at_hand(twin: &Arc<Twin>) -> AtHand {
    AtHand { baseline: Baseline::default(), twin: Arc::clone(twin), tools: Tools::Seat }
}

/// Opens the next step for a learner who is shown it.
///
/// # Errors
/// When the cluster does not answer, or the state cannot be written.
pub async fn open(host: &Host, seat: SeatId, lab: &str) -> Result<()> {
    let Some(course) = host.course(lab) else { return Ok(()) };
    let (lab, mut progress) = (course.lab(), host.progress(seat, lab)?);
    let Some(step) = lab.steps.get(progress.done).filter(|_| !progress.opened) else { return Ok(()) };
    if Before::is_asked_for(&step.checks) {
        let snapshot = observe::look(&host.client_of(seat)?).await?;
        open_next(lab, &mut progress, &snapshot);
    } else {
        progress.opened = true;
    }
    progress.started = true;
    host.moved(seat, progress)
}
