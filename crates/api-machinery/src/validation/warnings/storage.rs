//! Volumes, claims and classes of storage.

// upstream: pkg/api/persistentvolume/util.go, pkg/api/persistentvolumeclaim/util.go, pkg/api/storage/util.go (v1.36)

use serde_json::Value;

use super::super::Place;
use super::collected::{Warnings, annotations, fractional};
use super::labels;
use crate::views::{
    CSIDriver, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass,
};

const CLASS: (&str, &str) =
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead");
const OPTIONS: (&str, &str) =
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead");
const IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
/// Sources whose time is over.
const SOURCES: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// A PersistentVolume.
pub fn volume(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let volume = Place::<PersistentVolume<'_>>::root(new);
    let spec = volume.spec();
    annotations(&volume.metadata().annotations(), &[CLASS, OPTIONS], warnings);
    if *spec.persistent_volume_reclaim_policy() == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        warnings.at(spec.persistent_volume_reclaim_policy(), text);
    }
    for term in spec.node_affinity().required().node_selector_terms().each() {
        labels::expressions(&term, false, warnings);
    }
    sources(&spec, &SOURCES, warnings);
}

/// Sources of a volume whose time is over.
pub(super) fn sources<T>(volume: &Place<'_, T>, old: &[(&str, &str)], warnings: &mut Warnings) {
    for (field, message) in old.iter().filter(|(field, _)| volume.field(field).is_set()) {
        // Upstream calls this one so.
        let called = if *field == "storageos" { "storageOS" } else { field };
        warnings.at(volume.path.field(called), message);
    }
}

/// A PersistentVolumeClaim.
pub fn claim(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let claim = Place::<PersistentVolumeClaim<'_>>::root(new);
    annotations(&claim.metadata().annotations(), &[CLASS], warnings);
    claim_spec(&claim.spec(), warnings);
}

/// What a claim asks for.
pub(super) fn claim_spec(spec: &Place<'_, PersistentVolumeClaimSpec<'_>>, warnings: &mut Warnings) {
    let resources = spec.resources();
    for list in [resources.requests(), resources.limits()] {
        fractional(&list.entry("storage"), warnings);
    }
}

/// A StorageClass.
pub fn class(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    for term in Place::<StorageClass<'_>>::root(new).allowed_topologies().each() {
        for expression in term.match_label_expressions().each() {
            if let Some(old) = labels::of(*expression.key()) {
                warnings.at(expression.key(), old);
            }
        }
    }
}

/// A CSIStorageCapacity.
pub fn capacity(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let capacity = Place::<CSIStorageCapacity<'_>>::root(new);
    let topology = capacity.node_topology();
    labels::expressions(&topology.cast(), false, warnings);
    let place = topology.match_labels();
    for (key, old) in labels::map(*place) {
        warnings.at(place.path.field(key), old);
    }
}

/// A CSIDriver.
pub fn driver(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = CSIDriver(new).spec();
    if !spec.token_requests().is_empty() && spec.service_account_token_in_secrets().is_none() {
        warnings.add(IN_SECRETS);
    }
}

#[cfg(test)]
mod tests {
    use super::super::collected::warnings_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn volumes_and_claims() {
        let volume_of = |spec: Value| warnings_of(volume, &json!({ "spec": spec }));
        assert_eq!(
            volume_of(json!({ "persistentVolumeReclaimPolicy": "Recycle", "storageos": {} })),
            [
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
                "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
            ]
        );
        let claim_of = json!({ "metadata": { "annotations": { CLASS.0: "a" } }, "spec": { "resources": { "requests": { "storage": "200Mi500m" } } } });
        assert_eq!(
            warnings_of(claim, &claim_of),
            [
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ]
        );
        let claim_of = json!({ "spec": { "resources": { "requests": { "storage": "1500m" } } } });
        assert_eq!(
            warnings_of(claim, &claim_of),
            ["spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"]
        );
        let topology =
            json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "beta.kubernetes.io/arch" }] }] });
        assert_eq!(
            warnings_of(class, &topology),
            [
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use \"kubernetes.io/arch\" instead"
            ]
        );
        assert_eq!(warnings_of(driver, &json!({ "spec": { "tokenRequests": [{ "audience": "a" }] } })), [IN_SECRETS]);
    }
}
