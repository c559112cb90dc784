//! Changes that may let a pod in: what each does to the pod or to the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::claim_change::{ClaimChange, Release};
use super::sandbox::Sandbox;
use klab_scheduler::pod_requests;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::taint::{Taint, UNSCHEDULABLE_TAINT};

/// Names of nodes, shared by the combinations they are part of.
pub(crate) type Names = Arc<[String]>;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// The pods tolerate these taints.
    Tolerate(Vec<Taint>),
    /// The pods ask for a label.
    Require { key: String, value: String },
    /// The pods keep away, node by node, from pods of these labels.
    KeepApart(LabelSelector),
    /// The pods go where pods of these labels are, node by node.
    Join(LabelSelector),
    /// The pods are spread evenly over the values of a node label.
    SpreadOver { key: String, max_skew: u32, own: LabelSelector },
    /// The pods ask for another value of a label.
    ChangeSelector { key: String, from: String, to: String },
    /// The pods ask in their required node affinity for another value of a label.
    ChangeAffinity { key: String, from: String, to: String },
    /// A rule of the pods about domains of nodes goes by another label.
    ChangeTopologyKey { rule: Topology, from: String, to: String },
    /// The pods are recreated as they are: pods do not move by themselves.
    Restart,
    /// The pods no longer ask for a label.
    DropSelector(String),
    /// The pods have no required node affinity.
    DropNodeAffinity,
    /// The pods request less of a resource (base units, whole pod).
    LowerRequest { resource: String, from: i64, to: i64 },
    /// The pods do without a host port.
    DropHostPort(i32),
    /// A topology spread constraint allows a greater difference.
    RelaxSpread { constraint: usize, from: i64, to: i64 },
    /// The pods do without a required pod affinity term.
    DropPodAffinity(usize),
    /// The pods do without a required pod anti-affinity term.
    DropPodAntiAffinity(usize),
    /// Claims of the pods ask for fewer devices.
    FewerDevices(Arc<ClaimChange>),
    /// Claims of the pods tolerate taints of devices.
    TolerateDevices(Arc<ClaimChange>),
    /// Devices that others have are given back.
    Release(Arc<Release>),
    /// The pods have no scheduling gates.
    DropGates(Vec<String>),
    /// Nodes of a pool get a label.
    Label { pool: Option<String>, nodes: Names, key: String, value: String },
    /// Nodes lose a label.
    Unlabel { nodes: Names, key: String },
    /// Nodes lose taints.
    Untaint { pool: Option<String>, nodes: Names, taints: Vec<Taint> },
    /// Nodes take pods again.
    Uncordon(Names),
    /// A pool gets more nodes; how many, the proof tells.
    AddNodes { pool: String, template: Arc<Node>, zones: Vec<String> },
    /// A workload gets smaller; by how much, the proof tells.
    ScaleDown { kind: String, namespace: String, name: String, from: usize, victims: Arc<[Arc<Pod>]> },
}

/// A rule of a pod with a `topologyKey`, by its place in the pod's list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Topology {
    /// A topology spread constraint.
    Spread(usize),
    /// A term of the required pod affinity.
    Affinity(usize),
}

impl Topology {
    /// The rule's key in a pod's spec.
    pub(super) fn key(self, spec: &mut PodSpec) -> Option<&mut String> {
        match self {
            Self::Spread(at) => Some(&mut spec.topology_spread_constraints.as_mut()?.get_mut(at)?.topology_key),
            Self::Affinity(at) => {
                let affinity = spec.affinity.as_mut()?.pod_affinity.as_mut()?;
                let terms = affinity.required_during_scheduling_ignored_during_execution.as_mut()?;
                Some(&mut terms.get_mut(at)?.topology_key)
            }
        }
    }
}

impl Edit {
    /// Stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Tolerate(_) => "add-toleration",
            Self::Require { .. } => "add-node-selector",
            Self::KeepApart(_) => "add-pod-anti-affinity",
            Self::Join(_) => "add-pod-affinity",
            Self::SpreadOver { .. } => "add-spread",
            Self::ChangeSelector { .. } => "change-node-selector",
            Self::ChangeAffinity { .. } => "change-node-affinity",
            Self::ChangeTopologyKey { .. } => "change-topology-key",
            Self::Restart => "restart",
            Self::DropSelector(_) => "remove-node-selector",
            Self::DropNodeAffinity => "remove-node-affinity",
            Self::LowerRequest { .. } => "lower-request",
            Self::DropHostPort(_) => "remove-host-port",
            Self::RelaxSpread { .. } => "relax-spread",
            Self::DropPodAffinity(_) => "remove-pod-affinity",
            Self::DropPodAntiAffinity(_) => "remove-pod-anti-affinity",
            Self::FewerDevices(_) => "fewer-devices",
            Self::TolerateDevices(_) => "tolerate-device-taint",
            Self::Release(_) => "release-devices",
            Self::DropGates(_) => "remove-gates",
            Self::Label { .. } => "add-label",
            Self::Unlabel { .. } => "remove-label",
            Self::Untaint { .. } => "remove-taint",
            Self::Uncordon(_) => "uncordon",
            Self::AddNodes { .. } => "add-node",
            Self::ScaleDown { .. } => "scale-down",
        }
    }

    /// How great a change it is, among those that are one change each: what touches only the pods and asks for nothing
    /// less comes first, what costs money or takes pods away last.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::DropGates(_) => 1,
            Self::Restart => 2,
            Self::ChangeSelector { .. } | Self::ChangeAffinity { .. } | Self::ChangeTopologyKey { .. } => 5,
            Self::Require { .. } => 6,
            Self::SpreadOver { .. } | Self::KeepApart(_) | Self::Join(_) => 7,
            Self::Tolerate(_) => 10,
            Self::TolerateDevices(_) => 11,
            Self::FewerDevices(_) => 24,
            Self::Release(_) => 34,
            Self::Uncordon(_) => 12,
            Self::Label { .. } => 20,
            Self::DropSelector(_) => 22,
            Self::Untaint { .. } => 18,
            Self::Unlabel { .. } => 19,
            Self::LowerRequest { from, to, .. } if *to * 2 >= *from => 25,
            Self::DropHostPort(_) => 26,
            Self::RelaxSpread { .. } => 28,
            Self::AddNodes { .. } => 30,
            Self::DropNodeAffinity => 32,
            Self::ScaleDown { .. } => 35,
            Self::DropPodAntiAffinity(_) => 40,
            Self::DropPodAffinity(_) => 42,
            Self::LowerRequest { .. } => 45,
        }
    }

    /// What it does to a pod. False where it cannot be done to this one.
    pub(crate) fn apply_to_pod(&self, pod: &mut Pod) -> bool {
        if let Self::LowerRequest { resource, to, .. } = self {
            return lower_request(pod, resource, *to);
        }
        let Some(spec) = pod.spec.as_mut() else { return false };
        match self {
            Self::Tolerate(taints) => spec.tolerations.get_or_insert_default().extend(taints.iter().map(toleration)),
            Self::Require { key, value: to } | Self::ChangeSelector { key, to, .. } => {
                spec.node_selector.get_or_insert_default().insert(key.clone(), to.clone());
            }
            Self::KeepApart(selector) => {
                let affinity = spec.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default();
                let terms = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
                terms.push(on_same_node(selector));
            }
            Self::Join(selector) => {
                let affinity = spec.affinity.get_or_insert_default().pod_affinity.get_or_insert_default();
                let terms = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
                terms.push(on_same_node(selector));
            }
            Self::SpreadOver { key, max_skew, own } => {
                spec.topology_spread_constraints.get_or_insert_default().push(TopologySpreadConstraint {
                    topology_key: key.clone(),
                    max_skew: i32::try_from(*max_skew).unwrap_or(i32::MAX).max(1),
                    when_unsatisfiable: "DoNotSchedule".to_owned(),
                    label_selector: Some(own.clone()),
                    ..TopologySpreadConstraint::default()
                });
            }
            Self::DropSelector(key) => {
                spec.node_selector.get_or_insert_default().remove(key);
            }
            Self::DropNodeAffinity => {
                if let Some(affinity) = spec.affinity.as_mut().and_then(|affinity| affinity.node_affinity.as_mut()) {
                    affinity.required_during_scheduling_ignored_during_execution = None;
                }
            }
            Self::ChangeAffinity { key, from, to } => change_affinity(spec, key, from, to),
            Self::ChangeTopologyKey { rule, to, .. } => {
                let Some(key) = rule.key(spec) else { return false };
                key.clone_from(to);
            }
            Self::DropHostPort(port) => drop_host_port(spec, *port),
            Self::RelaxSpread { constraint, to, .. } => {
                let constraints = spec.topology_spread_constraints.as_mut();
                let Some(constraint) = constraints.and_then(|list| list.get_mut(*constraint)) else { return false };
                let Ok(skew) = i32::try_from(*to) else { return false };
                constraint.max_skew = skew;
            }
            Self::DropPodAffinity(term) => {
                let affinity = spec.affinity.as_mut().and_then(|affinity| affinity.pod_affinity.as_mut());
                let terms = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_mut());
                let Some(terms) = terms.filter(|terms| *term < terms.len()) else { return false };
                terms.remove(*term);
            }
            Self::DropPodAntiAffinity(term) => {
                let affinity = spec.affinity.as_mut().and_then(|affinity| affinity.pod_anti_affinity.as_mut());
                let terms = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_mut());
                let Some(terms) = terms.filter(|terms| *term < terms.len()) else { return false };
                terms.remove(*term);
            }
            Self::DropGates(_) => spec.scheduling_gates = None,
            _ => {}
        }
        true
    }

    /// The nodes that it changes.
    fn nodes(&self) -> Option<&Names> {
        match self {
            Self::Label { nodes, .. }
            | Self::Unlabel { nodes, .. }
            | Self::Untaint { nodes, .. }
            | Self::Uncordon(nodes) => Some(nodes),
            _ => None,
        }
    }

    /// What it does to the cluster at once. What is done bit by bit ([`Self::step`]) is left aside.
    pub(crate) fn apply_to_cluster(&self, sandbox: &mut Sandbox<'_>) {
        match self {
            Self::FewerDevices(change) | Self::TolerateDevices(change) => {
                change.claims.iter().for_each(|claim| sandbox.set_claim((**claim).clone()));
            }
            Self::Release(release) => {
                release.pods.iter().for_each(|pod| sandbox.remove_pod(pod));
                release.claims.iter().for_each(|claim| sandbox.remove_claim(claim));
            }
            _ => {}
        }
        let Some(nodes) = self.nodes() else { return };
        for name in nodes.iter() {
            self.change(name, sandbox);
        }
    }

    /// The same for one node alone.
    pub(crate) fn apply_to_node_named(&self, name: &str, sandbox: &mut Sandbox<'_>) {
        let Some(nodes) = self.nodes() else { return };
        if nodes.iter().any(|node| node == name) {
            self.change(name, sandbox);
        }
    }

    fn change(&self, name: &str, sandbox: &mut Sandbox<'_>) {
        if let Some(node) = sandbox.node(name) {
            let mut node = (**node).clone();
            self.apply_to_node(&mut node);
            sandbox.set_node(&node);
        }
    }

    /// What it does to one of its nodes.
    fn apply_to_node(&self, node: &mut Node) {
        match self {
            Self::Label { key, value, .. } => {
                node.metadata.labels.get_or_insert_default().insert(key.clone(), value.clone());
            }
            Self::Unlabel { key, .. } => {
                node.metadata.labels.get_or_insert_default().remove(key);
            }
            Self::Untaint { taints, .. } => {
                if let Some(present) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
                    present.retain(|taint| !taints.contains(&Taint::from(taint)));
                }
            }
            Self::Uncordon(_) => uncordon(node),
            _ => {}
        }
    }

    /// One more step of a change that is made as great as it must be. False where there is none.
    pub(crate) fn step(&self, sandbox: &mut Sandbox<'_>, step: usize) -> bool {
        match self {
            Self::AddNodes { pool, template, zones } => {
                sandbox.add_node(&new_node(template, pool, step, zones), template);
                true
            }
            Self::ScaleDown { victims, .. } => {
                let Some(victim) = victims.get(step) else { return false };
                sandbox.remove_pod(victim);
                true
            }
            _ => false,
        }
    }

    /// Whether one node cannot tell what it comes to: others than those it seems to be about may take the pods then.
    pub(crate) fn is_asked_of_all(&self) -> bool {
        matches!(
            self,
            Self::ChangeTopologyKey { .. } | Self::FewerDevices(_) | Self::TolerateDevices(_) | Self::Release(_)
        )
    }

    /// Whether the change is made step by step.
    pub(crate) fn is_stepwise(&self) -> bool {
        matches!(self, Self::AddNodes { .. } | Self::ScaleDown { .. })
    }
}

fn uncordon(node: &mut Node) {
    if let Some(spec) = node.spec.as_mut() {
        spec.unschedulable = None;
        if let Some(taints) = spec.taints.as_mut() {
            taints.retain(|taint| taint.key != UNSCHEDULABLE_TAINT);
        }
    }
}

/// A term of pod affinity over nodes.
fn on_same_node(selector: &LabelSelector) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: Some(selector.clone()),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    }
}

/// A toleration of one taint, as small as it can be.
fn toleration(taint: &Taint) -> Toleration {
    let value = Some(taint.value.clone()).filter(|value| !value.is_empty());
    Toleration {
        key: Some(taint.key.clone()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value,
        effect: Some(taint.effect.clone()),
        toleration_seconds: None,
    }
}

fn change_affinity(spec: &mut PodSpec, key: &str, from: &str, to: &str) {
    let affinity = spec.affinity.as_mut().and_then(|affinity| affinity.node_affinity.as_mut());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_mut());
    let terms = required.into_iter().flat_map(|required| &mut required.node_selector_terms);
    for expression in terms.flat_map(|term| term.match_expressions.iter_mut().flatten()) {
        if expression.key == key {
            expression
                .values
                .iter_mut()
                .flatten()
                .filter(|value| *value == from)
                .for_each(|value| to.clone_into(value));
        }
    }
}

fn drop_host_port(spec: &mut PodSpec, port: i32) {
    let host_network = spec.host_network.unwrap_or(false);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        for declared in container.ports.iter_mut().flatten() {
            if declared.host_port == Some(port) && !host_network {
                declared.host_port = None;
            }
        }
    }
}

/// Lowers a pod's request of a resource to a total: at pod level where the pod says it there, else in the container
/// that requests most.
fn lower_request(pod: &mut Pod, resource: &str, to: i64) -> bool {
    let Ok(requests) = pod_requests(pod) else { return false };
    let now = requests.get(resource).map_or(0, |quantity| quantity.base_units(resource));
    let Some(spec) = pod.spec.as_mut() else { return false };
    let set = |requests: &mut BTreeMap<String, ApiQuantity>, amount: i64| {
        let quantity = Quantity::of_resource(resource, amount);
        requests.insert(resource.to_owned(), ApiQuantity(quantity.to_string()));
    };
    if let Some(of_pod) = spec.resources.as_mut().and_then(|resources| resources.requests.as_mut())
        && of_pod.contains_key(resource)
    {
        set(of_pod, to);
        return true;
    }
    let of = |requests: &BTreeMap<String, ApiQuantity>| {
        requests.get(resource).and_then(|text| Quantity::parse(&text.0).ok()).map(|it| it.base_units(resource))
    };
    let greatest = spec
        .containers
        .iter_mut()
        .filter_map(|container| {
            let requests = container.resources.as_mut()?.requests.as_mut()?;
            Some((of(requests)?, requests))
        })
        .max_by_key(|(amount, _)| *amount);
    let Some((amount, requests)) = greatest else { return false };
    let lowered = amount - (now - to);
    if lowered <= 0 {
        return false;
    }
    set(requests, lowered);
    true
}

/// Taints that Kubernetes puts on nodes for their condition; a new node comes without them.
fn is_condition(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

/// A node as the pool would get it: like the others, with a name of its own, ready and empty.
pub(crate) fn new_node(template: &Node, pool: &str, number: usize, zones: &[String]) -> Node {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    const ZONE: &str = "topology.kubernetes.io/zone";
    let mut node = template.clone();
    let name = format!("{pool}-new-{number}");
    uncordon(&mut node);
    if let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.retain(|taint| !is_condition(&taint.key));
    }
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(HOSTNAME.to_owned(), name.clone());
    if !zones.is_empty() && labels.contains_key(ZONE) {
        labels.insert(ZONE.to_owned(), zones[number % zones.len()].clone());
    }
    node.metadata.name = Some(name);
    node.metadata.uid = None;
    if let Some(status) = node.status.as_mut() {
        status.images = None;
    }
    node
}
