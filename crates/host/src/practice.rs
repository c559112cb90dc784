//! The labs of a class between which a learner goes, and practice: labs as tasks against each learner's own clock.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::failed;
use super::refusal::Refusal;
use super::state::{Host, Learner, make_seat};
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Error, Result};

/// A lab of the class, as one learner has it.
struct Task<'h> {
    lab: &'h str,
    title: &'h str,
    /// Whether all of its steps are done.
    is_done: bool,
}

/// The labs of the class in their order, as a learner has them.
fn tasks(host: &Host, person: u32) -> Vec<Task<'_>> {
    let seats: Vec<_> = {
        let register = host.register();
        register.labs.iter().map(|lab| (lab.clone(), register.seat_of(person, lab))).collect()
    };
    let task = |(lab, seat): &(String, Option<_>)| {
        let written = host.course(lab)?.lab();
        let steps = written.steps.len();
        let done = seat.and_then(|seat| host.progress(seat, lab).ok()).map_or(0, |progress| progress.done);
        Some(Task { lab: &written.name.value, title: written.shown_title(), is_done: steps > 0 && done >= steps })
    };
    seats.iter().filter_map(task).collect()
}

/// What the page of a seat shows of the labs of its class, where it has several; in a practice with the learner's score and time.
pub(super) fn document(host: &Host, person: u32, here: &str) -> Value {
    let all = tasks(host, person);
    let of = |task: &Task<'_>| json!({ "lab": task.lab, "title": task.title, "is_done": task.is_done, "is_here": task.lab == here });
    let next = all.iter().find(|task| !task.is_done && task.lab != here).map(|task| task.lab);
    let ends = host.ends(person);
    json!({
        "tasks": all.iter().map(of).collect::<Vec<_>>(), "several": all.len() > 1, "is_practice": ends.is_some(),
        "solved": all.iter().filter(|task| task.is_done).count(), "next": next,
        "ends": ends.map(|at| at.to_string()), "ends_at": ends.map(|at| at.strftime("%H:%M UTC").to_string()),
    })
}

/// A line about a practice, for a terminal; none where the class is a lesson.
pub(super) fn score(host: &Host, person: u32) -> Option<String> {
    let left = host.ends(person)?.duration_since(Timestamp::now());
    let all = tasks(host, person);
    let solved = all.iter().filter(|task| task.is_done).count();
    let open: Vec<&str> = all.iter().filter(|task| !task.is_done).map(|task| task.lab).collect();
    let left =
        left.try_into().map_or_else(|_| "your time is over".to_owned(), |left| format!("{} left", duration(left)));
    let open = if open.is_empty() { String::new() } else { format!("\nnot solved: {}", open.join(", ")) };
    Some(format!("practice: solved {solved} of {}, {left}{open}", plural(all.len(), "task")))
}

/// Gives a learner their seat in another lab of the class.
///
/// # Errors
/// When there is no such lab or no room, or the learner may change nothing now.
pub(super) async fn go(host: &Host, learner: &Learner, lab: &str) -> std::result::Result<(), Refusal> {
    let server = host.server().ok_or_else(|| Refusal::internal("the class has not begun"))?;
    let (seat, written) = {
        let mut register = host.register();
        let (seat, entries) = register.seat_in(learner.person, lab, Timestamp::now())?;
        let written = (!entries.is_empty()).then(|| host.take(&mut register, entries));
        (seat, written)
    };
    if let Some(written) = written {
        host.settled(written).await.map_err(|error| failed(&error))?;
    }
    let (server, lab) = (Arc::clone(server), lab.to_owned());
    let made = tokio::task::spawn_blocking(move || make_seat(&server, seat, &lab)).await;
    made.map_err(|error| Refusal::internal(error.to_string()))??;
    host.audit.seat("task", seat, "learner");
    // The instructor sees the seat at once.
    let _ = host.moves.send(seat);
    Ok(())
}

/// Refuses a learner who would be shown or done what a practice asks for.
///
/// # Errors
/// In a practice, unless the instructor asks.
pub(super) fn refuse_help(host: &Host, learner: &Learner, what: &str) -> Result<()> {
    if host.settings.practice.is_none() || learner.ended.is_none() {
        return Ok(());
    }
    let message = format!("in a practice you find the way alone: there is no `{what}`");
    Err(Error::message(Code::ClassRefuses, message).hint("`klab verify` checks what you did"))
}
