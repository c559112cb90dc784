//! Follows the seats of a class: klab looks at a seat in which something has changed, once it has come to rest, and at no
//! other. An unused seat costs nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::grading::keep_up;
use super::metrics::count;
use super::seat::SeatId;
use super::standing::LearnerProgress;
use super::state::Host;
use klab_operations::error::{Error, Result};
use klab_operations::lesson::pass::acting;
use klab_operations::lesson::peek::{Glance, glance};

/// A seat is looked at no more often than this.
const EACH: Duration = Duration::from_millis(250);
/// How long a seat that has changed is left alone first: most changes come several at a time.
const TOGETHER: Duration = Duration::from_millis(20);
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(5);

/// Follows a class for as long as its server runs, in a thread of its own.
///
/// # Errors
/// When the system refuses a thread.
pub fn begin(host: &Arc<Host>) -> Result<()> {
    let host = Arc::clone(host);
    let runtime = klab_operations::client::runtime()?;
    let thread = std::thread::Builder::new().name("observer".to_owned());
    thread
        .spawn(move || runtime.block_on(follow(&host)))
        .map(drop)
        .map_err(|error| Error::from(anyhow::Error::new(error)))
}

async fn follow(host: &Arc<Host>) {
    let Some(server) = host.server().cloned() else { return };
    // The lesson of a seat has gone on, or its cluster has come to rest after a change.
    let (mut moves, mut settled) = (host.moves.subscribe(), server.quiescence());
    // When each seat is due, and when each was looked at last.
    let mut due: BTreeMap<SeatId, Instant> = BTreeMap::new();
    let mut last: HashMap<SeatId, Instant> = HashMap::new();
    loop {
        let next = due.values().min().copied();
        tokio::select! {
            () = server.stopped() => return,
            Ok(seat) = moves.recv() => ask(&mut due, &last, seat),
            names = settled.next() => {
                // A template is a cluster, too, and no seat.
                names.iter().filter_map(|name| name.parse::<SeatId>().ok()).for_each(|seat| ask(&mut due, &last, seat));
            }
            () = until(next) => {
                let now = Instant::now();
                let ready: Vec<SeatId> = due.iter().filter(|(_, at)| **at <= now).map(|(seat, _)| *seat).collect();
                for seat in ready {
                    due.remove(&seat);
                    last.insert(seat, Instant::now());
                    look(host, seat).await;
                }
                last.retain(|_, at| at.elapsed() < EACH);
            }
        }
    }
}

/// Notes that a seat is to be looked at.
fn ask(due: &mut BTreeMap<SeatId, Instant>, last: &HashMap<SeatId, Instant>, seat: SeatId) {
    let soon = klab_cluster::deadline::within(TOGETHER);
    let rested = last.get(&seat).map_or(soon, |last| klab_cluster::deadline::after(*last, EACH));
    due.entry(seat).or_insert_with(|| soon.max(rested));
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Looks at a seat and tells those who look on.
async fn look(host: &Arc<Host>, seat: SeatId) {
    match tokio::time::timeout(LOOK, judged(host, seat)).await {
        Ok(Ok(is_ahead)) => {
            count(&host.metrics.judged);
            if is_ahead {
                let host = Arc::clone(host);
                // Other seats do not wait for it.
                tokio::spawn(async move {
                    if let Err(error) = keep_up(&host, seat).await {
                        tracing::warn!(%seat, "the lesson could not go on by itself: {error:#}");
                    }
                });
            }
        }
        Ok(Err(error)) => tracing::warn!(%seat, "the seat could not be looked at: {error:#}"),
        Err(_) => tracing::warn!(%seat, "the seat does not answer"),
    }
    host.stages.poke(seat);
}

/// Records where the learner of a seat is; returns whether a step holds that klab has not opened.
async fn judged(host: &Host, seat: SeatId) -> Result<bool> {
    let Some(mut standing) = standing(host, seat) else { return Ok(false) };
    let Some(course) = host.course(&standing.lab) else { return Ok(false) };
    let lab = course.lab();
    let progress = host.progress(seat, &standing.lab)?;
    let Glance { step, report, ahead } = glance(&host.client_of(seat)?, lab, &progress).await?;
    standing.step = step.map_or(0, |step| step.saturating_add(1));
    standing.step_name =
        step.and_then(|step| lab.steps.get(step)).map(|step| step.name.value.clone()).unwrap_or_default();
    standing.held = Some((report.held(), report.checks.len()));
    let failing = report.checks.iter().find(|check| !check.verdict.is_held());
    standing.failing = failing.map_or_else(String::new, |check| format!("{} → {}", check.name, check.now()));
    standing.active = Some(Timestamp::now());
    host.standings.put(standing);
    Ok(ahead.is_some())
}

/// What is known of a seat without looking at its cluster: what was seen last, and how far its lesson has come now.
pub fn standing(host: &Host, seat: SeatId) -> Option<LearnerProgress> {
    let (lab, (person, name), at, agreed, revoked) = {
        let register = host.register();
        let known = register.seat(seat)?;
        let name = register.person(known.person).map(|person| person.name.clone()).unwrap_or_default();
        (known.lab.clone(), (known.person, name), known.at, register.agreed(seat), register.is_barred(known.person))
    };
    let course = host.course(&lab)?;
    let progress = host.progress(seat, &lab).ok()?;
    let steps = course.lab().steps.len();
    let step = progress.graded(steps);
    let seen = host.standings.get(seat);
    // By the step that is graded, or by the next one, which a learner may be at without opening it.
    let number = |step: usize| step.saturating_add(1);
    let here = [Some(step.map_or(0, number)), acting(course.lab(), &progress).map(number)];
    // What was seen at a step that the lesson has left says nothing of where it is now.
    let current = seen.as_ref().filter(|seen| seen.done == progress.done && here.contains(&Some(seen.step)));
    let since = match (current, &seen) {
        (Some(current), _) => current.since,
        (None, Some(_)) => Timestamp::now(),
        (None, None) => klab_operations::state::Progress::written_at(&host.seat_folder(seat))
            .and_then(|time| Timestamp::try_from(time).ok())
            .unwrap_or(at),
    };
    let spec = step.and_then(|step| course.lab().steps.get(step));
    Some(LearnerProgress {
        seat,
        lab,
        person,
        name,
        step: step.map_or(0, |step| step.saturating_add(1)),
        step_name: spec.map(|step| step.name.value.clone()).unwrap_or_default(),
        done: progress.done,
        steps,
        held: current.and_then(|current| current.held),
        failing: current.map(|current| current.failing.clone()).unwrap_or_default(),
        since,
        active: seen.as_ref().and_then(|seen| seen.active),
        agreed,
        revoked,
    })
}
