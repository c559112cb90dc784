//! Who makes the cluster: one trait, one implementation a provider, one `match`.

pub mod aks;

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::event::Events;
use crate::state::{Home, Journal};
use klab_lab::plan::{Action, Observed};
use klab_lab::spec::{Lab, Provider as Name};

pub mod kind;
pub mod sim;

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

/// What stands where the lab would be is somebody else's: klab looks at it no further.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Foreign(pub String);

/// What the person asked for beyond the lab file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Pools may be made anew where something changed that nodes cannot change.
    pub replace_pools: bool,
    /// The whole cluster may be made anew where something changed that it cannot change.
    pub recreate: bool,
}

/// A maker of clusters. Synchronous: providers call outside tools, and callers decide what runs side by side.
pub trait Provider {
    /// What this machine lacks for the lab; each with a fix.
    fn preflight(&self, lab: &Lab) -> Vec<Error>;

    /// As [`Provider::preflight`], for so many labs of one file at once.
    fn preflight_class(&self, lab: &Lab, _seats: u32) -> Vec<Error> {
        self.preflight(lab)
    }

    /// Why [`Provider::perform_all`] would refuse the actions although the lab file is valid; told by `plan`.
    fn refusals(&self, _: &Lab, _: &[Action]) -> Vec<Error> {
        Vec::new()
    }

    /// What of the lab this machine can only approximate, in words; shown by `plan` and `up`.
    fn caveats(&self, _: &Lab) -> Vec<String> {
        Vec::new()
    }

    /// What differs from the lab file that only a new cluster can change, in words; done when
    /// [`Options::recreate`] allows it.
    ///
    /// # Errors
    /// When the world does not answer.
    fn recreation(&self, _: &Lab) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The lab's cluster as it is in the world.
    ///
    /// # Errors
    /// When the world does not answer.
    fn observe(&self, lab: &str) -> Result<Observed>;

    /// The cluster of a lab whose file is at hand: as [`Provider::observe`], where the file says where to look.
    ///
    /// # Errors
    /// When the world does not answer.
    fn observe_lab(&self, lab: &Lab) -> Result<Observed> {
        self.observe(&lab.name.value)
    }

    /// Does all actions, one after the other unless the provider can do some side by side. Safe to repeat.
    ///
    /// # Errors
    /// When one could not be done; what is left behind is named.
    fn perform_all(&self, lab: &Lab, actions: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        actions.iter().try_for_each(|action| self.perform(lab, action, work))
    }

    /// The commands of other tools that [`Provider::perform_all`] would run, for people to read.
    ///
    /// # Errors
    /// When the world does not answer.
    fn commands(&self, _: &Lab, _: &[Action]) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Does one action. Safe to repeat.
    ///
    /// # Errors
    /// When it could not be done; what is left behind is named.
    fn perform(&self, lab: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()>;

    /// Makes again what the cluster itself began with and somebody has deleted, such as the workloads of kube-system, where
    /// the provider can; gives what that was.
    ///
    /// # Errors
    /// When it could not be made.
    fn restore_system(&self, _: &Lab) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The kubeconfig that reaches the lab's cluster, made current if need be.
    ///
    /// # Errors
    /// When there is no such cluster, or it cannot be reached.
    fn kubeconfig(&self, lab: &str) -> Result<PathBuf>;

    /// Looks whether the live nodes are what the lab file declares, where that is not certain by construction: counts,
    /// labels, taints, zones, versions. Labels and taints that others put on nodes are taken back.
    ///
    /// # Errors
    /// When they are not, although they were just `changed`; else what differs is told as a warning.
    fn check_nodes(&self, _: &Lab, _changed: bool, _: &mut Work<'_>) -> Result<()> {
        Ok(())
    }

    /// Removes the lab's cluster and everything the provider made for it. Safe to repeat.
    ///
    /// # Errors
    /// When something could not be removed.
    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()>;

    /// Removes what all labs of the provider on this machine share, where none is left that needs it.
    ///
    /// # Errors
    /// When it could not be removed.
    fn retire(&self) -> Result<()> {
        Ok(())
    }

    /// Begins the removal without waiting for its end, where the provider can; a later `remove` finishes it.
    ///
    /// # Errors
    /// When it could not be begun.
    fn begin_removal(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        self.remove(lab, work)
    }

    /// What the lab's resource group and cluster are called in Azure, where it is there.
    fn azure_names(&self, _: &str) -> Option<(String, String)> {
        None
    }

    /// Whether a removal was begun and not waited for.
    fn is_being_removed(&self, _: &str) -> bool {
        false
    }

    /// Stops the cluster's machines so that they cost nothing; everything in it is kept.
    ///
    /// # Errors
    /// When it could not be stopped, or the provider has nothing to stop.
    fn pause(&self, lab: &str, _: &mut Work<'_>) -> Result<()> {
        Err(cannot_pause(lab))
    }

    /// Starts what [`Provider::pause`] stopped.
    ///
    /// # Errors
    /// When it could not be started, or the provider has nothing to start.
    fn resume(&self, lab: &str, _: &mut Work<'_>) -> Result<()> {
        Err(cannot_pause(lab))
    }

    /// Stops nodes as if they had lost power, where nodes are machines of the provider's own. (The embedded cluster's are
    /// objects, and are stopped through its API.)
    ///
    /// # Errors
    /// When they could not be stopped, or the provider cannot stop single nodes.
    fn stop_nodes(&self, _: &str, _: &[String], _: &mut Work<'_>) -> Result<()> {
        Err(cannot_stop_nodes())
    }

    /// Starts nodes that [`Provider::stop_nodes`] stopped, and waits until they are Ready.
    ///
    /// # Errors
    /// When they could not be started, or the provider cannot stop single nodes.
    fn start_nodes(&self, _: &str, _: &[String], _: &mut Work<'_>) -> Result<()> {
        Err(cannot_stop_nodes())
    }

    /// What is left of the lab in the world, in words; empty after a complete `remove`.
    ///
    /// # Errors
    /// When the world does not answer.
    fn remains(&self, lab: &str) -> Result<Vec<String>>;
}

fn cannot_pause(lab: &str) -> Error {
    Error::message(Kind::Usage, format!("lab `{lab}` is on a provider that has no machines to stop and start"))
        .hint("labs on kind and aks can be paused and resumed")
}

fn cannot_stop_nodes() -> Error {
    Error::message(Kind::Usage, "nodes of this provider cannot be stopped one by one")
        .hint("labs on sim and kind can: `fail_node` and `restore_node` work there")
}

/// What providers remember of the machine while klab runs, each time one is made anew.
#[derive(Clone, Default)]
pub struct Memory {
    kind: Arc<kind::docker::Memory>,
}

/// The provider of that name.
///
/// # Errors
/// When this klab does not have it.
pub fn provider(name: Name, home: &Home, memory: &Memory) -> Result<Box<dyn Provider>> {
    match name {
        Name::Sim => Ok(Box::new(sim::Sim::new(home)?)),
        Name::Kind => Ok(Box::new(kind::KindProvider::new(home, Arc::clone(&memory.kind)))),
        Name::Aks => Ok(Box::new(aks::Aks::new(home))),
    }
}
