//! What az's commands work on: the labs of a home, or the one of a seat.

use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::messages;
use klab_az::refusal::Refusal;
use toml::Table;

use super::known::Known;
use crate::pool::LivePools;
use crate::state::operation::OperationKind;

/// Whether az is to answer before the work is done.
pub fn is_later(given: &Arguments) -> bool {
    given.has("--no-wait")
}

/// Clusters that az's commands show and change.
pub trait Clusters: Executor {
    /// All of them.
    ///
    /// # Errors
    /// When the home cannot be read.
    fn clusters(&self) -> Result<Vec<Known>, Refusal>;

    /// The cluster that `--resource-group` and the flag of its name mean.
    ///
    /// # Errors
    /// When there is none, or it really is in Azure.
    fn cluster(&self, given: &Arguments, flag: &str) -> Result<Known, Refusal>;

    /// Whether a resource group was made by itself.
    ///
    /// # Errors
    /// When the home cannot be read.
    fn has_made(&self, group: &str) -> Result<bool, Refusal>;

    /// A cluster's pools, also of one that is stopped.
    ///
    /// # Errors
    /// When it does not answer.
    fn look_even_stopped(&self, known: &Known) -> Result<LivePools, Refusal>;

    /// A cluster's pools as they will be when all operations are done: what Azure shows meanwhile.
    ///
    /// # Errors
    /// When it does not answer.
    fn displayed(&self, known: &Known) -> Result<LivePools, Refusal> {
        self.look_even_stopped(known)
    }

    /// A cluster's pools, to be changed.
    ///
    /// # Errors
    /// When it does not answer, is stopped, or is busy.
    fn pools<'s>(
        &'s self,
        known: &Known,
        given: &Arguments,
        pool: &str,
        doing: OperationKind,
    ) -> Result<Box<dyn PoolChanges + 's>, Refusal>;

    /// Stops the upgrade of a pool where it is.
    ///
    /// # Errors
    /// When none is under way, or such an upgrade cannot be stopped.
    fn abort_upgrade(&self, known: &Known, pool: &str) -> Result<(), Refusal>;

    /// Remembers what was said of a cluster.
    ///
    /// # Errors
    /// When the home cannot be written.
    fn note(&self, known: &Known) -> Result<(), Refusal>;

    /// Forgets that an operation on a pool failed. Says whether one had.
    ///
    /// # Errors
    /// When the home cannot be written.
    fn forget_failed(&self, known: &Known, pool: &str) -> Result<bool, Refusal>;

    /// Waits until nothing goes on with a cluster any more.
    ///
    /// # Errors
    /// When that cannot be seen.
    fn wait_until_gone(&self, known: &Known) -> Answer;

    /// Whether the person agrees.
    fn agrees(&self, question: &str) -> bool;
}

/// A cluster's pools as they are.
///
/// # Errors
/// When it does not answer, or is stopped.
pub fn look(on: &dyn Clusters, known: &Known) -> Result<LivePools, Refusal> {
    let live = on.look_even_stopped(known)?;
    if live.observed.stopped {
        let start = format!("az aks start -g {} -n {}", known.group, known.cluster);
        return Err(messages::stopped(&format!("the managed cluster {}", known.cluster)).advise(start));
    }
    Ok(live)
}

/// Changes of a cluster's pools: at once, or by an operation that goes on when az has answered. What is refused is refused at once.
pub trait PoolChanges {
    /// The pools as they are.
    fn live(&self) -> &LivePools;

    /// Makes a pool of these keys, or makes one what they say.
    ///
    /// # Errors
    /// When that breaks a rule, or is done at once and fails.
    fn put(&mut self, pool: &str, keys: Table) -> Result<(), Refusal>;

    /// Removes a pool.
    ///
    /// # Errors
    /// As [`PoolChanges::put`].
    fn remove(&mut self, pool: &str) -> Result<(), Refusal>;

    /// Ends the change: what was left for later begins, and of an earlier one that failed nothing is remembered.
    ///
    /// # Errors
    /// When it cannot begin.
    fn end(self: Box<Self>) -> Result<(), Refusal>;
}
