//! What the scheduler reads from a pod: parsed once, shared by all pods that are alike.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};

use super::admission::merge;
use super::error::ObjectError;
use super::node_selector::{self, NodeSelectorTerm, RequiredNodeAffinity};
use super::owner::controller;
use super::resources::{PodResources, is_sidecar};
use super::selector::{Labels, Selector};
use super::taint::Toleration;

/// All of a pod's specification that scheduling depends on, except its name and labels.
///
/// Pods with equal information form a class; verdicts and scores that do not depend on labels are shared within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodInfo {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// `spec.priority`; 0 if not set.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Requests.
    pub resources: PodResources,
    /// Host ports of containers and sidecars.
    pub host_ports: Vec<HostPort>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Node selector and required node affinity.
    pub node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity with weights.
    pub preferred_node_affinity: Vec<(i32, NodeSelectorTerm)>,
    /// Topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
    /// Required pod affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity with weights.
    pub preferred_affinity: Vec<(i32, AffinityTerm)>,
    /// Preferred pod anti-affinity with weights.
    pub preferred_anti_affinity: Vec<(i32, AffinityTerm)>,
    /// Images of init containers, containers and image volumes, `:latest` added where there is neither tag nor digest.
    pub images: Vec<String>,
    /// Number of init containers and containers.
    pub containers: usize,
    /// Names of the claims the pod mounts.
    pub claims: Vec<String>,
    /// Those of them that are made for ephemeral volumes.
    pub(crate) ephemeral: Vec<String>,
    /// The uid of a pod with such volumes: what is made for one is no other's.
    pub(crate) uid: Option<String>,
    /// The controller among its owners.
    pub controller: Option<Controller>,
}

/// The owner that controls a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    /// `apps/v1` for ReplicaSets.
    pub api_version: String,
    /// `ReplicaSet`, `StatefulSet`, ….
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A port a pod takes on its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Address; `0.0.0.0` when not given.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Port number.
    pub port: i32,
}

impl HostPort {
    /// Whether both cannot be taken on one node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        const ANY: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// Position in the pod's list; for a pod without constraints, in its profile's.
    pub index: usize,
    /// Node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Greatest difference allowed.
    pub max_skew: i64,
    /// Domains below which the minimum counts as 0.
    pub min_domains: i64,
    /// `DoNotSchedule`, as opposed to `ScheduleAnyway`.
    pub hard: bool,
    /// Which pods are counted.
    pub selector: Selector,
    /// Whether nodes outside the pod's node affinity are left out (`nodeAffinityPolicy: Honor`).
    pub honor_affinity: bool,
    /// Whether nodes with taints the pod does not tolerate are left out (`nodeTaintsPolicy: Honor`).
    pub honor_taints: bool,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// Node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Which pods are meant.
    pub selector: Selector,
    /// Namespaces by name; the pod's own if neither names nor a selector are given.
    pub namespaces: Vec<String>,
    /// Namespaces by label; nothing if not given.
    pub namespace_selector: Selector,
}

impl AffinityTerm {
    fn from_api(term: &PodAffinityTerm, namespace: &str, field: &str) -> Result<Self, ObjectError> {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(namespace.to_owned());
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(Self {
            topology_key: Arc::from(term.topology_key.as_str()),
            selector: Selector::from_api(term.label_selector.as_ref())
                .map_err(ObjectError::selector(format!("{field}.labelSelector")))?,
            namespaces,
            namespace_selector: Selector::from_api(term.namespace_selector.as_ref())
                .map_err(ObjectError::selector(format!("{field}.namespaceSelector")))?,
        })
    }
}

impl SpreadConstraint {
    /// A constraint of a pod with these labels.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go filterTopologySpreadConstraints (v1.36)
    fn from_api(index: usize, constraint: &TopologySpreadConstraint, labels: &Labels) -> Result<Self, ObjectError> {
        let field = || format!("spec.topologySpreadConstraints[{index}].labelSelector");
        // In most clusters the API server has merged the keys already.
        let mut selector = Cow::Borrowed(&constraint.label_selector);
        if constraint.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            merge(selector.to_mut().as_mut(), constraint.match_label_keys.as_deref(), "In", labels);
        }
        Ok(Self {
            index,
            topology_key: Arc::from(constraint.topology_key.as_str()),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            hard: constraint.when_unsatisfiable != "ScheduleAnyway",
            selector: Selector::from_api(selector.as_ref().as_ref()).map_err(ObjectError::selector(field()))?,
            honor_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        })
    }
}

impl PodInfo {
    /// Reads a pod as it is after admission.
    pub fn from_api(pod: &Pod) -> Result<Self, ObjectError> {
        let spec = pod.spec.as_ref().ok_or(ObjectError::Missing { field: "spec" })?;
        let namespace = namespace_of(pod);
        let affinity = spec.affinity.as_ref();
        let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let pod_anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required = |terms: Option<&Vec<PodAffinityTerm>>, field: &str| {
            let terms = terms.into_iter().flatten();
            terms.map(|term| AffinityTerm::from_api(term, namespace, field)).collect::<Result<Vec<_>, _>>()
        };
        let preferred = |terms: Option<&Vec<WeightedPodAffinityTerm>>, field: &str| {
            let terms = terms.into_iter().flatten();
            let read = |term: &WeightedPodAffinityTerm| {
                Ok((term.weight, AffinityTerm::from_api(&term.pod_affinity_term, namespace, field)?))
            };
            terms.map(read).collect::<Result<Vec<_>, ObjectError>>()
        };
        let init_containers = || spec.init_containers.iter().flatten();
        let ephemeral: Vec<String> =
            spec.volumes.iter().flatten().filter_map(|volume| claim_of_ephemeral(pod, volume)).collect();
        Ok(Self {
            namespace: Arc::from(namespace),
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            resources: PodResources::of(pod)?,
            host_ports: init_containers()
                .filter(|container| is_sidecar(container))
                .chain(&spec.containers)
                .flat_map(host_ports)
                .collect(),
            tolerations: spec.tolerations.iter().flatten().map(Toleration::from).collect(),
            node_affinity: RequiredNodeAffinity::from_api(spec)
                .map_err(ObjectError::selector("spec.affinity.nodeAffinity"))?,
            preferred_node_affinity: node_selector::preferred_terms(affinity)
                .map_err(ObjectError::selector("spec.affinity.nodeAffinity"))?,
            spread: (spec.topology_spread_constraints.iter().flatten().enumerate())
                .map(|(index, constraint)| {
                    let labels = pod.metadata.labels.as_ref().unwrap_or(const { &Labels::new() });
                    SpreadConstraint::from_api(index, constraint, labels)
                })
                .collect::<Result<_, _>>()?,
            affinity: required(
                pod_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
                "spec.affinity.podAffinity",
            )?,
            anti_affinity: required(
                pod_anti_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
                "spec.affinity.podAntiAffinity",
            )?,
            preferred_affinity: preferred(
                pod_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()),
                "spec.affinity.podAffinity",
            )?,
            preferred_anti_affinity: preferred(
                pod_anti_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()),
                "spec.affinity.podAntiAffinity",
            )?,
            images: images(spec),
            containers: init_containers().count() + spec.containers.len(),
            claims: claims(pod, spec),
            uid: pod.metadata.uid.clone().filter(|_| !ephemeral.is_empty()),
            ephemeral,
            controller: controller(&pod.metadata).map(|owner| Controller {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                name: owner.name.clone(),
            }),
        })
    }
}

/// The volume claims that a pod uses, those made for its ephemeral volumes among them.
fn claims(pod: &Pod, spec: &PodSpec) -> Vec<String> {
    let claim = |volume: &Volume| match &volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        None => claim_of_ephemeral(pod, volume),
    };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

/// The name of the claim that is made for an ephemeral volume.
// upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName (v1.36)
fn claim_of_ephemeral(pod: &Pod, volume: &Volume) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    volume.ephemeral.is_some().then(|| format!("{name}-{}", volume.name))
}

/// The images of a pod's containers and volumes, each with its tag.
fn images(spec: &PodSpec) -> Vec<String> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let of_volumes = spec.volumes.iter().flatten().filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
    containers.filter_map(|container| container.image.as_deref()).chain(of_volumes).map(with_tag).collect()
}

/// The pod's namespace, `default` if it names none.
pub(crate) fn namespace_of(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

fn host_ports(container: &Container) -> impl Iterator<Item = HostPort> + '_ {
    container.ports.iter().flatten().filter_map(|port| {
        let number = port.host_port.filter(|&number| number > 0)?;
        let or = |value: &Option<String>, default: &str| {
            value.clone().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        Some(HostPort { ip: or(&port.host_ip, "0.0.0.0"), protocol: or(&port.protocol, "TCP"), port: number })
    })
}

/// An image reference as nodes report it: with `:latest` if it has neither tag nor digest.
fn with_tag(image: &str) -> String {
    let colon = image.rfind(':');
    let slash = image.rfind('/');
    if colon <= slash { format!("{image}:latest") } else { image.to_owned() }
}
