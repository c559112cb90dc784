//! Workloads and the objects around them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::NodeSet;
use super::source::{Located, Location};

/// Pods and what owns them, `[workload.NAME]` in the lab file.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name of the object, and the value of the label `klab.dev/workload`.
    pub name: Located<String>,
    /// Which object owns the pods.
    pub kind: WorkloadKind,
    /// The author's own template (a path relative to the lab file) in place of the built-in one.
    pub template: Option<Located<String>>,
    /// Namespace of the object.
    pub namespace: String,
    /// Number of pods wanted; none for a DaemonSet. Completions of a Job.
    pub replicas: Option<Located<u32>>,
    /// Jobs only: pods that may run at once.
    pub parallelism: Option<u32>,
    /// Image of the container.
    pub image: Located<String>,
    /// Entry point in place of the image's.
    pub command: Vec<String>,
    /// Arguments of the entry point.
    pub args: Vec<String>,
    /// Environment variables, in file order.
    pub env: Vec<(String, String)>,
    /// Whole ConfigMaps and Secrets as environment variables.
    pub env_from: Vec<Located<BundleRef>>,
    /// Mounted ConfigMaps, Secrets and volume claims by path.
    pub mounts: Vec<(String, Located<VolumeSource>)>,
    /// Claims for devices that the container uses, by the name that the pod gives them.
    pub resource_claims: Vec<(String, Located<ResourceClaimSource>)>,
    /// Ports of the container.
    pub ports: Vec<Port>,
    /// Port of a Service of the same name, which sends to the first container port.
    pub service: Option<Located<u16>>,
    /// Resource requests of the container.
    pub requests: BTreeMap<String, Located<Quantity>>,
    /// Resource limits of the container.
    pub limits: BTreeMap<String, Located<Quantity>>,
    /// Labels that a node must carry.
    pub node_selector: BTreeMap<String, Located<String>>,
    /// A node by name, or the first one of a pool, past the scheduler.
    pub node_name: Option<Located<NodeSet>>,
    /// Tolerations of the pods.
    pub tolerations: Vec<Located<Toleration>>,
    /// Node affinity, pod affinity and anti-affinity.
    pub affinity: Option<Located<Affinity>>,
    /// Topology spread constraints. Without a label selector they count the workload's own pods.
    pub topology_spread: Vec<Located<TopologySpreadConstraint>>,
    /// Name of a priority class.
    pub priority_class: Option<Located<String>>,
    /// Name of another scheduler.
    pub scheduler_name: Option<String>,
    /// Gates that keep the pods from being scheduled.
    pub scheduling_gates: Vec<String>,
    /// CPU that all pods together want to use, in percent of what one of them requests.
    pub load: Option<Located<u32>>,
    /// Seconds that a pod has to stop.
    pub termination_grace_period: Option<u32>,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: Option<String>,
    /// Further labels of the object and its pods.
    pub labels: BTreeMap<String, Located<String>>,
    /// Annotations of the pods.
    pub annotations: BTreeMap<String, String>,
    /// Not made by `up`: a step makes it (`deploy`).
    pub deferred: bool,
    /// Where the workload's table begins.
    pub at: Location,
}

impl Workload {
    /// The pool on whose first node the pods are to run, past the scheduler, where the name of that node is not known.
    pub fn node_pool(&self) -> Option<&str> {
        match &self.node_name.as_ref()?.value {
            NodeSet::Pool(pool) => Some(pool),
            NodeSet::Node(_) | NodeSet::Selector(_) => None,
        }
    }
}

/// The object that owns a workload's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadKind {
    /// Deployment.
    #[default]
    Deployment,
    /// DaemonSet: one pod on every fitting node.
    DaemonSet,
    /// StatefulSet.
    StatefulSet,
    /// Job.
    Job,
    /// A bare Pod.
    Pod,
}

impl WorkloadKind {
    /// The name in the lab file, which is also the name of the built-in template.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::DaemonSet => "daemonset",
            Self::StatefulSet => "statefulset",
            Self::Job => "job",
            Self::Pod => "pod",
        }
    }

    /// The Kubernetes kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
            Self::StatefulSet => "StatefulSet",
            Self::Job => "Job",
            Self::Pod => "Pod",
        }
    }

    /// The Kubernetes API version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::DaemonSet | Self::StatefulSet => "apps/v1",
            Self::Job => "batch/v1",
            Self::Pod => "v1",
        }
    }
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Port inside the pod.
    pub container: u16,
    /// Port of the node that is to lead there.
    pub host: Option<u16>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Name of the port.
    pub name: Option<String>,
}

/// A ConfigMap (`[config.NAME]`) or a Secret (`[secret.NAME]`).
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Name of the object.
    pub name: Located<String>,
    /// ConfigMap or Secret.
    pub kind: BundleKind,
    /// Namespace of the object.
    pub namespace: String,
    /// Entries given in the lab file.
    pub data: BTreeMap<String, String>,
    /// Files (globs relative to the lab file) whose names become keys.
    pub files: Vec<Located<String>>,
    /// Environment variables of klab whose names become keys.
    pub env: Vec<Located<String>>,
    /// Type of a Secret, `Opaque` unless said otherwise.
    pub secret_type: Option<String>,
    /// Where the table begins.
    pub at: Location,
}

/// ConfigMap or Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BundleKind {
    /// v1 ConfigMap.
    Config,
    /// v1 Secret.
    Secret,
}

impl BundleKind {
    /// The kind of the object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Config => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// `config/NAME` or `secret/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleRef {
    /// ConfigMap or Secret.
    pub kind: BundleKind,
    /// Its name.
    pub name: String,
}

/// What a container sees at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// A ConfigMap or Secret, as files.
    Bundle(BundleRef),
    /// The volume of a PersistentVolumeClaim of this name.
    Claim(String),
    /// The volume of a claim that a StatefulSet makes for each of its pods, of this size.
    ClaimTemplate(String),
}

/// Where a pod's claim for devices comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceClaimSource {
    /// A ResourceClaim of this name, which pods share.
    Claim(String),
    /// A claim of each pod's own, made from the ResourceClaimTemplate of this name.
    Template(String),
}

/// `[namespace.NAME]`: a namespace with labels. Namespaces that objects name are made without being declared.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Name of the namespace.
    pub name: Located<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where the table begins.
    pub at: Location,
}

/// `[[manifest]]`: objects of the author's own.
#[derive(Clone, Debug)]
pub struct ManifestSource {
    /// Files or text.
    pub content: ManifestContent,
    /// Where the table begins.
    pub at: Location,
}

/// Where the objects of a `[[manifest]]` come from.
#[derive(Clone, Debug)]
pub enum ManifestContent {
    /// Files by a glob relative to the lab file; those that end in `.tera` are rendered first.
    Path(Located<String>),
    /// YAML in the lab file.
    Yaml(Located<String>),
}
