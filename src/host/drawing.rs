//! Draws the boards of seats that somebody looks at, again whenever one changes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::observer::standing;
use super::register::Phase;
use super::seat::SeatId;
use super::stage::{Stage, Viewer};
use super::state::Host;
use super::templates::rendered;
use crate::board::Frame;
use crate::board::page::{self, Form};
use crate::error::{Error, Kind, Result};
use crate::grade::hinted;
use crate::lesson::staged;
use crate::observe;
use klab_lab::verify;

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
    let stage = Stage::new(seat, lab, viewer);
    draw(host, &stage).await?;
    let (stage, is_new) = host.stages.put(Arc::new(stage));
    if is_new {
        tokio::spawn(keep_current(Arc::clone(host), Arc::downgrade(&stage)));
    }
    Ok(stage)
}

/// Draws a board again whenever its seat has changed, for as long as somebody looks at it.
async fn keep_current(host: Arc<Host>, stage: Weak<Stage>) {
    let Some(news) = stage.upgrade().map(|stage| stage.news()) else { return };
    loop {
        Stage::changed(&news, AGAIN).await;
        let Some(stage) = stage.upgrade() else { return };
        if let Err(error) = draw(&host, &stage).await {
            tracing::warn!(seat = %stage.seat, "the board could not be drawn: {error:#}");
        }
        drop(stage);
        tokio::time::sleep(TOGETHER).await;
    }
}

/// Looks at the seat, and shows what is otherwise.
async fn draw(host: &Host, stage: &Stage) -> Result<()> {
    let Some(course) = host.course(&stage.lab) else { return Ok(()) };
    let frame = frame(host, stage.seat, &stage.lab).await?;
    let form = match stage.viewer {
        Viewer::Learner => Form::Live,
        Viewer::Instructor => Form::Watched,
    };
    let mut parts = page::all_parts(&frame, Some(&course.written), form)?;
    parts.push(("silence".to_owned(), String::new()));
    parts.push(("class".to_owned(), bar(host, stage)?));
    stage.show(parts, &frame.board);
    Ok(())
}

/// What stands above the board: what the instructor says, how long the class is open, what else there is.
fn bar(host: &Host, stage: &Stage) -> Result<String> {
    let base = host.base();
    let document = {
        let register = host.register();
        let name = register.seat(stage.seat).and_then(|seat| register.person(seat.person)).map(|person| &person.name);
        json!({
            "base": base, "lab": stage.lab, "seat": stage.seat, "name": name, "hints": register.hints(stage.seat),
            "agreed": register.agreed(stage.seat), "is_learner": stage.viewer == Viewer::Learner,
            "closes": register.times().closes.map(|at| at.strftime("%H:%M UTC").to_string()),
            "is_open": register.phase(Timestamp::now()) == Phase::Open,
        })
    };
    rendered("bar.html", &document)
}

/// A seat at this moment.
///
/// # Errors
/// When its cluster does not answer.
pub async fn frame(host: &Host, seat: SeatId, lab: &str) -> Result<Frame> {
    let course = host.course(lab).ok_or_else(|| Error::message(Kind::Outside, "the lab is gone"))?;
    let written = course.lab();
    let progress = host.progress(seat, lab)?;
    let step = progress.graded(written.steps.len());
    let mut stage = staged(written, &progress, step);
    for check in &mut stage.checks {
        // Nobody is late who looks on.
        check.within = None;
    }
    let client = host.client_of(seat)?;
    let mut snapshot = observe::look_at_all(&client).await?;
    observe::fetch(&client, &stage.checks, &mut snapshot).await?;
    let around = verify::Context::of(&stage);
    let mut report = verify::evaluate(&stage.checks, &snapshot, &around);
    if !report.ok() {
        verify::diagnose(&mut report, &stage.checks, &snapshot, &around);
        let since = standing(host, seat).map_or(0, |standing| standing.since.as_second());
        if Timestamp::now().as_second().saturating_sub(since) >= HINT {
            hinted(&mut report, step.and_then(|step| written.steps.get(step)?.hint.as_deref()));
        } else {
            report.checks.iter_mut().for_each(|check| check.hint = None);
        }
    }
    Ok(Frame::of(stage, snapshot, report, progress))
}
