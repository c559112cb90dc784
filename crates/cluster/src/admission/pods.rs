//! What the API server adds to every new pod: its account, the token volume, default tolerations, the gated condition.

// upstream: plugin/pkg/admission/serviceaccount/admission.go Admit (v1.36)
// upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go Admit (v1.36)

use jiff::Timestamp;
use klab_api_machinery::pod_resources::quality_of_service;
use klab_api_machinery::resource::{NODES, PODS, SERVICE_ACCOUNTS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{list_mut, time_text};
use klab_api_machinery::views::{Container, Pod, PodSpec, ServiceAccount};
use klab_scheduler::features::{Features, Gate};
use serde_json::{Value, json};

use super::aks;
use super::forbidden::forbidden;
use super::label_keys;
use super::limit_range::add_default_limits;
use super::priority::add_priority;
use super::runtime_class::add_runtime_class;
use crate::transaction::Transaction;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Labels that a pod has from its node (PodTopologyLabelsAdmission).
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
/// How long a pod stays on a node that is not ready or not reachable.
const TOLERATION_SECONDS: i64 = 300;

/// Fills in what depends on other objects: account, priority, tolerations, limits.
///
/// # Errors
/// 403 when something the pod refers to does not exist.
pub(crate) fn admit_pod(transaction: &mut Transaction<'_>, namespace: &str, pod: &mut Value) -> Result<(), Status> {
    // The class of service follows from the limits, and on AKS a toleration from the class.
    add_default_limits(transaction, namespace, pod);
    add_service_account(transaction, namespace, pod)?;
    aks::select_nodes(transaction, namespace, pod)?;
    add_priority(transaction, pod)?;
    add_default_tolerations(pod);
    aks::restrict_tolerations(transaction, namespace, pod)?;
    aks::tolerate_extended_resources(transaction, pod);
    add_runtime_class(transaction, pod)?;
    let node = Pod(pod).spec().node_name().to_owned();
    copy_topology(transaction, &node, pod);
    Ok(())
}

/// Works out what follows from the rest of a new pod: selectors, the class of service, the gated condition.
// upstream: pkg/registry/core/pod/strategy.go PrepareForCreate (v1.36)
pub(crate) fn finish_pod(features: Features, pod: &mut Value, now: Timestamp) {
    label_keys::merge(pod, features.has(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge));
    pod["status"]["qosClass"] = json!(quality_of_service(pod));
    mark_gated(pod, &time_text(now));
}

fn add_service_account(transaction: &mut Transaction<'_>, namespace: &str, pod: &mut Value) -> Result<(), Status> {
    let asked = Pod(pod).spec().service_account_name();
    let name = if asked.is_empty() { "default" } else { asked }.to_owned();
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    let Some(account) = transaction.state.store.get(SERVICE_ACCOUNTS, namespace, &name) else {
        let because =
            format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
        return Err(forbidden(PODS, pod, &because));
    };
    let account = account.value();
    let account = ServiceAccount(&account);
    if PodSpec(spec).image_pull_secrets().is_empty() && !account.image_pull_secrets().is_empty() {
        spec["imagePullSecrets"] = account.0["imagePullSecrets"].clone();
    }
    let wanted = PodSpec(spec).automount_service_account_token();
    if wanted.or(account.automount_service_account_token()).unwrap_or(true) {
        let volume = format!("kube-api-access-{}", transaction.state.random_suffix(5));
        mount_token(spec, &volume);
    }
    Ok(())
}

/// Gives a pod the region and zone of the node it is on.
pub(crate) fn copy_topology(transaction: &Transaction<'_>, node: &str, pod: &mut Value) {
    if !transaction.state.features.has(Gate::PodTopologyLabelsAdmission) {
        return;
    }
    let Some(node) = transaction.state.store.get(NODES, "", node) else { return };
    for key in TOPOLOGY_LABELS {
        if let Some(value) = node.label(key) {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }
}

/// Mounts the account's token into every container that does not mount something there itself.
fn mount_token(spec: &mut Value, volume: &str) {
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if !Container(container).volume_mounts().any(|mount| mount.mount_path() == TOKEN_PATH) {
                let mount = json!({ "name": volume, "readOnly": true, "mountPath": TOKEN_PATH });
                list_mut(&mut container["volumeMounts"]).push(mount);
                mounted = true;
            }
        }
    }
    if !mounted {
        return;
    }
    let source = json!({
        "name": volume,
        "projected": {
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [{
                    "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                }] } },
            ],
            "defaultMode": 420,
        },
    });
    list_mut(&mut spec["volumes"]).push(source);
}

/// Tolerates nodes that are not ready or not reachable for five minutes, unless the pod says something about them.
pub(super) fn add_default_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let said = Pod(pod).spec().tolerations().any(|toleration| {
            [key, ""].contains(&toleration.key()) && ["NoExecute", ""].contains(&toleration.effect())
        });
        if !said {
            list_mut(&mut pod["spec"]["tolerations"]).push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// A pod with scheduling gates says so from the start.
fn mark_gated(pod: &mut Value, now: &str) {
    if !Pod(pod).spec().scheduling_gates().is_empty() {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": now,
        }]);
    }
}
