//! One command of az at work: klab's labs as Azure's clusters, what is remembered of them, and how az talks.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use klab_lab::spec::{DEFAULT_LOCATION, LoadOptions, Reach};

use super::super::Context;
use super::lab_file::file_of;
use klab_az::commands::Executor;
use klab_az::grammar::Arguments;
use klab_az::notes::{Account, ClusterNote, Group};
use klab_az::refusal::{Code, Refusal};
use klab_operations::az::{Clusters, Known, look};
use klab_operations::background;
use klab_operations::event::{Event, Sink};
use klab_operations::pool::locked_pools::LockedPools;
use klab_operations::provider::AzureNames;
use klab_operations::running_lab;
use klab_operations::state::azure;
use klab_operations::state::operation::Task;
use klab_operations::ui::Ui;

/// The colour of az's warnings.
pub(super) const CARE: Style = AnsiColor::Yellow.on_default();

/// One command of az at work.
pub(super) struct Session<'c> {
    /// What klab's own work is done with; it says nothing to the terminal that az would not say.
    pub(super) context: Context,
    pub(super) ui: &'c Ui,
    pub(super) is_terse: bool,
    account: OnceCell<Account>,
    /// Warnings that were given: none is given twice.
    pub(super) said: RefCell<BTreeSet<String>>,
}

/// Takes what klab's work has to say, and passes on what az would say.
struct Listener {
    ui: Ui,
    is_terse: bool,
}

impl Sink for Listener {
    fn event(&self, event: &Event) {
        match event {
            Event::Warned { message, .. } if !self.is_terse => {
                self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}"));
            }
            // A line that lives as long as the work; az has nothing to say of what was done.
            Event::Started { .. } | Event::Progress { .. } | Event::Ended { .. } => self.ui.events().pass(event),
            Event::Finished { id, facts, .. } => {
                self.ui.events().pass(&Event::Ended { id: *id, facts: facts.clone() });
            }
            Event::Warned { .. } | Event::UnderWay { .. } => {}
        }
    }
}

impl<'c> Session<'c> {
    /// A session at a terminal.
    pub(super) fn new(context: &'c Context, is_terse: bool) -> Self {
        let ui = &context.ui;
        let listener = Arc::new(Listener { ui: ui.clone(), is_terse });
        let (account, said) = (OnceCell::new(), RefCell::default());
        Self { context: context.talking_to(listener), ui, is_terse, account, said }
    }

    /// Writes text to stdout that is not a document.
    pub(super) fn print(&self, text: &str) {
        self.ui.result(text);
    }

    /// Asks before something that cannot be taken back.
    ///
    /// # Errors
    /// When the user does not agree.
    pub(super) fn confirm(&self, given: &Arguments, question: &str) -> Result<(), Refusal> {
        if given.has("--yes") || self.agrees(question) {
            return Ok(());
        }
        Err(Refusal::new("Operation cancelled."))
    }

    /// Whether the person does not want it; az then leaves without a word.
    pub(super) fn declines(&self, given: &Arguments, question: &str) -> bool {
        !given.has("--yes") && !self.agrees(question)
    }

    /// What was remembered beside the labs when the command began.
    pub(super) fn account(&self) -> Result<&Account, Refusal> {
        if let Some(account) = self.account.get() {
            return Ok(account);
        }
        let account = azure::read::<Account>(self.context.home.root())?;
        Ok(self.account.get_or_init(|| account))
    }

    /// Changes what is remembered beside the labs, as it is now: a command may have taken a while.
    pub(super) fn change_account(&self, change: impl FnOnce(&mut Account)) -> Result<(), Refusal> {
        let home = self.context.home.root();
        let before = azure::read::<Account>(home)?;
        let mut account = before.clone();
        change(&mut account);
        if account != before {
            azure::write(&account, home)?;
        }
        Ok(())
    }

    /// Also those that really are in Azure. A lab that cannot be read is none of them, and that is said.
    pub(super) fn everything(&self) -> Result<Vec<Known>, Refusal> {
        let home = &self.context.home;
        let labs =
            home.labs().map_err(|error| klab_operations::state::home::state_error(error, "read", home.root()))?;
        let known = labs.into_iter().filter_map(|lab| {
            self.known(&lab).unwrap_or_else(|error| {
                self.warn(&format!("Lab '{lab}' is left out: {error:#}"));
                None
            })
        });
        Ok(known.collect())
    }

    /// A lab that is up as a cluster; none on a cluster that klab did not make.
    fn known(&self, lab: &str) -> klab_operations::error::Result<Option<Known>> {
        let operations = background::operations(&self.context.home, lab)?;
        let is_being_made = operations.iter().any(|operation| operation.tasks.contains(&Task::Make));
        let provider = match self.context.record(lab)? {
            Some(record) => record.provider,
            None if is_being_made => self.context.load(&file_of(&self.context, lab), &LoadOptions::default())?.provider,
            None => return Ok(None),
        };
        if !provider.profile().makes_nodes {
            return Ok(None);
        }
        let note = azure::read::<ClusterNote>(&self.context.home.lab(lab))?;
        let AzureNames { group, cluster } = self.context.azure_names(lab, provider)?;
        Ok(Some(Known { lab: lab.to_owned(), group, cluster, note, provider, operations }))
    }

    /// A group that was made, or that a lab is in, with its name as it was typed first.
    pub(super) fn group(&self, group: &str) -> Result<Option<Group>, Refusal> {
        if let Some(made) = self.account()?.groups.get(&group.to_lowercase()) {
            return Ok(Some(made.clone()));
        }
        Ok(self.clusters()?.iter().find(|known| known.is_in(group)).map(|known| self.group_of(known)))
    }

    /// The group of a cluster that was made with it: its location is the lab's, which may be gone.
    pub(super) fn group_of(&self, known: &Known) -> Group {
        let reach = Reach { outside: false, environment: true };
        let options = LoadOptions { reach, ..LoadOptions::default() };
        let lab = running_lab::lab(&self.context, known.lab.clone(), None, options);
        let location = lab.map_or_else(|_| DEFAULT_LOCATION.to_owned(), |lab| lab.aks.location.value);
        Group { name: known.group.clone(), location, tags: None }
    }

    /// Remembers the group of a cluster that goes: in Azure a group outlives what is in it.
    pub(super) fn keep_group(&self, known: &Known) -> Result<(), Refusal> {
        let group = self.group_of(known);
        self.change_account(|account| {
            account.groups.entry(group.name.to_lowercase()).or_insert(group);
        })
    }

    /// The pools of a cluster, to be changed under its lab's lock.
    ///
    /// # Errors
    /// When it does not answer, or is stopped; when another klab works on it.
    pub(super) fn pools_at_work<'s>(&'s self, known: &Known) -> Result<LockedPools<'s>, Refusal> {
        LockedPools::of(&self.context, &known.lab, "az").map_err(|error| match look(self, known) {
            Err(refusal) if refusal.code == Some(Code::OperationNotAllowed) => refusal,
            _ => error.into(),
        })
    }
}
