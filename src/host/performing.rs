//! Steps of a seat's lesson, performed and undone by the host, and a seat brought back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use kube::Client;
use serde_json::Value;
use tower::BoxError;

use super::grading::AtWork;
use super::metrics::count;
use super::refusal::Refusal;
use super::seat::SeatId;
use super::state::Host;
use super::talk::Talk;
use crate::error::{Error, Kind, Result};
use crate::event::{Events, Verb, Warning};
use crate::grade::{hinted, verdict};
use crate::lesson::command::{self, Line};
use crate::lesson::words::{find, label, title};
use crate::lesson::{self, Going, Performer, Time, Tools, WallClock, stage, staged};
use crate::observe;
use crate::pool::at_work::{self, bring_about, intend};
use crate::pool::{self, Asked, Kept, list, list_document};
use crate::provider::Work;
use crate::provider::sim::seat::Seat;
use crate::state::home::state_error;
use crate::state::{Doing, Journal, Progress};
use crate::until_decided::{Live, Until, look_until};
use klab_cluster::server::files::create_private_folder;
use klab_lab::spec::{Action, Lab, Step};
use klab_lab::verify::Before;
use klab_lab::words::all;

/// How long checks are waited for after a step, and after one was undone.
const PATIENCE: (Duration, Duration) = (Duration::from_mins(2), Duration::from_secs(15));

/// How long an action that only waits goes on after the seat has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How far to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The next step.
    Next,
    /// All that are left.
    All,
    /// Back by one.
    Back,
    /// On to where this step is done, or back to it.
    To(String),
    /// On to where so many are done.
    Steps(usize),
}

impl Way {
    /// As it is asked for: to a step, to the end, back, or on by one.
    pub fn of(going: Going) -> Self {
        match (going.to, going.all, going.back) {
            (Some(step), ..) => Self::To(step),
            (None, true, _) => Self::All,
            (None, false, true) => Self::Back,
            (None, false, false) => Self::Next,
        }
    }
}

/// Performs or undoes steps of a seat's lesson. Not to be called from within a runtime.
///
/// # Errors
/// When an action could not be done, or a check does not hold; the step is then done again by the next one who asks.
pub fn go(host: &Arc<Host>, seat: SeatId, lab: &str, way: &Way, talk: &Talk) -> Result<()> {
    let at_work = AtWork::new(host, seat, lab)?;
    let cluster = cluster(host, seat)?;
    let total = at_work.lab.steps.len();
    if total == 0 {
        return Err(Error::message(Kind::Usage, format!("lab `{lab}` has no steps")));
    }
    let (leave, events) = (Leave::of(host, seat), Events::new(Arc::new(talk.clone())));
    let mut steps = Steps { at_work, cluster, leave, talk, events };
    let done = steps.at_work.progress()?.done;
    let wanted = match way {
        Way::Back => return steps.undo().and_then(|()| steps.grade_back()),
        Way::Next => done.saturating_add(1).min(total),
        Way::All => total,
        Way::To(name) => find(steps.at_work.lab, name)?.saturating_add(1),
        Way::Steps(wanted) => (*wanted).min(total),
    };
    let progress = steps.at_work.progress()?;
    if progress.done == wanted && progress.doing.is_none() {
        let words = match way {
            Way::To(_) => {
                format!("{} is the last one done already", label(steps.at_work.lab, wanted.saturating_sub(1)))
            }
            _ => all(total, "step"),
        };
        steps.events.note(Verb::FinishSteps, words);
        return Ok(());
    }
    if progress.done > wanted {
        while steps.at_work.progress()?.done > wanted {
            steps.undo()?;
        }
        return steps.grade_back();
    }
    while steps.at_work.progress()?.done < wanted {
        steps.forward()?;
    }
    Ok(())
}

/// Brings a seat back to its set-up, and on to where a step is done. Not to be called from within a runtime.
///
/// # Errors
/// When it could not be brought back.
pub fn reset(host: &Arc<Host>, seat: SeatId, lab: &str, to: Option<&Way>, talk: &Talk) -> Result<()> {
    {
        let at_work = AtWork::new(host, seat, lab)?;
        if let Some(Way::To(step)) = to {
            find(at_work.lab, step)?;
        }
        let begins = host.course(lab).map(|course| course.begins.clone()).unwrap_or_default();
        host.renew(seat)?;
        Kept::clear(&host.seat_folder(seat))?;
        host.moved(seat, begins)?;
        count(&host.metrics.resets);
        Events::new(Arc::new(talk.clone())).note(Verb::ResetLab, format!("lab `{lab}` to its set-up"));
    }
    match to {
        Some(way) => go(host, seat, lab, way, talk),
        None => Ok(()),
    }
}

/// The pools of a seat, as text and for programs. Not to be called from within a runtime.
///
/// # Errors
/// When its cluster does not answer.
pub(super) fn pools(host: &Arc<Host>, seat: SeatId, lab: &str) -> Result<(String, Value)> {
    let course = host.course(lab).ok_or_else(|| Error::message(Kind::Outside, "the lab is not in this class"))?;
    let live = live(host, seat, course.lab(), &cluster(host, seat)?)?;
    Ok((list(&live), list_document(&live)))
}

/// Changes a pool of a seat as `klab pool` does. Not to be called from within a runtime.
///
/// # Errors
/// When that breaks a rule of pools, or somebody else works on the seat.
pub(super) fn change_pool(host: &Arc<Host>, seat: SeatId, lab: &str, asked: &Asked, talk: &Talk) -> Result<()> {
    let at_work = AtWork::new(host, seat, lab)?;
    let cluster = cluster(host, seat)?;
    let live = live(host, seat, at_work.lab, &cluster)?;
    let Some(wanted) = asked.wanted(&live)? else { return Ok(()) };
    let folder = host.seat_folder(seat);
    create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
    let events = Events::new(Arc::new(talk.clone()));
    let actions = intend(&live, &wanted, &folder)?;
    if actions.is_empty() {
        events.note(Verb::FindPool, format!("pool {}, which needs no change", wanted.pool));
        return Ok(());
    }
    let mut journal = Journal::nowhere();
    bring_about(&cluster, &live, &wanted, actions, &mut Work { journal: &mut journal, events: &events })?;
    let _ = host.moves.send(seat);
    Ok(())
}

fn cluster(host: &Arc<Host>, seat: SeatId) -> Result<Seat> {
    let server = host.server().ok_or_else(|| Error::message(Kind::Outside, "the class has not begun"))?;
    let leave = Leave::of(host, seat);
    Ok(Seat::new(server, &seat.to_string())?.reached_by(|client| leave.guard(client)))
}

fn live(host: &Host, seat: SeatId, lab: &Lab, cluster: &Seat) -> Result<pool::Live> {
    let done = host.progress(seat, &lab.name.value)?.done;
    at_work::live(cluster, lab, done, &host.seat_folder(seat))
}

/// Lets the host act for a learner until the instructor ends the seat. Where the seat has ended before, the instructor asks.
#[derive(Clone)]
struct Leave {
    host: Arc<Host>,
    person: Option<u32>,
    clock: WallClock,
}

fn barred() -> Error {
    Error::message(Kind::Failed, Refusal::barred().message)
}

impl Leave {
    fn of(host: &Arc<Host>, seat: SeatId) -> Self {
        let register = host.register();
        let person = register.seat(seat).map(|seat| seat.person).filter(|person| !register.is_barred(*person));
        drop(register);
        Self { host: Arc::clone(host), person, clock: WallClock::default() }
    }

    fn holds(&self) -> Result<()> {
        let is_taken = self.person.is_some_and(|person| self.host.register().is_barred(person));
        if is_taken { Err(barred()) } else { Ok(()) }
    }

    async fn is_taken(&self) {
        match self.person {
            Some(person) => self.host.is_barred(person).await,
            None => std::future::pending().await,
        }
    }

    /// A client that sends nothing more when the seat has ended.
    fn guard(self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let ask = move |request| {
            let (client, leave) = (client.clone(), self.holds());
            async move {
                leave.map_err(|error| error.source)?;
                Ok::<_, BoxError>(client.send(request).await?)
            }
        };
        Client::new(tower::service_fn(ask), namespace)
    }
}

impl Time for Leave {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn pass(&self, duration: Duration) {
        let until = self.now().saturating_add(duration);
        while self.holds().is_ok()
            && let left = until.saturating_sub(self.now())
            && !left.is_zero()
        {
            self.clock.pass(left.min(LOOK));
        }
    }
}

/// A seat whose steps are performed.
struct Steps<'h> {
    at_work: AtWork<'h>,
    cluster: Seat,
    leave: Leave,
    talk: &'h Talk,
    events: Events,
}

impl Steps<'_> {
    fn lab(&self) -> &Lab {
        self.at_work.lab
    }

    fn keep(&self, progress: &Progress) -> Result<()> {
        self.at_work.host.moved(self.at_work.seat, progress.clone())
    }

    fn forward(&mut self) -> Result<()> {
        let mut progress = self.at_work.progress()?;
        let number = progress.done;
        let Some(step) = self.lab().steps.get(number).cloned() else { return Ok(()) };
        let label = label(self.lab(), number);
        self.announce(Verb::BeginStep, &label, &step);
        let again = progress.doing.is_some();
        if !step.before.is_empty() && !again {
            let mut before = stage(self.lab(), number);
            before.checks.clone_from(&step.before);
            self.hold(&before, None, &format!("what must hold before {label}"), PATIENCE.0)?;
        }
        if let Some(run) = step.actions.iter().find(|action| matches!(action.value, Action::Run { .. })) {
            let message = format!("step `{}` runs a program ({}), and a host runs none", step.name, run.at);
            return Err(Error::message(Kind::Usage, message).hint("type the step yourself (`klab guide`)"));
        }
        // Of a step that was interrupted, what was before it is known already.
        if !again {
            self.note(&mut progress)?;
        }
        progress.doing = Some(Doing { step: step.name.value.clone(), back: false });
        self.keep(&progress)?;
        self.perform(|performer, work, talk| {
            let lab = self.lab();
            for action in 0..step.actions.len() {
                let lines = command::lines(lab, number, action, &Tools::Seat);
                lines.iter().flat_map(Line::commands).for_each(|line| talk.command(line));
                performer.perform_action(lab, number, action, work)?;
                self.forget_pool(&step, action)?;
            }
            Ok(())
        })?;
        let after = staged(self.lab(), &progress, Some(number));
        self.hold(&after, Some(number), &label, PATIENCE.0)?;
        progress.reach(number.saturating_add(1));
        self.note(&mut progress)?;
        self.keep(&progress)?;
        let next = match self.lab().steps.get(number.saturating_add(1)) {
            Some(next) => format!("{label}; next is `{}`", next.name),
            None => format!("{label}, the last one"),
        };
        self.events.note(Verb::FinishStep, next);
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        let mut progress = self.at_work.progress()?;
        let begun = progress.doing.as_ref().is_some_and(|doing| !doing.back);
        let undone = if begun { Some(progress.done) } else { progress.done.checked_sub(1) };
        let Some((number, step)) = undone.and_then(|number| Some((number, self.lab().steps.get(number)?.clone())))
        else {
            return Err(Error::message(Kind::Usage, "no step is done: the lab is at its set-up"));
        };
        self.announce(Verb::UndoStep, &label(self.lab(), number), &step);
        progress.doing = Some(Doing { step: step.name.value.clone(), back: true });
        self.keep(&progress)?;
        let mut kept = Vec::new();
        self.perform(|performer, work, _| {
            for action in (0..step.actions.len()).rev() {
                kept.extend(performer.undo_action(self.lab(), number, action, work)?);
                self.forget_pool(&step, action)?;
            }
            Ok(())
        })?;
        for words in &kept {
            self.events.warn(Warning::NotUndone, format!("not undone: {words}"));
        }
        progress.reach(number);
        self.keep(&progress)
    }

    /// Whether undoing has brought back what held before.
    fn grade_back(&self) -> Result<()> {
        let progress = self.at_work.progress()?;
        let last = progress.done.checked_sub(1);
        let before = staged(self.lab(), &progress, last);
        let what = last.map_or_else(|| "the set-up".to_owned(), |last| label(self.lab(), last));
        self.hold(&before, last, &what, PATIENCE.1).map_err(|error| {
            Error { hints: Vec::new(), ..error }
                .hint("undoing does not take back what happened to pods meanwhile; `klab reset` does")
        })
    }

    /// What was typed of a pool is over where a step has made of it what the lab file says.
    fn forget_pool(&self, step: &Step, action: usize) -> Result<()> {
        let pool = step.actions.get(action).and_then(|action| action.value.pool());
        pool.map_or(Ok(()), |pool| Kept::forget(&self.at_work.host.seat_folder(self.at_work.seat), pool))
    }

    fn announce(&self, verb: Verb, label: &str, step: &Step) {
        let label = label.strip_prefix("step ").unwrap_or(label);
        self.events.note(verb, format!("{label}: {}", title(step)));
    }

    fn note(&self, progress: &mut Progress) -> Result<()> {
        let lab = self.lab();
        if lab.steps.get(progress.done).is_some_and(|step| Before::is_asked_for(&step.checks)) {
            let snapshot = self.cluster.runtime().block_on(observe::look(self.cluster.client()))?;
            lesson::note_before(lab, progress, &snapshot);
        }
        Ok(())
    }

    fn perform(&self, act: impl FnOnce(&Performer<'_>, &mut Work<'_>, &Talk) -> Result<()>) -> Result<()> {
        let mut journal = Journal::nowhere();
        let mut work = Work { journal: &mut journal, events: &self.events };
        let performer = Performer {
            runtime: self.cluster.runtime(),
            client: self.cluster.client(),
            provider: &self.cluster,
            time: &self.leave,
            run: None,
        };
        act(&performer, &mut work, self.talk).and_then(|()| self.leave.holds()).map_err(|error| {
            let again = "`klab step` does the step again, `klab step --back` undoes it";
            if matches!(error.kind, Kind::Failed | Kind::Deadline) { error.hint(again) } else { error }
        })
    }

    /// Waits for the checks of a stage, and says what they came to.
    fn hold(&self, stage: &Lab, step: Option<usize>, what: &str, patience: Duration) -> Result<()> {
        let client = self.cluster.client();
        let mut report = self.cluster.runtime().block_on(async {
            let mut live = Live::new(client, &stage.checks, patience, true);
            let looked = std::pin::pin!(look_until(&mut live, stage, Until::Decided(patience), |_| {}));
            match select(looked, std::pin::pin!(self.leave.is_taken())).await {
                Either::Left((looked, _)) => Ok(looked?.0),
                Either::Right(_) => Err(barred()),
            }
        })?;
        let spec = step.and_then(|step| self.lab().steps.get(step));
        hinted(&mut report, spec.and_then(|step| step.hint.as_deref()));
        let total = self.lab().steps.len();
        if step.is_some() || !report.ok() {
            let named = step.zip(spec).map(|(step, spec)| (step.saturating_add(1), total, spec.name.value.as_str()));
            self.talk.report(&report, named);
        }
        let words = verdict(&report, patience, what)?;
        self.events.note(Verb::VerifyLab, words);
        Ok(())
    }
}
