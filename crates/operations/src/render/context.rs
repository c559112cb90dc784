//! What templates know about a workload, a ConfigMap or a Secret.

use klab_lab::names::WORKLOAD_LABEL;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use klab_lab::nodes;
use klab_lab::spec::source::Located;
use klab_lab::spec::workload::{
    Bundle, BundleKind, BundleRef, ResourceClaimSource, VolumeSource, Workload, WorkloadKind,
};
use klab_lab::spec::{Lab, NodeSet, Scheduler};

/// The kind of a mount whose claim a StatefulSet makes for each pod.
const CLAIM_TEMPLATE: &str = "claim-template";

/// The labels by which a workload's owner finds its pods: one that no author can change.
fn selector(workload: &Workload) -> BTreeMap<String, String> {
    [(WORKLOAD_LABEL.to_owned(), workload.name.value.clone())].into()
}

/// The configuration of the scheduler, as YAML.
pub(super) fn scheduler(scheduler: &Scheduler) -> Value {
    // JSON is YAML.
    let configuration = &scheduler.configuration;
    let text = serde_saphyr::to_string(configuration).unwrap_or_else(|_| configuration.to_string());
    json!({ "configuration": text.trim_end() })
}

pub(super) fn workload(lab: &Lab, workload: &Workload) -> Value {
    let values = |map: &BTreeMap<String, Located<String>>| {
        map.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect::<BTreeMap<_, _>>()
    };
    let quantities = |map: &BTreeMap<String, Located<k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
        map.iter().map(|(key, value)| (key.clone(), value.value.0.clone())).collect::<BTreeMap<_, _>>()
    };
    let spread: Vec<_> =
        workload.topology_spread.iter().map(|constraint| with_selector(constraint, workload)).collect();
    let tolerations: Vec<_> = workload.tolerations.iter().map(|toleration| &toleration.value).collect();
    let restart_policy = workload.restart_policy.clone().or_else(|| {
        // The API's own default, Always, is not allowed for jobs.
        (workload.kind == WorkloadKind::Job).then(|| "OnFailure".to_owned())
    });
    let target_port =
        workload.ports.first().map(|port| port.container).or(workload.service.as_ref().map(|port| **port));
    let pod_labels = lab.pod_labels(workload);
    let mounts = workload.mounts.iter().enumerate().map(|(index, (path, source))| {
        let (kind, name) = match &source.value {
            VolumeSource::Bundle(bundle) => (table(bundle.kind), &bundle.name),
            VolumeSource::Claim(name) => ("claim", name),
            VolumeSource::ClaimTemplate(size) => (CLAIM_TEMPLATE, size),
        };
        json!({ "volume": format!("volume-{index}"), "path": path, "kind": kind, "name": name })
    });
    let mounts: Vec<Value> = mounts.collect();
    let resource_claims = workload.resource_claims.iter().map(|(name, source)| match &source.value {
        ResourceClaimSource::Claim(claim) => json!({ "name": name, "resourceClaimName": claim }),
        ResourceClaimSource::Template(template) => json!({ "name": name, "resourceClaimTemplateName": template }),
    });
    let (claim_templates, volumes): (Vec<&Value>, Vec<&Value>) =
        mounts.iter().partition(|mount| mount["kind"] == CLAIM_TEMPLATE);
    json!({ "workload": {
        "name": workload.name.value,
        "kind": workload.kind.as_str(),
        "namespace": workload.namespace,
        "replicas": workload.replicas.as_ref().map(|replicas| replicas.value),
        "parallelism": workload.parallelism,
        "image": workload.image.value,
        "command": workload.command,
        "args": workload.args,
        "env": workload.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
        "env_from": workload.env_from.iter().map(|bundle| source(bundle)).collect::<Vec<_>>(),
        "mounts": mounts, "volumes": volumes, "claim_templates": claim_templates,
        "resource_claims": resource_claims.collect::<Vec<_>>(),
        "ports": workload.ports.iter().map(|port| json!({
            "container": port.container, "host": port.host, "protocol": port.protocol, "name": port.name,
        })).collect::<Vec<_>>(),
        "service": workload.service.as_ref().map(|port| port.value),
        "target_port": target_port,
        "requests": quantities(&workload.requests),
        "limits": quantities(&workload.limits),
        "node_selector": values(&workload.node_selector),
        "node_name": workload.node_name.as_ref().and_then(|node| node_name(lab, node)),
        "tolerations": tolerations,
        "affinity": workload.affinity.as_ref().map(|affinity| &affinity.value),
        "topology_spread": spread,
        "priority_class": workload.priority_class.as_ref().map(|name| name.value.clone()),
        "scheduler_name": workload.scheduler_name,
        "scheduling_gates": workload.scheduling_gates,
        "load": workload.load.as_ref().map(|load| load.value),
        "termination_grace_period": workload.termination_grace_period,
        "restart_policy": restart_policy,
        "labels": pod_labels,
        "pod_labels": pod_labels,
        "selector": selector(workload),
        "annotations": workload.annotations,
    }})
}

/// The node of a pod that is not left to the scheduler. Who knows the cluster has put the names of nodes in the place of
/// pools (as `observe` names them); without one it is the node that the embedded cluster would make first.
fn node_name(lab: &Lab, node: &NodeSet) -> Option<String> {
    match node {
        NodeSet::Node(name) => Some(name.clone()),
        NodeSet::Pool(pool) => lab.pool(pool).map(|pool| nodes::node_name(lab, pool, 0)),
        NodeSet::Selector(_) => None,
    }
}

/// A constraint without a selector counts nothing at all; what authors mean is the workload's own pods.
fn with_selector(constraint: &TopologySpreadConstraint, workload: &Workload) -> TopologySpreadConstraint {
    let mut constraint = constraint.clone();
    constraint
        .label_selector
        .get_or_insert_with(|| LabelSelector { match_labels: Some(selector(workload)), ..LabelSelector::default() });
    constraint
}

fn table(kind: BundleKind) -> &'static str {
    match kind {
        BundleKind::Config => "config",
        BundleKind::Secret => "secret",
    }
}

fn source(bundle: &BundleRef) -> Value {
    let kind = match bundle.kind {
        BundleKind::Config => "configMap",
        BundleKind::Secret => "secret",
    };
    json!({ "kind": kind, "name": bundle.name })
}

/// The template of a ConfigMap or Secret, and what it knows.
pub(super) fn bundle(lab: &Lab, bundle: &Bundle) -> (&'static str, Value) {
    let mut bytes: BTreeMap<String, Vec<u8>> =
        bundle.data.iter().map(|(key, value)| (key.clone(), value.clone().into_bytes())).collect();
    for file in bundle.files.iter().flat_map(|pattern| lab.files.matching(pattern)) {
        let key = file.path.rsplit('/').next().unwrap_or(&file.path);
        bytes.insert(key.to_owned(), file.bytes.clone());
    }
    for name in &bundle.env {
        if let Some(value) = lab.files.variable(name) {
            bytes.insert(name.value.clone(), value.as_bytes().to_vec());
        }
    }
    let encoded = |bytes: &BTreeMap<String, Vec<u8>>| {
        bytes.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value))).collect::<BTreeMap<_, _>>()
    };
    let common = |data: BTreeMap<String, String>, binary: BTreeMap<String, String>| {
        json!({ "bundle": {
            "name": bundle.name.value,
            "namespace": bundle.namespace,
            "type": bundle.secret_type.as_deref().unwrap_or("Opaque"),
            "data": data,
            "binary_data": binary,
        }})
    };
    if bundle.kind == BundleKind::Secret {
        return ("secret.yaml.tera", common(BTreeMap::new(), encoded(&bytes)));
    }
    let (text, binary): (BTreeMap<_, _>, BTreeMap<_, _>) =
        bytes.into_iter().partition(|(_, value)| std::str::from_utf8(value).is_ok());
    let text = text.into_iter().map(|(key, value)| (key, String::from_utf8(value).unwrap_or_default())).collect();
    ("config.yaml.tera", common(text, encoded(&binary)))
}
