//! What operations are made of, done: at once by the command that was typed, or by a process of its own.

use super::super::one;
use super::lab_file::make;
use klab_az::notes::ClusterNote;
use klab_operations::context::Context;
use klab_operations::error::{Code, Error, Result};
use klab_operations::pool::locked_pools::LockedPools;
use klab_operations::provider::machines_of;
use klab_operations::state::azure;
use klab_operations::state::operation::Task;

/// Does one thing; where it is done already, nothing.
///
/// # Errors
/// When it fails.
pub(in super::super) fn perform(context: &Context, lab: &str, task: &Task) -> Result<()> {
    let pools = || LockedPools::of(context, lab, "az");
    match task {
        Task::Put { pool, keys } => pools()?.put(pool, keys.clone()).map(drop),
        Task::Remove { pool } => {
            let mut pools = pools()?;
            if pools.live.names().contains(&pool.as_str()) {
                pools.remove(pool)?;
            }
            let folder = context.home.lab(lab);
            let mut note = azure::read::<ClusterNote>(&folder)?;
            match note.pools.remove(pool) {
                Some(_) => azure::write(&note, &folder),
                None => Ok(()),
            }
        }
        Task::UpgradeControlPlane { from, to } => {
            let version = |text: &str| {
                text.parse()
                    .map_err(|()| Error::message(Code::KlabFault, format!("`{text}` is not a version of Kubernetes")))
            };
            pools()?.upgrade_control_plane(version(from)?, version(to)?)
        }
        Task::SetAutoscaler { settings } => pools()?.set_autoscaler(settings.clone()),
        Task::Start => {
            one::switch_one(context, lab, "az", |provider, lab, work| machines_of(provider, lab)?.resume(lab, work))
        }
        Task::Stop => {
            one::switch_one(context, lab, "az", |provider, lab, work| machines_of(provider, lab)?.pause(lab, work))
        }
        Task::Make => make(context, lab),
        Task::Down => one::remove(context, lab),
    }
}
