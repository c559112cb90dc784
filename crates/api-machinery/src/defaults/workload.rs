//! Defaults of workloads that keep pods running.

// upstream: pkg/apis/apps/v1/defaults.go SetDefaults_Deployment (v1.36)

use serde_json::{Value, json};

use super::field::{each, set};
use super::{pod, storage};

pub fn deployment(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["template"]);
    set(spec, "replicas", 1);
    set(spec, "strategy", json!({}));
    set(&mut spec["strategy"], "type", "RollingUpdate");
    if spec["strategy"]["type"] == "RollingUpdate" {
        set(&mut spec["strategy"], "rollingUpdate", json!({}));
        let rolling = &mut spec["strategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", "25%");
        set(rolling, "maxSurge", "25%");
    }
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
}

pub fn replica_set(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["template"]);
    set(spec, "replicas", 1);
}

pub(crate) fn replication_controller(value: &mut Value) {
    pod::template(&mut value["spec"]["template"]);
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        set(&mut value["spec"], "selector", labels.clone());
        set(&mut value["metadata"], "labels", labels);
    }
    set(&mut value["spec"], "replicas", 1);
}

pub fn daemon_set(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["template"]);
    set(spec, "updateStrategy", json!({}));
    set(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
        let rolling = &mut spec["updateStrategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", 1);
        set(rolling, "maxSurge", 0);
    }
    set(spec, "revisionHistoryLimit", 10);
}

pub fn stateful_set(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["template"]);
    set(spec, "podManagementPolicy", "OrderedReady");
    set(spec, "updateStrategy", json!({}));
    set(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
        set(&mut spec["updateStrategy"]["rollingUpdate"], "partition", 0);
    }
    set(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set(retention, "whenDeleted", "Retain");
    set(retention, "whenScaled", "Retain");
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    for claim in each(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        storage::claim(claim);
        set(claim, "status", json!({}));
        set(&mut claim["status"], "phase", "Pending");
    }
}
