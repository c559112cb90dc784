//! Changes that may let a pod in: what each does to the pod or to the cluster.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::claim_change::{ClaimChange, Release};
use super::new_node::new_node;
use super::requests;
use super::restore::{Drift, Field};
use super::sandbox::Sandbox;
use super::storage_change::StorageChange;
use klab_scheduler::taint::{Taint, UNSCHEDULABLE_TAINT};

/// Names of nodes, shared by the combinations they are part of.
pub(crate) type Names = Arc<[String]>;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// The pods ask for what the lab says again.
    Restore(Arc<Drift>),
    /// A rollout removes old pods before it makes new ones; how many at once, the proof tells.
    OldFirst { spare: i64, victims: Arc<[Arc<Pod>]> },
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
    /// A topology spread constraint leaves out nodes whose taints the pods do not tolerate.
    HonorTaints { constraint: usize, is_cordon: bool },
    /// A topology spread constraint asks for fewer domains.
    FewerDomains { constraint: usize, from: i64, to: i64 },
    /// A topology spread constraint is only a wish.
    ScheduleAnyway(usize),
    /// The pods may take the place of less important ones.
    Prioritize { class: String, value: i32 },
    /// Claims, volumes or where volumes can be reached change.
    Storage(Arc<StorageChange>),
    /// A required pod affinity term looks into another namespace.
    LookInto { term: usize, namespace: String },
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
            Self::Affinity(at) => Some(&mut required_affinity(spec)?.get_mut(at)?.topology_key),
        }
    }
}

impl Edit {
    /// Stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Restore(_) => "restore",
            Self::OldFirst { .. } => "old-pods-first",
            Self::HonorTaints { .. } => "honor-taints",
            Self::FewerDomains { .. } => "fewer-domains",
            Self::ScheduleAnyway(_) => "schedule-anyway",
            Self::Prioritize { .. } => "add-priority-class",
            Self::Storage(change) => change.code,
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
            Self::LookInto { .. } => "add-affinity-namespace",
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
            Self::Restore(_) => 0,
            Self::OldFirst { .. } => 4,
            // Who cordons a node opens it again; other taints are there to stay.
            Self::HonorTaints { is_cordon: true, .. } => 13,
            Self::HonorTaints { .. } => 8,
            Self::FewerDomains { .. } | Self::LookInto { .. } => 9,
            Self::ScheduleAnyway(_) => 29,
            Self::Prioritize { .. } => 27,
            Self::Storage(change) => change.weight,
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
            return requests::lower(pod, resource, *to);
        }
        let Some(spec) = pod.spec.as_mut() else { return false };
        match self {
            Self::HonorTaints { constraint, .. }
            | Self::FewerDomains { constraint, .. }
            | Self::ScheduleAnyway(constraint)
            | Self::RelaxSpread { constraint, .. } => {
                let constraints = spec.topology_spread_constraints.as_mut();
                let Some(constraint) = constraints.and_then(|list| list.get_mut(*constraint)) else { return false };
                return self.relax(constraint);
            }
            Self::Restore(drift) => drift.undo(spec),
            Self::Prioritize { class, value } => {
                spec.priority_class_name = Some(class.clone());
                spec.priority = Some(*value);
            }
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
                let constraints = spec.topology_spread_constraints.get_or_insert_default();
                // A constraint over the same label takes the place of what is there.
                let at = constraints.iter().position(|constraint| constraint.topology_key == *key);
                let kept = at.map(|at| constraints.remove(at)).unwrap_or_default();
                let required = TopologySpreadConstraint {
                    topology_key: key.clone(),
                    max_skew: i32::try_from(*max_skew).unwrap_or(i32::MAX).max(1),
                    when_unsatisfiable: "DoNotSchedule".to_owned(),
                    label_selector: Some(own.clone()),
                    ..kept
                };
                constraints.insert(at.unwrap_or(constraints.len()), required);
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
            Self::LookInto { term, namespace } => {
                let Some(term) = required_affinity(spec).and_then(|terms| terms.get_mut(*term)) else { return false };
                term.namespaces = Some(vec![namespace.clone()]);
            }
            Self::DropPodAffinity(term) => {
                let Some(terms) = required_affinity(spec).filter(|terms| *term < terms.len()) else { return false };
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

    /// What it does to a topology spread constraint.
    fn relax(&self, constraint: &mut TopologySpreadConstraint) -> bool {
        match self {
            Self::HonorTaints { .. } => constraint.node_taints_policy = Some("Honor".to_owned()),
            Self::FewerDomains { to, .. } => constraint.min_domains = i32::try_from(*to).ok().filter(|to| *to > 0),
            Self::ScheduleAnyway(_) => {
                "ScheduleAnyway".clone_into(&mut constraint.when_unsatisfiable);
                constraint.min_domains = None;
            }
            Self::RelaxSpread { to, .. } => {
                let Ok(skew) = i32::try_from(*to) else { return false };
                constraint.max_skew = skew;
            }
            _ => return false,
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
            Self::Storage(change) => change.make(sandbox),
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
            Self::ScaleDown { victims, .. } | Self::OldFirst { victims, .. } => {
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
            Self::ChangeTopologyKey { .. }
                | Self::FewerDevices(_)
                | Self::TolerateDevices(_)
                | Self::Release(_)
                | Self::Storage(_)
                | Self::Restore(_)
                | Self::Prioritize { .. }
        )
    }

    /// Whether the change is made step by step.
    pub(crate) fn is_stepwise(&self) -> bool {
        matches!(self, Self::AddNodes { .. } | Self::ScaleDown { .. } | Self::OldFirst { .. })
    }

    /// What it is a value of: of two values of one thing, the smaller change is enough.
    pub(crate) fn is_of_one_thing_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::RelaxSpread { constraint: one, .. }, Self::RelaxSpread { constraint: two, .. }) => one == two,
            (Self::LowerRequest { resource: one, .. }, Self::LowerRequest { resource: two, .. }) => one == two,
            (Self::Restore(drift), other) => other.field().is_some_and(|field| drift.fields.contains(&field)),
            _ => self == other,
        }
    }

    /// The field of pods that it changes, where a lab file may say that field.
    pub(crate) fn field(&self) -> Option<Field> {
        Some(match self {
            Self::LowerRequest { .. } => Field::Requests,
            Self::Require { .. } | Self::ChangeSelector { .. } | Self::DropSelector(_) => Field::NodeSelector,
            Self::ChangeAffinity { .. }
            | Self::DropNodeAffinity
            | Self::KeepApart(_)
            | Self::Join(_)
            | Self::LookInto { .. }
            | Self::DropPodAffinity(_)
            | Self::DropPodAntiAffinity(_)
            | Self::ChangeTopologyKey { rule: Topology::Affinity(_), .. } => Field::Affinity,
            Self::Tolerate(_) => Field::Tolerations,
            Self::HonorTaints { .. }
            | Self::FewerDomains { .. }
            | Self::ScheduleAnyway(_)
            | Self::RelaxSpread { .. }
            | Self::SpreadOver { .. }
            | Self::ChangeTopologyKey { rule: Topology::Spread(_), .. } => Field::Spread,
            Self::Prioritize { .. } => Field::PriorityClass,
            _ => return None,
        })
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
            let values = expression.values.iter_mut().flatten();
            values.filter(|value| *value == from).for_each(|value| to.clone_into(value));
        }
    }
}

/// The required pod affinity terms of a pod.
fn required_affinity(spec: &mut PodSpec) -> Option<&mut Vec<PodAffinityTerm>> {
    spec.affinity.as_mut()?.pod_affinity.as_mut()?.required_during_scheduling_ignored_during_execution.as_mut()
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
