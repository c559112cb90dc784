//! The volumes of a pod.

// upstream: pkg/apis/core/validation/validation.go ValidateVolumes, validateVolumeSource (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::json;

use super::volume_sources::{self, driver, iscsi_name};
use super::{Errors, Place, claim_spec, environment, file_paths, metadata};
use crate::views::{
    DownwardAPIVolumeFile, KeyToPath, ObjectMeta, ProjectedVolumeSource, ServiceAccountTokenProjection, Views, Volume,
};

/// The volumes that containers may mount, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, Volume<'a>>;

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
pub(super) fn check<'a>(
    list: &Place<'_, Views<'a, Volume<'a>>>,
    pod: Option<ObjectMeta<'_>>,
    errors: &mut Errors,
) -> Volumes<'a> {
    let mut good = HashMap::new();
    let pod_name = pod.map(ObjectMeta::name).filter(|name| !name.is_empty());
    let ephemeral: HashSet<&str> =
        Views::clone(list).filter(|volume| volume.ephemeral().is_set()).map(Volume::name).collect();
    for volume in list.each() {
        let mut found = Errors::default();
        source(&volume, pod_name, pod.is_some(), &mut found);
        let name = volume.name();
        name.needed_as(names::label, &mut found);
        if good.contains_key(*name) {
            found.duplicate_at(&name);
        }
        if found.is_empty() {
            good.insert(*name, *volume);
        }
        errors.extend(&found);
        let source = volume.persistent_volume_claim();
        let claim = source.claim_name();
        let of_volume = pod_name.and_then(|pod| claim.strip_prefix(pod)?.strip_prefix('-'));
        if of_volume.is_some_and(|name| ephemeral.contains(name)) {
            errors.invalid_at(&claim, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    good
}

fn source(volume: &Place<'_, Volume<'_>>, pod: Option<&str>, is_pod: bool, errors: &mut Errors) {
    let mut first = true;
    for field in ORDER.into_iter().filter(|field| volume.field(field).is_set()) {
        let common = volume_sources::named(field);
        if std::mem::take(&mut first) {
            match common {
                Some(common) => common.check(volume, errors),
                None => own(field, volume, is_pod, errors),
            }
            if field == "ephemeral" {
                made_claim(&volume.name(), pod, errors);
            }
        } else {
            // Upstream's name of the field has a letter too few.
            let second =
                if field == "downwardAPI" { "downwarAPI" } else { common.map_or(field, |common| common.second) };
            errors.forbidden(volume.path.field(second), "may not specify more than 1 volume type");
        }
        if let Some(fault) = iscsi_name(*volume.iscsi(), *volume.name()).filter(|_| field == "iscsi") {
            errors.invalid_at(&volume.name(), fault);
        }
    }
    if first {
        errors.required(volume, "must specify a volume type");
    }
}

/// The claim that is made for a volume has a name that claims may have.
fn made_claim(volume: &Place<'_, &str>, pod: Option<&str>, errors: &mut Errors) {
    let Some(pod) = pod.filter(|_| !volume.is_empty()) else { return };
    let claim = format!("{pod}-{}", **volume);
    for fault in names::subdomain(&claim) {
        errors.invalid_at(volume, format!("PVC name {claim:?}: {fault}"));
    }
}

/// What only pods have.
fn own(kind: &str, volume: &Place<'_, Volume<'_>>, is_pod: bool, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let source = volume.empty_dir();
            let limit = source.size_limit();
            if Quantity::parse(limit.text()).is_ok_and(Quantity::is_negative) {
                errors.forbidden(limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            volume.git_repo().repository().needed(errors);
            file_paths::descending(&volume.git_repo().directory(), errors);
        }
        "secret" => {
            let source = volume.secret();
            source.secret_name().needed(errors);
            file_paths::mode(&source.default_mode(), errors);
            keys(&source.items(), errors);
        }
        "configMap" => {
            let source = volume.config_map();
            source.name().needed(errors);
            file_paths::mode(&source.default_mode(), errors);
            keys(&source.items(), errors);
        }
        "persistentVolumeClaim" => volume.persistent_volume_claim().claim_name().needed(errors),
        "downwardAPI" => {
            let source = volume.downward_api();
            file_paths::mode(&source.default_mode(), errors);
            // Upstream says of the volume what is wrong with one of its files.
            source.items().each().for_each(|file| pod_file(&file.called(source.path), errors));
        }
        "projected" => {
            file_paths::mode(&volume.projected().default_mode(), errors);
            projections(&volume.projected(), errors);
        }
        "csi" => {
            let source = volume.csi();
            driver(&source.driver(), errors);
            let secret = source.node_publish_secret_ref();
            if secret.is_set() {
                secret.name().needed(errors);
                secret.called(source.path).name().check_if_set(names::subdomain, errors);
            }
        }
        "ephemeral" => {
            let source = volume.ephemeral();
            let template = source.volume_claim_template();
            if !template.is_set() {
                return errors.required(template, "");
            }
            let metadata = template.metadata();
            metadata::annotations(&metadata.annotations(), errors);
            metadata::labels(&metadata.labels(), errors);
            for field in metadata.json.as_object().into_iter().flatten().map(|(field, _)| field) {
                if !matches!(field.as_str(), "annotations" | "labels" | "creationTimestamp") {
                    errors.forbidden(metadata.path.field(field), "cannot be set");
                }
            }
            claim_spec::check(&template.spec(), errors);
        }
        "image" => {
            if is_pod {
                volume.image().reference().needed(errors);
            }
            volume.image().pull_policy().supported(&["Always", "IfNotPresent", "Never"], errors);
        }
        _ => {}
    }
}

/// Keys that become files.
fn keys<'a>(items: &Place<'_, Views<'a, KeyToPath<'a>>>, errors: &mut Errors) {
    for item in items.each() {
        item.key().needed(errors);
        item.path().needed(errors);
        file_paths::free(&item.path(), errors);
        file_paths::mode(&item.mode(), errors);
    }
}

/// A file with a field of the pod.
fn pod_file(file: &Place<'_, DownwardAPIVolumeFile<'_>>, errors: &mut Errors) {
    file.path().needed(errors);
    file_paths::free(&file.path(), errors);
    let (field, resource) = (file.field_ref(), file.resource_field_ref());
    if field.is_set() {
        environment::field(&field, &environment::OF_FILES, errors);
        if resource.is_set() {
            let fault = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid(file, &json!("resource"), fault);
        }
    } else if resource.is_set() {
        environment::resource(&resource, true, errors);
    } else {
        errors.required(file, "one of fieldRef and resourceFieldRef is required");
    }
    file_paths::mode(&file.mode(), errors);
}

fn projections(volume: &Place<'_, ProjectedVolumeSource<'_>>, errors: &mut Errors) {
    let mut taken: HashSet<&str> = HashSet::new();
    for source in volume.sources().each() {
        let (config_map, downward) = (source.config_map(), source.downward_api());
        for one in [source.secret(), Place::new(config_map.path, config_map.0)].iter().filter(|one| one.is_set()) {
            one.name().needed(errors);
            keys(&one.items(), errors);
            for item in one.items().each() {
                take(&mut taken, *item.path(), *one.name(), volume, errors);
            }
        }
        for file in downward.items().each() {
            pod_file(&file.called(downward.path), errors);
            take(&mut taken, *file.path(), *file.path(), volume, errors);
        }
        if source.service_account_token().is_set() {
            token(&source.service_account_token(), volume, errors);
        }
        let kinds = [
            source.secret().is_set(),
            config_map.is_set(),
            downward.is_set(),
            source.service_account_token().is_set(),
            source.cluster_trust_bundle().is_set(),
            source.pod_certificate().is_set(),
        ];
        if kinds.into_iter().filter(|is_set| *is_set).count() > 1 {
            errors.forbidden(source, "may not specify more than 1 volume type per source");
        }
    }
}

/// No two files have the same path.
fn take<'a>(
    taken: &mut HashSet<&'a str>,
    file: &'a str,
    shown: &str,
    volume: &Place<'_, ProjectedVolumeSource<'_>>,
    errors: &mut Errors,
) {
    if !file.is_empty() && !taken.insert(file) {
        errors.invalid(volume, &json!(shown), "conflicting duplicate paths");
    }
}

/// What is wrong with its path is said of the volume.
fn token(
    token: &Place<'_, ServiceAccountTokenProjection<'_>>,
    volume: &Place<'_, ProjectedVolumeSource<'_>>,
    errors: &mut Errors,
) {
    let seconds = token.expiration_seconds();
    match *seconds {
        Some(..600) => errors.invalid_at(&seconds, "may not specify a duration less than 10 minutes"),
        Some(0x1_0000_0001..) => errors.invalid_at(&seconds, "may not specify a duration larger than 2^32 seconds"),
        _ => {}
    }
    let token = token.called(volume.path);
    token.path().needed(errors);
    file_paths::free(&token.path(), errors);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::schema::Path;

    fn faults(volumes: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let metadata = json!({ "name": "pod" });
        check(&Place::new(Path::Root.field("v"), &volumes), Some(ObjectMeta(&metadata)), &mut errors);
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
