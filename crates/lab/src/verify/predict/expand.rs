//! The pods that objects will come to have, as their controllers and the API server would make them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube_core::ResourceExt;
use serde_json::{Value, json};

use klab_scheduler::admission;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::taint::{NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, tolerated};
use klab_scheduler::typed::Typed;

/// Tolerations that every pod of a DaemonSet gets
/// (<https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations>).
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];

/// An object that has pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Root {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What pods take over from the cluster when they are made.
pub(super) struct Defaults {
    /// By name.
    pub(super) priority_classes: BTreeMap<String, PriorityClass>,
}

/// The object as one that has pods; none for other kinds.
pub(super) fn root(object: &Value) -> Option<Root> {
    let kind = object["kind"].as_str()?;
    let group = object["apiVersion"].as_str().unwrap_or_default();
    let has_pods = match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" => group.starts_with("apps/"),
        "Job" => group.starts_with("batch/"),
        "Pod" => group == "v1",
        _ => false,
    };
    has_pods.then(|| Root {
        kind: kind.to_owned(),
        namespace: object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned(),
        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
    })
}

/// How many pods an object wants, where a number says so; none for a DaemonSet, whose nodes decide.
pub(super) fn wanted(object: &Value) -> Option<usize> {
    let number = |field: &str| object["spec"][field].as_u64().and_then(|number| usize::try_from(number).ok());
    match object["kind"].as_str()? {
        "DaemonSet" => None,
        "Pod" => Some(1),
        "Job" => {
            let at_once = number("parallelism").unwrap_or(1);
            Some(number("completions").map_or(at_once, |completions| completions.min(at_once)))
        }
        _ => Some(number("replicas").unwrap_or(1)),
    }
}

/// A pod of an object, the `number`th (from 0); of a DaemonSet, that of a node.
pub(super) fn pod(object: &Value, root: &Root, number: usize, node: Option<&str>, defaults: &Defaults) -> Option<Pod> {
    let mut value = if root.kind == "Pod" { object.clone() } else { from_template(object, root, number, node) };
    value["metadata"]["namespace"] = json!(root.namespace);
    value["status"] = Value::Null;
    let mut pod = Pod::from_value(&value).ok()?;
    complete(&mut pod, defaults);
    Some(pod)
}

/// A pod that is to be placed. Those of a DaemonSet on thousands of nodes are alike: each is made when it is looked at.
#[derive(Debug, Clone)]
pub(super) enum Planned {
    /// A pod by itself.
    Whole(Box<Pod>),
    /// The pod of a DaemonSet for a node.
    OfNode {
        /// The pod for another node.
        pattern: Rc<Pod>,
        /// The DaemonSet.
        root: Rc<Root>,
        /// The node.
        node: Box<str>,
    },
}

impl Planned {
    /// The pod.
    pub(super) fn pod(&self) -> Cow<'_, Pod> {
        match self {
            Self::Whole(pod) => Cow::Borrowed(pod),
            Self::OfNode { pattern, root, node } => Cow::Owned(moved(pattern, root, node)),
        }
    }

    /// Its priority.
    pub(super) fn priority(&self) -> i32 {
        let pod = match self {
            Self::Whole(pod) => pod,
            Self::OfNode { pattern, .. } => pattern.as_ref(),
        };
        pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
    }
}

impl From<Pod> for Planned {
    fn from(pod: Pod) -> Self {
        Self::Whole(Box::new(pod))
    }
}

/// The pods of a DaemonSet on these nodes.
pub(super) fn daemon_pods<'n>(
    object: &Value,
    root: &Root,
    nodes: impl Iterator<Item = &'n str>,
    defaults: &Defaults,
) -> impl Iterator<Item = Planned> {
    let mut nodes = nodes.peekable();
    let pattern = nodes.peek().and_then(|node| pod(object, root, 0, Some(node), defaults)).map(Rc::new);
    let root = Rc::new(root.clone());
    nodes.filter_map(move |node| {
        let pattern = Rc::clone(pattern.as_ref()?);
        Some(Planned::OfNode { pattern, root: Rc::clone(&root), node: node.into() })
    })
}

/// The same pod of a DaemonSet for another node.
fn moved(pod: &Pod, root: &Root, node: &str) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.name = Some(daemon_pod_name(root, node));
    let required = pod
        .spec
        .as_mut()
        .and_then(|spec| spec.affinity.as_mut()?.node_affinity.as_mut())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_mut());
    let terms = required.into_iter().flat_map(|required| &mut required.node_selector_terms);
    for field in terms.flat_map(|term| term.match_fields.iter_mut().flatten()) {
        field.values = Some(vec![node.to_owned()]);
    }
    pod
}

fn daemon_pod_name(root: &Root, node: &str) -> String {
    format!("{}-{node}", root.name)
}

fn from_template(object: &Value, root: &Root, number: usize, node: Option<&str>) -> Value {
    let template = &object["spec"]["template"];
    let name = match (root.kind.as_str(), node) {
        ("StatefulSet", _) => format!("{}-{number}", root.name),
        (_, Some(node)) => daemon_pod_name(root, node),
        _ => format!("{}-predicted-{number}", root.name),
    };
    let (owner_kind, owner_name) = match root.kind.as_str() {
        "Deployment" => ("ReplicaSet", replica_set_name(root)),
        kind => (kind, root.name.clone()),
    };
    let group = if owner_kind == "Job" { "batch/v1" } else { "apps/v1" };
    let mut pod = json!({
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [
                {"apiVersion": group, "kind": owner_kind, "name": owner_name, "uid": owner_name, "controller": true},
            ],
        },
        "spec": template["spec"],
    });
    if root.kind == "StatefulSet" && pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
    }
    if let Some(node) = node {
        pin(&mut pod["spec"], node);
    }
    pod
}

/// The name of the ReplicaSet that a Deployment would make.
pub(super) fn replica_set_name(root: &Root) -> String {
    format!("{}-predicted", root.name)
}

/// A DaemonSet's pod: for one node only, and tolerant of what nodes go through.
fn pin(spec: &mut Value, node: &str) {
    let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }] });
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let network = (spec["hostNetwork"] == true).then_some(("node.kubernetes.io/network-unavailable", NO_SCHEDULE));
    for (key, effect) in DAEMON_TOLERATIONS.into_iter().chain(network) {
        tolerations.push(json!({ "key": key, "operator": "Exists", "effect": effect }));
    }
    spec["tolerations"] = json!(tolerations);
}

/// The nodes on which a DaemonSet has a pod: those that its node affinity admits and whose taints it tolerates.
pub(super) fn daemon_nodes<'n>(object: &Value, nodes: &BTreeMap<&'n str, &'n Node>) -> Vec<&'n str> {
    let mut template = object["spec"]["template"]["spec"].clone();
    pin(&mut template, "");
    // The affinity of the template itself, not that of the pod made from it.
    template["affinity"] = object["spec"]["template"]["spec"]["affinity"].clone();
    let Ok(spec) = PodSpec::from_value(&template) else { return Vec::new() };
    let Ok(required) = RequiredNodeAffinity::from_api(&spec) else { return Vec::new() };
    let tolerations: Vec<Toleration> = spec.tolerations.iter().flatten().map(Toleration::from).collect();
    let admits = |name: &str, node: &Node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        let hinders = |taint: &Taint| matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE);
        let mut taints = taints.into_iter().flatten().map(Taint::from).filter(hinders);
        required.matches(node.labels(), name) && taints.all(|taint| tolerated(&tolerations, &taint))
    };
    nodes.iter().filter(|(name, node)| admits(name, node)).map(|(name, _)| *name).collect()
}

/// What admission adds: the priority, defaults, tolerations for nodes that are not ready.
fn complete(pod: &mut Pod, defaults: &Defaults) {
    let named = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()).filter(|name| !name.is_empty());
    let class = match named {
        Some(name) => defaults.priority_classes.get(&name).cloned().or_else(|| built_in(&name)),
        None => defaults.priority_classes.values().find(|class| class.global_default == Some(true)).cloned(),
    };
    if let Some(class) = class {
        admission::apply_priority_class(pod, &class);
    }
    // A pod that admission cannot complete is one that the API server refuses; the scheduler says why.
    let _ = admission::admit(pod);
}

/// The classes every cluster has.
fn built_in(name: &str) -> Option<PriorityClass> {
    let value = match name {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => return None,
    };
    let mut class = PriorityClass { value: Some(value), ..PriorityClass::default() };
    class.metadata.name = Some(name.to_owned());
    Some(class)
}

/// Whether everything an object asks for is so in the cluster's version of it: what the server added plays no part.
pub(super) fn is_part_of(wanted: &Value, present: &Value) -> bool {
    match (wanted, present) {
        (Value::Object(wanted), Value::Object(present)) => wanted
            .iter()
            .all(|(key, value)| present.get(key).map_or_else(|| is_empty(value), |present| is_part_of(value, present))),
        (Value::Array(wanted), Value::Array(present)) => {
            wanted.len() == present.len() && wanted.iter().zip(present).all(|(one, two)| is_part_of(one, two))
        }
        (wanted, present) => wanted == present,
    }
}

/// Values that the server does not keep.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_a_daemon_set_are_those_that_are_made_one_by_one() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "kube-system" },
            "spec": { "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": {
                    "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }],
                    }}},
                    "priorityClassName": "system-node-critical",
                    "containers": [{ "name": "a", "image": "a", "resources": { "limits": { "cpu": "1" } } }],
                },
            }},
        });
        let (root, defaults) = (root(&object).unwrap(), Defaults { priority_classes: BTreeMap::new() });
        let nodes = ["one", "two", "three"];
        let one_by_one: Vec<_> =
            nodes.iter().filter_map(|node| pod(&object, &root, 0, Some(node), &defaults)).collect();
        assert_eq!(one_by_one.len(), 3);
        let planned = daemon_pods(&object, &root, nodes.into_iter(), &defaults);
        assert_eq!(planned.map(|planned| planned.pod().into_owned()).collect::<Vec<_>>(), one_by_one);
        assert_eq!(daemon_pods(&object, &root, [].into_iter(), &defaults).count(), 0);
    }
}
