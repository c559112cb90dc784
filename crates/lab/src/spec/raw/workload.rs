//! `[workload.NAME]`, `[config.NAME]`, `[secret.NAME]`, `[namespace.NAME]` and `[[manifest]]` as written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, KubernetesObject, PortText, QuantityText, Table, TolerationText};
use crate::spec::workload::WorkloadKind;

/// Pods and the object that owns them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Workload {
    /// The object that owns the pods. Default: deployment.
    pub kind: Option<At<WorkloadKind>>,
    /// Your own template in place of the built-in one: a path relative to the lab file.
    pub template: Option<At<String>>,
    /// Namespace. Default: default.
    pub namespace: Option<At<String>>,
    /// Number of pods; for a job, completions. Default: 1. Not for daemonset and pod.
    #[schemars(range(max = 10000))]
    pub replicas: Option<At<u32>>,
    /// Jobs: pods that may run at once. Default: 1.
    pub parallelism: Option<At<u32>>,
    /// Image of the container. Default: registry.k8s.io/pause:3.10.
    pub image: Option<At<String>>,
    /// Entry point in place of the image's.
    #[serde(default)]
    pub command: Vec<String>,
    /// Arguments of the entry point.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: Table<String>,
    /// ConfigMaps and Secrets whose entries become environment variables: "config/NAME" or "secret/NAME".
    #[serde(default)]
    pub env_from: Vec<At<String>>,
    /// ConfigMaps and Secrets as files, and volumes of claims, by path: { "/etc/app" = "config/NAME", "/data" = "claim/NAME" }; in a
    /// StatefulSet "claim-template/1Gi" is a claim of each pod's own.
    #[serde(default)]
    pub mounts: Table<At<String>>,
    /// Claims for devices: { gpu = "template/NAME" } makes one for each pod from a ResourceClaimTemplate, "claim/NAME" is a ResourceClaim that pods share.
    #[serde(default)]
    pub resource_claims: Table<At<String>>,
    /// Ports of the container: a number, or a table such as { container = 80, host = 8080 }.
    #[serde(default)]
    pub ports: Vec<At<PortText>>,
    /// Port of a Service of the same name that sends to the first of `ports` (or to the same number).
    pub service: Option<At<u16>>,
    /// What a pod requests: { cpu = "50m", memory = "64Mi" }.
    #[serde(default)]
    pub requests: Table<At<QuantityText>>,
    /// What a pod may use at most.
    #[serde(default)]
    pub limits: Table<At<QuantityText>>,
    /// Labels that a node must carry.
    #[serde(default)]
    pub node_selector: Table<At<String>>,
    /// The node, past the scheduler: its name, or "pool:NAME" for the first one of a pool.
    pub node_name: Option<At<String>>,
    /// Tolerations: "key=value:Effect", "key:Effect", "key", or the Kubernetes structure as a table.
    #[serde(default)]
    pub tolerations: Vec<At<TolerationText>>,
    /// Node affinity, pod affinity, pod anti-affinity: the Kubernetes structure as TOML, with its field names (nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution …).
    pub affinity: Option<At<KubernetesObject<Affinity>>>,
    /// Topology spread constraints: the Kubernetes structure as TOML. Without a labelSelector they count the workload's own pods.
    #[serde(default)]
    pub topology_spread: Vec<At<KubernetesObject<TopologySpreadConstraint>>>,
    /// Name of a PriorityClass.
    pub priority_class: Option<At<String>>,
    /// Name of another scheduler.
    pub scheduler_name: Option<String>,
    /// Names of scheduling gates.
    #[serde(default)]
    pub scheduling_gates: Vec<At<String>>,
    /// CPU that all pods of the workload together want to use, in percent of what one requests, such as "320%" (sim).
    pub load: Option<At<String>>,
    /// Seconds that a pod has to stop. Default: 30.
    pub termination_grace_period: Option<u32>,
    /// Restart policy of the pods. Default: Always; OnFailure for a job.
    pub restart_policy: Option<At<RestartPolicy>>,
    /// Further labels of the object and its pods.
    #[serde(default)]
    pub labels: Table<At<String>>,
    /// Annotations of the pods.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The workload is not created by `up`; a step creates it with `deploy`. Default: false.
    #[serde(default)]
    pub deferred: bool,
}

/// When a container that has ended is started again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(in crate::spec) enum RestartPolicy {
    /// Always.
    Always,
    /// After a failure.
    OnFailure,
    /// Never.
    Never,
}

/// A namespace with labels.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Namespace {
    /// Labels of the namespace.
    #[serde(default)]
    pub labels: Table<At<String>>,
}

/// A ConfigMap.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Config {
    /// Namespace. Default: default.
    pub namespace: Option<At<String>>,
    /// Entries.
    #[serde(default)]
    pub data: Table<String>,
    /// Files relative to the lab file (globs allowed); the file's name becomes the key.
    #[serde(default)]
    pub files: Vec<At<String>>,
    /// Environment variables of klab; the variable's name becomes the key.
    #[serde(default)]
    pub env: Vec<At<String>>,
}

/// A Secret. Its values are never shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Secret {
    /// Namespace. Default: default.
    pub namespace: Option<At<String>>,
    /// Type. Default: Opaque.
    #[serde(rename = "type")]
    pub of_type: Option<String>,
    /// Entries. Better from `files` or `env`: what is written here is in the lab file for all to read.
    #[serde(default)]
    pub data: Table<String>,
    /// Files relative to the lab file (globs allowed); the file's name becomes the key.
    #[serde(default)]
    pub files: Vec<At<String>>,
    /// Environment variables of klab; the variable's name becomes the key.
    #[serde(default)]
    pub env: Vec<At<String>>,
}

/// Objects of your own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Manifest {
    /// Files relative to the lab file (globs allowed); those that end in `.tera` are rendered first.
    pub path: Option<At<String>>,
    /// One or more YAML documents.
    pub yaml: Option<At<String>>,
}
