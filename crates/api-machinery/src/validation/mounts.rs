//! Where containers have the volumes of their pod.

// upstream: pkg/apis/core/validation/validation.go ValidateVolumeMounts, ValidateVolumeDevices (v1.36)

use std::collections::HashSet;

use super::volumes::Volumes;
use super::{Errors, Place, file_paths};
use crate::views::{Container, VolumeMount};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// `volumeMounts` of a container. What is wrong with paths inside a volume is said of the list, as upstream does.
pub(super) fn mounts(container: &Place<'_, Container<'_>>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (list, devices) = (container.volume_mounts(), container.volume_devices());
    let (devices, device_paths): (HashSet<&str>, HashSet<&str>) =
        devices.each().map(|device| (*device.name(), *device.device_path())).unzip();
    let mut seen: HashSet<&str> = HashSet::new();
    for mount in list.each() {
        let (name, place) = (mount.name(), mount.mount_path());
        name.needed(errors);
        if !volumes.contains_key(*name) {
            errors.not_found_text(&name);
        }
        place.needed(errors);
        if !seen.insert(*place) {
            errors.invalid_text(&place, "must be unique");
        }
        if devices.contains(*name) {
            errors.invalid_text(&name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(*place) {
            errors.invalid_text(&place, "must not already exist as a path in volumeDevices");
        }
        let of_list = mount.called(list.path);
        let (path, expression) = (of_list.sub_path(), of_list.sub_path_expr());
        file_paths::descending(&path, errors);
        if !path.is_empty() && !expression.is_empty() {
            errors.invalid_at(&mount.sub_path_expr(), "subPathExpr and subPath are mutually exclusive");
        }
        file_paths::descending(&expression, errors);
        propagation(&of_list, container, errors);
        read_only(&of_list, errors);
    }
}

fn propagation(mount: &Place<'_, VolumeMount<'_>>, container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let propagation = mount.mount_propagation();
    propagation.supported(&PROPAGATIONS, errors);
    if *propagation == Some("Bidirectional") && *container.security_context().privileged() != Some(true) {
        errors.forbidden(propagation, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn read_only(mount: &Place<'_, VolumeMount<'_>>, errors: &mut Errors) {
    let recursive = mount.recursive_read_only();
    match *recursive {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !*mount.read_only() {
                errors.forbidden(recursive, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation().is_some_and(|propagation| propagation != "None") {
                errors.forbidden(recursive, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => errors.unsupported_at(&recursive, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// `volumeDevices` of a container.
pub(super) fn devices(container: &Place<'_, Container<'_>>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mounts = container.volume_mounts();
    let (mounts, mount_paths): (HashSet<&str>, HashSet<&str>) =
        mounts.each().map(|mount| (*mount.name(), *mount.mount_path())).unzip();
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in container.volume_devices().each() {
        let (name, place) = (device.name(), device.device_path());
        name.needed(errors);
        if names.contains(*name) {
            errors.invalid_text(&name, "must be unique");
        }
        match volumes.get(*name) {
            None => errors.not_found_text(&name),
            Some(volume) if !volume.persistent_volume_claim().is_set() && !volume.ephemeral().is_set() => {
                let fault = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid_text(&name, fault);
            }
            Some(_) => {}
        }
        place.needed(errors);
        if paths.contains(*place) {
            errors.invalid_text(&place, "must be unique");
        }
        if place.split('/').any(|part| part == "..") {
            errors.invalid_text(&place, "can not contain backsteps ('..')");
        } else {
            paths.insert(*place);
        }
        if mounts.contains(*name) {
            errors.invalid_text(&name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(*place) {
            errors.invalid_text(&place, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(*name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::views::Volume;

    #[test]
    fn mounts_are_of_volumes_and_apart_from_each_other() {
        let (claim, empty) = (json!({ "persistentVolumeClaim": {} }), json!({ "emptyDir": {} }));
        let volumes: Volumes<'_> = [("c", Volume(&claim)), ("e", Volume(&empty))].into();
        let faults = |container: Value| {
            let container = Place::root(&container);
            Errors::found(|errors| {
                mounts(&container, &volumes, errors);
                devices(&container, &volumes, errors);
            })
        };
        for (mount, wanted) in [
            (json!({ "name": "c", "mountPath": "/a", "subPath": "b/c" }), vec![]),
            (json!({ "name": "x", "mountPath": "/a" }), vec!["volumeMounts[0].name: Not found: \"x\""]),
            (
                json!({ "mountPath": "" }),
                vec![
                    "volumeMounts[0].name: Required value",
                    "volumeMounts[0].name: Not found: \"\"",
                    "volumeMounts[0].mountPath: Required value",
                ],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "subPath": "/b" }),
                vec!["volumeMounts.subPath: Invalid value: \"/b\": must be a relative path"],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "subPath": "b", "subPathExpr": "$(c)/.." }),
                vec![
                    "volumeMounts[0].subPathExpr: Invalid value: \"$(c)/..\": subPathExpr and subPath are mutually exclusive",
                    "volumeMounts.subPathExpr: Invalid value: \"$(c)/..\": must not contain '..'",
                ],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "mountPropagation": "Bidirectional" }),
                vec![
                    "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                ],
            ),
            (
                json!({ "name": "c", "mountPath": "/a", "recursiveReadOnly": "Enabled" }),
                vec!["volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
            ),
        ] {
            assert_eq!(faults(json!({ "volumeMounts": [mount] })), wanted, "{mount}");
        }
        let both = json!({ "volumeMounts": [{ "name": "c", "mountPath": "/a" }], "volumeDevices": [{ "name": "c", "devicePath": "/a" }, { "name": "e", "devicePath": "/../b" }] });
        assert_eq!(
            faults(both),
            [
                "volumeMounts[0].name: Invalid value: \"c\": must not already exist in volumeDevices",
                "volumeMounts[0].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
                "volumeDevices[0].name: Invalid value: \"c\": must not already exist in volumeMounts",
                "volumeDevices[0].devicePath: Invalid value: \"/a\": must not already exist as a path in volumeMounts",
                "volumeDevices[1].name: Invalid value: \"e\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "volumeDevices[1].devicePath: Invalid value: \"/../b\": can not contain backsteps ('..')",
            ]
        );
    }
}
