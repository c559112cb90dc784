//! A cluster taken away, and the world looked at afterwards.

use super::create::{end_leftover_kinds, sweep};
use super::session::{Session, remove_file};
use crate::error::Result;
use crate::event::{About, Verb};
use crate::provider::Work;
use crate::state::home::state_error;

/// Removes the cluster, its volumes and its files. Safe to repeat; works without kind, and with half a cluster.
pub(super) fn remove(session: &Session, work: &mut Work<'_>) -> Result<()> {
    let names = &session.names;
    let containers = session.own_containers()?;
    let record = session.record()?;
    let interrupted = record.as_ref().is_some_and(|record| !record.complete);
    if !containers.is_empty() || interrupted {
        work.intend("delete-cluster", &names.cluster)?;
        let activity = work
            .events
            .about(About::Cluster, &names.cluster)
            .start(Verb::DeleteCluster, format!("cluster {}", names.cluster));
        end_leftover_kinds(session);
        remove_file(&names.kubeconfig_lock())?;
        let volumes: Vec<String> = containers.iter().flat_map(|container| container.volumes.clone()).collect();
        // kind may be gone, or trip over half a cluster: what it leaves is removed by its label.
        let asked = session.kind.delete(&names.cluster, &names.kubeconfig());
        if asked.is_err() {
            activity.progress("kind could not, removing the containers by their label");
        }
        sweep(session, interrupted)?;
        session.runtime.remove_volumes(&session.runtime.volumes_of(&volumes)?)?;
        activity.finish(format!("cluster {}", names.cluster));
    }
    for file in [names.kubeconfig_lock(), names.kubeconfig()] {
        remove_file(&file)?;
    }
    let folder = names.folder();
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(state_error(error, "remove", &folder)),
        _ => Ok(()),
    }
}

/// What is left, in words.
pub(super) fn remains(session: &Session) -> Result<Vec<String>> {
    let names = &session.names;
    let mut left: Vec<String> =
        session.own_containers()?.iter().map(|container| format!("container {}", container.name)).collect();
    for path in [names.kubeconfig(), names.kubeconfig_lock(), names.folder()] {
        if path.exists() {
            left.push(path.display().to_string());
        }
    }
    Ok(left)
}
