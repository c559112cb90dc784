//! Classes: what `up`, `down`, `verify`, `list` and `status` do where a lab has seats. Each seat is a lab of its own, worked
//! on by the same code as any other; here is only what makes many of them a class.

mod copies;
mod down;
pub(super) mod hosted;
mod pause;
mod removal;
mod status;
mod up;
mod verify;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use self::down::down;
pub(super) use self::pause::switch;
pub(super) use self::status::{row, status};
pub(super) use self::up::up;
pub(super) use self::verify::{looks, verify};

use super::Context;
use klab_lab::spec::{Lab, Provider};
use klab_lab::words::first_of;
use klab_operations::error::Error;
use klab_operations::event::{Event, Events, Sink};
use klab_operations::interruption::Interruption;
use klab_operations::provider::Memory;
use klab_operations::state::Home;
use klab_operations::ui::Ui;

/// Most seats that are named one by one.
const NAMED: usize = 12;

/// How many seats klab works on at a time by default: kind makes containers on this machine, a cloud has room.
pub(super) fn jobs(provider: Provider) -> usize {
    provider.profile().labs_at_once
}

/// How many seats are under their locks at a time: each lock is an open file, and a process has a limited number of those.
pub(super) fn at_once() -> usize {
    use rustix::process::{Resource, getrlimit};
    let files = getrlimit(Resource::Nofile).current.map_or(1024, |files| usize::try_from(files).unwrap_or(1024));
    (files / 2).clamp(16, 1024)
}

/// What the threads that work on seats share.
pub(super) struct Workshop {
    ui: Ui,
    home: Home,
    memory: Memory,
    sink: Arc<Once>,
}

impl Workshop {
    pub(super) fn new(context: &Context) -> Self {
        let sink = Arc::new(Once { events: context.ui.events(), said: Mutex::default() });
        Self { ui: context.ui.clone(), home: context.home.clone(), memory: context.memory.clone(), sink }
    }

    /// A context for one seat's work, in whichever thread.
    pub(super) fn context(&self) -> Context {
        let sink: Arc<dyn Sink> = Arc::<Once>::clone(&self.sink);
        Context::new(self.ui.apart(sink), self.home.clone(), Interruption::default()).remembering(&self.memory)
    }
}

/// Says each warning once, however many seats have it, and nothing else.
struct Once {
    events: Events,
    said: Mutex<BTreeSet<String>>,
}

impl Sink for Once {
    fn event(&self, event: &Event) {
        if let Event::Warned { message, .. } = event
            && self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone())
        {
            self.events.pass(event);
        }
    }
}

/// The lab of a seat: the class's lab under the seat's name.
pub(super) fn lab_of(lab: &Lab, seat: &str) -> Lab {
    let mut lab = lab.clone();
    seat.clone_into(&mut lab.name.value);
    lab
}

/// What became of a seat that something went wrong with.
pub(super) struct Failed {
    pub(super) number: u32,
    pub(super) error: Error,
}

/// Shows what went wrong, the same sentence of several seats once. Gives the numbers of the seats in words.
pub(super) fn show(context: &Context, mut failed: Vec<Failed>) -> String {
    failed.sort_by_key(|failed| failed.number);
    let numbers: Vec<String> = failed.iter().map(|failed| failed.number.to_string()).collect();
    let mut kinds: Vec<(String, Vec<String>, Error)> = Vec::new();
    for Failed { number, error } in failed {
        let words = error.to_string();
        match kinds.iter_mut().find(|(known, ..)| *known == words) {
            Some((_, seats, _)) => seats.push(number.to_string()),
            None => kinds.push((words, vec![number.to_string()], error)),
        }
    }
    for (_, seats, error) in kinds {
        let word = if seats.len() == 1 { "seat" } else { "seats" };
        let mut error = error;
        error.source = error.source.context(format!("{word} {}", listed(&seats)));
        context.ui.error(&context.advised(error));
    }
    listed(&numbers)
}

/// `1, 2, 7`, shortened where they are many.
pub(super) fn listed(names: &[String]) -> String {
    first_of(names, NAMED)
}
