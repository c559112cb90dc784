//! Volumes, claims and classes of storage.

// upstream: pkg/api/persistentvolume/util.go, pkg/api/persistentvolumeclaim/util.go, pkg/api/storage/util.go (v1.36)

use serde_json::Value;

use super::super::field::{entries, text};
use super::collected::{Warnings, fractional};
use super::labels;
use crate::schema::Path;

const CLASS: (&str, &str) =
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead");
const OPTIONS: (&str, &str) =
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead");
const IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
/// Sources whose time is over, with what upstream calls them.
const SOURCES: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn annotations(object: &Value, old: &[(&str, &str)], warnings: &mut Warnings) {
    let place = Path::Root.field("metadata");
    let place = place.field("annotations");
    for (key, message) in old.iter().filter(|(key, _)| !object["metadata"]["annotations"][*key].is_null()) {
        warnings.at(&place.key(key), message);
    }
}

/// A PersistentVolume.
pub fn volume(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    annotations(new, &[CLASS, OPTIONS], warnings);
    let spec = &new["spec"];
    let path = Path::Root.field("spec");
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        warnings.at(&path.field("persistentVolumeReclaimPolicy"), text);
    }
    let affinity = path.field("nodeAffinity");
    let required = affinity.field("required");
    let terms = required.field("nodeSelectorTerms");
    for (at, term) in entries(&spec["nodeAffinity"]["required"], "nodeSelectorTerms") {
        labels::expressions(term, false, &terms.index(at), warnings);
    }
    for (_, place, message) in SOURCES.into_iter().filter(|(field, ..)| spec[*field].is_object()) {
        warnings.at(&path.field(place), message);
    }
}

/// A PersistentVolumeClaim.
pub fn claim(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    annotations(new, &[CLASS], warnings);
    claim_spec(&new["spec"], &Path::Root.field("spec"), warnings);
}

/// What a claim asks for.
pub(super) fn claim_spec(spec: &Value, path: &Path<'_>, warnings: &mut Warnings) {
    let resources = path.field("resources");
    for list in ["requests", "limits"] {
        fractional(&spec["resources"][list]["storage"], &resources.field(list).key("storage"), warnings);
    }
}

/// A StorageClass.
pub fn class(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let list = Path::Root.field("allowedTopologies");
    for (at, term) in entries(new, "allowedTopologies") {
        let path = list.index(at);
        let list = path.field("matchLabelExpressions");
        for (at, expression) in entries(term, "matchLabelExpressions") {
            if let Some(old) = labels::of(text(expression, "key")) {
                warnings.at(&list.index(at).field("key"), old);
            }
        }
    }
}

/// A CSIStorageCapacity.
pub fn capacity(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let path = Path::Root.field("nodeTopology");
    labels::expressions(&new["nodeTopology"], false, &path, warnings);
    let place = path.field("matchLabels");
    for (key, old) in labels::map(&new["nodeTopology"]["matchLabels"]) {
        warnings.at(&place.field(key), old);
    }
}

/// A CSIDriver.
pub fn driver(_: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let spec = &new["spec"];
    if entries(spec, "tokenRequests").next().is_some() && spec["serviceAccountTokenInSecrets"].is_null() {
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
