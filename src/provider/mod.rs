//! Who makes the cluster: one trait, one implementation a provider, one `match`.

use std::path::PathBuf;

use crate::error::{Error, Kind, Result};
use crate::event::Events;
use crate::plan::{Action, Observed};
use crate::spec::{Lab, Provider as Name};
use crate::state::{Home, Journal};

/// What a provider needs to work on one lab.
pub struct Work<'a> {
    /// Where the intent of every outside action is written before it is done.
    pub journal: &'a mut Journal,
    /// Where progress goes.
    pub events: &'a Events,
}

impl Work<'_> {
    /// Journals an outside action that is about to be done.
    ///
    /// # Errors
    /// When the journal cannot be made durable; the action must then not be done.
    pub fn intend(&mut self, action: &str, subject: &str) -> Result<()> {
        self.journal
            .intend(action, subject)
            .map_err(|error| crate::state::home::state_error(error, "write the journal before", action.as_ref()))
    }
}

/// A maker of clusters. Synchronous: providers call outside tools, and callers decide what runs side by side.
pub trait Provider {
    /// What this machine lacks for the lab; each with a fix.
    fn preflight(&self, lab: &Lab) -> Vec<Error>;

    /// The lab's cluster as it is in the world.
    ///
    /// # Errors
    /// When the world does not answer.
    fn observe(&self, lab: &str) -> Result<Observed>;

    /// Does one action. Safe to repeat.
    ///
    /// # Errors
    /// When it could not be done; what is left behind is named.
    fn perform(&self, lab: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()>;

    /// The kubeconfig that reaches the lab's cluster, made current if need be.
    ///
    /// # Errors
    /// When there is no such cluster, or it cannot be reached.
    fn kubeconfig(&self, lab: &str) -> Result<PathBuf>;

    /// Removes the lab's cluster and everything the provider made for it. Safe to repeat.
    ///
    /// # Errors
    /// When something could not be removed.
    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()>;

    /// What is left of the lab in the world, in words; empty after a complete `remove`.
    ///
    /// # Errors
    /// When the world does not answer.
    fn remains(&self, lab: &str) -> Result<Vec<String>>;
}

/// The provider of that name.
///
/// # Errors
/// When this klab does not have it.
pub fn provider(name: Name, home: &Home) -> Result<Box<dyn Provider>> {
    match name {
        Name::Sim => Err(Error::message(Kind::Usage, format!("no server at {}", home.server().display()))),
        Name::Kind | Name::Aks => {
            Err(Error::message(Kind::Usage, format!("this version of klab cannot make labs on `{name}` yet"))
                .hint("`--provider sim` makes the lab on the embedded cluster"))
        }
    }
}
