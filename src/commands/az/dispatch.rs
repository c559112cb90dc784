//! Where changes of a cluster are brought about: at once, under its lab's lock, or by an operation that goes on when az has answered
//! (`--no-wait`). What is refused is refused at once in both ways.

use toml::Table;

use super::super::one;
use super::session::Session;
use super::task;
use klab_az::grammar::Arguments;
use klab_az::messages;
use klab_az::refusal::Refusal;
use klab_operations::az::{Known, PoolChanges, is_later, look};
use klab_operations::background;
use klab_operations::pool::locked_pools::LockedPools;
use klab_operations::pool::{LivePools, Wanted};
use klab_operations::state::operation::{Operation, OperationKind, Task};

/// A change of a pool of a lab.
struct Change<'s> {
    session: &'s Session<'s>,
    lab: String,
    pool: Option<String>,
    doing: OperationKind,
    how: How<'s>,
}

enum How<'s> {
    /// At once, under the lab's lock.
    Now(Box<LockedPools<'s>>),
    /// By an operation.
    Later { live: Box<LivePools>, tasks: Vec<Task> },
}

impl PoolChanges for Change<'_> {
    fn live(&self) -> &LivePools {
        match &self.how {
            How::Now(pools) => &pools.live,
            How::Later { live, .. } => live,
        }
    }

    fn put(&mut self, pool: &str, keys: Table) -> Result<(), Refusal> {
        match &mut self.how {
            How::Now(pools) => pools.put(pool, keys).map(drop)?,
            How::Later { live, tasks } => {
                Wanted::put(live, pool, keys.clone())?;
                tasks.push(Task::Put { pool: pool.to_owned(), keys });
            }
        }
        Ok(())
    }

    fn remove(&mut self, pool: &str) -> Result<(), Refusal> {
        match &mut self.how {
            How::Now(pools) => pools.remove(pool).map(drop)?,
            How::Later { live, tasks } => {
                live.without(pool)?;
                tasks.push(Task::Remove { pool: pool.to_owned() });
            }
        }
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), Refusal> {
        match self.how {
            How::Now(pools) => {
                drop(pools);
                Operation::forget_failed(&self.session.context.home.lab(&self.lab), self.pool.as_deref())?;
                Ok(())
            }
            How::Later { tasks, .. } if tasks.is_empty() => Ok(()),
            How::Later { tasks, .. } => self.session.begin(&self.lab, self.pool.as_deref(), self.doing, tasks),
        }
    }
}

impl Session<'_> {
    /// A cluster's pools, for a change of one of them or, without a name, of the cluster.
    ///
    /// # Errors
    /// When it does not answer, is stopped, or is busy.
    pub(super) fn change<'s>(
        &'s self,
        known: &Known,
        given: &Arguments,
        pool: Option<&str>,
        doing: OperationKind,
    ) -> Result<Box<dyn PoolChanges + 's>, Refusal> {
        refuse_busy(known, pool, doing)?;
        let how = if is_later(given) {
            How::Later { live: Box::new(look(self, known)?), tasks: Vec::new() }
        } else {
            How::Now(Box::new(self.pools_at_work(known)?))
        };
        Ok(Box::new(Change { session: self, lab: known.lab.clone(), pool: pool.map(str::to_owned), doing, how }))
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
            return self.begin(&known.lab, None, doing, tasks);
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
                self.begin(&known.lab, None, OperationKind::Deleting, vec![Task::Down])
            }
            (_, false) => Ok(one::remove(&self.context, &known.lab)?),
        }
    }

    /// Begins an operation on a pool, or on the cluster.
    ///
    /// # Errors
    /// When another one is faster.
    fn begin(&self, lab: &str, pool: Option<&str>, doing: OperationKind, tasks: Vec<Task>) -> Result<(), Refusal> {
        let operation = Operation { pool: pool.map(str::to_owned), doing, tasks, failed: None };
        if background::begin(&self.context.home, lab, operation)? {
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
