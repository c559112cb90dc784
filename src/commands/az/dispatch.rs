//! Where changes of a cluster are brought about: at once, under its lab's lock, or by an operation that goes on when az has answered
//! (`--no-wait`). What is refused is refused at once in both ways.

use toml::Table;

use super::super::one;
use super::session::{Known, Session};
use super::task;
use klab_az::grammar::Arguments;
use klab_az::messages;
use klab_az::refusal::Refusal;
use klab_operations::background;
use klab_operations::pool::LivePools;
use klab_operations::pool::locked_pools::LockedPools;
use klab_operations::state::operation::{Operation, OperationKind, Task};

/// Whether az is to answer before the work is done.
pub(super) fn is_later(given: &Arguments) -> bool {
    given.has("--no-wait")
}

/// The pools of a cluster, to be changed.
pub(super) enum PoolChanges<'s> {
    /// At once.
    Now(Box<LockedPools<'s>>),
    /// By an operation.
    Later {
        /// The pools as they are.
        live: Box<LivePools>,
        /// What is to be done.
        tasks: Vec<Task>,
    },
}

impl PoolChanges<'_> {
    /// The pools as they are.
    pub(super) fn live(&self) -> &LivePools {
        match self {
            Self::Now(pools) => &pools.live,
            Self::Later { live, .. } => live,
        }
    }

    /// Makes a pool of these keys, or makes one what they say.
    ///
    /// # Errors
    /// When that breaks a rule, or is done at once and fails.
    pub(super) fn put(&mut self, pool: &str, keys: Table) -> Result<(), Refusal> {
        match self {
            Self::Now(pools) => pools.put(pool, keys).map(drop)?,
            Self::Later { live, tasks } => {
                live.with(pool, keys.clone())?;
                tasks.push(Task::Put { pool: pool.to_owned(), keys });
            }
        }
        Ok(())
    }

    /// Removes a pool.
    ///
    /// # Errors
    /// As [`PoolChanges::put`].
    pub(super) fn remove(&mut self, pool: &str) -> Result<(), Refusal> {
        match self {
            Self::Now(pools) => pools.remove(pool).map(drop)?,
            Self::Later { live, tasks } => {
                live.without(pool)?;
                tasks.push(Task::Remove { pool: pool.to_owned() });
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    /// A cluster's pools, for a change of one of them or, without a name, of the cluster.
    ///
    /// # Errors
    /// When it does not answer, is stopped, or is busy.
    pub(super) fn desk<'s>(
        &'s self,
        known: &Known,
        given: &Arguments,
        pool: Option<&str>,
        doing: OperationKind,
    ) -> Result<PoolChanges<'s>, Refusal> {
        refuse_busy(known, pool, doing)?;
        if is_later(given) {
            return Ok(PoolChanges::Later { live: Box::new(self.look(known)?), tasks: Vec::new() });
        }
        self.pools_at_work(known).map(|pools| PoolChanges::Now(Box::new(pools)))
    }

    /// Ends a change of a pool: what was left for later begins, and of an earlier one that failed nothing is remembered.
    ///
    /// # Errors
    /// When it cannot begin.
    pub(super) fn end(
        &self,
        known: &Known,
        desk: PoolChanges<'_>,
        pool: &str,
        doing: OperationKind,
    ) -> Result<(), Refusal> {
        match desk {
            PoolChanges::Now(pools) => {
                drop(pools);
                Operation::forget_failed(&self.context.home.lab(&known.lab), Some(pool))?;
                Ok(())
            }
            PoolChanges::Later { tasks, .. } if tasks.is_empty() => Ok(()),
            PoolChanges::Later { tasks, .. } => self.begin(known, Some(pool), doing, tasks),
        }
    }

    /// Does what is to be done to a cluster, now or later.
    ///
    /// # Errors
    /// When it fails, or another operation is faster.
    pub(super) fn perform(
        &self,
        known: &Known,
        given: &Arguments,
        doing: OperationKind,
        tasks: Vec<Task>,
    ) -> Result<(), Refusal> {
        if tasks.is_empty() {
            return Ok(());
        }
        if is_later(given) {
            return self.begin(known, None, doing, tasks);
        }
        tasks.iter().try_for_each(|task| task::perform(&self.context, &known.lab, task))?;
        Operation::forget_failed(&self.context.home.lab(&known.lab), None)?;
        Ok(())
    }

    /// Takes a lab down, now or later. One that is being removed already is left to that removal.
    ///
    /// # Errors
    /// When something could not be removed.
    pub(super) fn delete(&self, known: &Known, given: &Arguments) -> Result<(), Refusal> {
        let is_going = known.operations.iter().any(|operation| {
            operation.pool.is_none() && operation.doing == OperationKind::Deleting && operation.failed.is_none()
        });
        match (is_going, is_later(given)) {
            (true, true) => Ok(()),
            (false, true) => {
                // What went on with the cluster is preempted; the folder, with what is written down, goes last.
                Operation::forget_failed(&self.context.home.lab(&known.lab), None)?;
                self.begin(known, None, OperationKind::Deleting, vec![Task::Down])
            }
            (_, false) => Ok(one::remove(&self.context, &known.lab)?),
        }
    }

    /// Begins an operation on a pool, or on the cluster.
    ///
    /// # Errors
    /// When another one is faster.
    pub(super) fn begin(
        &self,
        known: &Known,
        pool: Option<&str>,
        doing: OperationKind,
        tasks: Vec<Task>,
    ) -> Result<(), Refusal> {
        let operation = Operation { pool: pool.map(str::to_owned), doing, tasks, failed: None };
        if background::begin(&self.context.home, &known.lab, operation)? {
            return Ok(());
        }
        Err(match pool {
            Some(pool) => messages::pool_is_busy(pool, &doing.to_string()),
            None => messages::cluster_is_busy(&doing.to_string()),
        })
    }
}

/// Refuses what AKS refuses while something goes on. A cluster can be deleted at any time.
pub(super) fn refuse_busy(known: &Known, pool: Option<&str>, doing: OperationKind) -> Result<(), Refusal> {
    let mut locked = known.operations.iter().filter(|operation| operation.failed.is_none());
    if pool.is_none() && doing == OperationKind::Deleting {
        return Ok(());
    }
    if let Some(cluster) = locked.clone().find(|operation| operation.pool.is_none()) {
        return Err(match pool {
            Some(_) => messages::cluster_of_pool_is_busy(&cluster.doing.to_string()),
            None => messages::cluster_is_busy(&cluster.doing.to_string()),
        });
    }
    let Some(pool) = pool else {
        let busy = locked.find_map(|operation| Some((operation.pool.as_deref()?, operation.doing)));
        return busy.map_or(Ok(()), |(pool, doing)| Err(messages::pool_of_cluster_is_busy(pool, &doing.to_string())));
    };
    match locked.find(|operation| operation.pool.as_deref() == Some(pool)) {
        Some(busy) if busy.doing == OperationKind::Deleting => Err(messages::pool_is_going(pool, &doing.to_string())),
        Some(busy) => Err(messages::pool_is_busy(pool, &busy.doing.to_string())),
        None => Ok(()),
    }
}
