//! Seats that are removed many at a time, where a provider can do that: what is left to do for each is to remove its folder.

use std::collections::BTreeSet;

use super::super::Context;
use super::copies::synced;
use super::{Workshop, at_once, jobs};
use klab_operations::error::Result;
use klab_operations::parallel::parallel;
use klab_operations::state::class::{Class, seat_name};
use klab_operations::state::home::{remove_empty, state_error};
use klab_operations::state::journal::remove_with_folder;
use klab_operations::state::{Journal, Lock};

const COMMAND: &str = "down";

/// A seat that is about to be removed.
struct Begun {
    number: u32,
    name: String,
    _lock: Lock,
}

/// Removes those of the seats that can be removed together, and gives their numbers. The others, and those with which
/// anything goes wrong, are left to be removed as any lab is, which says what is wrong.
///
/// # Errors
/// When the system refuses a thread.
pub(super) fn remove(
    workshop: &Workshop,
    class: &Class,
    numbers: &[u32],
    progress: impl Fn(usize),
) -> Result<BTreeSet<u32>> {
    let context = workshop.context();
    let provider = context.provider(class.provider)?;
    let Some(maker) = provider.copies() else { return Ok(BTreeSet::new()) };
    let (workers, mut removed) = (jobs(class.provider), BTreeSet::new());
    for part in numbers.chunks(at_once()) {
        let begun = parallel(part, workers, |number| {
            begin(&workshop.context(), class, *number, &seat_name(&class.lab, *number)).ok().flatten()
        });
        let begun: Vec<Begun> = begun?.into_iter().flatten().collect();
        let names: Vec<String> = begun.iter().map(|seat| seat.name.clone()).collect();
        if names.is_empty() || synced(&context.home).is_err() {
            continue;
        }
        let Ok(gone) = maker.remove_all(&names) else { continue };
        let begun: Vec<Begun> = begun.into_iter().filter(|seat| gone.contains(&seat.name)).collect();
        let ended = parallel(&begun, workers, |seat| end(&workshop.context(), seat).ok().map(|()| seat.number));
        removed.extend(ended?.into_iter().flatten());
        progress(removed.len());
    }
    Ok(removed)
}

/// Writes down what is about to be done; none where there is no such lab, or it is on another provider.
fn begin(context: &Context, class: &Class, number: u32, name: &str) -> Result<Option<Begun>> {
    let folder = context.home.lab(name);
    let Some(lock) = Lock::take_existing(&folder, name, COMMAND)? else { return Ok(None) };
    if context.record(name)?.is_none_or(|record| record.provider != class.provider) {
        return Ok(None);
    }
    let failed = |error| state_error(error, "write the journal in", &folder);
    let mut journal = Journal::open(&folder, COMMAND).map_err(failed)?;
    journal.set_provider(class.provider);
    journal.intend_later("remove-cluster", name).map_err(failed)?;
    Ok(Some(Begun { number, name: name.to_owned(), _lock: lock }))
}

/// Removes what klab knew of a seat whose cluster is gone.
fn end(context: &Context, seat: &Begun) -> Result<()> {
    let folder = context.home.lab(&seat.name);
    remove_with_folder(&folder).map_err(|error| state_error(error, "remove", &folder))?;
    remove_empty(&folder);
    Ok(())
}
