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
