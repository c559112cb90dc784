//! Steps of a seat's lesson, performed and undone by the host, and a seat brought back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use kube::Client;
use tower::BoxError;

use super::barring;
use super::event_stream::EventStream;
use super::grading::{LockedSeat, barred};
use super::metrics::count;
use super::practice;
use super::seat::SeatId;
use super::state::{Host, Learner};
use klab_az::notes::ClusterNote;
use klab_lab::plan;
use klab_lab::spec::{Action, Lab};
use klab_lab::verify::Snapshot;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{Events, Verb};
use klab_operations::grade::{hinted, verdict};
use klab_operations::lesson::command::{self, Line};
use klab_operations::lesson::session::{Act, Engine, Goal, Point, Session};
use klab_operations::lesson::words::find;
use klab_operations::lesson::{Performer, Time, Tools, WallClock};
use klab_operations::observe;
use klab_operations::pool::locked_pools::{self, bring_about, intend};
use klab_operations::pool::{ChangedPools, LivePools, PoolRequest, Wanted};
use klab_operations::provider::Work;
use klab_operations::provider::sim::seat::Seat;
use klab_operations::state::azure;
use klab_operations::state::home::state_error;
use klab_operations::state::{Journal, Progress};
use klab_operations::until_decided::{ApiPoller, Until, look_until};
use klab_server::files::create_private_folder;

/// How long an action that only waits goes on after the seat has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Performs or undoes steps of a seat's lesson. Not to be called from within a runtime.
///
/// # Errors
/// When an action could not be done, or a check does not hold; the step is then done again by the next one who asks.
pub fn go(host: &Arc<Host>, learner: &Learner, goal: &Goal, stream: &EventStream) -> Result<()> {
    practice::refuse_help(host, learner, "klab step")?;
    let locked = LockedSeat::of(host, learner)?;
    let permission = Permission::of(host, learner);
    let cluster = cluster(host, learner)?;
    if locked.lab.steps.is_empty() {
        return Err(Error::message(Code::NoSteps, format!("lab `{}` has no steps", learner.lab)));
    }
    let events = Events::new(Arc::new(stream.clone()));
    let (lab, progress) = (locked.lab, locked.progress()?);
    Session { lab, progress, engine: Steps { locked, cluster, permission, stream, events } }.go(goal)
}

/// Brings a seat back to its set-up, and on to where a step is done. Not to be called from within a runtime.
///
/// # Errors
/// When it could not be brought back.
pub fn reset(host: &Arc<Host>, learner: &Learner, to: Option<&Goal>, stream: &EventStream) -> Result<()> {
    let (seat, lab) = (learner.seat, learner.lab.as_str());
    if to.is_some() {
        practice::refuse_help(host, learner, "klab reset --to")?;
    }
    {
        let locked = LockedSeat::of(host, learner)?;
        if let Some(Goal::To(step)) = to {
            find(locked.lab, step)?;
        }
        let begins = host.course(lab).map(|course| course.begins.clone()).unwrap_or_default();
        host.renew(seat)?;
        let folder = host.seat_folder(seat);
        ChangedPools::clear(&folder)?;
        azure::write(&ClusterNote::default(), &folder)?;
        host.moved(seat, begins)?;
        count(&host.metrics.resets);
        Events::new(Arc::new(stream.clone())).note(Verb::ResetLab, format!("lab `{lab}` to its set-up"));
    }
    match to {
        Some(goal) => go(host, learner, goal, stream),
        None => Ok(()),
    }
}

/// Changes a pool of a seat as `klab pool` does. Not to be called from within a runtime.
///
/// # Errors
/// When that breaks a rule of pools, or somebody else works on the seat.
pub(super) fn change_pool(
    host: &Arc<Host>,
    learner: &Learner,
    asked: &PoolRequest,
    stream: &EventStream,
) -> Result<()> {
    if let PoolRequest::Abort { which } = asked {
        return abort_upgrade(host, learner, &which.pool, stream);
    }
    let pools = SeatPools::of(host, learner, stream)?;
    let Some(wanted) = asked.wanted(&pools.live)? else { return Ok(()) };
    if !pools.bring_about(&wanted)? {
        pools.events.note(Verb::FindPool, format!("pool {}, which needs no change", wanted.pool));
    }
    Ok(())
}

/// Stops the upgrade of a seat's pool where it is. Not to be called from within a runtime.
///
/// # Errors
/// When none is under way, or it cannot be stopped.
pub(super) fn abort_upgrade(host: &Arc<Host>, learner: &Learner, pool: &str, stream: &EventStream) -> Result<()> {
    let live = live_pools(host, learner)?;
    locked_pools::abort(&cluster(host, learner)?, &live, pool, &Events::new(Arc::new(stream.clone())))
}

/// The pools of a seat that nothing else works on. Not to be used from within a runtime.
pub(super) struct SeatPools<'h> {
    locked: LockedSeat<'h>,
    cluster: Seat,
    events: Events,
    /// The pools as they are.
    pub(super) live: LivePools,
}

impl<'h> SeatPools<'h> {
    /// The pools of a seat; what is done to them is heard in the stream.
    ///
    /// # Errors
    /// When its cluster does not answer, or somebody else works on the seat.
    pub(super) fn of(host: &'h Arc<Host>, learner: &Learner, stream: &EventStream) -> Result<Self> {
        let locked = LockedSeat::of(host, learner)?;
        let cluster = cluster(host, learner)?;
        let live = live(host, learner.seat, locked.lab, &cluster)?;
        Ok(Self { locked, cluster, events: Events::new(Arc::new(stream.clone())), live })
    }

    /// Makes a pool what is wanted. Says whether anything had to be done.
    ///
    /// # Errors
    /// When the cluster cannot, or the seat's folder cannot be written.
    pub(super) fn bring_about(&self, wanted: &Wanted) -> Result<bool> {
        let (host, seat) = (self.locked.host, self.locked.seat);
        let folder = host.seat_folder(seat);
        create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        let mut actions = intend(&self.live, wanted, &folder)?;
        for action in &mut actions {
            // A request does not wait for an upgrade, which takes as long as the budgets of the seat's cluster want.
            if let plan::Action::UpgradePool { no_wait, .. } = action {
                *no_wait = true;
            }
        }
        if actions.is_empty() {
            return Ok(false);
        }
        let mut journal = Journal::nowhere();
        let mut work = Work { journal: &mut journal, events: &self.events };
        bring_about(&self.cluster, &self.live, wanted, actions, &mut work)?;
        let _ = host.moves.send(seat);
        Ok(true)
    }
}

fn cluster(host: &Arc<Host>, learner: &Learner) -> Result<Seat> {
    let server = host.server().ok_or_else(|| Error::message(Code::NotInClass, "the class has not begun"))?;
    let permission = Permission::of(host, learner);
    Ok(Seat::new(server, &learner.seat.to_string())?.reached_by(|client| permission.guard(client)))
}

/// The pools of a seat as they are. Not to be called from within a runtime.
///
/// # Errors
/// When its cluster does not answer.
pub(super) fn live_pools(host: &Arc<Host>, learner: &Learner) -> Result<LivePools> {
    let course = host.course(&learner.lab);
    let course = course.ok_or_else(|| Error::message(Code::NotInClass, "the lab is not in this class"))?;
    live(host, learner.seat, course.lab(), &cluster(host, learner)?)
}

fn live(host: &Host, seat: SeatId, lab: &Lab, cluster: &Seat) -> Result<LivePools> {
    let done = host.progress(seat, &lab.name.value)?.done;
    locked_pools::live(cluster, lab, done, &host.seat_folder(seat))
}

/// Lets the host act for a learner until the instructor ends the seat, and for the instructor for ever.
#[derive(Clone)]
struct Permission {
    host: Arc<Host>,
    learner: Learner,
    clock: WallClock,
}

impl Permission {
    fn of(host: &Arc<Host>, learner: &Learner) -> Self {
        Self { host: Arc::clone(host), learner: learner.clone(), clock: WallClock::default() }
    }

    fn holds(&self) -> Result<()> {
        if self.host.admits(&self.learner) { Ok(()) } else { Err(barred()) }
    }

    async fn is_taken(&self) {
        barring::until(&self.host, |host| !host.admits(&self.learner)).await;
    }

    /// A client that sends nothing more when the seat has ended.
    fn guard(self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let ask = move |request| {
            let (client, permission) = (client.clone(), self.holds());
            async move {
                permission.map_err(|error| error.source)?;
                Ok::<_, BoxError>(client.send(request).await?)
            }
        };
        Client::new(tower::service_fn(ask), namespace)
    }
}

impl Time for Permission {
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
    locked: LockedSeat<'h>,
    cluster: Seat,
    permission: Permission,
    stream: &'h EventStream,
    events: Events,
}

impl Engine for Steps<'_> {
    fn events(&self) -> Events {
        self.events.clone()
    }

    fn show(&mut self, step: usize, action: usize) {
        let lines = command::lines(self.locked.lab, step, action, &Tools::Seat);
        lines.iter().flat_map(Line::commands).for_each(|command| self.stream.command(command));
    }

    fn snapshot(&mut self, _: &Lab) -> Result<Snapshot> {
        self.cluster.runtime().block_on(observe::look(self.cluster.client()))
    }

    fn admit(&mut self, _: &Progress, step: usize, back: bool) -> Result<()> {
        let Some(step) = self.locked.lab.steps.get(step).filter(|_| !back) else { return Ok(()) };
        let run = step.actions.iter().find(|action| matches!(action.value, Action::Run { .. }));
        let Some(run) = run else { return Ok(()) };
        let message = format!("step `{}` runs a program ({}), and a host runs none", step.name, run.at);
        Err(Error::message(Code::StepRunsProgram, message).hint("type the step yourself (`klab guide`)"))
    }

    fn perform(&mut self, act: &mut Act<'_>) -> Result<()> {
        let mut journal = Journal::nowhere();
        let mut work = Work { journal: &mut journal, events: &self.events };
        let performer = Performer {
            runtime: self.cluster.runtime(),
            client: self.cluster.client(),
            provider: &self.cluster,
            time: &self.permission,
            run: None,
        };
        act(&performer, &mut work)?;
        self.permission.holds()
    }

    fn forget_pool(&mut self, pool: &str) -> Result<()> {
        ChangedPools::forget(&self.locked.host.seat_folder(self.locked.seat), pool)
    }

    fn grade(&mut self, stage: &Lab, point: Point) -> Result<()> {
        let (client, timeout) = (self.cluster.client(), point.timeout());
        let mut report = self.cluster.runtime().block_on(async {
            let mut live = ApiPoller::new(client, &stage.checks, timeout, true);
            let looked = std::pin::pin!(look_until(&mut live, stage, Until::Decided(timeout), |_| {}));
            match select(looked, std::pin::pin!(self.permission.is_taken())).await {
                Either::Left((looked, _)) => Ok(looked?.0),
                Either::Right(_) => Err(barred()),
            }
        })?;
        let lab = self.locked.lab;
        let step = point.step().and_then(|number| Some((number, lab.steps.get(number)?)));
        hinted(&mut report, step.and_then(|(_, step)| step.hint.as_deref()));
        if step.is_some() || !report.ok() {
            let named =
                step.map(|(number, step)| (number.saturating_add(1), lab.steps.len(), step.name.value.as_str()));
            self.stream.report(&report, named);
        }
        let words = verdict(&report, timeout, &point.subject(lab))?;
        self.events.note(Verb::VerifyLab, words);
        Ok(())
    }

    fn keep(&mut self, progress: &Progress) -> Result<()> {
        self.locked.host.moved(self.locked.seat, progress.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::client::Body;

    use super::*;
    use crate::register::Entry;
    use crate::state::Settings;

    /// A client that counts what is sent.
    fn counted() -> (Client, Arc<AtomicUsize>) {
        let sent = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            counts.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, BoxError>(Response::new(Body::empty())))
        });
        (Client::new(service, "default"), sent)
    }

    #[test]
    fn a_seat_that_is_ended_after_the_request_came_and_before_its_deed_began_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path(), Settings::default(), &["scheduling".to_owned()]).unwrap();
        let host = Arc::new(host);
        let asks = |ended| Learner {
            person: 1,
            name: "Ann".to_owned(),
            seat: SeatId { shard: 0, number: 1 },
            lab: "scheduling".to_owned(),
            ended,
        };
        let end = |barred| host.register().take(Entry::Barred { person: 1, barred, at: Timestamp::UNIX_EPOCH });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let does = |learner: &Learner| {
            // Nothing of it exists before the deed begins.
            let (client, sent) = counted();
            let guarded = Permission::of(&host, learner).guard(client);
            let request = Request::get("/api").body(Body::empty()).unwrap();
            let outcome = runtime.block_on(guarded.send(request)).map(drop).map_err(|error| error.to_string());
            assert_eq!(outcome.is_ok(), sent.load(Ordering::Relaxed) == 1, "{outcome:?}");
            outcome.is_ok() && Permission::of(&host, learner).holds().is_ok()
        };
        let (before, instructor) = (asks(Some(0)), asks(None));
        assert!(does(&before));
        end(true);
        assert!(!does(&before) && does(&instructor));
        end(false);
        // A learner who is let in again signs in again; what they asked for before stays undone.
        assert!(!does(&before) && does(&asks(Some(1))) && does(&instructor));
    }
}
