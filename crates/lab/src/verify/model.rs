//! A snapshot as the scheduler's model of a cluster.

use std::sync::Arc;

use super::context::Context;
use super::snapshot::Snapshot;
use super::view::View;
use klab_scheduler::{Cluster, TieBreak};

/// The scheduler of a cluster, ready to be asked where pods would go. Objects that it could not read are left out.
pub fn scheduler(snapshot: &Snapshot, context: &Context<'_>, tie_break: TieBreak) -> Cluster {
    cluster(&View::new(snapshot, context), tie_break)
}

/// The cluster of a snapshot, ready to be asked. Objects that the scheduler could not read (which an API server does not
/// store) are left out. Nodes and pods go in by name, so that their order in the snapshot plays no part.
pub(crate) fn cluster(view: &View<'_>, tie_break: TieBreak) -> Cluster {
    let snapshot = view.snapshot;
    let mut cluster = Cluster::new(tie_break);
    cluster.set_profiles(Arc::clone(&view.profiles));
    cluster.set_features(view.context.features());
    for namespace in &snapshot.namespaces {
        cluster.set_namespace(namespace);
    }
    for service in &snapshot.services {
        cluster.set_service(service);
    }
    for set in &snapshot.replica_sets {
        let _ = cluster.set_replica_set(set);
    }
    for set in &snapshot.stateful_sets {
        let _ = cluster.set_stateful_set(set);
    }
    for controller in &snapshot.replication_controllers {
        cluster.set_replication_controller(controller);
    }
    for budget in &snapshot.pod_disruption_budgets {
        let _ = cluster.set_disruption_budget(budget);
    }
    for claim in &snapshot.persistent_volume_claims {
        cluster.set_claim(claim);
    }
    for volume in &snapshot.persistent_volumes {
        let _ = cluster.set_volume(volume);
    }
    for class in &snapshot.storage_classes {
        cluster.set_storage_class(class);
    }
    if let Some(devices) = &snapshot.devices {
        if let Some(language) = &devices.language {
            cluster.set_selector_language(Arc::clone(language));
        }
        for class in &devices.classes {
            cluster.set_device_class(class);
        }
        for slice in &devices.slices {
            cluster.set_resource_slice(slice);
        }
        for claim in &devices.claims {
            cluster.set_resource_claim(claim);
        }
    }
    for node in view.nodes.values() {
        let _ = cluster.set_node(node);
    }
    for pod in &view.pods {
        let _ = cluster.set_pod(pod.pod);
    }
    cluster
}
