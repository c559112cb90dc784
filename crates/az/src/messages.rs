//! What Azure says where it refuses, as its documentation and reports of users have it.

use crate::names::Site;
use crate::refusal::{Code, Refusal};

/// There is no such group.
pub fn no_group(group: &str) -> Refusal {
    Refusal::azure(Code::ResourceGroupNotFound, &format!("Resource group '{group}' could not be found."))
}

/// There is no such cluster in the group.
pub fn no_cluster(group: &str, cluster: &str) -> Refusal {
    let message = format!(
        "The Resource 'Microsoft.ContainerService/managedClusters/{cluster}' under resource group '{group}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix"
    );
    Refusal::azure(Code::ResourceNotFound, &message)
}

/// There is no such pool in the cluster.
pub fn no_pool(pool: &str) -> Refusal {
    Refusal::azure(Code::NotFound, &format!("Could not find the agent pool {pool}."))
}

/// az's own word for a pool that is not there, where these are.
pub fn pool_does_not_exist(pool: &str, there: &[&str]) -> Refusal {
    Refusal::new(format!("Node pool {pool} doesnt exist, use 'aks nodepool list' to get current node pool list"))
        .advise(format!("The cluster's pools are: {}.", there.join(", ")))
}

/// A cluster cannot be without a system pool.
pub fn last_system_pool() -> Refusal {
    Refusal::azure(Code::BadRequest, "There has to be at least one system agent pool.")
        .advise("Add another one first: az aks nodepool add … --mode System")
}

/// A cluster is stopped.
pub fn stopped(what: &str) -> Refusal {
    let message = format!("Operation is not allowed because {what} is stopped. Start it first.");
    Refusal::azure(Code::OperationNotAllowed, &message)
}

/// A size that the region does not have, with the nearest that it has.
pub fn no_size(size: &str, location: &str, near: &[&str]) -> Refusal {
    let message = format!(
        "The VM size of {size} is not allowed in your subscription in location '{location}'. The available VM sizes are '{}'",
        near.join(",")
    );
    Refusal::azure(Code::BadRequest, &message)
        .advise(format!("az vm list-sizes -l {location} -o table lists those that klab knows."))
}

/// A label that belongs to AKS.
pub fn reserved_label(key: &str) -> Refusal {
    let prefix = key.split('/').next().unwrap_or(key);
    let message = format!(
        "Label {key} is invalid: the prefix {prefix}/ is reserved for use by AKS and cannot be used for any node label."
    );
    Refusal::azure(Code::InvalidParameter, &message)
}

/// A version that the region does not offer.
pub fn no_version(site: &Site, version: &str, offered: &[String]) -> Refusal {
    let message = format!(
        "Managed cluster {} is on version {version}, which is not supported in this region. Please use [az aks get-versions] command to get the supported version list in this region. For more information, please check https://aka.ms/supported-version-list",
        site.cluster
    );
    Refusal::azure(Code::K8sVersionNotSupported, &message).advise(format!("klab offers {}.", offered.join(", ")))
}

/// A pool that would be newer than its cluster.
pub fn newer_than_cluster(pool: &str, cluster: &str) -> Refusal {
    let minor = |version: &str| version.split('.').nth(1).unwrap_or_default().to_owned();
    let message = format!(
        "Node pool version {pool} and control plane version {cluster} are incompatible. Minor version of node pool version {} is bigger than control plane version {}. For more information, please check https://aka.ms/aks/UpgradeVersionRules",
        minor(pool),
        minor(cluster)
    );
    Refusal::azure(Code::NodePoolMcVersionIncompatible, &message)
}

/// A step between versions that Kubernetes does not make.
pub fn no_upgrade(from: &str, to: &str, available: &[String]) -> Refusal {
    let message = format!(
        "Upgrading Kubernetes version {from} to {to} is not allowed. Available upgrades: [{}]. Please see https://aka.ms/aks-supported-k8s-ver for version details.",
        available.join(" ")
    );
    Refusal::azure(Code::OperationNotAllowed, &message)
}

/// Something goes on that must end first.
fn in_progress(message: &str) -> Refusal {
    let message = format!("{message} See https://aka.ms/aks-pending-operation for more details.");
    Refusal::azure(Code::OperationNotAllowed, &message)
}

/// A pool that something is done to.
pub fn pool_is_busy(pool: &str, doing: &str) -> Refusal {
    in_progress(&format!(
        "Operation is not allowed: Another agentpool operation ({pool} - {doing}) is in progress, please wait for it to finish before starting a new operation."
    ))
    .advise(format!("az aks nodepool wait … -n {pool} --updated waits for it."))
}

/// A pool that is being deleted.
pub fn pool_is_going(pool: &str, wanted: &str) -> Refusal {
    let message = format!(
        "Unable to perform '{wanted}' operation on '{pool}' since deletion was issued on '{pool}'. The only allowed operation is deletion once deletion has started."
    );
    Refusal::azure(Code::OperationNotAllowed, &message)
}

/// A cluster that something is done to.
pub fn cluster_is_busy(doing: &str) -> Refusal {
    in_progress(&format!(
        "Operation is not allowed: Another operation ({doing}) is in progress, please wait for it to finish before starting a new operation."
    ))
}

/// A pool of a cluster that something is done to.
pub fn cluster_of_pool_is_busy(doing: &str) -> Refusal {
    in_progress(&format!(
        "Managed Cluster operation is not allowed: Another operation ({doing}) is in progress, please wait for it to finish before starting a new operation."
    ))
}

/// A cluster with a pool that something is done to.
pub fn pool_of_cluster_is_busy(pool: &str, doing: &str) -> Refusal {
    in_progress(&format!(
        "Managed Cluster operation is not allowed: Another operation ({doing}) is in progress on agent pool ({pool})."
    ))
}
