//! `klab down` of a class: every seat is removed as any lab is, and looked for afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::Context;
use super::super::one as lab;
use super::{Failed, Workshop, jobs, removal, show};
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::parallel::parallel;
use klab_operations::state::Lock;
use klab_operations::state::class::{Class, seat_name};
use klab_operations::state::home::{remove_empty, state_error};

/// Removes the class with all its seats.
///
/// # Errors
/// When something of a seat could not be removed; the others are gone then, and another `down` tries the rest.
pub(in super::super) fn down(context: &Context, name: &str) -> Result<()> {
    let folder = context.home.lab(name);
    let Some(lock) = Lock::take_existing(&folder, name, "down")? else { return Ok(()) };
    let Some(mut class) = Class::read(&context.home, name)? else { return Ok(()) };
    context.interruption_leaves(Some(format!("class `{name}` is partly removed; `klab down {name}` continues")));
    let seats: Vec<u32> = class.seats.iter().copied().collect();
    remove(context, &mut class, &seats)?;
    lab::retire(context)?;
    std::fs::remove_dir_all(&folder).map_err(|error| state_error(error, "remove", &folder))?;
    drop(lock);
    remove_empty(&folder);
    context.interruption_leaves(None);
    let since = jiff::Timestamp::now().duration_since(class.created).unsigned_abs();
    let (count, seats) = (seats.len(), plural(seats.len(), "seat"));
    context.ui.events().about(About::Lab, name).counting(count).note(
        Verb::RemoveClass,
        format!("nothing of lab `{name}` and its {seats} is left; it was up for {}", duration(since)),
    );
    Ok(())
}

/// Removes seats; the class's record lists them until they are gone.
///
/// # Errors
/// When something of one could not be removed.
pub(super) fn remove(context: &Context, class: &mut Class, seats: &[u32]) -> Result<()> {
    let name = class.lab.clone();
    let what = format!("{} of lab {name}", plural(seats.len(), "seat"));
    let activity =
        context.ui.events().about(About::Lab, &name).counting(seats.len()).start(Verb::RemoveSeats, what.clone());
    let (workshop, done) = (Workshop::new(context), AtomicUsize::new(0));
    let remove = |number: &u32| {
        let outcome = lab::remove(&workshop.context(), &seat_name(&name, *number));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        activity.progress(format!("{what}: {done} of {} done", seats.len()));
        (*number, outcome)
    };
    let workers = jobs(class.provider);
    // The last one alone: it finds none beside it, and takes down what the seats share.
    let (last, others) = seats.split_last().map_or((None, seats), |(last, others)| (Some(last), others));
    let together = removal::remove(&workshop, class, others, |count| {
        done.store(count, Ordering::Relaxed);
        activity.progress(format!("{what}: {count} of {} done", seats.len()));
    })?;
    let others: Vec<u32> = others.iter().copied().filter(|number| !together.contains(number)).collect();
    let mut outcomes = parallel(&others, workers, remove)?;
    outcomes.extend(together.into_iter().map(|number| (number, Ok(()))));
    outcomes.extend(last.map(remove));
    let mut failed = Vec::new();
    for (number, outcome) in outcomes {
        match outcome {
            Ok(()) => {
                class.seats.remove(&number);
            }
            Err(error) => failed.push(Failed { number, error }),
        }
    }
    if failed.is_empty() {
        activity.finish(what);
        // The class's record goes with its folder where no seat is left.
        return if class.seats.is_empty() { Ok(()) } else { class.write(&context.home) };
    }
    activity.end();
    class.write(&context.home)?;
    let count = plural(failed.len(), "seat");
    let numbers = show(context, failed);
    Err(Error::message(Code::SeatsFailed, format!("{count} of lab `{name}` could not be removed: {numbers}"))
        .hint(format!("`klab down {name}` tries again")))
}
