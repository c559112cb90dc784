//! Defaults of volumes, claims and storage classes.

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_PersistentVolumeClaim (v1.36)
// upstream: pkg/apis/storage/v1/defaults.go SetDefaults_StorageClass (v1.36)

use serde_json::Value;

use super::field::set;

pub fn class(value: &mut Value) {
    set(value, "reclaimPolicy", "Delete");
    set(value, "volumeBindingMode", "Immediate");
}

pub fn volume(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if spec["hostPath"].is_object() {
        set(&mut spec["hostPath"], "type", "");
    }
}

pub fn claim(value: &mut Value) {
    set(&mut value["spec"], "volumeMode", "Filesystem");
}
