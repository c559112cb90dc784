//! The volumes of a pod.

// upstream: pkg/apis/core/validation/validation.go ValidateVolumes, validateVolumeSource (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::volume_sources::{self, driver, iscsi_name};
use super::{Errors, claim_spec, environment, file_paths, metadata};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

/// The volumes that containers may mount, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The order in which sources are looked at: a second one is refused.
const ORDER: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes; returns those that are right. `pod` is the metadata of what is a pod, and no template of one.
pub(super) fn check<'a>(spec: &'a Value, pod: Option<&Value>, list: &Path<'_>, errors: &mut Errors) -> Volumes<'a> {
    let mut good = HashMap::new();
    let pod_name = pod.map(|metadata| text(metadata, "name")).filter(|name| !name.is_empty());
    let is_ephemeral = |(_, volume): &(usize, &Value)| volume["ephemeral"].is_object();
    let ephemeral: HashSet<&str> =
        entries(spec, "volumes").filter(is_ephemeral).map(|(_, volume)| text(volume, "name")).collect();
    for (at, volume) in entries(spec, "volumes") {
        let path = list.index(at);
        let place = path.field("name");
        let mut found = Errors::default();
        source(volume, pod_name, pod.is_some(), &path, &mut found);
        let name = text(volume, "name");
        if name.is_empty() {
            found.required(place, "");
        } else {
            for fault in names::label(name) {
                found.invalid(place, &volume["name"], fault);
            }
        }
        if good.contains_key(name) {
            found.duplicate(place, &volume["name"]);
        }
        if found.is_empty() {
            good.insert(name, volume);
        }
        errors.extend(&found);
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        let of_volume = pod_name.and_then(|pod| claim.strip_prefix(pod)?.strip_prefix('-'));
        if of_volume.is_some_and(|name| ephemeral.contains(name)) {
            let fault = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(path.field("persistentVolumeClaim").field("claimName"), &json!(claim), fault);
        }
    }
    good
}

fn source(volume: &Value, pod: Option<&str>, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    let mut first = true;
    for field in ORDER {
        let source = &volume[field];
        if !source.is_object() {
            continue;
        }
        let common = volume_sources::named(field);
        if std::mem::take(&mut first) {
            match common {
                Some(common) => common.check(source, path, errors),
                None => own(field, source, is_pod, &path.field(field), errors),
            }
            if field == "ephemeral" {
                made_claim(text(volume, "name"), pod, path, errors);
            }
        } else {
            // Upstream's name of the field has a letter too few.
            let second =
                if field == "downwardAPI" { "downwarAPI" } else { common.map_or(field, |common| common.second) };
            errors.forbidden(path.field(second), "may not specify more than 1 volume type");
        }
        if let Some(fault) = iscsi_name(source, text(volume, "name")).filter(|_| field == "iscsi") {
            errors.invalid(path.field("name"), &volume["name"], fault);
        }
    }
    if first {
        errors.required(path, "must specify a volume type");
    }
}

/// The claim that is made for a volume has a name that claims may have.
fn made_claim(volume: &str, pod: Option<&str>, path: &Path<'_>, errors: &mut Errors) {
    let Some(pod) = pod.filter(|_| !volume.is_empty()) else { return };
    let claim = format!("{pod}-{volume}");
    for fault in names::subdomain(&claim) {
        errors.invalid(path.field("name"), &json!(volume), format!("PVC name {claim:?}: {fault}"));
    }
}

/// What only pods have.
fn own(kind: &str, source: &Value, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    let needed = |field: &str, errors: &mut Errors| {
        if text(source, field).is_empty() {
            errors.required(path.field(field), "");
        }
    };
    match kind {
        "emptyDir" => {
            let limit = source["sizeLimit"].as_str().and_then(|text| Quantity::parse(text).ok());
            if limit.is_some_and(Quantity::is_negative) {
                let fault = "SizeLimit field must be a valid resource quantity";
                errors.forbidden(path.field("sizeLimit"), fault);
            }
        }
        "gitRepo" => {
            needed("repository", errors);
            file_paths::descending(&source["directory"], &path.field("directory"), errors);
        }
        "secret" | "configMap" => {
            needed(if kind == "secret" { "secretName" } else { "name" }, errors);
            file_paths::mode(&source["defaultMode"], &path.field("defaultMode"), errors);
            keys(source, path, errors);
        }
        "persistentVolumeClaim" => needed("claimName", errors),
        "downwardAPI" => {
            file_paths::mode(&source["defaultMode"], &path.field("defaultMode"), errors);
            // Upstream says of the volume what is wrong with one of its files.
            for (_, file) in entries(source, "items") {
                pod_file(file, path, errors);
            }
        }
        "projected" => {
            file_paths::mode(&source["defaultMode"], &path.field("defaultMode"), errors);
            projections(source, path, errors);
        }
        "csi" => {
            driver(&source["driver"], &path.field("driver"), errors);
            let secret = &source["nodePublishSecretRef"];
            if secret.is_object() && text(secret, "name").is_empty() {
                errors.required(path.field("nodePublishSecretRef").field("name"), "");
            } else if secret.is_object() {
                for fault in names::subdomain(text(secret, "name")) {
                    errors.invalid(path.field("name"), &secret["name"], fault);
                }
            }
        }
        "ephemeral" => {
            let template = &source["volumeClaimTemplate"];
            let path = path.field("volumeClaimTemplate");
            if template.is_object() {
                let meta = path.field("metadata");
                metadata::annotations(&template["metadata"]["annotations"], &meta.field("annotations"), errors);
                metadata::labels(&template["metadata"]["labels"], &meta.field("labels"), errors);
                for field in template["metadata"].as_object().into_iter().flatten().map(|(field, _)| field) {
                    if !matches!(field.as_str(), "annotations" | "labels" | "creationTimestamp") {
                        errors.forbidden(meta.field(field), "cannot be set");
                    }
                }
                claim_spec::check(&template["spec"], &path.field("spec"), errors);
            } else {
                errors.required(path, "");
            }
        }
        "image" => {
            if is_pod {
                needed("reference", errors);
            }
            let policies = ["Always", "IfNotPresent", "Never"];
            supported(&source["pullPolicy"], &path.field("pullPolicy"), &policies, errors);
        }
        _ => {}
    }
}

/// Keys that become files.
fn keys(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("items");
    for (at, item) in entries(source, "items") {
        let path = list.index(at);
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                errors.required(path.field(field), "");
            }
        }
        file_paths::free(&item["path"], &path.field("path"), errors);
        file_paths::mode(&item["mode"], &path.field("mode"), errors);
    }
}

/// A file with a field of the pod.
fn pod_file(file: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("path");
    if text(file, "path").is_empty() {
        errors.required(place, "");
    }
    file_paths::free(&file["path"], &place, errors);
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if field.is_object() {
        environment::field(field, &environment::OF_FILES, &path.field("fieldRef"), errors);
        if resource.is_object() {
            let fault = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid(path, &json!("resource"), fault);
        }
    } else if resource.is_object() {
        environment::resource(resource, true, &path.field("resourceFieldRef"), errors);
    } else {
        errors.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    file_paths::mode(&file["mode"], &path.field("mode"), errors);
}

fn projections(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut taken: HashSet<&str> = HashSet::new();
    let list = path.field("sources");
    for (at, source) in entries(volume, "sources") {
        let place = list.index(at);
        for kind in ["secret", "configMap"] {
            let one = &source[kind];
            if !one.is_object() {
                continue;
            }
            let place = place.field(kind);
            if text(one, "name").is_empty() {
                errors.required(place.field("name"), "");
            }
            keys(one, &place, errors);
            for (_, item) in entries(one, "items") {
                take(&mut taken, text(item, "path"), text(one, "name"), path, errors);
            }
        }
        for (_, file) in entries(&source["downwardAPI"], "items") {
            pod_file(file, &place.field("downwardAPI"), errors);
            take(&mut taken, text(file, "path"), text(file, "path"), path, errors);
        }
        if source["serviceAccountToken"].is_object() {
            token(&source["serviceAccountToken"], &place.field("serviceAccountToken"), path, errors);
        }
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        if kinds.iter().filter(|kind| source[**kind].is_object()).count() > 1 {
            errors.forbidden(place, "may not specify more than 1 volume type per source");
        }
    }
}

/// No two files have the same path.
fn take<'a>(taken: &mut HashSet<&'a str>, file: &'a str, shown: &str, path: &Path<'_>, errors: &mut Errors) {
    if !file.is_empty() && !taken.insert(file) {
        errors.invalid(path, &json!(shown), "conflicting duplicate paths");
    }
}

/// What is wrong with its path is said of the volume.
fn token(token: &Value, place: &Path<'_>, volume: &Path<'_>, errors: &mut Errors) {
    let seconds = &token["expirationSeconds"];
    let fault = match seconds.as_i64() {
        Some(..600) => Some("may not specify a duration less than 10 minutes"),
        Some(0x1_0000_0001..) => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(fault) = fault {
        errors.invalid(place.field("expirationSeconds"), seconds, fault);
    }
    let path = volume.field("path");
    if text(token, "path").is_empty() {
        errors.required(path, "");
    } else {
        file_paths::free(&token["path"], &path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(volumes: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let metadata = json!({ "name": "pod" });
        check(&json!({ "volumes": volumes }), Some(&metadata), &Path::Root.field("v"), &mut errors);
        errors.texts()
    }

    #[test]
    fn sources_say_what_they_need() {
        let list = "\"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"";
        let host_path_type = format!(".hostPath.type: Unsupported value: \"invalid\": supported values: {list}");
        for (source, wanted) in [
            (json!({ "hostPath": { "path": "" } }), vec![".hostPath.path: Required value"]),
            (
                json!({ "hostPath": { "path": "/a/../b" } }),
                vec![".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
            ),
            (json!({ "hostPath": { "path": "/a", "type": "invalid" } }), vec![&*host_path_type]),
            (json!({ "hostPath": { "path": "/a", "type": "Socket" } }), vec![]),
            (
                json!({ "nfs": { "server": "", "path": "a" } }),
                vec![".nfs.server: Required value", ".nfs.path: Invalid value: \"a\": must be an absolute path"],
            ),
            (
                json!({ "iscsi": { "targetPortal": "127.0.0.1", "iqn": "iqn.2015-02.example.com:test", "lun": 1 } }),
                vec![],
            ),
            (json!({ "iscsi": { "targetPortal": "127.0.0.1", "iqn": "eui.0123456789ABCDEF", "lun": 1 } }), vec![]),
            (
                json!({ "iscsi": { "targetPortal": "127.0.0.1", "iqn": "iqn.2015-02.example.com:a;b", "lun": 256 } }),
                vec![
                    ".iscsi.iqn: Invalid value: \"iqn.2015-02.example.com:a;b\": must be valid format",
                    ".iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                ],
            ),
            (
                json!({ "secret": { "secretName": "s", "defaultMode": 0o1000 } }),
                vec![
                    ".secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                ],
            ),
            (
                json!({ "configMap": { "name": "c", "items": [{ "key": "k", "path": "..p" }] } }),
                vec![".configMap.items[0].path: Invalid value: \"..p\": must not start with '..'"],
            ),
            (
                json!({ "configMap": { "name": "c", "items": [{ "key": "", "path": "/p" }] } }),
                vec![
                    ".configMap.items[0].key: Required value",
                    ".configMap.items[0].path: Invalid value: \"/p\": must be a relative path",
                ],
            ),
        ] {
            let mut volume = source.clone();
            volume["name"] = json!("one");
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("v[0]{fault}")).collect();
            assert_eq!(faults(json!([volume])), wanted, "{source}");
        }
    }

    #[test]
    fn sources_are_one_each_and_of_a_kind() {
        for (source, wanted) in [
            (json!({ "persistentVolumeClaim": {} }), vec![".persistentVolumeClaim.claimName: Required value"]),
            (
                json!({ "downwardAPI": { "items": [{ "path": "a", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.labels" } }] } }),
                vec![],
            ),
            (
                json!({ "downwardAPI": { "items": [{ "path": "a" }] } }),
                vec![".downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
            ),
            (
                json!({ "downwardAPI": { "items": [{ "path": "a", "resourceFieldRef": { "resource": "limits.cpu" } }] } }),
                vec![".downwardAPI.resourceFieldRef.containerName: Required value"],
            ),
            (
                json!({ "gitRepo": { "directory": "/a" } }),
                vec![
                    ".gitRepo.repository: Required value",
                    ".gitRepo.directory: Invalid value: \"/a\": must be a relative path",
                ],
            ),
            (json!({ "csi": { "driver": "Disk.CSI.azure.com" } }), vec![]),
            (json!({ "csi": { "driver": "" } }), vec![".csi.driver: Required value"]),
            (json!({ "azureFile": { "shareName": "s" } }), vec![".azureFile.secretName: Required value"]),
            (json!({ "cephfs": {} }), vec![".cephfs.monitors: Required value"]),
            (json!({ "gcePersistentDisk": {} }), vec![".persistentDisk.pdName: Required value"]),
            (
                json!({ "emptyDir": {}, "hostPath": { "path": "/a" }, "downwardAPI": {} }),
                vec![
                    ".hostPath: Forbidden: may not specify more than 1 volume type",
                    ".downwarAPI: Forbidden: may not specify more than 1 volume type",
                ],
            ),
            (json!({}), vec![": Required value: must specify a volume type"]),
            (json!({ "ephemeral": {} }), vec![".ephemeral.volumeClaimTemplate: Required value"]),
            (json!({ "image": { "pullPolicy": "Always" } }), vec![".image.reference: Required value"]),
        ] {
            let mut volume = source.clone();
            volume["name"] = json!("one");
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("v[0]{fault}")).collect();
            assert_eq!(faults(json!([volume])), wanted, "{source}");
        }
    }

    #[test]
    fn projected_files_have_places_of_their_own() {
        let map = |name: &str| json!({ "configMap": { "name": name, "items": [{ "key": "k", "path": "p" }] } });
        let both = json!([{ "name": "one", "projected": { "sources": [map("a"), map("b")] } }]);
        assert_eq!(faults(both), ["v[0].projected: Invalid value: \"b\": conflicting duplicate paths"]);
        let wrong = json!([{ "name": "one", "projected": { "sources": [
            { "serviceAccountToken": { "path": "t", "expirationSeconds": 500 } },
            { "serviceAccountToken": { "expirationSeconds": 600 }, "secret": { "name": "s" } },
        ] } }]);
        assert_eq!(
            faults(wrong),
            [
                "v[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 500: may not specify a duration less than 10 minutes",
                "v[0].projected.path: Required value",
                "v[0].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
            ]
        );
    }

    #[test]
    fn claims_of_the_pod_are_its_own() {
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        let made = json!({ "name": "data", "ephemeral": { "volumeClaimTemplate": { "spec": spec } } });
        let taken = json!({ "name": "other", "persistentVolumeClaim": { "claimName": "pod-data" } });
        assert_eq!(faults(json!([made])), [""; 0]);
        assert_eq!(
            faults(json!([made, taken])),
            [
                "v[1].persistentVolumeClaim.claimName: Invalid value: \"pod-data\": must not reference a PVC that gets created for an ephemeral volume"
            ]
        );
        let named = json!({ "name": "data", "ephemeral": { "volumeClaimTemplate": { "metadata": { "name": "x" }, "spec": spec } } });
        assert_eq!(
            faults(json!([named])),
            ["v[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set"]
        );
    }
}
