//! Where containers have the volumes of their pod.

// upstream: pkg/apis/core/validation/validation.go ValidateVolumeMounts, ValidateVolumeDevices (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::volumes::Volumes;
use super::{Errors, file_paths};
use crate::schema::Path;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// `volumeMounts` of a container. What is wrong with paths inside a volume is said of the list, as upstream does.
pub(super) fn mounts(container: &Value, list: &Path<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    let (devices, device_paths) =
        (all(container, "volumeDevices", "name"), all(container, "volumeDevices", "devicePath"));
    for (at, mount) in entries(container, "volumeMounts") {
        let path = list.index(at);
        let name = text(mount, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(path.field("name"), &json!(name));
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            errors.required(path.field("mountPath"), "");
        }
        if !seen.insert(place) {
            errors.invalid(path.field("mountPath"), &json!(place), "must be unique");
        }
        if devices.contains(name) {
            errors.invalid(path.field("name"), &json!(name), "must not already exist in volumeDevices");
        }
        if device_paths.contains(place) {
            let fault = "must not already exist as a path in volumeDevices";
            errors.invalid(path.field("mountPath"), &json!(place), fault);
        }
        inside(mount, &path, list, errors);
        propagation(mount, container, list, errors);
        read_only(mount, &list.field("recursiveReadOnly"), errors);
    }
}

/// What the entries of a list have in this field.
fn all<'a>(container: &'a Value, list: &str, field: &str) -> HashSet<&'a str> {
    entries(container, list).map(|(_, entry)| text(entry, field)).collect()
}

fn inside(mount: &Value, path: &Path<'_>, list: &Path<'_>, errors: &mut Errors) {
    let given = |field: &str| !text(mount, field).is_empty();
    if given("subPath") {
        file_paths::descending(&mount["subPath"], &list.field("subPath"), errors);
    }
    if given("subPathExpr") {
        if given("subPath") {
            let fault = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(path.field("subPathExpr"), &mount["subPathExpr"], fault);
        }
        file_paths::descending(&mount["subPathExpr"], &list.field("subPathExpr"), errors);
    }
}

fn propagation(mount: &Value, container: &Value, list: &Path<'_>, errors: &mut Errors) {
    let path = list.field("mountPropagation");
    supported(&mount["mountPropagation"], &path, &PROPAGATIONS, errors);
    if mount["mountPropagation"] == "Bidirectional" && container["securityContext"]["privileged"] != true {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn read_only(mount: &Value, path: &Path<'_>, errors: &mut Errors) {
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount["mountPropagation"].as_str().is_some_and(|propagation| propagation != "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => errors.unsupported(path, &mount["recursiveReadOnly"], &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// `volumeDevices` of a container.
pub(super) fn devices(container: &Value, list: &Path<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let (mounts, mount_paths) = (all(container, "volumeMounts", "name"), all(container, "volumeMounts", "mountPath"));
    for (at, device) in entries(container, "volumeDevices") {
        let path = list.index(at);
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, place_path) = (path.field("name"), path.field("devicePath"));
        if name.is_empty() {
            errors.required(name_path, "");
        }
        if names.contains(name) {
            errors.invalid(name_path, &json!(name), "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(name_path, &json!(name)),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let fault = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(name_path, &json!(name), fault);
            }
            Some(_) => {}
        }
        if place.is_empty() {
            errors.required(place_path, "");
        }
        if paths.contains(place) {
            errors.invalid(place_path, &json!(place), "must be unique");
        }
        if place.split('/').any(|part| part == "..") {
            errors.invalid(place_path, &json!(place), "can not contain backsteps ('..')");
        } else {
            paths.insert(place);
        }
        if mounts.contains(name) {
            errors.invalid(name_path, &json!(name), "must not already exist in volumeMounts");
        }
        if mount_paths.contains(place) {
            errors.invalid(place_path, &json!(place), "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_of_volumes_and_apart_from_each_other() {
        let (claim, empty) = (json!({ "persistentVolumeClaim": {} }), json!({ "emptyDir": {} }));
        let volumes: Volumes<'_> = [("c", &claim), ("e", &empty)].into_iter().collect();
        let faults = |container: Value| {
            let mut errors = Errors::default();
            mounts(&container, &Path::Root.field("m"), &volumes, &mut errors);
            devices(&container, &Path::Root.field("d"), &volumes, &mut errors);
            errors.texts()
        };
        for (mount, wanted) in [
            (json!({ "name": "c", "mountPath": "/a", "subPath": "b/c" }), vec![]),
            (json!({ "name": "x", "mountPath": "/a" }), vec!["m[0].name: Not found: \"x\""]),
            (
                json!({ "mountPath": "" }),
                vec!["m[0].name: Required value", "m[0].name: Not found: \"\"", "m[0].mountPath: Required value"],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "subPath": "/b" }),
                vec!["m.subPath: Invalid value: \"/b\": must be a relative path"],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "subPath": "b", "subPathExpr": "$(c)/.." }),
                vec![
                    "m[0].subPathExpr: Invalid value: \"$(c)/..\": subPathExpr and subPath are mutually exclusive",
                    "m.subPathExpr: Invalid value: \"$(c)/..\": must not contain '..'",
                ],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "mountPropagation": "Bidirectional" }),
                vec![
                    "m.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                ],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "recursiveReadOnly": "Enabled" }),
                vec!["m.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
            ),
        ] {
            assert_eq!(faults(json!({ "volumeMounts": [mount] })), wanted, "{mount}");
        }
        let both = json!({ "volumeMounts": [{ "name": "c", "mountPath": "/a" }], "volumeDevices": [{ "name": "c", "devicePath": "/a" }, { "name": "e", "devicePath": "/../b" }] });
        assert_eq!(
            faults(both),
            [
                "m[0].name: Invalid value: \"c\": must not already exist in volumeDevices",
                "m[0].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
                "d[0].name: Invalid value: \"c\": must not already exist in volumeMounts",
                "d[0].devicePath: Invalid value: \"/a\": must not already exist as a path in volumeMounts",
                "d[1].name: Invalid value: \"e\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "d[1].devicePath: Invalid value: \"/../b\": can not contain backsteps ('..')",
            ]
        );
    }
}
