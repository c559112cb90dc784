//! Makes what a cluster acknowledged survive the death of the machine, too: to the disk a second after a change.

use std::sync::Arc;
use std::time::Duration;

use super::super::cluster::Cluster;

/// How long a change may be in the system's memory alone.
const LAG: Duration = Duration::from_secs(1);

/// Writes a cluster's changes through to the disk as long as this lives, and once more when it is dropped.
pub(super) struct Durability {
    cluster: Arc<Cluster>,
    task: tokio::task::JoinHandle<()>,
}

impl Durability {
    /// Looks after a cluster, on the runtime at hand. An idle cluster costs nothing.
    pub(super) fn of(cluster: Arc<Cluster>) -> Self {
        let task = tokio::spawn(keep(Arc::clone(&cluster)));
        Self { cluster, task }
    }
}

impl Drop for Durability {
    fn drop(&mut self) {
        self.task.abort();
        report(self.cluster.sync());
    }
}

async fn keep(cluster: Arc<Cluster>) {
    let mut changes = cluster.changes();
    while changes.changed().await.is_ok() {
        tokio::time::sleep(LAG).await;
        changes.mark_unchanged();
        let cluster = Arc::clone(&cluster);
        // Waiting for a disk must not keep requests waiting.
        let synced = tokio::task::spawn_blocking(move || cluster.sync()).await;
        report(synced.unwrap_or(Ok(())));
    }
}

/// Says in the server's log that a cluster is no longer safe from a power cut.
fn report(synced: std::io::Result<()>) {
    if let Err(error) = synced {
        crate::ui::log(&format!("could not write a cluster's changes through to the disk: {error}"));
    }
}
