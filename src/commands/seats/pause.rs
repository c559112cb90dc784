//! `klab pause` and `klab resume` of a class: every seat, side by side.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::Context;
use super::super::one::{Switch, switch_one};
use super::{Failed, Workshop, jobs, show};
use klab_lab::words::plural;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::parallel::parallel;
use klab_operations::provider::Work;
use klab_operations::state::class::{Class, seat_name};
use klab_operations::state::{Journal, Lock};

/// Stops or starts the machines of all seats.
///
/// # Errors
/// When the provider has none, or a seat could not be switched; the others are, then.
pub(in super::super) fn switch(context: &Context, class: &Class, command: &'static str, act: Switch) -> Result<()> {
    let name = &class.lab;
    let provider = class.provider;
    let _lock = Lock::take(&context.home.lab(name), name, command)?;
    let events = context.ui.events();
    if context.provider(provider)?.machines().is_none() {
        // It has no machines; that is said once, of the class.
        let mut work = Work { journal: &mut Journal::nowhere(), events: &events };
        return act(context.provider(provider)?.as_ref(), name, &mut work);
    }
    let verb = if command == "pause" { Verb::StopSeats } else { Verb::StartSeats };
    let what = format!("{} of lab {name}", plural(class.seats.len(), "seat"));
    let activity = events.about(About::Lab, name).counting(class.seats.len()).start(verb, what.clone());
    let (workshop, done) = (Workshop::new(context), AtomicUsize::new(0));
    let seats: Vec<u32> = class.seats.iter().copied().collect();
    let outcomes = parallel(&seats, jobs(provider), |number| {
        let outcome = switch_one(&workshop.context(), &seat_name(name, *number), command, act);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        activity.progress(format!("{what}: {done} of {} done", seats.len()));
        (*number, outcome)
    })?;
    let failed = outcomes.into_iter().filter_map(|(number, outcome)| Some(Failed { number, error: outcome.err()? }));
    let failed: Vec<Failed> = failed.collect();
    if failed.is_empty() {
        activity.finish(what);
        return Ok(());
    }
    activity.end();
    let count = plural(failed.len(), "seat");
    let numbers = show(context, failed);
    let message = format!("could not {command} {count} of lab `{name}`: {numbers}");
    Err(Error::message(Code::SeatsFailed, message).hint(format!("`klab {command} {name}` tries again")))
}
