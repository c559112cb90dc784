//! A lab that a command works on: its lock, its record, its provider and its journal, taken together.

use std::time::Instant;

use crate::background;
use crate::context::Context;
use crate::error::Result;
use crate::event::{About, Events, Verb};
use crate::provider::Work;
use crate::state::home::state_error;
use crate::state::lock::Busy;
use crate::state::{Journal, Lock, Record};
use klab_cluster::deadline;

/// A lab under its lock. What an interruption would leave of the work is forgotten when it goes.
pub struct LockedLab<'c> {
    context: &'c Context,
    /// What klab knows of the lab; none where a klab was killed before it noted what it was about to do.
    pub record: Option<Record>,
    /// Opened by the first work, so that of a command that is refused nothing stays.
    journal: Option<Journal>,
    /// The lab's name.
    name: String,
    command: &'static str,
    events: Events,
    /// What an interruption leaves once the work is done.
    afterwards: Option<String>,
    _lock: Lock,
}

impl<'c> LockedLab<'c> {
    /// Takes a lab that is up, or partly; `None` where there is none of that name.
    ///
    /// # Errors
    /// When another klab works on it, or its state cannot be read.
    pub fn existing(context: &'c Context, lab: &str, command: &'static str) -> Result<Option<Self>> {
        let folder = context.home.lab(lab);
        match in_turn(context, lab, command, |holder| Lock::take_existing(&folder, lab, holder))? {
            Some(lock) => Self::under(lock, context, lab, command).map(Some),
            None => Ok(None),
        }
    }

    /// Takes a lab that is up, or is about to be.
    ///
    /// # Errors
    /// When another klab works on it, or its state cannot be read.
    pub fn new(context: &'c Context, lab: &str, command: &'static str) -> Result<Self> {
        let folder = context.home.lab(lab);
        let lock = in_turn(context, lab, command, |holder| Lock::take(&folder, lab, holder))?;
        Self::under(lock, context, lab, command)
    }

    fn under(lock: Lock, context: &'c Context, lab: &str, command: &'static str) -> Result<Self> {
        context.ui.works_on(lab);
        let record = context.record(lab)?;
        let (name, events) = (lab.to_owned(), context.ui.events());
        Ok(Self { context, record, journal: None, name, command, events, afterwards: None, _lock: lock })
    }

    /// What the command works with.
    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// Begins the record of a lab that had none, or changes what it says.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_record(&mut self, record: &Record) -> Result<()> {
        record.write(&self.context.home.lab(&self.name))?;
        self.record = Some(record.clone());
        Ok(())
    }

    /// Says what an interruption from now on would leave.
    pub fn interruption_leaves(&self, words: String) {
        self.context.interruption_leaves(Some(words));
    }

    /// Says what an interruption leaves once the work is done, for a command that goes on after it.
    pub fn interruption_leaves_afterwards(&mut self, words: String) {
        self.afterwards = Some(words);
    }

    /// What a provider needs to work on the lab.
    ///
    /// # Errors
    /// When the journal cannot be opened.
    pub fn work(&mut self) -> Result<Work<'_>> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => self.open()?,
        };
        Ok(Work { journal: self.journal.insert(journal), events: &self.events })
    }

    fn open(&self) -> Result<Journal> {
        let folder = self.context.home.lab(&self.name);
        let mut journal =
            Journal::open(&folder, self.command).map_err(|error| state_error(error, "open the journal in", &folder))?;
        if let Some(record) = &self.record {
            journal.set_provider(record.provider);
        }
        Ok(journal)
    }
}

/// Takes the lock of a lab when its turn has come: operations that go on after their commands are waited for by everyone,
/// and wait for everyone themselves. What removes a lab need not see those done that have not begun.
fn in_turn<T>(context: &Context, lab: &str, command: &str, take: impl Fn(&str) -> Result<T>) -> Result<T> {
    let events = context.ui.events();
    let mut waiting = None;
    let mut tell = || {
        let what = format!("for `{}` on lab `{lab}`", background::NAME);
        waiting.get_or_insert_with(|| events.about(About::Lab, lab).start(Verb::WaitOperation, what));
    };
    if !context.is_later && command != "down" {
        background::wait(&context.home, lab, &mut tell)?;
    }
    let until = deadline::within(background::PATIENCE);
    let holder = if context.is_later { background::NAME } else { command };
    let taken = loop {
        let taken = take(holder);
        let busy = taken.as_ref().err().and_then(Busy::in_error);
        let is_worth_it = busy.is_some_and(|busy| context.is_later || busy.command == background::NAME);
        if !is_worth_it || Instant::now() > until {
            break taken;
        }
        tell();
        std::thread::sleep(background::LOOK);
    };
    if let Some(activity) = waiting {
        activity.end();
    }
    taken
}

impl Drop for LockedLab<'_> {
    fn drop(&mut self) {
        self.context.interruption_leaves(self.afterwards.take());
    }
}
