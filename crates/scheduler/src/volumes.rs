//! Claims and volumes, as far as claims that are bound before scheduling need them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::error::ObjectError;
use super::node_selector::NodeSelectorTerm;
use super::selector::Labels;

/// A claim of a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The bound volume; `None` while unbound.
    pub(crate) volume: Option<String>,
    /// Storage class.
    pub(crate) class: Option<String>,
    pub(crate) terminating: bool,
    /// Only one pod may use it.
    pub(crate) one_pod: bool,
}

/// A volume.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) labels: Labels,
    /// Node affinity: one of the terms must match; `None` if not given.
    pub(crate) terms: Option<Vec<NodeSelectorTerm>>,
}

/// Claims, volumes and storage classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volumes {
    claims: BTreeMap<(String, String), Claim>,
    by_name: BTreeMap<String, Volume>,
    /// Storage class by name: whether it binds only when a pod is placed.
    late_binding: BTreeMap<String, bool>,
}

impl Volumes {
    pub(crate) fn set_claim(&mut self, claim: &PersistentVolumeClaim) {
        let namespace = claim.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let spec = claim.spec.as_ref();
        let bound = claim
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key("pv.kubernetes.io/bind-completed"))
            || claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"));
        let entry = Claim {
            volume: spec.and_then(|spec| spec.volume_name.clone()).filter(|name| bound && !name.is_empty()),
            class: spec.and_then(|spec| spec.storage_class_name.clone()),
            terminating: claim.metadata.deletion_timestamp.is_some(),
            one_pod: spec
                .and_then(|spec| spec.access_modes.as_ref())
                .is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod")),
        };
        self.claims.insert((namespace, claim.metadata.name.clone().unwrap_or_default()), entry);
    }

    pub(crate) fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.claims.remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub(crate) fn set_volume(&mut self, volume: &PersistentVolume) -> Result<(), ObjectError> {
        let required = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.node_affinity.as_ref())
            .and_then(|affinity| affinity.required.as_ref());
        let terms = required
            .map(|required| required.node_selector_terms.iter().map(NodeSelectorTerm::from_api).collect())
            .transpose()
            .map_err(ObjectError::selector("spec.nodeAffinity"))?;
        let labels = volume.metadata.labels.clone().unwrap_or_default();
        self.by_name.insert(volume.metadata.name.clone().unwrap_or_default(), Volume { labels, terms });
        Ok(())
    }

    pub(crate) fn remove_volume(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(crate) fn set_storage_class(&mut self, class: &StorageClass) {
        let late = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        self.late_binding.insert(class.metadata.name.clone().unwrap_or_default(), late);
    }

    pub(crate) fn remove_storage_class(&mut self, name: &str) {
        self.late_binding.remove(name);
    }

    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Volume> {
        self.by_name.get(name)
    }

    /// Whether an unbound claim waits for a pod to be placed before it is bound.
    pub(crate) fn binds_late(&self, claim: &Claim) -> bool {
        claim.class.as_ref().and_then(|class| self.late_binding.get(class)).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Cluster, TieBreak};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn claim(name: &str, volume: Option<&str>, class: &str, mode: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": volume, "storageClassName": class, "accessModes": [mode]},
            "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
        })
    }

    fn pod(name: &str, claim: &str) -> k8s_openapi::api::core::v1::Pod {
        read(json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "x"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
            },
        }))
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(TieBreak::FirstName);
        for (name, zone) in [("n1", "a"), ("n2", "b")] {
            let node = json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
            });
            cluster.set_node(&read(node)).unwrap();
        }
        for (name, mode) in [("now", "Immediate"), ("late", "WaitForFirstConsumer")] {
            let class = json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode});
            cluster.set_storage_class(&read(class));
        }
        cluster
    }

    /// The node, or the message.
    fn outcome(cluster: &mut Cluster, pod: &k8s_openapi::api::core::v1::Pod) -> String {
        let decision = cluster.schedule(pod).unwrap();
        assert_eq!(decision, cluster.attempt(pod).unwrap().decision);
        decision.outcome.node().map_or(decision.message.clone(), ToString::to_string)
    }

    #[test]
    fn claims_must_exist_and_be_bound_unless_they_bind_late() {
        let mut cluster = cluster();
        let pod = pod("p", "data");
        let refused = |why: &str| format!("0/2 nodes are available: {why}. not found");
        let missing = refused("persistentvolumeclaim \"data\" not found");
        assert_eq!(outcome(&mut cluster, &pod), missing);
        cluster.set_claim(&read(claim("data", None, "now", "ReadWriteOnce")));
        assert_eq!(outcome(&mut cluster, &pod), refused("pod has unbound immediate PersistentVolumeClaims"));
        cluster.set_claim(&read(claim("data", None, "late", "ReadWriteOnce")));
        assert_eq!(outcome(&mut cluster, &pod), "n1");
        cluster.remove_claim("default", "data");
        assert_eq!(outcome(&mut cluster, &pod), missing);
    }

    #[test]
    fn bound_volumes_keep_to_their_nodes_and_zones() {
        let mut cluster = cluster();
        let pod = pod("p", "data");
        cluster.set_claim(&read(claim("data", Some("disk"), "now", "ReadWriteOnce")));
        let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        assert!(outcome(&mut cluster, &pod).starts_with(&format!("0/2 nodes are available: 2 {gone}.")));
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}]}});
        cluster.set_volume(&read(json!({"metadata": {"name": "disk"}, "spec": {"nodeAffinity": affinity}}))).unwrap();
        assert_eq!(outcome(&mut cluster, &pod), "n2");
        let zone = json!({"topology.kubernetes.io/zone": "a__c"});
        cluster.set_volume(&read(json!({"metadata": {"name": "disk", "labels": zone}, "spec": {}}))).unwrap();
        assert_eq!(outcome(&mut cluster, &pod), "n1");
        let reasons = cluster.evaluate(&pod, "n2").unwrap().unwrap();
        assert_eq!(
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["node(s) had no available volume zone"]
        );
    }

    #[test]
    fn a_claim_for_one_pod_is_used_once() {
        let mut cluster = cluster();
        cluster.set_claim(&read(claim("data", None, "late", "ReadWriteOncePod")));
        cluster.bind(&pod("first", "data"), "n1").unwrap();
        let text = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
        let message = outcome(&mut cluster, &pod("second", "data"));
        assert!(message.starts_with(&format!("0/2 nodes are available: 2 {text}.")), "{message}");
        cluster.remove_pod("default", "first");
        assert_eq!(outcome(&mut cluster, &pod("second", "data")), "n1");
    }
}
