//! Changes of pools side by side: a few at a time, one look at all of them, refusals that pass are waited out.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::answer::AgentPool;
use super::arguments::{self, Arguments, journal_action};
use super::az::{Az, lost};
use super::catalogue::Class;
use super::failure::Failure;
use super::operation::{Job, Operation, Step};
use super::reason;
use super::request::Tries;
use super::site::Site;
use crate::error::{Code, Error, Result};
use crate::event::{About, Activity, Outside};
use crate::provider::Work;
use klab_cluster::deadline;
use klab_lab::words::plural;

/// How many operations on pools of one cluster run at once; Azure refuses more or lets them fail.
pub(super) const IN_FLIGHT: usize = 4;

/// How long no look is taken while a call of az is at its start: it would only slow that down.
const UNLESS_STARTING: Duration = Duration::from_secs(5);

/// How many calls of az are at their start at once. That is work for a processor: more of them would only be late all
/// together, and the first pool to be ready is what the next one in the row waits for.
fn most_starts() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Where a job is.
enum State {
    /// Its first step waits for its turn, not before a time.
    Waiting {
        not_before: Instant,
    },
    /// az is at work.
    Submitting,
    /// az failed, but Azure may have taken the request.
    Uncertain(Failure),
    /// Azure is at work since.
    Running {
        since: Instant,
    },
    Done,
    Failed(Error),
}

struct Task<'a> {
    site: Site<'a>,
    job: Job,
    state: State,
    /// The tries at its present step.
    tries: Tries,
    /// When az last answered: looks that began before it tell what was before.
    answered: Instant,
    /// Since when the pool is not to be seen, although Azure took the request.
    unseen: Option<Instant>,
    /// Whether what failed was asked for once more already.
    made_again: bool,
    activity: Option<Activity>,
}

/// Does all jobs, at most `limit` at a time. All are brought to an end, also when one fails.
///
/// # Errors
/// What could not be done, all of it.
pub(super) fn run(site: Site<'_>, jobs: Vec<Job>, limit: usize, work: &mut Work<'_>) -> Result<()> {
    run_beside(site, jobs, limit, work, || Ok(()))
}

/// Does all jobs, and something else in another thread as soon as Azure is at work and az is not.
///
/// # Errors
/// As [`run`]; where that did well, what became of the other thing.
pub(super) fn run_beside(
    site: Site<'_>,
    jobs: Vec<Job>,
    limit: usize,
    work: &mut Work<'_>,
    beside: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    if jobs.is_empty() {
        return beside();
    }
    let start = Instant::now();
    let mut tasks: Vec<Task<'_>> = jobs
        .into_iter()
        .map(|job| Task {
            site,
            job,
            state: State::Waiting { not_before: start },
            tries: Tries::new(),
            answered: start,
            unseen: None,
            made_again: false,
            activity: None,
        })
        .collect();
    let outcome = drive(site, &mut tasks, limit, work, beside);
    work.events.under_way(Vec::new());
    let beside = outcome?;
    let mut errors: Vec<Error> = Vec::new();
    for task in tasks {
        if let State::Failed(error) = task.state {
            errors.push(error);
        }
    }
    match errors.len() {
        0 => beside,
        1 => Err(errors.remove(0)),
        several => Err(joined(several, errors)),
    }
}

/// Warns of a pool that was made just now and does not have its tags: by them klab knows what it may remove.
pub(super) fn warn_of_lost_tags(site: Site<'_>, pool: &AgentPool, work: &Work<'_>) {
    // An answer without tags does not show that a policy took them.
    if pool.tags.as_ref().is_some_and(|tags| !site.place.owns(tags)) {
        let words = format!(
            "pool `{0}` came without the lab's tags, which a policy may take away; klab replaces or removes it only with \
             `--take-pool {0}`",
            pool.name
        );
        work.events.about(About::Pool, &pool.name).warn(Code::ForeignPoolKept, words);
    }
}

/// Several errors as one that names them all.
fn joined(count: usize, errors: Vec<Error>) -> Error {
    let code = errors.first().map_or(Code::AzureRefused, |error| error.code);
    let list: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
    let message = format!("{} failed:\n{}", plural(count, "pool change"), list.join("\n"));
    let mut error = Error::message(code, message);
    for other in errors {
        error.left_behind.extend(other.left_behind);
        for hint in other.hints {
            if !error.hints.contains(&hint) {
                error.hints.push(hint);
            }
        }
    }
    error
}

/// What a call of az came to.
enum Answer {
    Submitted { index: usize, result: Result<(), Failure> },
    Listed { began: Instant, pools: Result<Vec<AgentPool>, Failure> },
}

/// Gives what became of the thing beside.
fn drive<'a>(
    site: Site<'a>,
    tasks: &mut [Task<'a>],
    limit: usize,
    work: &mut Work<'_>,
    beside: impl FnOnce() -> Result<()> + Send,
) -> Result<Result<()>> {
    let Site { az, place } = site;
    let (sender, receiver) = mpsc::channel::<Answer>();
    let mut looked = Instant::now();
    let mut looking = false;
    let mut failed_looks: Option<Instant> = None;
    let mut beside = Some(beside);
    std::thread::scope(|scope| {
        let mut aside = None;
        loop {
            start_waiting(tasks, limit, work, |index, arguments| {
                let (az, sender) = (az.clone(), sender.clone());
                scope.spawn(move || {
                    let result = az.change(&arguments).map(|_| ());
                    // The receiver is gone only when the work was given up.
                    let _ = sender.send(Answer::Submitted { index, result });
                });
            })?;
            work.events.under_way(tasks.iter().filter_map(Task::under_way).collect());
            if !tasks.iter().any(|task| matches!(task.state, State::Submitting)) {
                aside = beside.take().map(|beside| scope.spawn(beside)).or(aside);
            }
            if tasks.iter().all(|task| matches!(task.state, State::Done | State::Failed(_))) {
                let joined = aside.take().map(std::thread::ScopedJoinHandle::join);
                return joined.map_or(Ok(Ok(())), |joined| joined.map_err(lost));
            }
            let entered = Instant::now();
            let news = receiver.recv_timeout(until_next(az, tasks, looked, looking));
            az.ledger.note(entered, false);
            match news {
                Ok(Answer::Submitted { index, result }) => tasks[index].submitted(result),
                Ok(Answer::Listed { began, pools: Ok(pools) }) => {
                    looking = false;
                    failed_looks = None;
                    for task in tasks.iter_mut().filter(|task| task.answered <= began) {
                        task.look(&pools, work);
                    }
                }
                Ok(Answer::Listed { began, pools: Err(failure) }) => {
                    looking = false;
                    let since = *failed_looks.get_or_insert(began);
                    let patience = if failure.is_absence() { az.pace.unseen() } else { az.pace.patience };
                    if !(failure.class.passes() || failure.is_absence()) || since.elapsed() > patience {
                        return Err(given_up(failure, site, tasks));
                    }
                }
                Err(_) if !looking && tasks.iter().any(Task::wants_a_look) => {
                    looking = true;
                    looked = Instant::now();
                    let (az, sender) = (az.clone(), sender.clone());
                    scope.spawn(move || {
                        let _ = sender.send(Answer::Listed { began: looked, pools: az.pools(place) });
                    });
                }
                Err(_) => {}
            }
        }
    })
}

/// Azure does not answer any more: what it was doing goes on without klab.
fn given_up(failure: Failure, Site { place, .. }: Site<'_>, tasks: &[Task<'_>]) -> Error {
    let is_gone = failure.is_absence();
    let mut error =
        failure.into_error(&format!("could not read the pools of cluster `{}`", place.cluster), Some(place));
    let tasks = if is_gone { &[] } else { tasks };
    error.left_behind.extend(tasks.iter().filter_map(Task::under_way).map(Outside::into_words));
    error
}

/// Starts steps whose turn it is.
fn start_waiting(
    tasks: &mut [Task<'_>],
    limit: usize,
    work: &mut Work<'_>,
    mut submit: impl FnMut(usize, Arguments),
) -> Result<()> {
    let busy = |task: &Task<'_>| matches!(task.state, State::Submitting | State::Uncertain(_) | State::Running { .. });
    let mut in_flight = tasks.iter().filter(|task| busy(task)).count();
    let mut starting = tasks.iter().filter(|task| matches!(task.state, State::Submitting)).count();
    // One whose end others wait for begins alone: it is ready the sooner.
    let alone =
        tasks.len() > limit && tasks.iter().all(|task| matches!(task.state, State::Waiting { .. } | State::Submitting));
    let most_starts = if alone { 1 } else { most_starts() };
    for (index, task) in tasks.iter_mut().enumerate() {
        let State::Waiting { not_before } = task.state else { continue };
        if in_flight >= limit || Instant::now() < not_before {
            continue;
        }
        let Some(step) = task.job.steps.front() else {
            task.finish();
            continue;
        };
        let settles = step.operation == Operation::Settle;
        if !settles && starting >= most_starts {
            continue;
        }
        if task.activity.is_none() {
            let events = work.events.about(About::Pool, &task.job.pool);
            let events = task.job.nodes.map_or(events.clone(), |nodes| events.counting(nodes as usize));
            task.activity = Some(events.start(task.job.verb, task.job.what.clone()));
        }
        in_flight += 1;
        if settles {
            task.state = State::Running { since: Instant::now() };
            continue;
        }
        work.intend(&journal_action(&step.arguments), &format!("{}/{}", task.site.place.cluster, task.job.pool))?;
        task.state = State::Submitting;
        starting += 1;
        submit(index, step.arguments.clone());
    }
    Ok(())
}

/// Time until something is to be done without an answer of az.
fn until_next(az: &Az, tasks: &[Task<'_>], looked: Instant, looking: bool) -> Duration {
    let now = Instant::now();
    let mut until = Duration::from_mins(1);
    let submitting = tasks.iter().any(|task| matches!(task.state, State::Submitting));
    for task in tasks {
        let due = match &task.state {
            State::Waiting { not_before } if *not_before > now => *not_before,
            // One look at a time.
            _ if looking => continue,
            State::Uncertain(_) => deadline::after(looked, az.pace.least),
            State::Running { since } => {
                let least = if submitting { UNLESS_STARTING } else { Duration::ZERO };
                deadline::after(looked, az.pace.next(now.saturating_duration_since(*since)).max(least))
            }
            _ => continue,
        };
        until = until.min(due.saturating_duration_since(now));
    }
    until
}

impl Task<'_> {
    fn operation(&self) -> Operation {
        self.job.steps.front().map_or(Operation::Settle, |step| step.operation)
    }

    /// What goes on in Azure for it.
    fn under_way(&self) -> Option<Outside> {
        matches!(self.state, State::Submitting | State::Uncertain(_) | State::Running { .. }).then(|| {
            let (pool, (_, activity, state)) = (&self.job.pool, self.operation().words());
            let words = format!("pool `{pool}` of cluster `{}` is {state}", self.site.place.cluster);
            Outside::new(activity, About::Pool, pool, words)
        })
    }

    fn wants_a_look(&self) -> bool {
        matches!(self.state, State::Uncertain(_) | State::Running { .. })
    }

    /// az has answered.
    fn submitted(&mut self, result: Result<(), Failure>) {
        let now = Instant::now();
        self.answered = now;
        match result {
            Ok(()) if self.operation() == Operation::BeginUpgrade => self.step_is_done(),
            Ok(()) => self.state = State::Running { since: now },
            Err(failure) if self.operation() == Operation::Scale && failure.class == Class::AlreadySo => {
                self.state = State::Running { since: now };
            }
            Err(failure) if self.operation() == Operation::Delete && failure.is_absence() => {
                self.step_is_done();
            }
            // Whether it was taken after all is to be seen only by looking.
            Err(failure) if self.operation() == Operation::Add && failure.class.may_have_been_taken() => {
                self.state = State::Uncertain(failure);
            }
            Err(failure) => self.refused(failure),
        }
    }

    /// The request was not taken: again later, or never.
    fn refused(&mut self, failure: Failure) {
        let pace = &self.site.az.pace;
        let pause = match self.tries.again(&failure, pace) {
            Some(pause) => pause,
            // The cluster was seen: one part of Azure hears later than another.
            None if failure.is_absence() && self.unseen.get_or_insert_with(Instant::now).elapsed() < pace.unseen() => {
                pace.least
            }
            None => return self.fail(failure),
        };
        if let Some(activity) = &self.activity {
            let reason = failure.code.as_deref().unwrap_or("az failed").to_owned();
            activity.progress(format!("{} (Azure is busy: {reason}; trying again)", self.job.what));
        }
        self.state = State::Waiting { not_before: deadline::after(Instant::now(), pause) };
    }

    /// All pools as they are now.
    fn look(&mut self, pools: &[AgentPool], work: &Work<'_>) {
        let live = pools.iter().find(|pool| pool.name == self.job.pool);
        let settled = live.map(|pool| pool.provisioning_state.as_str());
        if live.is_some() {
            self.unseen = None;
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Uncertain(failure) => match settled {
                // It is there: either this very request was taken, or one before klab was killed.
                Some("Deleting" | "Failed") | None => self.refused(failure),
                Some(_) => self.state = State::Running { since: Instant::now() },
            },
            State::Running { since } => {
                self.state = State::Running { since };
                match (self.operation(), settled) {
                    (Operation::Add, Some("Succeeded")) => {
                        if let Some(pool) = live {
                            warn_of_lost_tags(self.site, pool, work);
                        }
                        self.step_is_done();
                    }
                    (Operation::Delete, None)
                    | (Operation::Update | Operation::Scale | Operation::Upgrade, Some("Succeeded")) => {
                        self.step_is_done();
                    }
                    (Operation::Settle, None | Some("Succeeded" | "Failed" | "Canceled")) => self.step_is_done(),
                    (_, Some("Failed" | "Canceled")) => {
                        let unseen = || Failure::from_words(None, String::new());
                        let failure = live.map_or_else(unseen, |pool| reason::of_failed_pool(self.site, pool));
                        self.failed_in_azure(failure, live, work);
                    }
                    (Operation::Add | Operation::Update | Operation::Scale | Operation::Upgrade, None) => {
                        let patience = self.site.az.pace.unseen();
                        if self.unseen.get_or_insert_with(Instant::now).elapsed() > patience {
                            let waited = klab_lab::words::duration(patience);
                            let words = format!("Azure took the request, and shows no such pool after {waited}");
                            self.fail(Failure::from_words(None, words));
                        }
                    }
                    (operation, _) if since.elapsed() > self.site.az.pace.deadline => {
                        self.too_late(operation, since.elapsed());
                    }
                    _ => {}
                }
            }
            state => self.state = state,
        }
    }

    /// Azure took the request and did not do it: once more, or reported.
    fn failed_in_azure(&mut self, failure: Failure, live: Option<&AgentPool>, work: &Work<'_>) {
        let (pool, words) = (&self.job.pool, &failure.words);
        let events = work.events.about(About::Pool, pool);
        let again = match (self.operation(), live) {
            _ if self.made_again => None,
            // Nothing runs there yet.
            (Operation::Add, _) => {
                let words = format!("pool `{pool}` failed in Azure: {words}; it is removed and made once more");
                events.warn(Code::PoolMadeAgain, words);
                Some(Step::new(Operation::Delete, arguments::pool_delete(self.site.place, pool)))
            }
            (Operation::Update | Operation::Scale, Some(live)) if failure.class.passes() => {
                let words = format!("the change of pool `{pool}` failed in Azure: {words}; it is asked for once more");
                events.warn(Code::ChangeAskedAgain, words);
                self.job.steps.pop_front();
                Some(Step::new(Operation::Update, arguments::pool_again(self.site.place, live)))
            }
            _ => None,
        };
        self.made_again = true;
        if let Some(step) = again {
            self.job.steps.push_front(step);
            self.state = State::Waiting { not_before: Instant::now() };
            return;
        }
        let left = format!(
            "pool `{}` of cluster `{}`, in state Failed; the next `klab up` asks for it again",
            self.job.pool, self.site.place.cluster
        );
        self.fail(failure);
        if let State::Failed(error) = &mut self.state {
            error.left_behind.push(left);
        }
    }

    fn step_is_done(&mut self) {
        self.job.steps.pop_front();
        self.tries = Tries::new();
        self.unseen = None;
        if self.job.steps.is_empty() {
            self.finish();
        } else {
            self.state = State::Waiting { not_before: Instant::now() };
        }
    }

    fn finish(&mut self) {
        self.state = State::Done;
        if let Some(activity) = self.activity.take() {
            activity.finish(self.job.what.clone());
        }
    }

    fn fail(&mut self, failure: Failure) {
        let what = format!("could not {} pool `{}`", self.operation().words().0, self.job.pool);
        let error = failure.into_error(&what, Some(self.site.place));
        self.activity = None;
        self.state = State::Failed(error);
    }

    fn too_late(&mut self, operation: Operation, waited: Duration) {
        let message = format!(
            "could not {} pool `{}`: Azure was still at work after {}",
            operation.words().0,
            self.job.pool,
            klab_lab::words::duration(waited)
        );
        let going_on = self.under_way();
        let mut error = Error::message(Code::StillAtWork, message);
        error.left_behind.extend(going_on.map(Outside::into_words));
        self.activity = None;
        self.state = State::Failed(error);
    }
}
