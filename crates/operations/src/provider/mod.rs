//! Who makes the cluster: the trait that each provider implements. What they are like is in [`klab_lab::spec::Profile`].

pub mod aks;
pub mod existing;
pub mod kind;
mod row;
pub mod sim;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Code, Error, Result};
use crate::event::Events;
use crate::exec::quoted;
use crate::state::Journal;
use klab_lab::plan::{Action, Observed, ObservedPool};
use klab_lab::spec::Lab;
use klab_lab::words::plural;
use klab_server::{NewCopy, Renaming};

pub use row::{Memory, provider, refused_anywhere};

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
    /// Pools may be recreated where something changed that nodes cannot change.
    pub replace_pools: bool,
}

/// A maker of clusters. Synchronous: providers call outside tools, and callers decide what runs side by side.
pub trait Provider {
    /// What this machine lacks for the lab; each with a fix.
    fn preflight(&self, lab: &Lab) -> Vec<Error>;

    /// As [`Provider::preflight`], for this many labs of one file at once.
    fn preflight_class(&self, lab: &Lab, _seats: u32) -> Vec<Error> {
        self.preflight(lab)
    }

    /// Why the lab file cannot be the file of a class.
    fn refuses_class(&self, _: &Lab) -> Option<Error> {
        None
    }

    /// Makes what all labs of the provider on this machine share, so that several that are made at once do not race for it.
    ///
    /// # Errors
    /// When it could not be made.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Why [`Provider::perform_all`] would refuse the actions although the lab file is valid; `plan` shows it.
    fn refusals(&self, _: &Lab, _: &[Action]) -> Vec<Error> {
        Vec::new()
    }

    /// What of the lab this machine can only approximate, in words; shown by `plan` and `up`.
    fn caveats(&self, _: &Lab) -> Vec<String> {
        Vec::new()
    }

    /// Which cluster it is, in words, where klab does not make it.
    fn found(&self, _: &Lab) -> Option<String> {
        None
    }

    /// What differs from the lab file that only a new cluster can change, in words.
    ///
    /// # Errors
    /// When the world does not answer.
    fn recreation(&self, _: &Lab) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The lab's cluster as it is in the world. Where the lab file is at hand, it says where to look and what is asked for.
    ///
    /// # Errors
    /// When the world does not answer.
    fn observe(&self, lab: &str, file: Option<&Lab>) -> Result<Observed>;

    /// Does all actions, one after the other unless the provider can do some side by side. Safe to repeat.
    ///
    /// # Errors
    /// When one could not be done; what is left behind is named.
    fn perform_all(&self, lab: &Lab, actions: &[Action], options: &Options, work: &mut Work<'_>) -> Result<()>;

    /// Stops the upgrade of a pool where it is.
    ///
    /// # Errors
    /// When none is under way, or such an upgrade cannot be stopped.
    fn abort_upgrade(&self, _: &Lab, pool: &str) -> Result<()> {
        Err(Error::message(
            Code::Upgrade,
            format!("the nodes of pool `{pool}` are replaced at once: there is nothing to abort"),
        ))
    }

    /// The commands of other tools that [`Provider::perform_all`] would run, for people to read.
    ///
    /// # Errors
    /// When the world does not answer.
    fn commands(&self, _: &Lab, _: &[Action]) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

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
    /// When they are not, although they were just `changed`; else a warning says what differs.
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
    fn azure_names(&self, _: &str) -> Option<AzureNames> {
        None
    }

    /// Whether a removal was begun and not waited for.
    fn is_being_removed(&self, _: &str) -> bool {
        false
    }

    /// The machines behind the nodes, where there are some that can be stopped and started.
    fn machines(&self) -> Option<&dyn Machines> {
        None
    }

    /// How clusters are made as copies of another one, where the provider can.
    fn copies(&self) -> Option<&dyn Copies> {
        None
    }

    /// What is left of the lab in the world, in words; empty after a complete `remove`.
    ///
    /// # Errors
    /// When the world does not answer.
    fn remains(&self, lab: &str) -> Result<Vec<String>>;
}

/// Clusters that begin as copies of another one: of labs of one file, which differ in their names alone.
pub trait Copies {
    /// What is called otherwise in a copy for lab `to` of the cluster of lab `of`; `None` where a copy would not be what
    /// the provider makes for `to` itself.
    fn renaming(&self, of: &Lab, to: &Lab) -> Option<Renaming>;

    /// Makes copies of the cluster of lab `of`; gives the names of those that were made. A cluster that is there already
    /// stays as it is.
    ///
    /// # Errors
    /// When the world does not answer.
    fn copy_all(&self, of: &str, copies: &[NewCopy]) -> Result<BTreeSet<String>>;

    /// Puts the kubeconfig of a copy that was just made into its lab's folder, where there is none. It is on the disk with
    /// what is synced next.
    ///
    /// # Errors
    /// When the file system refuses.
    fn link_kubeconfig(&self, lab: &str) -> Result<()>;

    /// Removes the clusters of these labs, if that can be done for all at once; gives those of which nothing is left.
    ///
    /// # Errors
    /// When the world does not answer.
    fn remove_all(&self, labs: &[String]) -> Result<BTreeSet<String>>;
}

/// The machines of clusters whose nodes are not objects only.
pub trait Machines {
    /// Stops the cluster's machines so that they cost nothing; everything in it is kept.
    ///
    /// # Errors
    /// When they could not be stopped.
    fn pause(&self, lab: &str, work: &mut Work<'_>) -> Result<()>;

    /// Starts what [`Machines::pause`] stopped.
    ///
    /// # Errors
    /// When they could not be started.
    fn resume(&self, lab: &str, work: &mut Work<'_>) -> Result<()>;

    /// Stops single nodes as if they had lost power.
    ///
    /// # Errors
    /// When they could not be stopped, or the provider cannot stop single nodes.
    fn stop_nodes(&self, _: &str, _: &[String], _: &mut Work<'_>) -> Result<()> {
        Err(cannot_stop_nodes())
    }

    /// Has the cloud take spot machines back, by the ids that their nodes carry.
    ///
    /// # Errors
    /// When it does not take them, or the provider has no spot machines.
    fn reclaim_nodes(&self, _: &str, _ids: &[String], _: &mut Work<'_>) -> Result<()> {
        Err(cannot_reclaim_nodes())
    }

    /// Has the API server answer no request, or all again.
    ///
    /// # Errors
    /// When that could not be done, or the provider cannot.
    fn set_api_answers(&self, _: &str, _answers: bool, _: &mut Work<'_>) -> Result<()> {
        Err(cannot_fail_api())
    }

    /// Starts nodes that [`Machines::stop_nodes`] stopped, and waits until they are Ready.
    ///
    /// # Errors
    /// When they could not be started, or the provider cannot stop single nodes.
    fn start_nodes(&self, _: &str, _: &[String], _: &mut Work<'_>) -> Result<()> {
        Err(cannot_stop_nodes())
    }
}

/// Refuses a cluster that is not there, or whose machines are stopped.
///
/// # Errors
/// When it is so.
pub fn refuse_absent(lab: &str, observed: &Observed) -> Result<()> {
    if !observed.exists {
        let message = format!("the cluster of lab `{lab}` is gone");
        return Err(Error::message(Code::ClusterGone, message).hint("`klab up` with its lab file creates it again"));
    }
    if observed.stopped {
        let message = format!("lab `{lab}` is paused");
        return Err(Error::message(Code::PausedLab, message).hint(format!("`klab resume {lab}` starts its machines")));
    }
    Ok(())
}

/// A pool is being upgraded: AKS does one thing to a pool at a time.
pub fn upgrading(pool: &str) -> Error {
    let message = format!(
        "(OperationNotAllowed) Operation is not allowed: Another agentpool operation ({pool} - Upgrading) is in progress, \
         please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details."
    );
    Error::message(Code::PoolUpgrade, message)
        .hint("`kubectl get events --field-selector source=upgrader` shows how far the upgrade is")
}

/// Refuses what would change or take back more than klab's own objects, on a cluster that klab did not make.
///
/// # Errors
/// When the lab is on one.
pub fn refuse_foreign(lab: &Lab, what: &str, instead: &str) -> Result<()> {
    let profile = lab.provider.profile();
    if profile.makes_nodes {
        return Ok(());
    }
    let message = format!("{what}, and lab `{}` is on {}", lab.name, profile.title);
    Err(Error::message(Code::NotOnProvider, message).hint(instead))
}

/// Refuses to change a cluster that cannot become what its lab says.
///
/// # Errors
/// When only a new one can, or the provider does not say.
pub fn refuse_without_recreation(provider: &dyn Provider, lab: &Lab) -> Result<()> {
    let differences = provider.recreation(lab)?;
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!("only a new cluster can change this: {}", differences.join("; "));
    let file = quoted(lab.source.name());
    Err(Error::message(Code::NeedsNewNodes, message)
        .hint(format!("`klab up --recreate {file}` removes the cluster with all that is in it and recreates it")))
}

/// The pools of a lab's cluster that klab did not make, in words.
pub fn foreign_pools(lab: &Lab, observed: &Observed) -> Vec<String> {
    let foreign = observed.pools.iter().filter(|(_, pool)| pool.foreign);
    let words = |(name, live): (&String, &ObservedPool)| {
        let nodes = plural(live.nodes.len(), "node");
        let stays = match lab.pool(name).filter(|pool| !pool.deferred) {
            Some(_) => "klab changes it, and neither replaces nor removes it",
            None => "it stays as it is",
        };
        format!(
            "pool `{name}` ({nodes}) does not carry the lab's tags, so klab did not make it: {stays} without `--take-pool {name}`"
        )
    };
    foreign.map(words).collect()
}

/// Refuses to replace the nodes of pools that klab did not make.
///
/// # Errors
/// When an action would.
pub fn refuse_foreign_pools(observed: &Observed, actions: &[Action]) -> Result<()> {
    let is_foreign = |pool: &String| observed.pools.get(pool).is_some_and(|pool| pool.foreign);
    let refused = actions.iter().find_map(|action| match action {
        Action::ReplacePool { pool, changes, .. } if is_foreign(pool) => Some((pool, changes)),
        _ => None,
    });
    let Some((pool, changes)) = refused else { return Ok(()) };
    let message = format!(
        "pool `{pool}` does not carry the lab's tags, so klab did not make it, and this needs new nodes: {}",
        changes.join(", ")
    );
    Err(Error::message(Code::ForeignPool, message)
        .hint(format!("`--take-pool {pool}` lets klab replace or remove it, with the pods on it")))
}

/// The machines of a lab that is to be paused or resumed.
///
/// # Errors
/// When its provider has none.
pub fn machines_of<'p>(provider: &'p dyn Provider, lab: &str) -> Result<&'p dyn Machines> {
    provider.machines().ok_or_else(|| {
        Error::message(
            Code::NotOnProvider,
            format!("lab `{lab}` is on a provider that has no machines to stop and start"),
        )
        .hint("labs on kind and aks can be paused and resumed")
    })
}

/// The refusal of a provider that cannot stop single nodes.
pub fn cannot_stop_nodes() -> Error {
    Error::message(Code::NotOnProvider, "nodes of this provider cannot be stopped one by one")
        .hint("labs on sim and kind can: `fail_node` and `restore_node` work there")
}

/// The refusal of a provider without spot machines.
pub fn cannot_reclaim_nodes() -> Error {
    Error::message(Code::NotOnProvider, "this provider has no spot machines that could be taken back")
        .hint("labs on sim and aks have: `reclaim_pool` works there")
}

/// The refusal of a provider whose API server is out of reach.
pub fn cannot_fail_api() -> Error {
    Error::message(Code::NotOnProvider, "the API server of this provider cannot be made to fail")
        .hint("labs on sim and kind can: `fail_api` works there")
}

/// What a lab is called in Azure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AzureNames {
    /// Resource group.
    pub group: String,
    /// Cluster.
    pub cluster: String,
}

impl Default for AzureNames {
    /// Words in their place, for a lab that is not up.
    fn default() -> Self {
        Self { group: "GROUP".to_owned(), cluster: "CLUSTER".to_owned() }
    }
}
