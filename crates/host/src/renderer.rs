//! Draws the boards of seats that somebody looks at, again whenever one changes.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::board_cache::{Stage, Viewer};
use super::grading::at_hand;
use super::observer::standing;
use super::practice;
use super::seat::SeatId;
use super::state::Host;
use super::templates::rendered;
use klab_lab::verify::{self, Asides};
use klab_operations::board::Frame;
use klab_operations::board::page::{self, Form};
use klab_operations::changes::find_asides;
use klab_operations::error::{Code, Context, Error, Result};
use klab_operations::grade::hinted;
use klab_operations::lesson::staged;
use klab_operations::observe;

/// How often a board is looked at again though nothing changed: what is written of times grows old.
const AGAIN: Duration = Duration::from_secs(30);
/// Boards come no closer than this.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long a learner tries alone before hints are shown.
const HINT: i64 = 120;

/// The board of a seat, for one who begins to look at it.
///
/// # Errors
/// When the seat does not answer.
pub async fn stage_of(host: &Arc<Host>, seat: SeatId, lab: &str, viewer: Viewer) -> Result<Arc<Stage>> {
    if let Some(known) = host.stages.get(seat, viewer) {
        return Ok(known);
    }
    let (own, stage) = (Arc::clone(host), Arc::new(host.stages.begin(seat, lab, viewer)));
    let first = host.boards.spawn(async move {
        draw(&own, &stage).await?;
        let (stage, is_new) = own.stages.put(stage);
        Ok::<_, Error>((own, stage, is_new))
    });
    let (own, stage, is_new) = first.await.code(Code::ClassFault, || "the board could not be drawn".to_owned())??;
    if is_new {
        host.boards.spawn(keep_current(own, Arc::downgrade(&stage)));
    }
    Ok(stage)
}

/// Why a board is drawn again.
enum Why<'b> {
    /// Its seat has changed.
    Changed,
    /// It has grown old, and it is its turn for as long as this is kept.
    Old(SemaphorePermit<'b>),
}

/// Returns when a board is to be drawn again. One that has changed waits for no other: those that have only grown old, all at the
/// same time where a class has opened its pages together, are drawn one after the other.
async fn due<'b>(news: &Notify, old_ones: &'b Semaphore) -> Why<'b> {
    if tokio::time::timeout(AGAIN, news.notified()).await.is_ok() {
        return Why::Changed;
    }
    tokio::select! {
        biased;
        () = news.notified() => Why::Changed,
        // It is never closed.
        Ok(turn) = old_ones.acquire() => Why::Old(turn),
    }
}

/// Draws a board again whenever its seat has changed, for as long as somebody looks at it.
async fn keep_current(host: Arc<Host>, stage: Weak<Stage>) {
    let Some(news) = stage.upgrade().map(|stage| stage.news()) else { return };
    // What the first picture does not say yet.
    news.notify_one();
    loop {
        let why = due(&news, host.boards.old_ones()).await;
        let Some(stage) = stage.upgrade() else { return };
        let since = Instant::now();
        if let Err(error) = draw_all(&host, &stage).await {
            tracing::warn!(seat = %stage.seat, "the board could not be drawn: {error:#}");
        }
        drop(stage);
        if let Why::Old(_turn) = why {
            // Half of the time is for boards that have changed, and for the clusters.
            tokio::time::sleep(since.elapsed()).await;
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

/// Looks at the seat, shows what is otherwise, and then what differs from the lab: the page does not wait for that.
async fn draw_all(host: &Host, stage: &Stage) -> Result<()> {
    let is_well = draw(host, stage).await?;
    if compare(host, stage, is_well).await? {
        draw(host, stage).await?;
    }
    Ok(())
}

/// Compares a seat with its lab where a check does not hold, or where that costs little; says whether there is news.
async fn compare(host: &Host, stage: &Stage, is_well: bool) -> Result<bool> {
    let Some(course) = host.course(&stage.lab) else { return Ok(false) };
    let (lab, twin) = (course.lab(), &course.twin);
    let progress = host.progress(stage.seat, &stage.lab)?;
    let (step, done) = (progress.graded(lab.steps.len()), progress.done);
    if course.is_task() || lab.steps.is_empty() || (is_well && !twin.is_made(done.saturating_add(1))) {
        return Ok(stage.keep_asides(step, Asides::default()));
    }
    let client = host.client_of(stage.seat)?;
    Ok(stage.keep_asides(step, find_asides(&client, lab, (step, done), is_well, at_hand(twin)).await?))
}

/// Looks at the seat, and shows what is otherwise; says whether all checks hold.
async fn draw(host: &Host, stage: &Stage) -> Result<bool> {
    let Some(course) = host.course(&stage.lab) else { return Ok(true) };
    let mut frame = frame(host, stage.seat, &stage.lab).await?;
    let step = frame.progress.graded(course.lab().steps.len());
    Arc::make_mut(&mut frame.report).mention(stage.asides(step));
    let form = form(host, stage.seat, stage.viewer);
    let mut parts = page::all_parts(&frame, Some(course.shown(&frame.progress, form)), form)?;
    parts.push(("silence".to_owned(), String::new()));
    parts.push(("class".to_owned(), bar(host, stage)?));
    stage.show(parts, &frame.board);
    Ok(frame.report.ok())
}

/// What a page may do: nothing in a class that is closed or after the learner's time, which the bar says.
pub fn form(host: &Host, seat: SeatId, viewer: Viewer) -> Form {
    match viewer {
        Viewer::Learner if host.is_open_at(seat) => Form::Live,
        Viewer::Learner | Viewer::Instructor => Form::Watched,
    }
}

/// What stands above the board: what the instructor says, how long the class is open, what else there is.
fn bar(host: &Host, stage: &Stage) -> Result<String> {
    let base = host.base();
    let person = host.register().seat(stage.seat).map(|seat| seat.person).unwrap_or_default();
    let labs = practice::document(host, person, &stage.lab);
    let document = {
        let register = host.register();
        let name = register.person(person).map(|person| &person.name);
        let late = register.refuse_late(person, Timestamp::now()).err();
        json!({
            "labs": labs, "late": late.map(|refusal| refusal.message),
            "base": base, "lab": stage.lab, "seat": stage.seat, "name": name, "hints": register.hints(stage.seat),
            "agreed": register.agreed(stage.seat), "is_learner": stage.viewer == Viewer::Learner,
            "closes": register.times().closes.map(|at| at.to_string()),
            "closes_at": register.times().closes.map(|at| at.strftime("%H:%M UTC").to_string()),
        })
    };
    rendered("bar.html", &document)
}

/// A seat at this moment.
///
/// # Errors
/// When its cluster does not answer.
pub async fn frame(host: &Host, seat: SeatId, lab: &str) -> Result<Frame> {
    let course = host.course(lab).ok_or_else(|| Error::message(Code::NotInClass, "the lab is gone"))?;
    let written = course.lab();
    let progress = host.progress(seat, lab)?;
    let step = progress.graded(written.steps.len());
    let mut stage = staged(written, &progress, step);
    for check in &mut stage.checks {
        // A viewer sees it without delay.
        check.within = None;
    }
    let client = host.client_of(seat)?;
    let mut snapshot = observe::look_at_all(&client).await?;
    observe::fetch(&client, &stage.checks, &mut snapshot).await?;
    let around = verify::Context::of(&stage);
    let mut report = verify::evaluate(&stage.checks, &snapshot, &around);
    if !report.ok() {
        verify::diagnose(&mut report, &stage.checks, &snapshot, &around);
        if course.is_task() {
            report.drop_suggestions();
        }
        let since = standing(host, seat).map_or(0, |standing| standing.since.as_second());
        if Timestamp::now().as_second().saturating_sub(since) >= HINT {
            hinted(&mut report, step.and_then(|step| written.steps.get(step)?.hint.as_deref()));
        } else {
            report.checks.iter_mut().for_each(|check| check.hint = None);
        }
    }
    Ok(Frame::of(stage, snapshot, report, progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_board_that_has_changed_waits_for_no_board_that_is_only_old() {
        let (old_ones, begun) = (Semaphore::new(1), tokio::time::Instant::now());
        let [old, waiting, changed] = [(); 3].map(|()| Notify::new());
        let turn = due(&old, &old_ones).await;
        assert!(matches!(turn, Why::Old(_)) && begun.elapsed() >= AGAIN);
        let late = async {
            tokio::time::sleep(AGAIN * 2).await;
            changed.notify_one();
        };
        let (why, ()) = futures::join!(due(&changed, &old_ones), late);
        assert!(matches!(why, Why::Changed), "it has waited for its turn meanwhile");
        let waits = tokio::time::timeout(AGAIN * 3, due(&waiting, &old_ones)).await;
        assert!(waits.is_err(), "one that is old at a time");
        drop(turn);
        assert!(matches!(due(&waiting, &old_ones).await, Why::Old(_)));
    }
}
