//! What each node is to be, from the lab alone: labels, taints, size, extended resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use super::machine::{Host, Sizing};
use klab_lab::names::DECLARED_ANNOTATION;
use klab_lab::plan::Declared;
use klab_lab::spec::{Lab, Pool};
use klab_scheduler::kubelet::{HOSTNAME, platform_labels};

/// What a node is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// Labels, but for those that only the kubelet knows: architecture, operating system, host name.
    pub labels: BTreeMap<String, String>,
    /// Annotations, with what was declared.
    pub annotations: BTreeMap<String, String>,
    /// Taints, but for those that the system puts on and takes off.
    pub taints: Vec<Taint>,
    /// Its size.
    pub sizing: Sizing,
    /// Extended resources such as GPUs, whole numbers.
    pub extended: BTreeMap<String, u64>,
}

/// The node with this place among the pool's nodes.
///
/// # Errors
/// In words, when the host cannot show the pool's size.
pub fn desired(lab: &Lab, pool: &Pool, index: u32, host: &Host) -> Result<Desired, String> {
    let mut labels = pool.node_labels(&lab.aks.location.value, pool.zone_of(index as usize));
    // They say what the node really is, whatever the pool emulates.
    for key in platform_labels("", "").map(|(key, _)| key).into_iter().chain([HOSTNAME]) {
        labels.remove(key);
    }
    let mut annotations = pool.annotations.clone();
    let declared = serde_json::to_string(&Declared::of(pool)).unwrap_or_default();
    annotations.insert(DECLARED_ANNOTATION.to_owned(), declared);
    let sizing = Sizing::of(pool, host)?;
    Ok(Desired { labels, annotations, taints: pool.node_taints(), sizing, extended: extended(pool) })
}

/// Extended resources of a pool's nodes: the GPUs of its size, and what the author adds.
pub fn extended(pool: &Pool) -> BTreeMap<String, u64> {
    let mut extended = BTreeMap::new();
    let gpus = pool.machine.capacity(pool.max_pods).gpus;
    if gpus > 0 {
        extended.insert("nvidia.com/gpu".to_owned(), u64::from(gpus));
    }
    for (name, quantity) in &pool.resources {
        if let Ok(count) = quantity.value.0.parse() {
            extended.insert(name.clone(), count);
        }
    }
    extended
}

/// Whether a kubelet may give itself this label: of Kubernetes' own prefixes only some. The others are set through the
/// API once the node is there. (Kubernetes: `IsKubeletLabel` of its node API.)
pub fn kubelet_may_set(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let within = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    within("kubelet.kubernetes.io") || within("node.kubernetes.io") || ALLOWED.contains(&key)
}

const ALLOWED: [&str; 10] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_may_set_some_of_kubernetes_own_labels_and_all_others() {
        for (key, allowed) in [
            ("workload", true),
            ("kubernetes.azure.com/agentpool", true),
            ("karpenter.sh/nodepool", true),
            ("kubelet.kubernetes.io/x", true),
            ("node.kubernetes.io/instance-type", true),
            ("topology.kubernetes.io/zone", true),
            ("failure-domain.beta.kubernetes.io/zone", true),
            ("topology.kubernetes.io/rack", false),
            ("kubernetes.io/x", false),
            ("my.kubernetes.io/x", false),
            ("my.k8s.io/x", false),
            ("node-role.kubernetes.io/worker", false),
            ("node-restriction.kubernetes.io/x", false),
        ] {
            assert_eq!(kubelet_may_set(key), allowed, "{key}");
        }
    }
}
